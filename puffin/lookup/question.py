"""
What is asked of a table: one value from the command line and HTTP down to the key that an answer is kept under.

`question_of` gives equal arguments the same object, so that a planner's hot path does not build one for each call.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from puffin.errors import UsageError
from puffin.tables.base import SnapshotSelector


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """
    A question about columns of a table.

    Attributes:
        table: What the user calls the table.
        columns: Names or dotted paths in the current schema; None for every primitive column outside lists and maps.
        snapshot_id: The snapshot asked for; or the branch or tag ``ref``, or the snapshot that was current
            ``as_of_ms`` milliseconds after the epoch. None of them: the current one.
        max_staleness: How many snapshots may have changed the rows since statistics were computed for them to
            count; None for any number.
        partitions: Only the rows of these partitions, as `puffin.lookup.partition_filter.PartitionFilter` names them.
        where: Only the rows of partitions that may have rows which pass this filter.
        manifests: Whether to read the snapshot's manifests, or a Delta table's file statistics, for the row counts and
            bounds of columns whose statistics have none.
        selector: The snapshot asked for, as a table takes it.

    Raises:
        UsageError: The snapshot is named in several ways; the columns are one text, which would be taken for a column
            of each letter; manifests, which describe whole snapshots, come together with partitions or a filter.
    """

    table: str
    columns: Sequence[str] | None = None
    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None
    max_staleness: int | None = None
    partitions: Sequence[str] = ()
    where: str | None = None
    manifests: bool = False
    selector: SnapshotSelector = dataclasses.field(init=False, compare=False, repr=False)
    _hash: int = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise UsageError(f"expected a list of column names, found the text {self.columns!r}")
        columns = None if self.columns is None else tuple(self.columns)
        selector = SnapshotSelector(snapshot_id=self.snapshot_id, ref=self.ref, as_of_ms=self.as_of_ms)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "partitions", tuple(self.partitions))
        object.__setattr__(self, "selector", selector)
        object.__setattr__(self, "_hash", hash((self.table, columns, selector, self.where)))
        if self.manifests and self.is_of_partitions:
            raise UsageError("manifests cover whole snapshots: leave them out, or the partitions and the filter")

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_of_partitions(self) -> bool:
        """Whether only some partitions are meant."""
        return bool(self.partitions) or self.where is not None


question_of = functools.lru_cache(maxsize=4096)(Question)
"""The question with these fields; each has to be hashable, so that equal ones are one object."""
