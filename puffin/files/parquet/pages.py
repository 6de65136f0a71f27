"""
The pages of a column chunk without repetition, one at a time, down to the encoded bytes of their values.

The definition level of a row counts the fields on the path to the leaf that exist; the highest level is a value, any
lower one a null. A leaf has no levels if it and all structs around it are required.

Only one page is held at a time, and a large page only in part. Anything unusual is a ValueError, and the caller then
reads the column in full: pyarrow supports more kinds of pages, or reports what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from puffin.files.parquet.hybrid import HybridCounts
from puffin.files.parquet.page_codecs import CODECS, Stream, decompress, open_stream, read_exactly
from puffin.files.parquet.page_header import Page, parse_page_header
from puffin.files.parquet.parquet_footer import DATA_PAGE, DICTIONARY_PAGE, RLE, ColumnChunk
from puffin.files.parquet.thrift import MALFORMED
from puffin.files.varints import varint

MAX_HELD_BYTES = 32 * 1024 * 1024  # the largest page to decompress whole
_READ_AHEAD = 1024 * 1024
_HEADER_BYTES, _MAX_HEADER_BYTES = 1 << 12, 1 << 24  # the statistics in a header may be long
_LEVELS_SIZE_BYTES = 4


@dataclass(frozen=True, slots=True)
class PageValues:
    """
    The encoded values of a page: their number, without nulls, and a stream of ``size`` bytes.

    Attributes:
        levels: Encoded; empty if the chunk has none.
    """

    count: int
    size: int
    stream: Stream
    levels: bytes = b""


def has_readable_pages(chunk: ColumnChunk) -> bool:
    """Whether `ChunkPages` supports the chunk, by the footer."""
    return chunk.leaf.max_repetition_level == 0 and chunk.codec in CODECS and chunk.data_page_offset > 0


class ChunkPages:
    """Reads the pages of a chunk with `has_readable_pages`."""

    def __init__(self, source: pa.NativeFile, chunk: ColumnChunk) -> None:
        self._source = source
        self._chunk = chunk
        self._max_level = chunk.leaf.max_definition_level
        self._highest = self._max_level.to_bytes((self._max_level.bit_length() + 7) // 8, "little")
        self._begin = chunk.first_page_offset
        self._end = min(chunk.end, source.size())
        self._held, self._held_from = b"", 0

    def dictionary_page(self) -> Page:
        page = self._page(self._begin)
        if page.type != DICTIONARY_PAGE:
            raise ValueError(f"expected a dictionary page at offset {self._begin}")
        return page

    def data_pages(self) -> Iterator[Page]:
        """The data pages in order, up to the chunk's last row."""
        at, left = self._begin, self._chunk.num_values
        while left > 0:
            page = self._page(at)
            if page.type == DICTIONARY_PAGE and at == self._begin:  # some footers say that data pages begin here
                at = page.end
                continue
            if page.type == DICTIONARY_PAGE or page.num_values > left:
                raise ValueError(f"expected a data page of {left} rows at most at offset {at}")
            yield page
            at, left = page.end, left - page.num_values

    def open(self, page: Page) -> PageValues:
        """Decompress a page up to its values; values beyond `MAX_HELD_BYTES` are decompressed as they are read."""
        levels = self._read(page.offset, page.levels_size)
        stream, size = self._body(page), page.size
        if page.type == DICTIONARY_PAGE or self._max_level == 0:
            return PageValues(page.num_values, size, stream)
        if page.levels_encoding != RLE:
            raise ValueError(f"expected levels of encoding {RLE}, found {page.levels_encoding}")
        if page.type == DATA_PAGE:
            levels_size = int.from_bytes(read_exactly(stream, _LEVELS_SIZE_BYTES, size), "little")
            size -= _LEVELS_SIZE_BYTES
            levels = read_exactly(stream, levels_size, size)
            size -= levels_size
        present = self._count_present(levels, page.num_values)
        if page.num_nulls is not None and page.num_nulls != page.num_values - present:
            raise ValueError(f"expected {page.num_nulls} nulls, found {page.num_values - present}")
        return PageValues(present, size, stream, levels)

    def _body(self, page: Page) -> Stream:
        if page.size > MAX_HELD_BYTES:
            return open_stream(page.codec, self._source, page.body_offset, page.compressed_size, page.size)
        stored = self._read(page.body_offset, page.compressed_size)
        stream: Stream = pa.BufferReader(decompress(page.codec, stored, page.size))
        return stream

    def _count_present(self, levels: bytes, num_values: int) -> int:
        if levels.startswith(varint(num_values << 1) + self._highest):  # a page without nulls: a single run
            return num_values
        counts = HybridCounts(self._max_level + 1)
        counts.add(levels, num_values, self._max_level.bit_length())
        return int(counts.totals()[self._max_level])

    def _page(self, at: int) -> Page:
        size = _HEADER_BYTES
        while True:
            data = self._read(at, size)
            try:
                return parse_page_header(data, at, self._end, self._chunk.codec)
            except MALFORMED as exc:
                if len(data) < size or size >= _MAX_HEADER_BYTES:
                    raise ValueError(f"expected the header of a page at offset {at}: {exc}") from exc
                size <<= 4

    def _read(self, offset: int, size: int) -> bytes:
        begin = offset - self._held_from
        if not 0 <= begin <= begin + size <= len(self._held):
            held = self._held[begin:] if begin >= 0 else b""
            at = offset + len(held)
            missing = max(size - len(held), _READ_AHEAD)
            self._held = held + self._source.read_at(max(0, min(missing, self._end - at)), at)
            self._held_from, begin = offset, 0
        return self._held[begin : begin + size]
