"""
The values of column chunks from their pages as they are: plain values, and dictionary indices, which are only counted.

Nulls are counted by the levels and take no place, so a batch has the values of its pages and nothing for other rows.
Writers begin with indices and go on with plain values when the dictionary is full; then its entries come last, with the
rows of each. Entries without rows are dropped, so we need not trust the writer to store no others. Chunks of one
column that are read together have one dictionary: the entries of all of theirs, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_types

from puffin.errors import CorruptDataFileError
from puffin.files.parquet.dictionary_counts import DICTIONARY_ENCODINGS, used_values
from puffin.files.parquet.hybrid import HybridCounts
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
from puffin.files.parquet.plain_pages import ENCODINGS, page_decoder
from puffin.files.parquet.thrift import MALFORMED
from puffin.kernels import kernels_ready
from puffin.values.column_chunk import Values

_OF_BOOLEANS = frozenset((PLAIN, RLE))
_OF_LEVELS = frozenset((RLE, BIT_PACKED))  # pages tell whether they have these levels


def has_readable_values(chunk: ColumnChunk, arrow_type: pa.DataType) -> bool:
    """Whether, by the footer, `read_page_values` supports the chunk and the type that pyarrow reads it as."""
    return (
        kernels_ready()
        and chunk.leaf.repetition_type in (REQUIRED, OPTIONAL)
        and has_readable_pages(chunk)
        and chunk.encodings <= readable_encodings(chunk) | _OF_LEVELS
        and (_is_boolean(chunk, arrow_type) or page_decoder(chunk, arrow_type) is not None)
    )


def read_page_values(
    source: pa.NativeFile, chunks: Sequence[ColumnChunk], arrow_type: pa.DataType, *, is_collected: bool = False
) -> Iterator[Values] | None:
    """
    The values of chunks of one column with `has_readable_values` and the rows of each, one each if they are not given.

    None if the chunks have to be read row by row, because a page is unusual. Once there was a value, a broken page is a
    CorruptDataFileError. All bytes of several chunks are held at once. ``is_collected`` is as in `page_batches`.
    """
    if _is_boolean(chunks[0], arrow_type):
        found = _booleans(source, chunks)
    else:
        found = _values(source, chunks, arrow_type, is_collected=is_collected)
    try:
        first = next(found, None)
    except MALFORMED:
        return None
    return iter(()) if first is None else _from(first, found)


def readable_encodings(chunk: ColumnChunk) -> frozenset[int]:
    """The encodings that data pages of the chunk may have."""
    return (
        _OF_BOOLEANS
        if chunk.physical_type == BOOLEAN
        else DICTIONARY_ENCODINGS | ENCODINGS.get(chunk.physical_type, frozenset())
    )


def _from(first: Values, rest: Iterator[Values]) -> Iterator[Values]:
    yield first
    try:
        yield from rest
    except MALFORMED as exc:
        raise CorruptDataFileError(f"reading pages: {exc}") from exc


def _values(
    source: pa.NativeFile, chunks: Sequence[ColumnChunk], arrow_type: pa.DataType, *, is_collected: bool
) -> Iterator[Values]:
    decode = page_decoder(chunks[0], arrow_type)
    if decode is None:
        raise ValueError(f"expected a type whose pages can be read, found {arrow_type}")
    dictionaries: list[pa.Array] = []
    places = np.zeros((len(chunks), 2), np.int64)  # of the entries of each chunk: the first one's, and their number
    rows: HybridCounts | None = None
    for pages in page_batches(source, chunks, readable_encodings(chunks[0]), is_collected=is_collected):
        if pages.is_dictionary:
            places[pages.chunks, 1] = pages.spans[:, 2]
            dictionaries += decode(pages)
        elif pages.encoding not in DICTIONARY_ENCODINGS:
            yield from map(Values, decode(pages))
        else:
            if rows is None:
                np.cumsum(places[:-1, 1], out=places[1:, 0])
                rows = HybridCounts(int(places[:, 1].sum()))
            rows.add_pages(pages.words_at, np.concatenate((pages.spans[:, :3], places[pages.chunks]), axis=1))
    if dictionaries and (rows is not None or is_collected):
        entries = pa.concat_arrays(dictionaries)
        yield Values(entries) if rows is None else Values(*used_values(entries, rows.totals()))


def _is_boolean(chunk: ColumnChunk, arrow_type: pa.DataType) -> bool:
    return chunk.physical_type == BOOLEAN and arrow_types.is_boolean(arrow_type)


def _booleans(source: pa.NativeFile, chunks: Sequence[ColumnChunk]) -> Iterator[Values]:
    rows = np.zeros(2, np.int64)
    for pages in page_batches(source, chunks, readable_encodings(chunks[0])):
        rows += _count_booleans(pages)
    yield Values(*used_values(pa.array([False, True]), rows))


def _count_booleans(pages: PageBatch) -> tuple[int, int]:
    from puffin.kernels.page_values import count_true

    true = count_true(pages.bytes, pages.spans, pages.encoding == RLE)
    if pages.is_dictionary or true < 0:
        raise ValueError("expected pages of booleans")
    return pages.count - true, true
