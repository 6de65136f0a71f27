"""
A question about a table: one value from the command line and HTTP to the cache key.

`question_of` returns the same object for equal arguments, so that a planner's hot path does not build one per call.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any

from puffin.errors import UsageError
from puffin.tables.arguments import check_integer, check_list
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """
    A question about columns of a table.

    Attributes:
        table: The table's location or name, as the user gives it.
        columns: Names or dotted paths in the current schema; None for every primitive column outside lists and maps.
        selector: The snapshot; the current one by default.
        max_staleness: Ignore statistics if more snapshots have changed the rows since; None for no limit.
        partitions: Only the rows of these partitions, named as for `puffin.lookup.partition_filter.PartitionFilter`.
        where: Only the rows of partitions that may hold rows that match this filter.
        manifests: Read the snapshot's manifests, or a Delta table's file statistics, for row counts and bounds that the
            statistics lack.

    Raises:
        UsageError: The columns or partitions are a string, which would mean one for each letter; the staleness is
            negative; or there are manifests, which describe whole snapshots, with partitions or a filter.
    """

    table: str
    columns: Sequence[str] | None = None
    selector: SnapshotSelector = CURRENT
    max_staleness: int | None = None
    partitions: Sequence[str] = ()
    where: str | None = None
    manifests: bool = False
    _hash: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_list(self.columns, "column names")
        check_list(self.partitions, "partitions")
        if self.max_staleness is not None:
            check_integer(self.max_staleness, "max_staleness", 0)
        object.__setattr__(self, "table", os.fspath(self.table))
        object.__setattr__(self, "columns", None if self.columns is None else tuple(self.columns))
        object.__setattr__(self, "partitions", tuple(self.partitions))
        object.__setattr__(self, "_hash", hash((self.table, self.columns, self.selector, self.where)))
        if self.manifests and self.is_of_partitions:
            raise UsageError("manifests cover whole snapshots: leave them out, or the partitions and the filter")

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_of_partitions(self) -> bool:
        return bool(self.partitions) or self.where is not None


@functools.lru_cache(maxsize=4096)
def question_of(
    table: str,
    columns: Sequence[str] | None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of_ms: int | None = None,
    *others: Any,
) -> Question:
    """
    The question with the snapshot that these name, and ``others``, the fields of `Question` after its selector.

    All have to be hashable; equal arguments give the same object. Raises UsageError as `Question` and its selector do.
    """
    return Question(table, columns, SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms), *others)
