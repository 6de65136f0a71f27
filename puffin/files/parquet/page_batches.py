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
from puffin.files.parquet.page_codecs import SNAPPY, UNCOMPRESSED, decompress, decompress_all, pooled_buffer
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
_Part: TypeAlias = tuple[bytes, Spans]  # of a file, and the pages in it

# Of a page, compressed or not; in later parts pages may have any size, since no other reader can take over there.
MAX_PAGE_BYTES = 32 * 1024 * 1024
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
    codecs: Sequence[int]  # of the chunks, by their places


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
        return words_at(self.content)

    @property
    def count(self) -> int:
        """The values of all pages."""
        return int(self.spans[:, 2].sum())


def page_batches(
    source: pa.NativeFile, chunks: Sequence[ColumnChunk], encodings: frozenset[int], *, is_collected: bool = False
) -> Iterator[PageBatch]:
    """
    The dictionary pages of chunks of one column, if they have any, and all data pages; the kernels have to be ready.

    Data pages have one of these encodings. Those of a single chunk come in order, and all pages in the first part of
    it, mostly all that there are, are known to be usual when the first batch comes. Several chunks, which have to fit
    in memory, come dictionary pages first, in the order of the chunks, then data pages by encoding, and all their pages
    are known to be usual before.

    ``is_collected`` says that all data pages have indices, and that each entry of the dictionaries occurs in a row. If
    there are as many entries as values, each has one row, and no data page comes.
    """
    codecs, max_level = [chunk.codec for chunk in chunks], chunks[0].leaf.max_definition_level
    if len(chunks) == 1:
        for data, table in _parts(source, chunks[0], 0, encodings):
            needed = _needed(table, chunks) if is_collected else table
            yield from _batches(_Pages(data, needed, codecs), max_level)
        return
    from puffin.kernels.pages import ENCODING, SIZE, TYPE

    parts = [part for place, chunk in enumerate(chunks) for part in _parts(source, chunk, place, encodings)]
    data, table = _joined(parts)
    if table[:, SIZE].sum() > MAX_PAGE_BYTES:
        raise ValueError(f"expected pages of {MAX_PAGE_BYTES} bytes at most, all together")
    if is_collected:
        table = _needed(table, chunks)
    is_data = table[:, TYPE] != DICTIONARY_PAGE
    order = np.lexsort((table[:, ENCODING] * is_data, is_data))
    if len(order):
        yield from _batches(_Pages(data, table[order], codecs), max_level)


def _needed(table: Spans, chunks: Sequence[ColumnChunk]) -> Spans:
    """The dictionary pages alone if each entry has one row, otherwise all pages."""
    from puffin.kernels.pages import NUM_NULLS, NUM_VALUES, TYPE

    is_data = table[:, TYPE] != DICTIONARY_PAGE
    rows, nulls = table[is_data, NUM_VALUES], table[is_data, NUM_NULLS]
    # Pages of version 1 do not tell their nulls; then there are as many entries only if there is no null.
    values = int(rows.sum() - np.maximum(nulls, 0).sum())
    has_all = int(rows.sum()) == sum(chunk.num_values for chunk in chunks)
    return table[~is_data] if has_all and int(table[~is_data, NUM_VALUES].sum()) == values else table


def _joined(parts: Sequence[_Part]) -> _Part:
    from puffin.kernels.pages import OFFSET, PAGE_FIELDS

    at = 0
    for data, table in parts:
        table[:, OFFSET] += at
        at += len(data)
    tables = [table for _, table in parts] or [np.empty((0, PAGE_FIELDS), np.int64)]
    return b"".join(data for data, _ in parts), np.concatenate(tables)


def _parts(source: pa.NativeFile, chunk: ColumnChunk, place: int, encodings: frozenset[int]) -> Iterator[_Part]:
    """The pages of a chunk, those in one part of the file after the other."""
    from puffin.kernels.pages import CHUNK, PAGE_FIELDS, find_pages

    at, end = chunk.first_page_offset, min(chunk.end, source.size())
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
        yield data, pages
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


def _batches(pages: _Pages, max_level: int) -> Iterator[PageBatch]:
    from puffin.kernels.pages import CHUNK, ENCODING, TYPE, alike_until, find_values

    first = 0
    while first < len(pages.table):
        kind, encoding = (int(pages.table[first, field]) for field in (TYPE, ENCODING))
        has_indices = kind != DICTIONARY_PAGE and encoding in DICTIONARY_ENCODINGS
        limits = (_INDEX_BYTES, _MOST_VALUES) if has_indices else (_BATCH_BYTES, BATCH_VALUES)
        stop = alike_until(pages.table, first, *limits)
        table = pages.table[first:stop]
        content, spans = _unpacked(_Pages(pages.data, table, pages.codecs), _PADDING if has_indices else 0)
        if kind != DICTIONARY_PAGE and find_values(np.frombuffer(content, np.uint8), spans, max_level) < 0:
            raise ValueError(f"expected pages with levels up to {max_level}")
        yield PageBatch(kind == DICTIONARY_PAGE, encoding, content, spans, table[:, CHUNK])
        first = stop


def _unpacked(pages: _Pages, padding: int) -> tuple[bytes | memoryview, Spans]:
    """Pages one after the other, each behind its levels, and their spans, as `find_values` takes them."""
    from puffin.kernels import pages as fields
    from puffin.kernels.codecs import SLACK, unpack_pages

    data, table, _ = pages
    codecs = set(pages.codecs)
    if (len(table) == 1 and not padding) or not (codecs == {SNAPPY} or codecs == {UNCOMPRESSED}):
        return _decompressed(pages, padding)
    is_snappy = SNAPPY in codecs
    size = int(table[:, (fields.SIZE, fields.LEVELS_SIZE)].sum())
    spans = np.empty((len(table), _SPAN_FIELDS), np.int64)
    out = pooled_buffer(size + SLACK)
    stored = np.frombuffer(data, np.uint8)
    if unpack_pages(stored, words_at(data), table, is_snappy, words_at(out), spans) != size:
        raise ValueError(f"expected pages of {size} bytes, all together")
    return memoryview(out).cast("B")[: size + padding], spans


def _decompressed(pages: _Pages, padding: int) -> tuple[bytes | memoryview, Spans]:
    """As `_unpacked`, with a library."""
    parts: list[bytes | memoryview] = []
    spans: list[tuple[int, int, int, int, int]] = []
    part, at = memoryview(pages.data), 0
    bodies = _bodies(pages)
    for kind, _, count, nulls, _, levels_size, offset, stored_size, size, is_compressed, chunk in pages.table.tolist():
        if levels_size:
            parts.append(part[offset - levels_size : offset])
        if bodies is None:
            stored = part[offset : offset + stored_size]
            parts.append(decompress(pages.codecs[chunk] if is_compressed else UNCOMPRESSED, stored, size))
        else:
            parts.append(bodies[len(spans)])
        end = at + levels_size + size
        spans.append((at, end, count, nulls, -1 if kind == DATA_PAGE else levels_size))
        at = end
    if padding:
        parts.append(bytes(padding))
    return parts[0] if len(parts) == 1 else b"".join(parts), np.array(spans)


def _bodies(pages: _Pages) -> list[memoryview] | None:
    """The pages without their levels, if they can be decompressed at once."""
    from puffin.kernels.pages import IS_COMPRESSED, OFFSET, SIZE, STORED_SIZE

    data, table, codecs = pages
    if len(set(codecs)) > 1 or not table[:, IS_COMPRESSED].all():
        return None
    return decompress_all(codecs[0], data, table[:, (OFFSET, STORED_SIZE)], table[:, SIZE])
