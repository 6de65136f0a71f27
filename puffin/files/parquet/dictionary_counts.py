"""
The values of a dictionary-encoded column chunk and the rows of each, without a value per row.

The dictionary page gives the values, and the indices in the data pages are counted while they are unpacked. Values
without rows are dropped, so we need not trust the writer to store no others.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.parquet.dictionary_page import has_readable_dictionary, read_dictionary_page
from puffin.files.parquet.hybrid import HybridCounts
from puffin.files.parquet.pages import MAX_HELD_BYTES, ChunkPages, PageValues, has_readable_pages
from puffin.files.parquet.parquet_footer import PLAIN_DICTIONARY, RLE_DICTIONARY, ColumnChunk
from puffin.files.parquet.thrift import MALFORMED
from puffin.kernels import kernels_ready

Counts: TypeAlias = npt.NDArray[np.int64]

DICTIONARY_ENCODINGS = frozenset((PLAIN_DICTIONARY, RLE_DICTIONARY))
# Arrow cannot filter views.
_FILTERED_AS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def dictionary_counts(
    source: pa.NativeFile, chunk: ColumnChunk, arrow_type: pa.DataType
) -> tuple[pa.Array, Counts] | None:
    """
    Count the rows of each value; ``arrow_type`` is what pyarrow reads the column as, without extensions.

    Returns the values that rows have, repeated as in the dictionary and without null, and the rows of each. None if the
    chunk has to be read in full: a page is unusual, or not dictionary-encoded, or there are no compiled kernels,
    without which a full read is faster.
    """
    if not (kernels_ready() and has_readable_dictionary(chunk) and has_readable_pages(chunk)):
        return None
    values = read_dictionary_page(source, chunk, _FILTERED_AS.get(arrow_type, arrow_type))
    if values is None:
        return None
    rows = HybridCounts(len(values))
    pages = ChunkPages(source, chunk)
    try:
        for page in pages.data_pages():
            if page.encoding not in DICTIONARY_ENCODINGS or page.size > MAX_HELD_BYTES:
                return None
            count_indices(pages.open(page), rows)
    except MALFORMED:
        return None
    return used_values(values, rows.totals())


def count_indices(indices: PageValues, rows: HybridCounts) -> None:
    """Count the indices in a data page: one byte with their width in bits, then runs."""
    if indices.count > 0:
        data = indices.stream.read(indices.size)
        rows.add(memoryview(data)[1:], indices.count, data[0])


def used_values(values: pa.Array, counts: Counts) -> tuple[pa.Array, Counts]:
    is_used = counts > 0
    return (values, counts) if is_used.all() else (values.filter(pa.array(is_used)), counts[is_used])
