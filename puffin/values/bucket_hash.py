"""The hash of Iceberg's bucket transform (appendix B), for one value at a time: 32-bit murmur3 with seed 0."""

from __future__ import annotations

from puffin.values.decimals import unscaled_bytes

_MASK = (1 << 32) - 1
_WORD, _LONG = 4, 8


def bucket(type_: str, value: int | bytes, count: int) -> int:
    """
    The bucket of a column's value, from 0 to ``count`` - 1.

    Dates, times and decimals are the counts behind them, strings are UTF-8; see `puffin.values.column_bounds`.
    """
    if isinstance(value, bytes):
        data = value
    elif type_.startswith("decimal"):
        data = unscaled_bytes(value)
    else:
        micros = value // 1000 if type_.endswith("_ns") else value
        data = micros.to_bytes(_LONG, "little", signed=True)
    return (_murmur3(data) & (_MASK >> 1)) % count


def _murmur3(data: bytes) -> int:
    hashed = 0
    ends = len(data) - len(data) % _WORD
    for start in range(0, ends, _WORD):
        hashed ^= _mixed(data[start : start + _WORD])
        hashed = (_rotated(hashed, 13) * 5 + 0xE6546B64) & _MASK
    if ends < len(data):
        hashed ^= _mixed(data[ends:])
    hashed ^= len(data)
    hashed = ((hashed ^ hashed >> 16) * 0x85EBCA6B) & _MASK
    hashed = ((hashed ^ hashed >> 13) * 0xC2B2AE35) & _MASK
    return hashed ^ hashed >> 16


def _mixed(word: bytes) -> int:
    return (_rotated((int.from_bytes(word, "little") * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK
