"""
The values of a dictionary page as an Arrow array, without a look at the data pages.

A dictionary page holds plain-encoded values without levels, which is what the values of a plain data page are. So the
page's bytes are put, still compressed, under the header of a data page, into a file of one column that has no nulls:

::

    "PAR1" │ PageHeader, levels │ the dictionary page's bytes │ FileMetaData │ its size │ "PAR1"

and pyarrow reads that file. Codecs and types are thus none of our business, and the values are the very ones that
pyarrow's reader would have found through the indices, since it is the reader. Opening a file costs a third of a
millisecond, though, even one in memory, which is most of what a small dictionary takes. So the numbers that stand in a
page as Arrow has them in memory, and decimals of a number each, are taken as they stand.

Whatever is odd about a page gives no array: reading the column in full is always open, and will say what is wrong.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow_types

from puffin.parquet import thrift
from puffin.parquet.codecs import CODECS, decompress
from puffin.parquet.footer import (
    BYTE_ARRAY,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    OPTIONAL,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE,
    ColumnChunk,
)

MAX_PAGE_BYTES = 64 * 1024 * 1024
"""The largest page that is read, compressed or not; writers stop their dictionaries at one or two MiB."""

_INTEGERS = 1, 2  # INT32, INT64
_STORED_AS: dict[int, np.dtype[Any]] = {
    1: np.dtype("<i4"),
    2: np.dtype("<i8"),
    4: np.dtype("<f4"),
    5: np.dtype("<f8"),
}  # FLOAT, DOUBLE
_SAME_IN_MEMORY = (
    *(arrow_types.is_int32, arrow_types.is_int64, arrow_types.is_float32, arrow_types.is_float64),
    *(arrow_types.is_date32, arrow_types.is_time, arrow_types.is_timestamp),
)

_MAGIC = b"PAR1"
_MALFORMED = (pa.ArrowException, OSError, ValueError, *thrift.MALFORMED, KeyError, TypeError)

# type, uncompressed_page_size, compressed_page_size, dictionary_page_header: num_values, encoding
_PAGE_HEADER: thrift.Shape = {1: None, 2: None, 3: None, 7: {1: None, 2: None}}

# What a value takes at least, by physical type: INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY.
_SMALLEST_VALUE = {1: 4, 2: 8, 4: 4, 5: 8, BYTE_ARRAY: 4, 7: 1}


def has_readable_dictionary(chunk: ColumnChunk) -> bool:
    """Whether `read_dictionary_page` knows the chunk's type, and its page is there and not too large."""
    return chunk.physical_type in _SMALLEST_VALUE and 0 < chunk.dictionary_page_size <= MAX_PAGE_BYTES


def read_dictionary_page(source: pa.NativeFile, chunk: ColumnChunk, arrow_type: pa.DataType) -> pa.Array | None:
    """
    Read the dictionary of a column chunk, in one ranged read.

    Args:
        source: The file.
        chunk: One with `has_readable_dictionary`.
        arrow_type: What pyarrow reads the column as, which is no extension type.

    Returns:
        The values in the order of the dictionary, none of them null; None if the page is not understood, so that
        the column has to be read in full.

    Raises:
        OSError: The file cannot be read.
    """
    page = source.read_at(chunk.dictionary_page_size, chunk.dictionary_page_offset)
    try:
        header, begin = thrift.read_struct(page, 0, _PAGE_HEADER)
        if not _is_whole_dictionary(header, chunk, len(page) - begin):
            return None
        values = _numbers(chunk, header, page[begin:], arrow_type)
        if values is None:
            values = _values(chunk, header, page[begin:]).cast(arrow_type)
    except _MALFORMED:
        return None
    return values if len(values) == header[7][1] and values.null_count == 0 else None


def _is_whole_dictionary(header: dict[int, Any], chunk: ColumnChunk, payload_size: int) -> bool:
    num_values, encoding = header[7][1], header[7][2]
    return (
        header[1] == DICTIONARY_PAGE
        and encoding in (PLAIN, PLAIN_DICTIONARY)
        and header[3] == payload_size
        and 0 <= num_values * _SMALLEST_VALUE[chunk.physical_type] <= header[2] <= MAX_PAGE_BYTES
    )


