"""
The pages of a column chunk, found and decompressed many at a time, for the compiled kernels.

Python would take longer for a page of a few KiB than for its values. So a kernel finds all pages in a part of the file,
and neighbours of one encoding become one batch. Anything unusual is a ValueError, as in `puffin.files.parquet.pages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.parquet.page_codecs import UNCOMPRESSED, decompress
from puffin.files.parquet.parquet_footer import DATA_PAGE, DICTIONARY_PAGE, RLE, ColumnChunk

Spans: TypeAlias = npt.NDArray[np.int64]
"""A row for each page: where its values begin, where it ends, their number, and two numbers for finding them."""

MAX_PAGE_BYTES = 32 * 1024 * 1024  # compressed or not
BATCH_VALUES = 1 << 16
_BATCH_BYTES = 4 * 1024 * 1024
_PART_BYTES = 8 * 1024 * 1024  # of a file that are read at a time, unless a page is longer
_MAX_OVERHEAD = 1 << 16  # of the header and the levels of the longest page, and what a codec may add
_PAGES_AT_ONCE = 1 << 10

_Page: TypeAlias = Sequence[int]  # as the kernel fills in


@dataclass(frozen=True, slots=True)
class PageBatch:
    """Neighbouring pages of one encoding."""

    is_dictionary: bool
    encoding: int
    content: bytes | memoryview
    spans: Spans

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.content, np.uint8)

    @property
    def count(self) -> int:
        """The values of all pages."""
        return int(self.spans[:, 2].sum())


def page_batches(source: pa.NativeFile, chunk: ColumnChunk, encodings: frozenset[int]) -> Iterator[PageBatch]:
    """
    The dictionary page of a chunk, if it has one, and all data pages in order; the kernels have to be ready.

    Data pages have one of these encodings. All pages in the first part of the chunk, mostly all that there are, are
    known to be usual when the first batch comes.
    """
    from puffin.kernels.pages import PAGE_FIELDS, find_pages

    at = chunk.data_page_offset - chunk.dictionary_page_size
    end = min(at + chunk.total_compressed_size, source.size())
    size = _PART_BYTES
    state = np.array((0, chunk.num_values))
    is_first = True
    while state[1] > 0:
        data = source.read_at(max(0, min(size, end - at)), at)
        table = np.empty((_PAGES_AT_ONCE, PAGE_FIELDS), np.int64)
        state[0] = 0
        found = find_pages(np.frombuffer(data, np.uint8), state, table)
        is_short = found < len(table) and state[1] > 0 and (at + len(data) >= end or len(data) < size)
        if found < 0 or is_short or (found == 0 and size > MAX_PAGE_BYTES + _MAX_OVERHEAD):
            raise ValueError(f"expected pages with {state[1]} more rows from offset {at} on")
        if found == 0:
            size = MAX_PAGE_BYTES + 2 * _MAX_OVERHEAD
            continue
        pages = table[:found].tolist()
        for page in pages:
            _check(page, chunk, encodings, may_be_dictionary=is_first)
            is_first = False
        yield from _batches(data, pages, chunk)
        at += int(state[0])
        size = _PART_BYTES


def _check(page: _Page, chunk: ColumnChunk, encodings: frozenset[int], *, may_be_dictionary: bool) -> None:
    kind, encoding, _, _, levels_encoding, _, _, stored_size, size, _ = page
    is_usual = may_be_dictionary if kind == DICTIONARY_PAGE else encoding in encodings
    is_usual &= levels_encoding == RLE or chunk.leaf.max_definition_level == 0
    if not (is_usual and size <= MAX_PAGE_BYTES and stored_size <= MAX_PAGE_BYTES + _MAX_OVERHEAD):
        raise ValueError(f"expected a page of encoding {sorted(encodings)}, found {page}")


def _batches(data: bytes, pages: Sequence[_Page], chunk: ColumnChunk) -> Iterator[PageBatch]:
    first = 0
    values = held = 0
    for i, page in enumerate(pages):
        is_alike = page[0] == pages[first][0] and page[1] == pages[first][1]
        if i > first and not (is_alike and values + page[2] <= BATCH_VALUES and held + page[8] <= _BATCH_BYTES):
            yield _batch(data, pages[first:i], chunk)
            first, values, held = i, 0, 0
        values += page[2]
        held += page[8]
    yield _batch(data, pages[first:], chunk)


def _batch(data: bytes, pages: Sequence[_Page], chunk: ColumnChunk) -> PageBatch:
    parts: list[bytes | memoryview] = []
    spans = np.empty((len(pages), 5), np.int64)
    view = memoryview(data)
    at = 0
    for i, (kind, _, count, nulls, _, levels_size, offset, stored_size, size, is_compressed) in enumerate(pages):
        if levels_size:
            parts.append(view[offset - levels_size : offset])
        stored = view[offset : offset + stored_size]
        parts.append(decompress(chunk.codec if is_compressed else UNCOMPRESSED, stored, size))
        end = at + levels_size + size
        spans[i] = at, end, count, nulls, -1 if kind == DATA_PAGE else levels_size
        at = end
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    is_dictionary = pages[0][0] == DICTIONARY_PAGE
    batch = PageBatch(is_dictionary, pages[0][1], content, spans)
    if not is_dictionary:
        _find_values(batch, chunk)
    return batch


def _find_values(batch: PageBatch, chunk: ColumnChunk) -> None:
    from puffin.kernels.pages import find_values

    if find_values(batch.bytes, batch.spans, chunk.leaf.max_definition_level) < 0:
        raise ValueError(f"expected pages with levels up to {chunk.leaf.max_definition_level}")
