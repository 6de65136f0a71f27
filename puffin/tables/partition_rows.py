"""How many live rows each partition of a snapshot has, as far as metadata tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from puffin.tables.scan_task import EQUALITY_DELETES, FileScanTask
from puffin.values.partition_tuples import PartitionKey, partition_key


class PartitionRows(NamedTuple):
    """
    The live rows of a partition, from ``lower`` to ``upper``.

    Attributes:
        partition: Values by partition field id, in JSON single-value form; see `partition_tuples`.
    """

    spec_id: int
    partition: Mapping[str, Any]
    lower: int
    upper: int


def rows_of_tasks(tasks: Iterable[FileScanTask]) -> list[PartitionRows]:
    """The rows of each partition of planned files."""
    found: dict[PartitionKey, PartitionRows] = {}
    for task in tasks:
        file = task.data_file
        key = partition_key(file.spec_id, file.partition)
        known = found.get(key) or PartitionRows(file.spec_id, file.partition, 0, 0)
        lower, upper = _live_rows(task)
        found[key] = known._replace(lower=known.lower + lower, upper=known.upper + upper)
    return list(found.values())


def _live_rows(task: FileScanTask) -> tuple[int, int]:
    every, deletes = task.data_file.record_count, task.delete_files
    if any(file.content == EQUALITY_DELETES for file in deletes):
        return 0, every
    live = max(0, every - sum(file.record_count for file in deletes))
    # A position delete file may name rows of other files, and rows that another one names too.
    is_exact = all(file.content_offset is not None for file in deletes)
    return live, live if is_exact else every
