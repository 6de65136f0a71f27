"""
Decode Parquet's DELTA encodings: numbers as differences, and strings that share their first bytes with the one before.

::

    numbers:    varints: values of a block, miniblocks of it, values in all, the first one (zigzag) │ blocks
    block:      zigzag varint: the least difference │ a width in bits for each miniblock │ miniblocks
    miniblock:  what each difference has above the least, bit-packed, the lowest bit first; the last one is full too
    strings:    numbers: bytes shared with the string before │ numbers: the other bytes │ these bytes

Sums wrap around, as the format requires.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from puffin.kernels.compiler import (
    INT64,
    INT64S,
    NEW_INT64_ROWS,
    NEW_INT64S,
    NEW_WORDS_AT_EVERY_BYTE,
    WORDS_AT_EVERY_BYTE,
    Int64s,
    WordsAt,
    compiled,
    inlined,
)

_U: Any = np.uint64
_I: Any = np.int64
_LONGEST_INTEGER = 63  # bits before the last seven
_MOST_BITS, _BITS_AT_ONCE = 64, 57  # of a difference, and of those that a word at any byte has whole
_MINIBLOCK_MULTIPLE = 32
_MOST_IN_BLOCK = 1 << 30


@inlined
def _varint(words_at: WordsAt, at: int, end: int) -> Any:
    """An unsigned integer, and where it ends, or -1."""
    value, shift, byte = _U(0), 0, _U(0x80)
    while byte >= _U(0x80):
        if at >= end or shift > _LONGEST_INTEGER:
            return value, _I(-1)
        byte = words_at[at] & _U(0xFF)
        value |= (byte & _U(0x7F)) << _U(shift)
        shift += 7
        at += 1
    return value, _I(at)


@inlined
def _zigzag(value: Any) -> Any:
    return (value >> _U(1)) ^ (_U(0) - (value & _U(1)))


@inlined
def _fill(words_at: WordsAt, at: int, width: int, least: Any, value: Any, numbers: Int64s) -> Any:
    """Fill in the numbers of a miniblock, which is known to be whole; returns the last one."""
    # An index without a sign needs no test whether it counts from the end.
    bit, bits, count = _U(at) << _U(3), _U(width), _U(len(numbers))
    if width == 0:
        for i in range(count):
            value += least
            numbers[i] = _I(value)
    elif width <= _BITS_AT_ONCE:
        mask = (_U(1) << bits) - _U(1)
        for i in range(count):
            value += least + ((words_at[bit >> _U(3)] >> (bit & _U(7))) & mask)
            numbers[i] = _I(value)
            bit += bits
    else:
        mask = ~_U(0) >> (_U(_MOST_BITS) - bits)
        for i in range(count):
            shift = bit & _U(7)
            word = words_at[bit >> _U(3)] >> shift
            if shift + bits > _U(_MOST_BITS):
                word |= words_at[(bit >> _U(3)) + _U(8)] << (_U(_MOST_BITS) - shift)
            value += least + (word & mask)
            numbers[i] = _I(value)
            bit += bits
    return value


@inlined
def _header(words_at: WordsAt, at: int, end: int, count: int) -> Any:
    """The miniblocks of a block, the numbers of each, the first number, and where the blocks begin, or -1."""
    block, at = _varint(words_at, at, end)
    parts, at = _varint(words_at, at, end if at >= 0 else at)
    total, at = _varint(words_at, at, end if at >= 0 else at)
    first, at = _varint(words_at, at, end if at >= 0 else at)
    most = _I(0)
    if at >= 0 and _U(0) < parts <= block <= _U(_MOST_IN_BLOCK) and total == _U(count):
        most = _I(block) // _I(parts)
    if most == 0 or most % _MINIBLOCK_MULTIPLE != 0 or most * _I(parts) != _I(block):
        at = _I(-1)
    return _I(parts), most, _zigzag(first), at


@inlined
def _decode(words_at: WordsAt, at: int, end: int, numbers: Int64s) -> Any:
    """Decode exactly as many numbers as there is room for, at least one; where they end, or -1."""
    count = _I(len(numbers))
    miniblocks, most, value, at = _header(words_at, at, end, count)
    if at < 0:
        return at
    numbers[0] = _I(value)
    done = _I(1)
    while done < count:
        coded, at = _varint(words_at, at, end)
        if at < 0 or miniblocks > end - at:
            return _I(-1)
        least, widths_at = _zigzag(coded), at
        at += miniblocks
        for place in range(miniblocks):
            if done >= count:
                break
            width = _I(words_at[widths_at + place] & _U(0xFF))
            found = min(most, count - done)
            if width > _MOST_BITS or (found * width + 7) >> 3 > end - at:
                return _I(-1)
            value = _fill(words_at, at, width, least, value, numbers[done : done + found])
            done += found
            at = min(at + (most * width >> 3), _I(end))
    return _I(at)


@compiled(INT64, WORDS_AT_EVERY_BYTE, NEW_INT64_ROWS, NEW_INT64S)
def decode_numbers(words_at: WordsAt, spans: Int64s, numbers: Int64s) -> int:
    """
    Decode the numbers of pages, one page after the other.

    Args:
        words_at: The little-endian word at each byte and at the end, padded with eight bytes.
        spans: For each page where its numbers begin, where it ends, and how many there are; updated: where they end.
        numbers: Filled; has room for those of all pages.

    Returns:
        0, or -1 if a page is broken or has another number of them.
    """
    done = _I(0)
    for i in range(len(spans)):
        count = spans[i, 2]
        if count > 0:
            at = _decode(words_at, spans[i, 0], spans[i, 1], numbers[done : done + count])
            if at < 0:
                return -1
            spans[i, 0] = at
            done += count
    return 0


@inlined
def _copy(source_at: WordsAt, at: int, out_at: WordsAt, to: int, size: int) -> None:
    """Copy bytes by whole words, up to seven bytes more than asked for."""
    source, target = _U(at), _U(to)
    for place in range(_U(0), _U(size), _U(8)):
        out_at[target + place] = source_at[source + place]


@compiled(INT64, WORDS_AT_EVERY_BYTE, NEW_INT64_ROWS, INT64S, INT64S, NEW_INT64S, NEW_WORDS_AT_EVERY_BYTE)
def join_prefixes(
    words_at: WordsAt, spans: Int64s, prefixes: Int64s, suffixes: Int64s, offsets: Int64s, out_at: WordsAt
) -> int:
    """
    Put strings of pages together from what each shares with the one before and its own bytes, while there is room.

    Args:
        words_at: As in `decode_numbers`.
        spans: For each page where its bytes begin, where it ends, the number of strings that are left, and whether
            some of it are done; updated.
        prefixes: The number of shared bytes of each string that is left in any page.
        suffixes: The number of its other bytes.
        offsets: The first one is the length of the string before, if its page is not new; the others, one for each
            string that there is room for, are filled.
        out_at: The words at each byte that has seven more after it: of the string before, and of those filled in.

    Returns:
        The number of strings, or -1 if one is broken.
    """
    count, to, at_last, length = _I(0), offsets[0], _I(0), offsets[0]
    room = len(out_at) - 1
    for i in range(len(spans)):
        if spans[i, 2] > 0 and spans[i, 3] == 0:
            length = _I(0)
        while spans[i, 2] > 0 and count < len(offsets) - 1:
            at, shared, own = spans[i, 0], prefixes[count], suffixes[count]
            if shared < 0 or own < 0 or shared > length or own > spans[i, 1] - at:
                return -1
            if shared + own > room - to:
                return int(count)
            _copy(out_at, at_last, out_at, to, shared)
            _copy(words_at, at, out_at, to + shared, own)
            at_last, length = to, shared + own
            to += length
            count += 1
            offsets[count] = to
            spans[i, 0] = at + own
            spans[i, 2] -= 1
            spans[i, 3] = 1
    return int(count)
