"""
Decode batches of pages to Arrow arrays, with compiled kernels; pages of other encodings become plain ones first.

Strings get offsets of 64 bits, whatever the Arrow type, and views become such strings too. All other types are those of
the Arrow type. `puffin.files.parquet.plain_values` has the encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_types

from puffin.files.parquet.delta_pages import PIECE_BYTES, plain_bytes, plain_numbers, plain_strings, strings
from puffin.files.parquet.page_batches import BATCH_VALUES, PageBatch
from puffin.files.parquet.page_codecs import pooled_buffer
from puffin.files.parquet.parquet_footer import (
    BYTE_ARRAY,
    BYTE_STREAM_SPLIT,
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    DOUBLE,
    FIXED_LEN_BYTE_ARRAY,
    FLOAT,
    INT32,
    INT64,
    INT96,
    PLAIN,
    WIDTHS,
    ColumnChunk,
)
from puffin.files.parquet.plain_values import LENGTH_SIZE, NUMBERS, SAME_IN_MEMORY, decimals_of
from puffin.values.serialized import words_at, words_at_every_byte

PageDecoder: TypeAlias = Callable[[PageBatch], Iterator[pa.Array]]
"""Decodes the values of pages, without nulls, in arrays of bounded length; ValueError if a page is too short."""

_NARROW = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.uint32())
_LARGE = {
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), pa.large_string()),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), pa.large_binary()),
}
_LEGACY_TIME = np.dtype([("nanos", "<u8"), ("julian_day", "<u4")])
_JULIAN_DAY_OF_EPOCH, _DAY, _MICROSECOND = np.uint64(2_440_588), np.uint64(86_400_000_000), np.uint64(1000)
_MOST_DECIMAL_BYTES = 16


ENCODINGS: Mapping[int, frozenset[int]] = {
    **dict.fromkeys((INT32, INT64), frozenset((PLAIN, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT))),
    **dict.fromkeys((FLOAT, DOUBLE), frozenset((PLAIN, BYTE_STREAM_SPLIT))),
    INT96: frozenset((PLAIN,)),
    BYTE_ARRAY: frozenset((PLAIN, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY)),
    FIXED_LEN_BYTE_ARRAY: frozenset((PLAIN, DELTA_BYTE_ARRAY, BYTE_STREAM_SPLIT)),
}
"""The encodings of data pages that decoders of a physical type support."""


def page_decoder(chunk: ColumnChunk, arrow_type: pa.DataType) -> PageDecoder | None:
    """
    The decoder for the pages of a chunk that pyarrow reads as this type; None if only pyarrow has one.

    Pages have one of the type's `ENCODINGS`; dictionary pages are plain whatever they say.
    """
    plain = _plain_decoder(chunk, arrow_type)
    if plain is None:
        return None
    if chunk.physical_type == BYTE_ARRAY:
        return partial(_any_strings, plain=plain, arrow_type=_LARGE[arrow_type])
    return partial(_any_values, plain=plain, width=WIDTHS.get(chunk.physical_type) or chunk.leaf.type_length)


def _any_values(pages: PageBatch, plain: PageDecoder, width: int) -> Iterator[pa.Array]:
    if pages.is_dictionary or pages.encoding == PLAIN:
        yield from plain(pages)
    elif pages.encoding == DELTA_BINARY_PACKED:
        yield from plain(plain_numbers(pages, width))
    elif pages.encoding == BYTE_STREAM_SPLIT:
        yield from plain(plain_bytes(pages, width))
    else:
        for piece in plain_strings(pages, width):
            yield from plain(piece)


def _any_strings(pages: PageBatch, plain: PageDecoder, arrow_type: pa.DataType) -> Iterator[pa.Array]:
    if pages.is_dictionary or pages.encoding == PLAIN:
        yield from plain(pages)
    else:
        for offsets, content in strings(pages):
            yield pa.Array.from_buffers(arrow_type, len(offsets) - 1, [None, pa.py_buffer(offsets), content])


def _plain_decoder(chunk: ColumnChunk, arrow_type: pa.DataType) -> PageDecoder | None:
    physical_type = chunk.physical_type
    if any(test(arrow_type) for test in SAME_IN_MEMORY.get(physical_type, ())):
        return partial(_same_in_memory, arrow_type=arrow_type)
    if physical_type == BYTE_ARRAY and arrow_type in _LARGE:
        return partial(_strings, arrow_type=_LARGE[arrow_type])
    if physical_type == INT32 and arrow_type in _NARROW:
        return partial(_narrow, arrow_type=arrow_type)
    if physical_type == INT96 and arrow_types.is_timestamp(arrow_type) and arrow_type.unit == "us":
        return partial(_legacy_times, arrow_type=arrow_type)
    if arrow_types.is_decimal128(arrow_type):
        if physical_type in NUMBERS:
            return partial(_decimals, arrow_type=arrow_type, stored=NUMBERS[physical_type])
        width = chunk.leaf.type_length if physical_type == FIXED_LEN_BYTE_ARRAY else 0
        if 0 < width <= _MOST_DECIMAL_BYTES:
            return partial(_swapped_decimals, arrow_type=arrow_type, width=width)
    return None


def _same_in_memory(pages: PageBatch, arrow_type: pa.DataType) -> Iterator[pa.Array]:
    width = arrow_type.byte_width
    for values in _dense(pages, width):
        yield pa.Array.from_buffers(arrow_type, len(values) // width, [None, pa.py_buffer(values)])


def _narrow(pages: PageBatch, arrow_type: pa.DataType) -> Iterator[pa.Array]:
    for values in _dense(pages, 4):
        numbers = np.frombuffer(values, "<i4").astype(arrow_type.to_pandas_dtype())
        yield pa.Array.from_buffers(arrow_type, len(numbers), [None, pa.py_buffer(numbers)])


def _legacy_times(pages: PageBatch, arrow_type: pa.DataType) -> Iterator[pa.Array]:
    for values in _dense(pages, _LEGACY_TIME.itemsize):
        times = np.frombuffer(values, _LEGACY_TIME)
        days = times["julian_day"].astype(np.uint64) - _JULIAN_DAY_OF_EPOCH  # wraps around, as pyarrow's do
        micros = days * _DAY + times["nanos"] // _MICROSECOND
        micros[times["julian_day"] == 0] = 0  # pyarrow takes such a time for that of a null
        yield pa.Array.from_buffers(arrow_type, len(micros), [None, pa.py_buffer(micros)])


def _decimals(pages: PageBatch, arrow_type: pa.DataType, stored: np.dtype[Any]) -> Iterator[pa.Array]:
    for values in _dense(pages, stored.itemsize):
        yield decimals_of(np.frombuffer(values, stored), arrow_type)


def _swapped_decimals(pages: PageBatch, arrow_type: pa.DataType, width: int) -> Iterator[pa.Array]:
    from puffin.kernels.page_values import swap_decimals

    for values in _dense(pages, width):
        count = len(values) // width
        halves = np.empty(2 * count, np.int64)
        swap_decimals(words_at_every_byte(values), width, halves)
        yield pa.Array.from_buffers(arrow_type, count, [None, pa.py_buffer(halves)])


def _strings(pages: PageBatch, arrow_type: pa.DataType) -> Iterator[pa.Array]:
    from puffin.kernels.page_values import copy_strings

    _check_room(pages, LENGTH_SIZE)
    data = pages.bytes
    spans, left, longest = pages.spans.copy(), pages.count, 0
    if left == 0:
        yield pa.array([], arrow_type)
    while left > 0:
        offsets = np.empty(min(left, BATCH_VALUES) + 1, np.int64)
        out = pooled_buffer(min(len(data), max(PIECE_BYTES, longest)) + 8)
        found = copy_strings(data, words_at(data), spans, offsets, words_at(out))
        if found < 0:
            raise ValueError(f"expected {left} more strings in pages, found fewer")
        longest = 0 if found else len(data)
        left -= found
        yield pa.Array.from_buffers(arrow_type, found, [None, pa.py_buffer(offsets), out])


def _dense(pages: PageBatch, width: int) -> Iterator[bytes | memoryview]:
    """The bytes of the values, ``width`` of each, one after the other, of `BATCH_VALUES` at a time."""
    _check_room(pages, width)
    content = memoryview(pages.content)
    parts = [content[begin : begin + count * width] for begin, _, count, _, _ in pages.spans.tolist()]
    if len(parts) > 1:
        yield b"".join(parts)
        return
    # A page may have any number of values, and arrays of many would leave the processor's cache again and again.
    for start in range(0, max(1, len(parts[0])), BATCH_VALUES * width):
        yield parts[0][start : start + BATCH_VALUES * width]


def _check_room(pages: PageBatch, width: int) -> None:
    begin, end, count = pages.spans[:, 0], pages.spans[:, 1], pages.spans[:, 2]
    if (end - begin < count * width).any():
        raise ValueError(f"expected values of {width} bytes at least in pages that are shorter")
