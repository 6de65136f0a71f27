"""Bounds as manifests hold them (appendix D), under the type that a column has now, to which it may be promoted."""

from __future__ import annotations

import struct
from typing import Any

_INTEGERS = {
    "int": (4,),
    "long": (4, 8),  # four bytes are from before a promotion, likewise below
    "date": (4,),
    **dict.fromkeys(("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), (8,)),
}
_FLOATS = {"float": (4,), "double": (4, 8)}


def manifest_bound(type_: str, stored: Any) -> Any:
    """
    The value that stands as a bound in a manifest, in the form in which bounds compare.

    Args:
        type_: The appendix C type that the column has now.
        stored: What the manifest has there, which should be the binary form of appendix D.

    Returns:
        None if it is not clear what the bound means.
    """
    if not isinstance(stored, bytes):
        return None
    if len(stored) in _INTEGERS.get(type_, ()):
        return int.from_bytes(stored, "little", signed=True)
    if len(stored) in _FLOATS.get(type_, ()):
        (value,) = struct.unpack("<f" if len(stored) == 4 else "<d", stored)
        return value
    if type_ == "boolean" and len(stored) == 1:
        return stored != b"\0"
    if type_ == "string":
        try:
            return stored.decode()
        except UnicodeDecodeError:
            return None
    if type_.startswith("decimal") and stored:
        return int.from_bytes(stored, "big", signed=True)
    # Writers disagree on the order of uuids.
    return stored if type_ == "binary" or type_.startswith("fixed") else None
