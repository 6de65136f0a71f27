"""
The last bytes of an ORC file, for what pyarrow passes over in silence: of an encrypted column it gives nulls.

::

    stripes │ footer │ postscript │ its length, a byte
    postscript (protobuf):  number << 3 │ kind, a varint │ value    ┐ a field; the last is "ORC"

Only an encrypted file has ``stripeStatisticsLength``, as the statistics of its stripes stand apart from their footer.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

_LONGEST = 255
_MAGIC = b"ORC"
_STRIPE_STATISTICS_LENGTH = 7
_VARINT, _BYTES = 0, 2  # kinds


def is_encrypted(source: pa.NativeFile) -> bool:
    """Whether an ORC file has encrypted columns; False if it is none, which pyarrow can tell better."""
    size = source.size()
    tail = source.read_at(min(size, _LONGEST + 1), max(0, size - _LONGEST - 1))
    postscript = tail[-1 - tail[-1] : -1] if tail else b""
    if not postscript.endswith(_MAGIC):
        return False
    try:
        return _STRIPE_STATISTICS_LENGTH in _fields(postscript)
    except IndexError:
        return False


def _fields(postscript: bytes) -> Iterator[int]:
    at = 0
    while at < len(postscript):
        key, at = _varint(postscript, at)
        yield key >> 3
        if key & 7 not in (_VARINT, _BYTES):
            return
        value, at = _varint(postscript, at)
        at += value if key & 7 == _BYTES else 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1