def _numbers(chunk: ColumnChunk, header: dict[int, Any], payload: bytes, arrow_type: pa.DataType) -> pa.Array | None:
    stored = _STORED_AS.get(chunk.physical_type)
    is_decimal = arrow_types.is_decimal128(arrow_type) and chunk.physical_type in _INTEGERS
    is_same = any(test(arrow_type) for test in _SAME_IN_MEMORY) and stored is not None
    if stored is None or chunk.codec not in CODECS or not (is_decimal or is_same):
        return None
    numbers = np.frombuffer(decompress(chunk.codec, payload, header[2]), stored, header[7][1])
    if is_decimal:
        halves = np.empty((len(numbers), 2), np.int64)
        halves[:, 0], halves[:, 1] = numbers, numbers >> 63 if stored.itemsize == 8 else numbers >> 31
        numbers = halves
    elif stored.itemsize * 8 != arrow_type.bit_width:
        return None
    return pa.Array.from_buffers(arrow_type, header[7][1], [None, pa.py_buffer(numbers)])


def _values(chunk: ColumnChunk, header: dict[int, Any], payload: bytes) -> pa.Array:
    num_values, uncompressed_size = header[7][1], header[2]
    page = _data_page(chunk, num_values, uncompressed_size, payload) if num_values else b""
    footer = _file_meta_data(chunk, num_values, len(page))
    file = b"".join((_MAGIC, page, footer, struct.pack("<I", len(footer)), _MAGIC))
    column = pq.ParquetFile(pa.BufferReader(file)).read(use_threads=False).column(0)
    return column.combine_chunks()


def _data_page(chunk: ColumnChunk, num_values: int, uncompressed_size: int, payload: bytes) -> bytes:
    # Levels of a version 2 page stand before what is compressed; one run says that no value is null.
    levels = thrift.varint(num_values << 1) + b"\1" if chunk.repetition_type == OPTIONAL else b""
    header = thrift.struct(
        {
            1: thrift.i32(DATA_PAGE_V2),
            2: thrift.i32(len(levels) + uncompressed_size),
            3: thrift.i32(len(levels) + len(payload)),
            8: thrift.struct(
                {
                    1: thrift.i32(num_values),
                    2: thrift.i32(0),  # num_nulls
                    3: thrift.i32(num_values),  # num_rows
                    4: thrift.i32(PLAIN),
                    5: thrift.i32(len(levels)),  # definition_levels_byte_length
                    6: thrift.i32(0),  # repetition_levels_byte_length
                }
            ),
        }
    )
    return header[1] + levels + payload


def _file_meta_data(chunk: ColumnChunk, num_values: int, page_size: int) -> bytes:
    meta_data = thrift.struct(
        {
            1: thrift.i32(chunk.physical_type),
            2: thrift.items([thrift.i32(PLAIN), thrift.i32(RLE)]),
            3: thrift.items([thrift.binary(chunk.path[-1].encode())]),
            4: thrift.i32(chunk.codec),
            5: thrift.i64(num_values),
            6: thrift.i64(page_size),  # total_uncompressed_size
            7: thrift.i64(page_size),  # total_compressed_size
            9: thrift.i64(len(_MAGIC)),  # data_page_offset
        }
    )
    column = thrift.struct({2: thrift.i64(len(_MAGIC)), 3: meta_data})  # file_offset
    root = thrift.struct({4: thrift.binary(b"schema"), 5: thrift.i32(1)})  # name, num_children
    row_group = thrift.struct({1: thrift.items([column]), 2: thrift.i64(page_size), 3: thrift.i64(num_values)})
    file = thrift.struct(
        {
            1: thrift.i32(2),  # version
            2: thrift.items([root, thrift.struct_bytes(chunk.schema_element)]),
            3: thrift.i64(num_values),
            4: thrift.items([row_group]),
        }
    )
    return file[1]
