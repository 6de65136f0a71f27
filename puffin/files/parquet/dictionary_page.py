"""
The values of a dictionary page as an Arrow array, without a look at the data pages.

Most pages are decompressed and decoded here; of the others pyarrow makes the values, out of a file made of the page.
Whatever is odd about a page gives no array: reading the column in full is always open, and will say what is wrong.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from puffin.files.parquet import thrift
from puffin.files.parquet.page_as_file import read_as_file
from puffin.files.parquet.page_codecs import CODECS, decompress
from puffin.files.parquet.parquet_footer import (
    BYTE_ARRAY,
    DICTIONARY_PAGE,
    DOUBLE,
    FIXED_LEN_BYTE_ARRAY,
    FLOAT,
    INT32,
    INT64,
    PLAIN,
    PLAIN_DICTIONARY,
    ColumnChunk,
)
from puffin.files.parquet.plain_values import plain_decoder

MAX_PAGE_BYTES = 64 * 1024 * 1024
"""The largest page that is read, compressed or not; writers stop their dictionaries at one or two MiB."""

_MALFORMED = (pa.ArrowException, OSError, ValueError, *thrift.MALFORMED, KeyError, TypeError)

# type, uncompressed_page_size, compressed_page_size, dictionary_page_header: num_values, encoding
_PAGE_HEADER: thrift.Shape = {1: None, 2: None, 3: None, 7: {1: None, 2: None}}

# What a value takes at least.
_SMALLEST_VALUE = {INT32: 4, INT64: 8, FLOAT: 4, DOUBLE: 8, BYTE_ARRAY: 4, FIXED_LEN_BYTE_ARRAY: 1}


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
        values = _values(chunk, arrow_type, header[7][1], header[2], page[begin:])
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


def _values(
    chunk: ColumnChunk, arrow_type: pa.DataType, num_values: int, uncompressed_size: int, payload: bytes
) -> pa.Array:
    decode = plain_decoder(chunk.physical_type, arrow_type, num_values) if chunk.codec in CODECS else None
    if decode is None:
        return read_as_file(chunk, num_values, uncompressed_size, payload).cast(arrow_type)
    return decode(decompress(chunk.codec, payload, uncompressed_size), num_values, arrow_type)
