"""
The rows of a column chunk from its pages, with nulls, for files that pyarrow fails to read.

pyarrow has no decoder for some valid pages, such as DuckDB's of ints that are far apart, and ends a chunk too early at
pages without values. Python takes one page at a time here, so this is for what pyarrow does not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin.files.parquet.dictionary_counts import DICTIONARY_ENCODINGS
from puffin.files.parquet.hybrid import unpacked
from puffin.files.parquet.page_batches import PageBatch
from puffin.files.parquet.page_header import Page
from puffin.files.parquet.page_values import has_readable_values, readable_encodings
from puffin.files.parquet.pages import MAX_HELD_BYTES, ChunkPages, PageValues
from puffin.files.parquet.parquet_footer import PLAIN, ColumnChunk
from puffin.files.parquet.plain_pages import PageDecoder, page_decoder

_Indices: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

_MOST_BYTES = 256 * 1024 * 1024  # of the strings of a page: few indices may name a long one again and again
_MOST_ROWS = 1 << 24  # of a page: runs of equal levels take no bytes, so that its size does not limit them


def has_readable_rows(chunk: ColumnChunk, arrow_type: pa.DataType) -> bool:
    """Whether, by the footer, `read_page_rows` supports the chunk and the type that pyarrow reads it as."""
    is_at_root = len(chunk.leaf.path) == 1
    return is_at_root and has_readable_values(chunk, arrow_type) and page_decoder(chunk, arrow_type) is not None


def read_page_rows(source: pa.NativeFile, chunk: ColumnChunk, arrow_type: pa.DataType) -> Iterator[pa.Array]:
    """
    The value or null of each row of a chunk with `has_readable_rows`, page by page.

    Raises an error of `puffin.files.parquet.thrift.MALFORMED` or pyarrow's if a page is unusual or broken.
    """
    decode = page_decoder(chunk, arrow_type)
    if decode is None:
        raise ValueError(f"expected a type whose pages can be read, found {arrow_type}")
    pages = ChunkPages(source, chunk)
    dictionary: pa.Array | None = None
    encodings = readable_encodings(chunk)
    for page in pages.data_pages():
        if page.encoding not in encodings:
            raise ValueError(f"expected pages of encodings {sorted(encodings)}, found {page}")
        values = _opened(pages, page)
        if page.encoding not in DICTIONARY_ENCODINGS:
            array = _decoded(values, page.encoding, decode)
        else:
            if dictionary is None:
                first = pages.dictionary_page()
                dictionary = _decoded(_opened(pages, first), PLAIN, decode, is_dictionary=True)
            array = _entries(dictionary, _indices(values))
        yield array if values.count == page.num_values else array.take(_places(values, page))


def _opened(pages: ChunkPages, page: Page) -> PageValues:
    if page.num_values > _MOST_ROWS or page.size > MAX_HELD_BYTES:
        raise ValueError(f"expected pages of {_MOST_ROWS} rows and {MAX_HELD_BYTES} bytes at most, found {page}")
    return pages.open(page)


def _decoded(values: PageValues, encoding: int, decode: PageDecoder, is_dictionary: bool = False) -> pa.Array:
    content = values.stream.read(values.size)
    spans = np.array([(0, len(content), values.count, -1, -1)])
    return pa.concat_arrays(list(decode(PageBatch(is_dictionary, encoding, content, spans, np.zeros(1, np.int64)))))


def _entries(dictionary: pa.Array, indices: _Indices) -> pa.Array:
    if pa.types.is_large_string(dictionary.type) or pa.types.is_large_binary(dictionary.type):
        size = pc.sum(pc.binary_length(dictionary).take(pa.array(indices))).as_py() or 0
        if size > _MOST_BYTES:
            raise ValueError(f"expected a page of {_MOST_BYTES} bytes of strings at most, found {size}")
    return dictionary.take(pa.array(indices))


def _indices(values: PageValues) -> _Indices:
    if values.count == 0:
        return np.empty(0, np.int64)
    content = memoryview(values.stream.read(values.size))
    return unpacked(content[1:], values.count, content[0])


def _places(values: PageValues, page: Page) -> pa.Array:
    """The place of each row's value among those of the page; null for a null."""
    is_present = unpacked(values.levels, page.num_values, 1) == 1
    return pa.array(np.cumsum(is_present) - 1, mask=~is_present)
