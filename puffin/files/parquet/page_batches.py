"""
The pages of a column chunk, found and decompressed many at a time, for the compiled kernels.

Python would take longer for a page of a few KiB than for its values. So a kernel finds all pages in a part of the file,
and neighbours of one encoding become one batch. Pages of small chunks in neighbouring row groups are put together as
well. Anything unusual is a ValueError, as in `puffin.files.parquet.pages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.parquet.dictionary_counts import DICTIONARY_ENCODINGS
from puffin.files.parquet.page_codecs import SNAPPY, UNCOMPRESSED, decompress, decompress_all
from puffin.files.parquet.parquet_footer import (
    DATA_PAGE,
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    DICTIONARY_PAGE,
    ColumnChunk,
)
from puffin.values.serialized import words_at

Spans: TypeAlias = npt.NDArray[np.int64]
"""A row for each page: where its values begin, where it ends, their number, and two numbers for finding them."""

MAX_PAGE_BYTES = 32 * 1024 * 1024  # compressed or not; behind the first part, where nothing else can read them, any
_MOST_PAGE_BYTES = (1 << 31) - 1  # that a header can tell
BATCH_VALUES = 1 << 17
_BATCH_BYTES = 4 * 1024 * 1024
_INDEX_BYTES = 512 * 1024  # indices are only counted, and a batch takes Python as long as counting 100,000 of them
_PART_BYTES = 8 * 1024 * 1024  # of a file that are read at a time, unless a page is longer
_MAX_OVERHEAD = 1 << 16  # of the header and the levels of the longest page, and what a codec may add
_PAGES_AT_ONCE = 1 << 10
_PADDING = 8  # bytes
_MOST_VALUES = 1 << 62
_SPAN_FIELDS = 5
_MAX_DELTAS = 1 << 24  # in a page: those of no bits take no bytes, so that its size does not limit them
_DELTAS = frozenset((DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY))


class _Pages(NamedTuple):
    """Pages in the bytes of a part of a file, or of several chunks one after the other."""

    data: bytes
    table: Spans  # a row for each page, with the fields of `puffin.kernels.pages`


@dataclass(frozen=True, slots=True)
class PageBatch:
    """
    Neighbouring pages of one encoding.

    Attributes:
        content: The pages one after the other; behind indices there are eight bytes of padding.
        chunks: For each page the place of its chunk.
    """

    is_dictionary: bool
    encoding: int
    content: bytes | memoryview
    spans: Spans
    chunks: npt.NDArray[np.int64]

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.content, np.uint8)

    @property
    def words_at(self) -> npt.NDArray[np.uint64]:
        """The little-endian word at each byte of pages of indices, and at the end, for kernels."""
        return np.ndarray((len(self.content) - _PADDING + 1,), np.uint64, self.bytes, strides=(1,))

    @property
    def count(self) -> int:
        """The values of all pages."""
        return int(self.spans[:, 2].sum())


def page_batches(
    source: pa.NativeFile, chunks: Sequence[ColumnChunk], encodings: frozenset[int]
) -> Iterator[PageBatch]:
    """
    The dictionary pages of chunks of one column, if they have any, and all data pages; the kernels have to be ready.

    Data pages have one of these encodings. Those of a single chunk come in order, and all pages in the first part of
    it, mostly all that there are, are known to be usual when the first batch comes. Several chunks, which have to fit
    in memory, come dictionary pages first, then by encoding, and all their pages are known to be usual before.
    """
    if len(chunks) == 1:
        for pages in _parts(source, chunks[0], 0, encodings):
            yield from _batches(pages, chunks)
        return
    from puffin.kernels.pages import ENCODING, SIZE, TYPE

    pages = _joined([pages for place, chunk in enumerate(chunks) for pages in _parts(source, chunk, place, encodings)])
    if pages.table[:, SIZE].sum() > MAX_PAGE_BYTES:
        raise ValueError(f"expected pages of {MAX_PAGE_BYTES} bytes at most, all together")
    order = np.lexsort((pages.table[:, ENCODING], pages.table[:, TYPE] != DICTIONARY_PAGE))
    if len(order):
        yield from _batches(_Pages(pages.data, pages.table[order]), chunks)


def _joined(parts: Sequence[_Pages]) -> _Pages:
    from puffin.kernels.pages import OFFSET, PAGE_FIELDS

    at = 0
    for data, table in parts:
        table[:, OFFSET] += at
        at += len(data)
    tables = [pages.table for pages in parts] or [np.empty((0, PAGE_FIELDS), np.int64)]
    return _Pages(b"".join(pages.data for pages in parts), np.concatenate(tables))


def _parts(source: pa.NativeFile, chunk: ColumnChunk, place: int, encodings: frozenset[int]) -> Iterator[_Pages]:
    """The pages of a chunk, those in one part of the file after the other."""
    from puffin.kernels.pages import CHUNK, PAGE_FIELDS, find_pages

    at = chunk.data_page_offset - chunk.dictionary_page_size
    end = min(at + chunk.total_compressed_size, source.size())
    size, most = _PART_BYTES, MAX_PAGE_BYTES
    state = np.array((0, chunk.num_values))
    table = np.empty((_PAGES_AT_ONCE, PAGE_FIELDS), np.int64)
    table[:, CHUNK] = place
    is_first = True
    while state[1] > 0:
        data = source.read_at(max(0, min(size, end - at)), at)
        state[0] = 0
        found = find_pages(np.frombuffer(data, np.uint8), state, table)
        is_short = found < len(table) and state[1] > 0 and (at + len(data) >= end or len(data) < size)
        if found < 0 or is_short or (found == 0 and size > most + _MAX_OVERHEAD):
            raise ValueError(f"expected pages with {state[1]} more rows from offset {at} on")
        if found == 0:
            size = max(4 * size, MAX_PAGE_BYTES + 2 * _MAX_OVERHEAD)
            continue
        pages = table[:found].copy()
        _check(pages, chunk, encodings, most, may_be_dictionary=is_first)
        yield _Pages(data, pages)
        is_first = False
        at += int(state[0])
        size, most = _PART_BYTES, _MOST_PAGE_BYTES


def _check(table: Spans, chunk: ColumnChunk, encodings: frozenset[int], most: int, *, may_be_dictionary: bool) -> None:
    from puffin.kernels import pages as fields

    has_levels = chunk.leaf.max_definition_level > 0
    unusual = fields.first_unusual(table, np.array(list(encodings)), has_levels, may_be_dictionary)
    if unusual >= 0:
        raise ValueError(f"expected pages of encodings {sorted(encodings)}, found {table[unusual].tolist()}")
    if table[:, fields.SIZE].max() > most or table[:, fields.STORED_SIZE].max() > most + _MAX_OVERHEAD:
        raise ValueError(f"expected pages of {most} bytes at most, found larger ones")
    if table[:, fields.NUM_VALUES].max() > _MAX_DELTAS and not _DELTAS.isdisjoint(table[:, fields.ENCODING].tolist()):
        raise ValueError(f"expected pages of {_MAX_DELTAS} deltas at most, found more")


def _batches(pages: _Pages, chunks: Sequence[ColumnChunk]) -> Iterator[PageBatch]:
    from puffin.kernels.pages import CHUNK, ENCODING, TYPE, alike_until

    first = 0
    while first < len(pages.table):
        kind, encoding = (int(pages.table[first, field]) for field in (TYPE, ENCODING))
        has_indices = kind != DICTIONARY_PAGE and encoding in DICTIONARY_ENCODINGS
        limits = (_INDEX_BYTES, _MOST_VALUES) if has_indices else (_BATCH_BYTES, BATCH_VALUES)
        stop = alike_until(pages.table, first, *limits)
        table = pages.table[first:stop]
        content, spans = _unpacked(_Pages(pages.data, table), chunks, _PADDING if has_indices else 0)
        batch = PageBatch(kind == DICTIONARY_PAGE, encoding, content, spans, table[:, CHUNK])
        if not batch.is_dictionary:
            _find_values(batch, chunks[0])
        yield batch
        first = stop


def _unpacked(pages: _Pages, chunks: Sequence[ColumnChunk], padding: int) -> tuple[bytes | memoryview, Spans]:
    """Pages one after the other, each behind its levels, and their spans, as `find_values` takes them."""
    from puffin.kernels import pages as fields
    from puffin.kernels.codecs import SLACK, unpack_pages

    data, table = pages
    codecs = {chunk.codec for chunk in chunks}
    if (len(table) == 1 and not padding) or not (codecs == {SNAPPY} or codecs == {UNCOMPRESSED}):
        return _decompressed(pages, chunks, padding)
    is_snappy = SNAPPY in codecs
    size = int(table[:, (fields.SIZE, fields.LEVELS_SIZE)].sum())
    spans = np.empty((len(table), _SPAN_FIELDS), np.int64)
    # Arrow's memory pool keeps what is freed; memory that is new each time may take longer than to decompress.
    out = pa.allocate_buffer(size + SLACK)
    stored = np.frombuffer(data, np.uint8)
    if unpack_pages(stored, words_at(data), table, is_snappy, words_at(out), spans) != size:
        raise ValueError(f"expected pages of {size} bytes, all together")
    return memoryview(out).cast("B")[: size + padding], spans


def _decompressed(pages: _Pages, chunks: Sequence[ColumnChunk], padding: int) -> tuple[bytes | memoryview, Spans]:
    """As `_unpacked`, with a library."""
    parts: list[bytes | memoryview] = []
    spans: list[tuple[int, int, int, int, int]] = []
    part, at = memoryview(pages.data), 0
    bodies = _bodies(pages, chunks)
    for kind, _, count, nulls, _, levels_size, offset, stored_size, size, is_compressed, chunk in pages.table.tolist():
        if levels_size:
            parts.append(part[offset - levels_size : offset])
        if bodies is None:
            stored = part[offset : offset + stored_size]
            parts.append(decompress(chunks[chunk].codec if is_compressed else UNCOMPRESSED, stored, size))
        else:
            parts.append(bodies[len(spans)])
        end = at + levels_size + size
        spans.append((at, end, count, nulls, -1 if kind == DATA_PAGE else levels_size))
        at = end
    if padding:
        parts.append(bytes(padding))
    return parts[0] if len(parts) == 1 else b"".join(parts), np.array(spans)


def _bodies(pages: _Pages, chunks: Sequence[ColumnChunk]) -> list[memoryview] | None:
    """The pages without their levels, if they can be decompressed at once."""
    from puffin.kernels.pages import IS_COMPRESSED, OFFSET, SIZE, STORED_SIZE

    data, table = pages
    codecs = {chunk.codec for chunk in chunks}
    if len(codecs) > 1 or not table[:, IS_COMPRESSED].all():
        return None
    return decompress_all(codecs.pop(), data, table[:, (OFFSET, STORED_SIZE)], table[:, SIZE])


def _find_values(batch: PageBatch, chunk: ColumnChunk) -> None:
    from puffin.kernels.pages import find_values

    if find_values(batch.bytes, batch.spans, chunk.leaf.max_definition_level) < 0:
        raise ValueError(f"expected pages with levels up to {chunk.leaf.max_definition_level}")
