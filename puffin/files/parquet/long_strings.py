"""
Read the strings of a column chunk whose pages are large because its strings are long.

Writers only check the size of a page or dictionary now and then: 500 strings of 1 MB make a page of 500 MB. pyarrow
holds such a page compressed and uncompressed, which takes 1.1 GB. This module yields its strings while decompressing,
which takes 80 MB. The dictionary page comes last, after the indices are counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from puffin.errors import CorruptDataFileError
from puffin.files.parquet.dictionary_counts import DICTIONARY_ENCODINGS, Counts, count_indices, used_values
from puffin.files.parquet.hybrid import HybridCounts
from puffin.files.parquet.page_codecs import read_exactly, read_to_end
from puffin.files.parquet.page_header import Page
from puffin.files.parquet.pages import ChunkPages, PageValues, has_readable_pages
from puffin.files.parquet.parquet_footer import BIT_PACKED, BYTE_ARRAY, PLAIN, RLE, ColumnChunk
from puffin.files.parquet.thrift import MALFORMED
from puffin.values.value_bytes import binary_array

PIECE_BYTES = 16 * 1024 * 1024  # the most bytes of a piece with several strings
MIN_CHUNK_BYTES = 64 * 1024 * 1024  # pyarrow may hold every page of a smaller chunk
MIN_AVERAGE_BYTES = 4096  # pyarrow reads shorter strings faster, and their pages do not grow large

_ENCODINGS = DICTIONARY_ENCODINGS | {PLAIN, RLE, BIT_PACKED}
_LENGTH_BYTES = 4


def has_long_strings(chunk: ColumnChunk) -> bool:
    """Whether, by the footer, the chunk has long strings that `read_long_strings` supports."""
    return (
        chunk.physical_type == BYTE_ARRAY
        and has_readable_pages(chunk)
        and chunk.encodings <= _ENCODINGS
        and chunk.total_uncompressed_size >= max(MIN_CHUNK_BYTES, MIN_AVERAGE_BYTES * chunk.num_values)
    )


def read_long_strings(source: pa.NativeFile, chunk: ColumnChunk) -> Iterator[tuple[pa.Array, Counts]]:
    """
    Read the strings of a chunk with `has_long_strings` in pieces of bounded bytes.

    Returns strings, as large_binary and without nulls, and the rows of each, at least one; the rows of a string are the
    sum over all its occurrences. CorruptDataFileError if a page is broken or contradicts the footer.
    """
    try:
        yield from _read(ChunkPages(source, chunk))
    except MALFORMED as exc:
        raise CorruptDataFileError(f"reading long strings: {exc}") from exc


def _read(pages: ChunkPages) -> Iterator[tuple[pa.Array, Counts]]:
    dictionary: Page | None = None
    rows = HybridCounts(0)
    for page in pages.data_pages():
        if page.encoding in DICTIONARY_ENCODINGS:
            if dictionary is None:
                dictionary = pages.dictionary_page()
                rows = HybridCounts(_checked(dictionary.num_values, dictionary.size))
            count_indices(pages.open(page), rows)
        elif page.encoding == PLAIN:
            yield from _pieces(pages.open(page), None)
        else:
            raise ValueError(f"expected values or indices at offset {page.offset}, found encoding {page.encoding}")
    if dictionary is not None:
        yield from _pieces(pages.open(dictionary), rows.totals())


def _pieces(values: PageValues, counts: Counts | None) -> Iterator[tuple[pa.Array, Counts]]:
    """The strings of a page and the rows of each; without counts, each string is one row."""
    strings: list[bytes] = []
    left, held = values.size, 0
    for i in range(_checked(values.count, values.size)):
        length = int.from_bytes(read_exactly(values.stream, _LENGTH_BYTES, left), "little")
        left -= _LENGTH_BYTES
        string = read_exactly(values.stream, length, left)
        left -= length
        length += _LENGTH_BYTES  # empty strings take memory too
        if strings and held + length > PIECE_BYTES:
            piece = _piece(strings, counts, i)
            strings, held = [], 0
            yield piece
        strings.append(string)
        held += length
    if strings:
        yield _piece(strings, counts, values.count)
    read_to_end(values.stream, left)


def _checked(count: int, size: int) -> int:
    if count * _LENGTH_BYTES > size:
        raise ValueError(f"expected {count} strings in a page, found {size} bytes")
    return count


def _piece(strings: list[bytes], counts: Counts | None, end: int) -> tuple[pa.Array, Counts]:
    """The strings before place ``end`` of the page."""
    array = binary_array(np.array(list(map(len, strings)), np.int64), np.frombuffer(b"".join(strings), np.uint8))
    if counts is None:
        return array, np.ones(len(strings), np.int64)
    return used_values(array, counts[end - len(strings) : end])
