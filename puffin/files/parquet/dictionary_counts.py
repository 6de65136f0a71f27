"""Count the indices of a data page into a dictionary, and keep the entries that rows have."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.parquet.hybrid import HybridCounts
from puffin.files.parquet.pages import PageValues
from puffin.files.parquet.parquet_footer import PLAIN_DICTIONARY, RLE_DICTIONARY

Counts: TypeAlias = npt.NDArray[np.int64]

DICTIONARY_ENCODINGS = frozenset((PLAIN_DICTIONARY, RLE_DICTIONARY))


def count_indices(indices: PageValues, rows: HybridCounts) -> None:
    """Count the indices in a data page: one byte with their width in bits, then runs."""
    if indices.count > 0:
        data = indices.stream.read(indices.size)
        rows.add(memoryview(data)[1:], indices.count, data[0])


def used_values(values: pa.Array, counts: Counts) -> tuple[pa.Array, Counts]:
    """The values that rows have, and the rows of each."""
    is_used = counts > 0
    return (values, counts) if is_used.all() else (values.filter(pa.array(is_used)), counts[is_used])
