"""Find the pages of a Parquet column chunk, and where in each of them its values are."""

from __future__ import annotations

from typing import Any

import numpy as np

from puffin.kernels.compiler import (
    BYTES,
    INT64,
    INT64_ROWS,
    INT64S,
    NEW_INT64_ROWS,
    NEW_INT64S,
    Bytes,
    Int64s,
    compiled,
    inlined,
)

_I: Any = np.int64
_U: Any = np.uint64
DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 4, 6, 7, 8, 12
_MOST_NESTED = 8
_LARGEST = (1 << 31) - 1
_LONGEST_INTEGER = 63  # bits before the last seven
_RLE = 3
_ABSENT = -1  # no field of a page is negative

# The columns of the table of pages, and of the fields that a header may have, by the struct that they are in.
TYPE, ENCODING, NUM_VALUES, NUM_NULLS, LEVELS_ENCODING, LEVELS_SIZE, OFFSET, STORED_SIZE, SIZE = range(9)
IS_COMPRESSED, CHUNK = 9, 10  # the chunk, of several, is the caller's to fill in
PAGE_FIELDS = 11
_FIELDS_OF_STRUCT = 8
_IN_V1, _IN_DICTIONARY, _IN_V2, _IN_OTHERS = 8, 16, 24, 32
_HEADER_FIELDS = 40

TRUNCATED, MALFORMED = -1, -2


