"""
Parquet's levels and dictionary indices counted, and Snappy's blocks found, without a step outside the bytes given.

numba checks no bounds, and the bytes may be anybody's. So every kernel here holds each run and each element against
the end of the bytes before it is looked into. The bytes come as the little-endian word that begins at each of them,
and at their end, which takes eight bytes more behind: any load is one load, whatever it begins at.

Numbers are ``uint64`` throughout: one signed number in a sum would make numba compute it in floating point.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels.compiler import INT64, NEW_INT64S, WORDS_AT_EVERY_BYTE, compiled

_U = np.uint64
_ZERO, _ONE, _TWO, _THREE, _FOUR, _FIVE, _SEVEN, _EIGHT = (_U(i) for i in (0, 1, 2, 3, 4, 5, 7, 8))
_CONTINUES, _LOW_BITS = _U(0x80), _U(0x7F)
_MAX_SHIFT = _U(28)  # of a 32-bit integer's last seven bits
_LENGTH_IN_TAG, _SNAPPY_BLOCK = _U(60), _U(1 << 16)


@compiled(INT64, WORDS_AT_EVERY_BYTE, INT64, INT64, INT64, NEW_INT64S)
def count_hybrid(
    words_at: npt.NDArray[np.uint64], num_values: int, bit_width: int, lanes: int, counts: npt.NDArray[np.int64]
) -> int:
    """
    Count how often each number occurs in RLE / bit-packing hybrid data.

    ::

        run:    varint: values << 1      │ the value, in whole bytes
                varint: groups << 1 | 1  │ groups of eight values, bit_width bytes each, the lowest bit first

    Args:
        num_values: How many there should be; what the last bit-packed run has more is padding.
        bit_width: At most 32.
        lanes: Counters for each number, a power of two of them, used in turn: adding to a counter that was written
            just before has to wait for it.
        counts: The counters, number by number, which are added to.

    Returns:
        0; -1 if the runs do not hold these values, or a number has no counter. Some may have been counted then.
    """
    end, at = _U(len(words_at) - 1), _ZERO
    left, width = _U(num_values), _U(bit_width)
    mask, numbers = (_ONE << width) - _ONE, _U(len(counts) // lanes)
    per_number, last_lane = _U(lanes), _U(lanes - 1)
    while left > _ZERO:
        header = shift = _ZERO
        byte = _CONTINUES
        while byte >= _CONTINUES:
            if at >= end or shift > _MAX_SHIFT:
                return -1
            byte = words_at[at] & _U(0xFF)
            header |= (byte & _LOW_BITS) << shift
            shift += _SEVEN
            at += _ONE
        run, is_packed = header >> _ONE, (header & _ONE) == _ONE
        values = min(run * _EIGHT, left) if is_packed else run
        stop = at + (run * width if is_packed else (width + _SEVEN) >> _THREE)
        if run == _ZERO or values > left or stop > end:
            return -1
        if is_packed and width > _ZERO:  # of no bits, a byte may stand for any number
            bit = at * _EIGHT
            for i in range(values):
                number = (words_at[bit >> _THREE] >> (bit & _SEVEN)) & mask
                if number >= numbers:
                    return -1
                counts[number * per_number + (i & last_lane)] += 1
                bit += width
        else:
            number = words_at[at] & ((_ONE << (stop - at) * _EIGHT) - _ONE)
            if number > mask or number >= numbers:
                return -1
            counts[number * per_number] += np.int64(values)
        left -= values
        at = stop
    return 0


@compiled(INT64, WORDS_AT_EVERY_BYTE, INT64, NEW_INT64S)
def find_snappy_blocks(words_at: npt.NDArray[np.uint64], size: int, ends: npt.NDArray[np.int64]) -> int:
    """
    Find where raw Snappy elements come to a multiple of 64 KiB of output.

    ::

        element:    length - 1 << 2 │ 0      │ the literal      ┐ a length above 60 is in 1 to 4 bytes behind the tag
                    length - 4 << 2 │ 1      │ 1 byte           ├ copies, with the low bytes of their offset
                    length - 1 << 2 │ 2 or 3 │ 2 or 4 bytes     ┘

    Args:
        size: Bytes of output still to come; the last block is what is left of them.
        ends: Takes the offset behind each block; no more blocks are looked for than it has room for.

    Returns:
        How many blocks there are whole; -1 if an element reaches over the end of its block.
    """
    end, at = _U(len(words_at) - 1), _ZERO
    produced, left = _ZERO, _U(size)
    block = min(left, _SNAPPY_BLOCK)
    found = 0
    while found < len(ends) and left > _ZERO and at < end:
        word = words_at[at]
        kind = word & _THREE
        length = ((word >> _TWO) & _U(63)) + _ONE
        if kind == _ZERO:
            if length > _LENGTH_IN_TAG:
                more = length - _LENGTH_IN_TAG
                length = ((word >> _EIGHT) & ((_ONE << more * _EIGHT) - _ONE)) + _ONE
                at += more
            at += _ONE + length
        elif kind == _ONE:
            length = ((word >> _TWO) & _SEVEN) + _FOUR
            at += _TWO
        else:
            at += _THREE if kind == _TWO else _FIVE
        produced += length
        if produced > block:
            return -1
        if produced == block and at <= end:
            ends[found] = at
            found += 1
            left -= block
            produced, block = _ZERO, min(left, _SNAPPY_BLOCK)
    return found
