"""
Put many pages one after the other, plain ones and those of Snappy, the codec of most writers.

Calling a library for each page of a few KiB takes Python longer than the page takes to decompress. Copies write whole
words, up to seven bytes more than they have: where the next ones come, or into `SLACK` bytes behind the last page.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from puffin.kernels.compiler import (
    BYTES,
    INT64,
    INT64_ROWS,
    NEW_INT64_ROWS,
    NEW_WORDS_AT_EVERY_BYTE,
    WORDS_AT_EVERY_BYTE,
    Bytes,
    Int64s,
    WordsAt,
    compiled,
    inlined,
)
from puffin.kernels.pages import (
    DATA_PAGE,
    IS_COMPRESSED,
    LEVELS_SIZE,
    NUM_NULLS,
    NUM_VALUES,
    OFFSET,
    SIZE,
    STORED_SIZE,
    TYPE,
)

SLACK = 8

_U: Any = np.uint64
_I: Any = np.int64
_ZERO, _ONE, _TWO, _THREE, _FOUR, _FIVE, _SEVEN, _WORD = (_U(number) for number in (0, 1, 2, 3, 4, 5, 7, 8))
_TWO_WORDS = _U(16)
_BROKEN = _U((1 << 64) - 1)
_GOES_ON, _LONGEST_SIZE = _U(0x80), _U(28)  # of a size in bytes of seven bits: bits before the last ones
_LENGTH_IN_TAG = _U(60)
_LONG_LITERAL = _U(240)  # tags of literals from here on have their length behind them
_ROOM = _U(80)  # more than an element takes without such a length, 64 bytes and its head, and the rest of a word


@inlined
def _copy_stored(source: tuple[Bytes, WordsAt], at: Any, length: Any, out_at: WordsAt, to: Any) -> None:
    """Copy bytes that both sides are known to have."""
    data, words_at = source
    done = _ZERO
    whole = _U(len(words_at))
    while done < length and at + done < whole:
        out_at[to + done] = words_at[at + done]
        done += _WORD
    if done < length:  # the last bytes of the data are no whole word
        word = _ZERO
        for i in range(_U(min(length - done, _WORD))):
            word |= _U(data[at + done + _U(i)]) << (_U(i) * _WORD)
        out_at[to + done] = word


@inlined
def _repeat(out_at: WordsAt, to: Any, offset: Any, length: Any) -> None:
    """Copy what was written ``offset`` bytes before, at least one, which may overlap with what is written now."""
    done, distance = _ZERO, offset
    while distance < _WORD and done < length:
        out_at[to + done] = out_at[to + done - distance]
        done += distance  # so many bytes of the word are right
        distance += distance
    while done < length:
        out_at[to + done] = out_at[to + done - distance]
        done += _WORD


@inlined
def _stated_size(data: Bytes, at: Any, end: Any) -> tuple[Any, Any]:
    """The size in front of raw Snappy, seven bits in a byte, and where it ends, or `_BROKEN`."""
    # The signed numbers of `puffin.kernels.pages` would make the loop over the elements take half as long again.
    size, shift, byte = _ZERO, _ZERO, _GOES_ON
    while byte >= _GOES_ON:
        if at >= end or shift > _LONGEST_SIZE:
            return size, _BROKEN
        byte = _U(data[at])
        size |= (byte & (_GOES_ON - _ONE)) << shift
        shift += _SEVEN
        at += _ONE
    return size, at


@inlined
def _element(data: Bytes, at: Any, end: Any) -> tuple[Any, Any, Any]:
    """
    The length of an element of raw Snappy, the offset of a copy, and where its head ends, or `_BROKEN`.

    `puffin.kernels.parquet.find_snappy_blocks` shows what there is.
    """
    tag = _U(data[at])
    at += _ONE
    kind = tag & _THREE
    length, offset = (tag >> _TWO) + _ONE, _ZERO
    more = _ZERO
    if kind != _ZERO:
        more = _ONE if kind == _ONE else _TWO if kind == _TWO else _FOUR
    elif length > _LENGTH_IN_TAG:
        more = length - _LENGTH_IN_TAG
    if more > end - at:
        return length, offset, _BROKEN
    number = _ZERO
    for i in range(more):
        number |= _U(data[at + _U(i)]) << (_U(i) * _WORD)
    if kind != _ZERO:
        offset = number
        if kind == _ONE:
            offset |= (tag >> _U(5)) << _WORD
            length = ((tag >> _TWO) & _SEVEN) + _FOUR
    elif more > _ZERO:
        length = number + _ONE
    return length, offset, at + more


@inlined
def _unpack_near(
    source: tuple[Bytes, WordsAt], ends: tuple[Any, Any], out_at: WordsAt, places: tuple[Any, Any, Any]
) -> Any:
    """
    Decompress elements of raw Snappy that need no care at the ends of their page, up to one that does or is odd.

    Each of them takes `_ROOM` bytes at most, before and after. So the loop reads and writes whole words, and has no
    branch but for the kind of an element, copies that overlap within a word, and the few elements of many bytes.

    Args:
        ends: Where the page and its output end.
        places: Where the page, its output and the next of both begin.

    Returns:
        Where the next element begins, and where its bytes go.
    """
    data, words_at = source
    start, at, to = places
    last, last_out = ends[0] - min(ends[0], _ROOM), ends[1] - min(ends[1], _ROOM)
    while at < last and to < last_out:
        tag, word = _U(data[at]), words_at[at + _ONE]
        kind = tag & _THREE
        if kind == _ZERO:
            if tag >= _LONG_LITERAL:
                break
            at += _ONE
            length = (tag >> _TWO) + _ONE
            out_at[to] = word
            out_at[to + _WORD] = words_at[at + _WORD]
            done = _TWO_WORDS
            while done < length:
                out_at[to + done] = words_at[at + done]
                done += _WORD
            at += length
        else:
            more = kind + ((kind >> _ONE) & kind)  # 1, 2 or 4
            offset = word & ((_ONE << (more << _THREE)) - _ONE)
            length = (tag >> _TWO) + _ONE
            if kind == _ONE:
                offset |= (tag >> _FIVE) << _WORD
                length = ((tag >> _TWO) & _SEVEN) + _FOUR
            if offset == _ZERO or offset > to - start:
                break
            if offset < _WORD:
                _repeat(out_at, to, offset, length)
            else:
                out_at[to] = out_at[to - offset]
                out_at[to + _WORD] = out_at[to + _WORD - offset]
                done = _TWO_WORDS
                while done < length:
                    out_at[to + done] = out_at[to + done - offset]
                    done += _WORD
            at += _ONE + more
        to += length
    return at, to


@inlined
def _unpack_snappy(source: tuple[Bytes, WordsAt], at: Any, end: Any, out_at: WordsAt, start: Any, stop: Any) -> Any:
    """Decompress raw Snappy to exactly ``stop - start`` bytes; whether it is sound."""
    data = source[0]
    size, at = _stated_size(data, at, end)
    if size != stop - start:
        return False
    to = start
    while at < end:
        at, to = _unpack_near(source, (end, stop), out_at, (start, at, to))
        is_literal = data[at] & 3 == 0
        length, offset, at = _element(data, at, end)
        if at == _BROKEN or length > stop - to:
            return False
        if is_literal:
            if length > end - at:
                return False
            _copy_stored(source, at, length, out_at, to)
            at += length
        else:
            if offset == _ZERO or offset > to - start:
                return False
            _repeat(out_at, to, offset, length)
        to += length
    return at == end and to == stop


@compiled(INT64, BYTES, WORDS_AT_EVERY_BYTE, INT64_ROWS, INT64, NEW_WORDS_AT_EVERY_BYTE, NEW_INT64_ROWS)
def unpack_pages(data: Bytes, words_at: WordsAt, pages: Int64s, is_snappy: int, out_at: WordsAt, spans: Int64s) -> int:
    """
    Put pages one after the other, each behind its levels.

    Args:
        words_at: The word at each byte of ``data`` that has seven more after it.
        pages: As `find_pages` fills them in.
        is_snappy: Whether they are compressed, those that say so.
        out_at: The words at each byte of the output, which has room for all pages and `SLACK`; filled.
        spans: As `find_values` takes them; filled.

    Returns:
        The bytes of all pages, or -1 if one is broken.
    """
    source = (data, words_at)
    to = _ZERO
    for i in range(len(pages)):
        levels, begin = _U(pages[i, LEVELS_SIZE]), _U(pages[i, OFFSET])
        end = begin + _U(pages[i, STORED_SIZE])
        spans[i, 0] = _I(to)
        if levels > begin or end > _U(len(data)):
            return -1
        _copy_stored(source, begin - levels, levels, out_at, to)
        to += levels
        stop = to + _U(pages[i, SIZE])
        if stop + _U(SLACK) > _U(len(out_at)) + _SEVEN:
            return -1
        is_sound = True
        if is_snappy == 0 or pages[i, IS_COMPRESSED] == 0:
            is_sound = end - begin == stop - to
            if is_sound:
                _copy_stored(source, begin, stop - to, out_at, to)
        elif stop > to:  # else there are only nulls; the payload may be empty or not
            is_sound = _unpack_snappy(source, begin, end, out_at, to, stop)
        if not is_sound:
            return -1
        spans[i, 1], spans[i, 2], spans[i, 3] = _I(stop), pages[i, NUM_VALUES], pages[i, NUM_NULLS]
        spans[i, 4] = -1 if pages[i, TYPE] == DATA_PAGE else pages[i, LEVELS_SIZE]
        to = stop
    return int(to)
