"""
Integers and bits of ORC streams ("Run Length Encoding version 2", "Boolean Run Length Encoding").

::

    00 width, length        one byte: bytes of a value - 1, values - 3 │ the value                       SHORT_REPEAT
    01 width, length        two bytes: code of bits, values - 1 │ values, bit-packed                     DIRECT
    10 width, length, ...   four bytes │ the base │ values less base, their low bits │ the high bits     PATCHED_BASE
    11 width, length        two bytes │ varint: first │ varint: delta │ further deltas, bit-packed       DELTA
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from puffin.files.varints import read_varint, zigzag

_Longs = npt.NDArray[np.int64]
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)


def read_integers(data: bytes, count: int, *, signed: bool) -> _Longs:
    """The first ``count`` integers of a stream; ValueError or IndexError if there are fewer."""
    runs: list[_Longs] = []
    found = at = 0
    while found < count:
        run, at = _READERS[data[at] >> 6](data, at, signed)
        runs.append(run)
        found += len(run)
    return np.concatenate([np.empty(0, np.int64), *runs])[:count]


def read_bits(data: bytes, count: int) -> npt.NDArray[np.bool_]:
    """The first ``count`` bits of a stream; ValueError if there are fewer."""
    packed = b"".join(_byte_runs(data))
    if len(packed) * 8 < count:
        raise ValueError(f"expected {count} bits, found {len(packed) * 8}")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count).astype(np.bool_)


def _byte_runs(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        control = data[at]
        if control < 0x80:
            yield data[at + 1 : at + 2] * (control + 3)
            at += 2
        else:
            yield data[at + 1 : at + 257 - control]
            at += 257 - control


def _short_repeat(data: bytes, at: int, signed: bool) -> tuple[_Longs, int]:
    width, count = (data[at] >> 3 & 7) + 1, (data[at] & 7) + 3
    value = int.from_bytes(_take(data, at + 1, width), "big")
    return np.full(count, _long(zigzag(value) if signed else value)), at + 1 + width


def _direct(data: bytes, at: int, signed: bool) -> tuple[_Longs, int]:
    width, count = _width_and_count(data, at)
    values, at = _unpack(data, at + 2, width, count)
    if signed:
        values = values >> np.uint64(1) ^ (~(values & np.uint64(1)) + np.uint64(1))
    return values.view(np.int64), at


def _patched_base(data: bytes, at: int, _: bool) -> tuple[_Longs, int]:
    width, count = _width_and_count(data, at)
    base_size, patch_width = (data[at + 2] >> 5) + 1, _WIDTHS[data[at + 2] & 0x1F]
    gap_width, patches = (data[at + 3] >> 5) + 1, data[at + 3] & 0x1F
    base = int.from_bytes(_take(data, at + 4, base_size), "big")
    sign = 1 << (8 * base_size - 1)
    base = -(base - sign) if base & sign else base  # its highest bit is its sign
    values, at = _unpack(data, at + 4 + base_size, width, count)
    patch_bits = next((fixed for fixed in _WIDTHS if fixed >= gap_width + patch_width), None)
    if patch_bits is None:
        raise ValueError(f"a gap of {gap_width} bits and a patch of {patch_width}, which 64 do not hold")
    entries, at = _unpack(data, at, patch_bits, patches)
    place = 0
    for entry in entries.tolist():
        place += entry >> patch_width
        high_bits = entry & ((1 << patch_width) - 1)
        values[place] |= np.uint64((high_bits << width) & 0xFFFF_FFFF_FFFF_FFFF)
    return values.view(np.int64) + _long(base), at


def _delta(data: bytes, at: int, signed: bool) -> tuple[_Longs, int]:
    width, count = _width_and_count(data, at)
    is_constant = data[at] >> 1 & 0x1F == 0
    first, at = read_varint(data, at + 2)
    delta, at = read_varint(data, at)
    deltas = np.full(count, _long(zigzag(delta)))
    deltas[0] = _long(zigzag(first) if signed else first)
    if not is_constant and count > 2:
        further, at = _unpack(data, at, width, count - 2)
        deltas[2:] = further.view(np.int64) * (-1 if zigzag(delta) < 0 else 1)
    return np.cumsum(deltas), at


_READERS = (_short_repeat, _direct, _patched_base, _delta)


def _width_and_count(data: bytes, at: int) -> tuple[int, int]:
    return _WIDTHS[data[at] >> 1 & 0x1F], ((data[at] & 1) << 8 | data[at + 1]) + 1


def _unpack(data: bytes, at: int, width: int, count: int) -> tuple[npt.NDArray[np.uint64], int]:
    """Unpack big-endian numbers of ``width`` bits; also returns the place after their last byte."""
    size = (width * count + 7) // 8
    bits = np.unpackbits(np.frombuffer(_take(data, at, size), np.uint8), count=width * count)
    shifts = np.arange(width - 1, -1, -1, dtype=np.uint64)
    packed = bits.reshape(count, width).astype(np.uint64) << shifts
    return np.bitwise_or.reduce(packed, axis=1), at + size


def _take(data: bytes, at: int, size: int) -> bytes:
    taken = data[at : at + size]
    if len(taken) < size:
        raise ValueError(f"expected {size} bytes at {at} of a stream, found {len(taken)}")
    return taken


def _long(value: int) -> int:
    """The signed integer of the same 64 bits: writers store negative numbers in unsigned fields."""
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"an integer of more than 64 bits: {value}")
    return value - (1 << 64) if value >> 63 == 1 else value
