"""Count the rows of Arrow arrays, as the job does for a batch of them."""

from __future__ import annotations

import pyarrow as pa

from puffin.sketches.counted_hashes import hash_counted, hash_rows
from puffin.sketches.hash_arrays import Rows
from puffin.sketches.row_counts import RowCountsBuilder


def count_rows(
    builder: RowCountsBuilder, array: pa.Array | pa.ChunkedArray, type_string: str, rows: Rows | None = None
) -> None:
    """``rows`` gives the rows of each value, possibly 0; None is one each."""
    counted = hash_rows(array, type_string) if rows is None else hash_counted(array, rows, type_string)
    for hashes, rows_of_each, _ in counted:
        builder.update_hashes(hashes, rows_of_each)
