"""
Count the values of Parquet pages, or lay them out as Arrow has them.

Where a kernel takes ``words_at``, the little-endian word at each byte, the caller has added eight bytes of padding.
``spans`` has a row for each page, as `puffin.kernels.pages.find_values` leaves it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from puffin.kernels.compiler import (
    BYTES,
    INT64,
    INT64_ROWS,
    NEW_INT64_ROWS,
    NEW_INT64S,
    NEW_WORDS_AT_EVERY_BYTE,
    NONE,
    WORDS_AT_EVERY_BYTE,
    Bytes,
    Int64s,
    WordsAt,
    compiled,
    inlined,
)
from puffin.kernels.decimals import swapped
from puffin.kernels.pages import count_highest, little_endian, ones
from puffin.kernels.parquet import count_hybrid

_U: Any = np.uint64
_I: Any = np.int64
_SHORT = 16  # bytes copied without a loop, even for shorter strings: the end of a loop would be mispredicted


@compiled(INT64, WORDS_AT_EVERY_BYTE, INT64_ROWS, INT64, NEW_INT64S)
def count_indices(words_at: WordsAt, spans: Int64s, lanes: int, counts: Int64s) -> int:
    """
    Count the dictionary indices of pages, as `count_hybrid` does.

    Args:
        spans: In place of the last two numbers of each page, the number of its dictionary's first entry among those
            of all dictionaries, and the number of its entries.
        counts: For the entries of all dictionaries, one after the other; updated.
    """
    for i in range(len(spans)):
        begin, end, present, first, entries = spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3], spans[i, 4]
        if present > 0:
            if begin >= end or first < 0 or entries < 0 or (first + entries) * lanes > len(counts):
                return -1
            width = _I(words_at[begin] & _U(0xFF))
            counters = counts[first * lanes : (first + entries) * lanes]
            if width > 32 or count_hybrid(words_at[begin + 1 : end + 1], present, width, lanes, counters) < 0:
                return -1
    return 0


@compiled(INT64, BYTES, INT64_ROWS, INT64)
def count_true(data: Bytes, spans: Int64s, is_hybrid: int) -> int:
    """How many booleans of pages are true, plain or, behind their size, in the hybrid; -1 if a page is broken."""
    total = 0
    for i in range(len(spans)):
        begin, end, present = spans[i, 0], spans[i, 1], spans[i, 2]
        if is_hybrid:
            if end - begin < 4:
                return -1
            found = count_highest(data, begin + 4, end, present, 1)
            if found < 0:
                return -1
            total += found
        else:
            if (present + 7) >> 3 > end - begin:
                return -1
            total += ones(data, begin, present)
    return int(total)


@inlined
def _last_word(data: Bytes, at: int) -> Any:
    word = _U(0)
    for i in range(at, len(data)):
        word |= _U(data[i]) << _U(8 * (i - at))
    return word


@inlined
def _copy_last(data: Bytes, words_at: WordsAt, at: int, length: int, out_at: WordsAt) -> None:
    """Copy a string near the end of the data or of the room for copies."""
    for place in range(0, length, 8):
        if at + place < len(words_at):
            out_at[place] = words_at[at + place]
        else:
            out_at[place] = _last_word(data, at + place)


@compiled(INT64, BYTES, WORDS_AT_EVERY_BYTE, NEW_INT64_ROWS, NEW_INT64S, NEW_WORDS_AT_EVERY_BYTE)
def copy_strings(data: Bytes, words_at: WordsAt, spans: Int64s, offsets: Int64s, out_at: WordsAt) -> int:
    """
    Copy plain strings of pages, each behind its length, one after the other, as long as there is room.

    Args:
        words_at: The word at each byte of ``data`` that has seven more after it.
        spans: As `find_values` leaves it; updated: where the strings begin that are left, and their number.
        offsets: Filled: one more than there is room for strings.
        out_at: The words at each byte of the copies that has seven more after it; filled.

    Returns:
        The number of strings, or -1 if one ends beyond its page.
    """
    out, count = _I(0), _I(0)
    room = len(out_at) - 1
    offsets[0] = 0
    for i in range(len(spans)):
        at, end, left = spans[i, 0], spans[i, 1], spans[i, 2]
        while left > 0 and count < len(offsets) - 1:
            if end - at < 4:
                return -1
            length = little_endian(data, at)
            if length > end - at - 4:
                return -1
            if length > room - out:
                break
            at += 4
            if at + length + _SHORT <= len(words_at) and out + length + _SHORT <= len(out_at):
                out_at[_U(out)] = words_at[_U(at)]
                out_at[_U(out + 8)] = words_at[_U(at + 8)]
                for place in range(_SHORT, length, 8):
                    out_at[_U(out + place)] = words_at[_U(at + place)]
            else:
                _copy_last(data, words_at, at, length, out_at[out:])
            at += length
            out += length
            count += 1
            offsets[count] = out
            left -= 1
        spans[i, 0], spans[i, 2] = at, left
        if left > 0:
            break
    return int(count)


@compiled(NONE, WORDS_AT_EVERY_BYTE, INT64, NEW_INT64S)
def swap_decimals(words_at: WordsAt, width: int, halves: Int64s) -> None:
    """Turn big-endian numbers of 1 to 16 bytes into low and high halves; the words have seven bytes of padding."""
    omitted = 8 * (8 - width) if width <= 8 else 8 * (16 - width)
    for i in range(len(halves) >> 1):
        at = i * width
        low = _I(swapped(words_at[at]))
        if width <= 8:
            low >>= omitted
            high = low >> 63
        else:
            high = low >> omitted
            low = _I(swapped(words_at[at + width - 8]))
        halves[2 * i] = low
        halves[2 * i + 1] = high
