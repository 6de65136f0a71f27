"""
Count Parquet's levels and dictionary indices, and find Snappy's blocks, without leaving the bytes given.

``words_at`` has the little-endian word at each byte and at the end, for which the caller adds eight bytes of padding:
one load reads a word at any offset.

All numbers are ``uint64``: with one signed number in a sum, numba would compute in floating point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from puffin.kernels.compiler import (
    BYTES,
    INT64,
    NEW_INT64S,
    WORDS_AT_EVERY_BYTE,
    Bytes,
    Int64s,
    WordsAt,
    compiled,
    inlined,
)

_U = np.uint64
_ZERO, _ONE, _TWO, _THREE, _FOUR, _FIVE, _SEVEN, _EIGHT = (_U(i) for i in (0, 1, 2, 3, 4, 5, 7, 8))
_CONTINUES, _LOW_BITS = _U(0x80), _U(0x7F)
_MAX_SHIFT = _U(28)  # for the last seven bits of a 32-bit integer
_FIRST: Any = np.int64(0)
_ONE_BYTE: Any = np.int64(1)
_LONG_LENGTH, _GOES_ON = 15, 255  # of LZ4
_MOST_BITS_OF_PAIRS = _U(28)  # two numbers of up to 28 bits are in a word, whatever bit of a byte they begin with
_WORTH_PATTERNS = _U(1 << 11)  # fewer values take less time than the patterns
_LENGTH_IN_TAG, _SNAPPY_BLOCK = _U(60), _U(1 << 16)


@inlined
def _bits_of_patterns(width: Any, values: Any) -> Any:
    """The bits of one or more numbers that are counted together; 0 if that does not pay."""
    if width == _ZERO or width > _EIGHT or values < _WORTH_PATTERNS:
        return _ZERO
    return width * (_EIGHT // width) if width <= _FOUR else width


@inlined
def _count_patterns(words_at: WordsAt, start: Any, steps: Any, bits: Any, patterns: Any) -> None:
    """Count ``steps`` groups of eight numbers of at most eight bits; each of the eight places has its own counters."""
    mask = (_ONE << bits) - _ONE
    for step in range(steps):
        word = words_at[start + _U(step) * bits]
        for place in range(8):
            at = ((word & mask) << _THREE) + _U(place)
            patterns[at] += np.uint32(1)
            word >>= bits


@inlined
def _add_patterns(patterns: Any, bits: Any, width: Any, lanes: Any, counts: Int64s) -> Any:
    """Add the numbers in each pattern to their counters; -1 if one has none."""
    mask = (_ONE << width) - _ONE
    for pattern in range(_ONE << bits):
        total = np.int64(0)
        for place in range(8):
            total += np.int64(patterns[_U(pattern) * _EIGHT + _U(place)])
        if total > 0:
            rest = _U(pattern)
            for _ in range(bits // width):
                at = (rest & mask) * lanes
                if at >= _U(len(counts)):
                    return -1
                counts[at] += total
                rest >>= width
    return 0


@inlined
def _count_packed(words_at: WordsAt, bit: Any, values: Any, width: Any, lanes: int, counts: Int64s) -> bool:
    """Count ``values`` numbers from a bit on; false if one has no counter."""
    mask, numbers = (_ONE << width) - _ONE, _U(len(counts) // lanes)
    per_number, last_lane = _U(lanes), _U(lanes - 1)
    second, third, fourth = _ONE & last_lane, _TWO & last_lane, _THREE & last_lane
    done = _ZERO
    while done + _FOUR <= values and width <= _MOST_BITS_OF_PAIRS:
        word = words_at[bit >> _THREE] >> (bit & _SEVEN)
        one, two = word & mask, (word >> width) & mask
        bit += width + width
        word = words_at[bit >> _THREE] >> (bit & _SEVEN)
        three, four = word & mask, (word >> width) & mask
        bit += width + width
        if max(max(one, two), max(three, four)) >= numbers:
            return False
        counts[one * per_number] += 1
        counts[two * per_number + second] += 1
        counts[three * per_number + third] += 1
        counts[four * per_number + fourth] += 1
        done += _FOUR
    for _ in range(done, values):
        number = (words_at[bit >> _THREE] >> (bit & _SEVEN)) & mask
        if number >= numbers:
            return False
        counts[number * per_number] += 1
        bit += width
    return True


@compiled(INT64, WORDS_AT_EVERY_BYTE, INT64, INT64, INT64, NEW_INT64S)
def count_hybrid(words_at: WordsAt, num_values: int, bit_width: int, lanes: int, counts: Int64s) -> int:
    """
    Count how often each number occurs in RLE / bit-packing hybrid data.

    ::

        run:    varint: values << 1      │ the value, in whole bytes
                varint: groups << 1 | 1  │ groups of eight values, bit_width bytes each, the lowest bit first

    Of at most four bits, two to eight numbers make a pattern of at most eight bits, and patterns are counted first.

    Args:
        num_values: The expected number of values; the last bit-packed run may have padding after them.
        bit_width: At most 32.
        lanes: Counters per number, a power of two. The kernel alternates between them, because adding twice in a row
            to the same counter stalls.
        counts: The counters, number by number; updated.

    Returns:
        0, or -1 if the runs do not hold as many values or a number has no counter; some may be counted by then.
    """
    end, at = _U(len(words_at) - 1), _ZERO
    left, width = _U(num_values), _U(bit_width)
    mask, numbers = (_ONE << width) - _ONE, _U(len(counts) // lanes)
    bits = _bits_of_patterns(width, left)
    in_step = _EIGHT * (bits // max(width, _ONE))
    patterns = np.zeros(_EIGHT << bits if bits > _ZERO else _ZERO, np.uint32)
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
        if is_packed and width > _ZERO:  # values of no bits are all 0
            done = _ZERO
            if bits > _ZERO:
                steps = values // in_step
                _count_patterns(words_at, at, steps, bits, patterns)
                done = steps * in_step
            if not _count_packed(words_at, at * _EIGHT + done * width, values - done, width, lanes, counts):
                return -1
        else:
            number = words_at[at] & ((_ONE << (stop - at) * _EIGHT) - _ONE)
            if number > mask or number >= numbers:
                return -1
            counts[number * _U(lanes)] += np.int64(values)
        left -= values
        at = stop
    return _add_patterns(patterns, bits, width, _U(lanes), counts) if bits > _ZERO else 0


@compiled(INT64, WORDS_AT_EVERY_BYTE, INT64, NEW_INT64S)
def find_snappy_blocks(words_at: WordsAt, size: int, ends: Int64s) -> int:
    """
    Find the raw Snappy elements that end at a multiple of 64 KiB of output.

    ::

        element:    length - 1 << 2 │ 0      │ the literal      ┐ a length above 60 is in 1 to 4 bytes behind the tag
                    length - 4 << 2 │ 1      │ 1 byte           ├ copies, with the low bytes of their offset
                    length - 1 << 2 │ 2 or 3 │ 2 or 4 bytes     ┘

    Args:
        size: The remaining bytes of output; the last block may be short.
        ends: Filled with the offset after each block; its length limits the number of blocks.

    Returns:
        The number of whole blocks, or -1 if an element crosses the end of its block.
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


@inlined
def _lz4_length(data: Bytes, at: Any, length: Any) -> Any:
    """A length that begins with these four bits, and the offset after it, or -1 if the bytes end before it does."""
    is_long = length == _LONG_LENGTH
    while is_long:
        if at >= len(data):
            return length, -_ONE_BYTE
        byte = np.int64(data[at])
        length += byte
        is_long = byte == _GOES_ON
        at += 1
    return length, at


@compiled(INT64, BYTES)
def lz4_size(data: Bytes) -> int:
    """
    The bytes that an LZ4 block becomes; -1 if it ends too early.

    ::

        sequence:   literals << 4 │ match - 4 │ the literals │ offset, 2 bytes     the last one ends with its literals
                    a length of 15 goes on in bytes that are added to it, up to one that is not 255
    """
    end, at, total = len(data), _FIRST, _FIRST
    while at < end:
        token = np.int64(data[at])
        literals, at = _lz4_length(data, at + 1, token >> 4)
        if at < 0 or literals > end - at:
            return -1
        at += literals
        total += literals
        if at == end:
            return int(total)
        match, at = _lz4_length(data, at + 2, token & 15)
        if at < 0:
            return -1
        total += match + 4
    return -1
