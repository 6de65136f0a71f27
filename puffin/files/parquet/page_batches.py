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
from puffin.files.parquet.page_codecs import UNCOMPRESSED, decompress
from puffin.files.parquet.parquet_footer import (
    DATA_PAGE,
    DELTA_BINARY_PACKED,
    DELTA_BYTE_ARRAY,
    DELTA_LENGTH_BYTE_ARRAY,
    DICTIONARY_PAGE,
    RLE,
    ColumnChunk,
)

Spans: TypeAlias = npt.NDArray[np.int64]
"""A row for each page: where its values begin, where it ends, their number, and two numbers for finding them."""

MAX_PAGE_BYTES = 32 * 1024 * 1024  # compressed or not; behind the first part, where nothing else can read them, any
_MOST_PAGE_BYTES = (1 << 31) - 1  # that a header can tell
BATCH_VALUES = 1 << 16
_BATCH_BYTES = 4 * 1024 * 1024
_INDEX_BYTES = 512 * 1024  # indices are only counted, and a batch takes Python as long as counting 100,000 of them
_PART_BYTES = 8 * 1024 * 1024  # of a file that are read at a time, unless a page is longer
_MAX_OVERHEAD = 1 << 16  # of the header and the levels of the longest page, and what a codec may add
_PAGES_AT_ONCE = 1 << 10
_PADDING = bytes(8)
_MAX_DELTAS = 1 << 24  # in a page: those of no bits take no bytes, so that its size does not limit them
_DELTAS = frozenset((DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY))

_Fields: TypeAlias = Sequence[int]  # of a page, as the kernel fills in


class _Page(NamedTuple):
    """A page in the bytes of a part of its chunk, and the place of the chunk among those that are read together."""

    part: memoryview
    chunk: int
    fields: _Fields


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
    chunks: Sequence[int]

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.content, np.uint8)

    @property
    def words_at(self) -> npt.NDArray[np.uint64]:
        """The little-endian word at each byte of pages of indices, and at the end, for kernels."""
        return np.ndarray((len(self.content) - len(_PADDING) + 1,), np.uint64, self.bytes, strides=(1,))

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
    found = [
        page
        for place, chunk in enumerate(chunks)
        for pages in _parts(source, chunk, place, encodings)
        for page in pages
    ]
    found.sort(key=lambda page: (page.fields[0] != DICTIONARY_PAGE, page.fields[1]))
    if sum(page.fields[8] for page in found) > MAX_PAGE_BYTES:
        raise ValueError(f"expected pages of {MAX_PAGE_BYTES} bytes at most, all together")
    if found:
        yield from _batches(found, chunks)


def _parts(
    source: pa.NativeFile, chunk: ColumnChunk, place: int, encodings: frozenset[int]
) -> Iterator[Sequence[_Page]]:
    """The pages of a chunk, those in one part of the file after the other."""
    from puffin.kernels.pages import PAGE_FIELDS, find_pages

    at = chunk.data_page_offset - chunk.dictionary_page_size
    end = min(at + chunk.total_compressed_size, source.size())
    size, most = _PART_BYTES, MAX_PAGE_BYTES
    state = np.array((0, chunk.num_values))
    table = np.empty((_PAGES_AT_ONCE, PAGE_FIELDS), np.int64)
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
        part = memoryview(data)
        pages = [_Page(part, place, fields) for fields in table[:found].tolist()]
        for page in pages:
            _check(page.fields, chunk, encodings, most, may_be_dictionary=is_first)
            is_first = False
        yield pages
        at += int(state[0])
        size, most = _PART_BYTES, _MOST_PAGE_BYTES


def _check(
    fields: _Fields, chunk: ColumnChunk, encodings: frozenset[int], most: int, *, may_be_dictionary: bool
) -> None:
    kind, encoding, _, _, levels_encoding, _, _, stored_size, size, _ = fields
    is_usual = may_be_dictionary if kind == DICTIONARY_PAGE else encoding in encodings
    is_usual &= levels_encoding == RLE or chunk.leaf.max_definition_level == 0
    is_usual &= fields[2] <= _MAX_DELTAS or encoding not in _DELTAS
    if not (is_usual and size <= most and stored_size <= most + _MAX_OVERHEAD):
        raise ValueError(f"expected a page of encoding {sorted(encodings)}, found {fields}")


def _batches(pages: Sequence[_Page], chunks: Sequence[ColumnChunk]) -> Iterator[PageBatch]:
    first = 0
    values = held = 0
    for i, page in enumerate(pages):
        fields, others = page.fields, pages[first].fields
        is_alike = fields[0] == others[0] and fields[1] == others[1]
        has_indices = fields[0] != DICTIONARY_PAGE and fields[1] in DICTIONARY_ENCODINGS
        most = _INDEX_BYTES if has_indices else _BATCH_BYTES
        fits = held + fields[8] <= most and (has_indices or values + fields[2] <= BATCH_VALUES)
        if i > first and not (is_alike and fits):
            yield _batch(pages[first:i], chunks)
            first, values, held = i, 0, 0
        values += fields[2]
        held += fields[8]
    yield _batch(pages[first:], chunks)


def _batch(pages: Sequence[_Page], chunks: Sequence[ColumnChunk]) -> PageBatch:
    parts: list[bytes | memoryview] = []
    spans = []
    at = 0
    for part, chunk, fields in pages:
        kind, _, count, nulls, _, levels_size, offset, stored_size, size, is_compressed = fields
        if levels_size:
            parts.append(part[offset - levels_size : offset])
        stored = part[offset : offset + stored_size]
        parts.append(decompress(chunks[chunk].codec if is_compressed else UNCOMPRESSED, stored, size))
        end = at + levels_size + size
        spans.append((at, end, count, nulls, -1 if kind == DATA_PAGE else levels_size))
        at = end
    kind, encoding = pages[0].fields[:2]
    is_dictionary = kind == DICTIONARY_PAGE
    if not is_dictionary and encoding in DICTIONARY_ENCODINGS:
        parts.append(_PADDING)
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    batch = PageBatch(is_dictionary, encoding, content, np.array(spans), [page.chunk for page in pages])
    if not is_dictionary:
        _find_values(batch, chunks[0])
    return batch


def _find_values(batch: PageBatch, chunk: ColumnChunk) -> None:
    from puffin.kernels.pages import find_values

    if find_values(batch.bytes, batch.spans, chunk.leaf.max_definition_level) < 0:
        raise ValueError(f"expected pages with levels up to {chunk.leaf.max_definition_level}")
