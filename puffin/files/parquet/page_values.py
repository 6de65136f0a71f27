"""
The values of a column chunk from its pages as they are: plain values, and dictionary indices, which are only counted.

Nulls are counted by the levels and take no place, so a batch has the values of its pages and nothing for other rows.
Writers begin with indices and go on with plain values when the dictionary is full; then its entries come last, with the
rows of each. Entries without rows are dropped, so we need not trust the writer to store no others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_types

from puffin.errors import CorruptDataFileError
from puffin.files.parquet.dictionary_counts import DICTIONARY_ENCODINGS, used_values
from puffin.files.parquet.hybrid import HybridCounts, words_at_every_byte
from puffin.files.parquet.page_batches import PageBatch, page_batches
from puffin.files.parquet.pages import has_readable_pages
from puffin.files.parquet.parquet_footer import (
    BIT_PACKED,
    BOOLEAN,
    OPTIONAL,
    PLAIN,
    REQUIRED,
    RLE,
    ColumnChunk,
)
from puffin.files.parquet.plain_pages import page_decoder
from puffin.files.parquet.thrift import MALFORMED
from puffin.kernels import kernels_ready
from puffin.values.column_chunk import Values

_ENCODINGS = DICTIONARY_ENCODINGS | {PLAIN}
_OF_BOOLEANS = frozenset((PLAIN, RLE))
_OF_LEVELS = frozenset((RLE, BIT_PACKED))  # pages tell whether they have these levels


def has_readable_values(chunk: ColumnChunk, arrow_type: pa.DataType) -> bool:
    """Whether, by the footer, `read_page_values` supports the chunk and the type that pyarrow reads it as."""
    return (
        kernels_ready()
        and chunk.leaf.repetition_type in (REQUIRED, OPTIONAL)
        and has_readable_pages(chunk)
        and chunk.encodings <= _ENCODINGS | _OF_LEVELS
        and (_is_boolean(chunk, arrow_type) or page_decoder(chunk, arrow_type) is not None)
    )


def read_page_values(source: pa.NativeFile, chunk: ColumnChunk, arrow_type: pa.DataType) -> Iterator[Values] | None:
    """
    The values of a chunk with `has_readable_values` and the rows of each, one each if they are not given.

    None if the chunk has to be read row by row, because a page is unusual. Once there was a value, a broken page is a
    CorruptDataFileError.
    """
    found = _booleans(source, chunk) if _is_boolean(chunk, arrow_type) else _values(source, chunk, arrow_type)
    try:
        first = next(found, None)
    except MALFORMED:
        return None
    return iter(()) if first is None else _from(first, found)


def _from(first: Values, rest: Iterator[Values]) -> Iterator[Values]:
    yield first
    try:
        yield from rest
    except MALFORMED as exc:
        raise CorruptDataFileError(f"reading pages: {exc}") from exc


def _values(source: pa.NativeFile, chunk: ColumnChunk, arrow_type: pa.DataType) -> Iterator[Values]:
    decode = page_decoder(chunk, arrow_type)
    if decode is None:
        raise ValueError(f"expected a type whose pages can be read, found {arrow_type}")
    dictionary, rows = None, HybridCounts(0)
    for pages in page_batches(source, chunk, _ENCODINGS):
        if pages.is_dictionary:
            dictionary = pa.concat_arrays(decode(pages))
            rows = HybridCounts(len(dictionary))
        elif pages.encoding == PLAIN:
            yield from map(Values, decode(pages))
        else:
            rows.add_pages(words_at_every_byte(pages.content), pages.spans)
    if dictionary is not None:
        yield Values(*used_values(dictionary, rows.totals()))


def _is_boolean(chunk: ColumnChunk, arrow_type: pa.DataType) -> bool:
    return chunk.physical_type == BOOLEAN and arrow_types.is_boolean(arrow_type)


def _booleans(source: pa.NativeFile, chunk: ColumnChunk) -> Iterator[Values]:
    rows = np.zeros(2, np.int64)
    for pages in page_batches(source, chunk, _OF_BOOLEANS):
        rows += _count_booleans(pages)
    yield Values(*used_values(pa.array([False, True]), rows))


def _count_booleans(pages: PageBatch) -> tuple[int, int]:
    from puffin.kernels.pages import count_true

    true = count_true(pages.bytes, pages.spans, pages.encoding == RLE)
    if pages.is_dictionary or true < 0:
        raise ValueError("expected pages of booleans")
    return pages.count - true, true
