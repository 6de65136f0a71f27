"""Bounds from manifests (appendix D), under the current type of a column, which may be wider than theirs."""

from __future__ import annotations

import struct
from typing import Any

from puffin.values.value_type import TIMES

_INTEGERS = {
    "int": (4,),
    "long": (4, 8),  # four bytes: written before a promotion
    "date": (4,),
    **dict.fromkeys(TIMES, (8,)),
}
_FLOATS = {"float": (4,), "double": (4, 8)}


def manifest_bound(type_: str, stored: Any) -> Any:
    """
    A bound from a manifest, in the form in which bounds compare; None if it is unclear.

    ``type_`` is the current appendix C type of the column, ``stored`` the binary form of appendix D.
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
