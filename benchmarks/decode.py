"""
The floor: pyarrow decodes the columns and drops them, which is what reading a table costs without any statistics.

As many processes as Spark has cores, kept warm, each with row groups of about the same bytes. Batches are as long as
ours; no thread helps.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

Share: TypeAlias = dict[str, list[int]]  # row groups by file

_BATCH_ROWS = 128 * 1024


def balanced(files: Sequence[str], columns: Sequence[str], processes: int) -> list[Share]:
    """The row groups of all files in a share for each process, by the bytes of these columns."""
    import pyarrow.parquet as pq

    groups: list[tuple[int, str, int]] = []
    for file in files:
        metadata = pq.read_metadata(file)
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            chunks = [group.column(place) for place in range(group.num_columns)]
            size = sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in columns)
            groups.append((size, file, index))
    shares: list[Share] = [defaultdict(list) for _ in range(processes)]
    least = [(0, number) for number in range(processes)]
    for size, file, index in sorted(groups, reverse=True):
        taken, number = heapq.heappop(least)
        shares[number][file].append(index)
        heapq.heappush(least, (taken + size, number))
    return shares


def decode(share: Share, columns: Sequence[str]) -> int:
    """Decode these columns of the row groups; returns the number of rows."""
    import pyarrow.parquet as pq

    rows = 0
    for file, groups in share.items():
        reader = pq.ParquetFile(file)
        for batch in reader.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(columns), use_threads=False):
            rows += batch.num_rows
    return rows
