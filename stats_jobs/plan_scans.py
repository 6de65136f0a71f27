"""
What one reading of a table is for, and which files it reads.

Columns that need the same files share a scan. Sketches by partition and joint sketches have plans of their own; a file
that two plans need for the same columns is read once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from puffin.sketches.partition_sketches import PartitionSketches
from puffin.statistics.basis import READ_ALL, ColumnPlan
from puffin.statistics.kinds.joint import JointKind
from puffin.statistics.kinds.kind import Kind
from puffin.tables.base import Column
from puffin.tables.changes import Changes, RowKeys, compare
from stats_jobs.joint import JointPlan
from stats_jobs.partitions import PartitionPlan
from stats_jobs.scan import Scan, Work, rows_key


@dataclasses.dataclass(frozen=True, slots=True)
class Plans:
    """
    What one reading is for.

    Attributes:
        columns: The plans of columns.
        partitions: Those of sketches by partition, by the field ids of their columns.
        joint: Those of joint sketches.
    """

    columns: Sequence[ColumnPlan] = ()
    partitions: Mapping[int, PartitionPlan] = dataclasses.field(default_factory=dict)
    joint: Sequence[JointPlan] = ()

    @property
    def are_in_full(self) -> bool:
        return all(plan.basis == READ_ALL for plan in self.columns) and all(plan.base is None for plan in self.joint)

    def in_full(self, reason: str, all_files: Callable[[], tuple[Work, ...]]) -> Plans:
        """Plans of the same without a base."""
        return Plans(
            [plan if plan.basis == READ_ALL else ColumnPlan.in_full(plan.column, reason) for plan in self.columns],
            {field_id: PartitionPlan(plan.lg_k, all_files()) for field_id, plan in self.partitions.items()},
            [plan if plan.base is None else plan.in_full(reason) for plan in self.joint],
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ScanPlanner:
    """
    Decides which files to read for which kinds.

    Attributes:
        kinds: For whole columns.
        lg_k: Of joint sketches.
        all_files: The whole snapshot's.
    """

    kinds: tuple[Kind[Any], ...]
    by_partition: Kind[PartitionSketches]
    lg_k: int
    all_files: Callable[[], tuple[Work, ...]]

    def of(self, plans: Plans) -> list[Scan]:
        alike: dict[object, list[tuple[ColumnPlan, PartitionPlan | None]]] = {}
        for plan in plans.columns:
            of_partitions = plans.partitions.get(plan.column.field_id)
            bases = plan.base_id, of_partitions is not None, None if of_partitions is None else of_partitions.base_id
            alike.setdefault(bases, []).append((plan, of_partitions))
        left = [plan for plan in plans.joint if not plan.is_carried]
        scans: list[Scan] = []
        for group in alike.values():
            columns = {plan.column for plan, _ in group}
            shared = [each for each in left if each.base_id == group[0][0].base_id and columns.issuperset(each.columns)]
            left = [each for each in left if each not in shared]
            scans += self._of_group(group, shared)
        scans += [scan for each in left for scan in self._of_set(each)]
        return [scan for scan in scans if scan.tasks]

    def _of_group(
        self, group: Sequence[tuple[ColumnPlan, PartitionPlan | None]], sets: Sequence[JointPlan]
    ) -> list[Scan]:
        columns, (plan, of_partitions) = tuple(plan.column for plan, _ in group), group[0]
        added, removed = self._changes(plan.changes)
        for_partitions = () if of_partitions is None else of_partitions.tasks
        keys = RowKeys()  # a snapshot is packed once, so packed files that both need have equal keys
        needed = compare(added, for_partitions, lambda work: rows_key(work, keys))
        whole = {column: (*self.kinds, *self._joint(column, sets)) for column in columns}
        both = {column: (*kinds, self.by_partition) for column, kinds in whole.items()}
        return [
            Scan(whole, tuple(needed.before)),
            Scan(both, tuple(needed.both)),
            Scan(dict.fromkeys(columns, (self.by_partition,)), tuple(needed.after)),
            Scan(whole, removed, removed=True),
        ]

    def _of_set(self, plan: JointPlan) -> list[Scan]:
        added, removed = self._changes(plan.changes)
        kinds = {column: self._joint(column, (plan,)) for column in plan.columns}
        return [Scan(kinds, added), Scan(kinds, removed, removed=True)]

    def _changes(self, changes: Changes | None) -> tuple[tuple[Work, ...], tuple[Work, ...]]:
        """The files that came and those that went."""
        return (self.all_files(), ()) if changes is None else (changes.added, changes.removed)

    def _joint(self, column: Column, sets: Sequence[JointPlan]) -> tuple[JointKind, ...]:
        of_column = tuple(each.columns for each in sets if each.first == column)
        return (JointKind(self.lg_k, of_column),) if of_column else ()