@inlined
def _varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned integer and where it ends, or `TRUNCATED` or `MALFORMED`."""
    value, shift, byte = _I(0), _I(0), _I(0x80)
    while byte >= 0x80:
        if at >= end:
            return _I(0), _I(TRUNCATED)
        if shift > _LONGEST_INTEGER:
            return _I(0), _I(MALFORMED)
        byte = _I(data[at])
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return value, _I(at)


@inlined
def _read_value(data: Bytes, at: int, kind: int) -> tuple[int, int]:
    """The value of a field, if it is a number or a boolean, and where it ends; a struct has only begun."""
    value = _I(_ABSENT)
    if kind in (_TRUE, _FALSE):
        value = _I(kind == _TRUE)
    elif _I16 <= kind <= _I64:
        value, at = _varint(data, at, len(data))
        value = (value >> 1) ^ -(value & 1)
    elif kind == _BINARY:
        size, at = _varint(data, at, len(data))
        if at >= 0:
            at = at + size if 0 <= size <= len(data) - at else _I(TRUNCATED)
    elif kind in (_BYTE, _DOUBLE):
        at += 1 if kind == _BYTE else 8
    elif kind != _STRUCT:
        at = _I(MALFORMED)
    return value, at


@inlined
def _place(depth: int, inside: int, field_id: int) -> Any:
    """The place of a field among those of a header, or one that is ignored."""
    if depth > 1 or field_id < 0 or field_id >= _FIELDS_OF_STRUCT:
        return _HEADER_FIELDS
    return field_id if depth == 0 else inside + field_id


@inlined
def _read_header(data: Bytes, start: int, fields: Int64s, last: Int64s) -> Any:
    """Read the numbers and booleans of a page header; where it ends, or `TRUNCATED` or `MALFORMED`."""
    end, at = len(data), _I(start)
    depth, inside = 0, _IN_OTHERS
    fields[:] = _ABSENT
    last[0] = 0
    while depth >= 0:
        if at >= end:
            return TRUNCATED
        header = _I(data[at])
        at += 1
        if header == 0:
            depth -= 1
            continue
        kind, field_id = header & 0x0F, last[depth] + (header >> 4)
        if header <= 0x0F:
            number, at = _varint(data, at, end)
            field_id = (number >> 1) ^ -(number & 1)
        if at >= 0:
            value, at = _read_value(data, at, kind)
        if at < 0:
            return at
        last[depth] = field_id
        if kind == _STRUCT:
            depth += 1
            if depth == _MOST_NESTED:
                return MALFORMED
            last[depth] = 0
            if depth == 1:
                inside = _IN_V1 if field_id == 5 else _IN_DICTIONARY if field_id == 7 else _IN_OTHERS
                inside = _IN_V2 if field_id == 8 else inside
        else:
            fields[_place(depth, inside, field_id)] = value
    return at


@inlined
def _fill_page(fields: Int64s, page: Int64s) -> Any:
    """Fill in a page from the fields of its header; whether all that is needed is there."""
    page[TYPE], page[SIZE], page[STORED_SIZE] = fields[1], fields[2], fields[3]
    page[NUM_NULLS], page[LEVELS_SIZE], page[LEVELS_ENCODING], page[IS_COMPRESSED] = _ABSENT, 0, _RLE, 1
    if fields[1] == DATA_PAGE:
        page[NUM_VALUES], page[ENCODING] = fields[_IN_V1 + 1], fields[_IN_V1 + 2]
        if fields[_IN_V1 + 3] != _ABSENT:
            page[LEVELS_ENCODING] = fields[_IN_V1 + 3]
    elif fields[1] == _DICTIONARY_PAGE:
        page[NUM_VALUES], page[ENCODING] = fields[_IN_DICTIONARY + 1], fields[_IN_DICTIONARY + 2]
    elif fields[1] == _DATA_PAGE_V2:
        page[NUM_VALUES], page[ENCODING] = fields[_IN_V2 + 1], fields[_IN_V2 + 4]
        page[NUM_NULLS], page[LEVELS_SIZE] = fields[_IN_V2 + 2], fields[_IN_V2 + 5]
        if fields[_IN_V2 + 7] == 0:
            page[IS_COMPRESSED] = 0
        if fields[_IN_V2 + 6] != 0 or page[NUM_NULLS] < 0 or page[LEVELS_SIZE] < 0:
            return False
        page[SIZE] -= page[LEVELS_SIZE]
        page[STORED_SIZE] -= page[LEVELS_SIZE]
    else:
        return False
    is_sound = min(page[NUM_VALUES], page[ENCODING], page[SIZE], page[STORED_SIZE]) >= 0
    return is_sound and max(page[NUM_VALUES], page[SIZE], page[STORED_SIZE], page[LEVELS_SIZE]) <= _LARGEST


@compiled(INT64, BYTES, NEW_INT64S, NEW_INT64_ROWS)
def find_pages(data: Bytes, state: Int64s, pages: Int64s) -> int:
    """
    Find the pages that ``data`` has whole, up to the last row of their chunk.

    Args:
        state: Where the next page begins, and the rows that are left; updated.
        pages: Filled with the fields of each page: rows in a dictionary page are its entries, a size that of the body
            behind the levels of a version 2 page, where it has an offset in ``data``.

    Returns:
        The number of pages, or `MALFORMED`.
    """
    fields, last = np.empty(_HEADER_FIELDS + 1, np.int64), np.empty(_MOST_NESTED, np.int64)
    found = 0
    while state[1] > 0 and found < len(pages):
        page = pages[found]
        at = _read_header(data, state[0], fields, last)
        if at == TRUNCATED:
            break
        if at == MALFORMED or not _fill_page(fields, page):
            return MALFORMED
        page[OFFSET] = at + page[LEVELS_SIZE]
        if page[STORED_SIZE] > len(data) - page[OFFSET]:
            break
        if page[TYPE] != _DICTIONARY_PAGE:
            if page[NUM_VALUES] > state[1]:
                return MALFORMED
            state[1] -= page[NUM_VALUES]
        state[0] = page[OFFSET] + page[STORED_SIZE]
        found += 1
    return found


@compiled(INT64, INT64_ROWS, INT64S, INT64, INT64)
def first_unusual(pages: Int64s, encodings: Int64s, has_levels: int, may_be_dictionary: int) -> int:
    """
    The first page that is not usual, or -1.

    Args:
        encodings: Of data pages. The levels of these are hybrids of RLE and bit-packing, if there are any.
        may_be_dictionary: Whether the first page may be a dictionary.
    """
    for i in range(len(pages)):
        is_usual = False
        if pages[i, TYPE] == _DICTIONARY_PAGE:
            is_usual = i == 0 and may_be_dictionary != 0
        else:
            for encoding in encodings:
                is_usual |= pages[i, ENCODING] == encoding
        if not is_usual or (has_levels != 0 and pages[i, LEVELS_ENCODING] != _RLE):
            return i
    return -1


@compiled(INT64, INT64_ROWS, INT64, INT64, INT64)
def alike_until(pages: Int64s, first: int, most_bytes: int, most_values: int) -> int:
    """
    Where the pages end that have the type and encoding of the first one.

    Together they have at most ``most_bytes`` and ``most_values``, but the first one may have more.
    """
    size, values = pages[first, SIZE], pages[first, NUM_VALUES]
    end = _I(first) + 1
    while end < len(pages):
        size += pages[end, SIZE]
        values += pages[end, NUM_VALUES]
        is_alike = pages[end, TYPE] == pages[first, TYPE] and pages[end, ENCODING] == pages[first, ENCODING]
        if not is_alike or size > most_bytes or values > most_values:
            break
        end += 1
    return int(end)


@inlined
def ones(data: Bytes, start: int, bits: int) -> Any:
    """The number of bits set among ``bits`` bits from a byte on."""
    total = _I(0)
    whole = bits >> 3
    for i in range(start, start + whole):
        byte = _I(data[i])
        byte -= (byte >> 1) & 0x55
        byte = (byte & 0x33) + ((byte >> 2) & 0x33)
        total += (byte + (byte >> 4)) & 0x0F
    for bit in range(bits & 7):
        total += _I(data[start + whole]) >> bit & 1
    return total


@inlined
def _count_packed(data: Bytes, start: int, values: int, width: int, highest: int) -> Any:
    """How often the highest number occurs among ``values`` numbers of up to eight bits; -1 if there is a higher one."""
    if width == 1:
        return ones(data, start, values)
    count = _I(0)
    mask = (_I(1) << width) - 1
    for i in range(values):
        bit = i * width
        at = start + (bit >> 3)
        number = _I(data[at]) >> (bit & 7)
        if (bit & 7) + width > 8:
            number |= _I(data[at + 1]) << (8 - (bit & 7))
        number &= mask
        if number > highest:
            return _I(-1)
        count += _I(number == highest)
    return count


@inlined
def count_highest(data: Bytes, start: int, stop: int, values: int, highest: int) -> Any:
    """How often the highest number, less than 256, occurs in the hybrid of RLE and bit-packing; -1 if it is broken."""
    width = _I(0)
    while highest >> width:
        width += 1
    at, left, count = _I(start), _I(values), _I(0)
    while left > 0:
        header, at = _varint(data, at, stop)
        run = header >> 1
        if at < 0 or run <= 0 or run > _LARGEST:
            return _I(-1)
        if header & 1:
            size = run * width
            run = min(8 * run, left)
            found = _count_packed(data, at, run, width, highest) if size <= stop - at else _I(-1)
        else:
            size = _I(1)
            is_sound = run <= left and at < stop and _I(data[at]) <= highest
            found = _I(-1) if not is_sound else run * _I(_I(data[at]) == highest)
        if found < 0:
            return _I(-1)
        count += found
        at += size
        left -= run
    return count


@inlined
def little_endian(data: Bytes, at: int) -> Any:
    first = _U(at)  # an index without a sign needs no test whether it counts from the end
    value = _I(data[first]) | _I(data[first + _U(1)]) << 8
    return value | _I(data[first + _U(2)]) << 16 | _I(data[first + _U(3)]) << 24


@compiled(INT64, BYTES, NEW_INT64_ROWS, INT64)
def find_values(data: Bytes, spans: Int64s, highest: int) -> int:
    """
    Find the encoded values of data pages behind their levels, and count them.

    Args:
        spans: For each page where it begins and ends, its rows, its nulls or -1, and the bytes of its levels, or -1 if
            they have their size in front; updated: where the values begin, and in place of the rows their number.
        highest: The definition level of a value, less than 256; all other levels are nulls. 0 if there are no levels.

    Returns:
        0, or -1 if a page is broken.
    """
    for i in range(len(spans)):
        begin, end, rows, nulls, size = spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3], spans[i, 4]
        present = rows
        if highest > 0:
            if size < 0:
                if end - begin < 4:
                    return -1
                size = little_endian(data, begin)
                begin += 4
            if size > end - begin:
                return -1
            present = count_highest(data, begin, begin + size, rows, highest)
        if present < 0 or (nulls >= 0 and nulls != rows - present):
            return -1
        spans[i, 0] = begin + max(size, 0)
        spans[i, 2] = present
    return 0
