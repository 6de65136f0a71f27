"""
Read the values of a dictionary page as an Arrow array, without the data pages.

Most pages are decoded here; for the others pyarrow decodes a file made of the page. For an unusual page there is no
array: the caller can always read the column in full, which reports what is wrong.
"""

from __future__ import annotations

import pyarrow as pa

from puffin.files.parquet.page_as_file import read_as_file
from puffin.files.parquet.page_codecs import CODECS, decompress
from puffin.files.parquet.page_header import Page, parse_page_header
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
from puffin.files.parquet.thrift import MALFORMED

MAX_PAGE_BYTES = 64 * 1024 * 1024  # compressed or not; writers stop their dictionaries at one or two MiB
_MALFORMED = (pa.ArrowException, OSError, *MALFORMED)

# The fewest bytes of a value.
_SMALLEST_VALUE = {INT32: 4, INT64: 8, FLOAT: 4, DOUBLE: 8, BYTE_ARRAY: 4, FIXED_LEN_BYTE_ARRAY: 1}


def has_readable_dictionary(chunk: ColumnChunk) -> bool:
    """Whether `read_dictionary_page` supports the chunk's type and the size of its page."""
    return chunk.physical_type in _SMALLEST_VALUE and 0 < chunk.dictionary_page_size <= MAX_PAGE_BYTES


def read_dictionary_page(source: pa.NativeFile, chunk: ColumnChunk, arrow_type: pa.DataType) -> pa.Array | None:
    """
    Read the dictionary of a chunk with `has_readable_dictionary`, in one ranged read and in its order.

    None if the page is unusual, so that the column has to be read in full. ``arrow_type`` is what pyarrow reads the
    column as, without extensions.
    """
    begin, end = chunk.dictionary_page_offset or 0, chunk.data_page_offset
    data = source.read_at(end - begin, begin)
    try:
        page = parse_page_header(data, begin, end, chunk.codec)
        smallest = page.num_values * _SMALLEST_VALUE[chunk.physical_type]
        is_dictionary = page.type == DICTIONARY_PAGE and page.encoding in (PLAIN, PLAIN_DICTIONARY)
        if not is_dictionary or page.end != end or not smallest <= page.size <= MAX_PAGE_BYTES:
            return None
        values = _values(chunk, arrow_type, page, data[page.offset - begin :])
    except _MALFORMED:
        return None
    return values if len(values) == page.num_values and values.null_count == 0 else None


def _values(chunk: ColumnChunk, arrow_type: pa.DataType, page: Page, payload: bytes) -> pa.Array:
    decode = plain_decoder(chunk.physical_type, arrow_type, page.num_values) if chunk.codec in CODECS else None
    if decode is None:
        return read_as_file(chunk, page.num_values, page.size, payload).cast(arrow_type)
    return decode(bytes(decompress(chunk.codec, payload, page.size)), page.num_values, arrow_type)
