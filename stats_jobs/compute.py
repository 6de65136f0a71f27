"""
From the plans of columns to their statistics: what has to be read is read in one run, and added up.

What is read for a column is combined with its base, kind by kind. If that does not come out (the files a base was made
of are gone, the row counts contradict them, or too much was deleted for the headroom that is kept) the column is
computed in full in a second run: nothing that is not certain is written.

Sketches by partition have plans of their own. A file that both need is read once for both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from puffin.errors import CorruptError, NotFoundError
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.statistics.blob_properties import HASHED_HERE, Provenance
from puffin.statistics.kinds import PARTITION_SKETCHES
from puffin.statistics.kinds.kind import Kind, Parts, Unsubtractable, Values
from puffin.statistics.private_state.writing import KeptBlob
from puffin.tables.base import Column
from puffin.tables.changes import Changes, compare, rows_of
from puffin.tables.scan_task import FileScanTask
from stats_jobs.basis import CARRIED, FULL, ColumnPlan
from stats_jobs.execute import Partial
from stats_jobs.partitions import PartitionPlan
from stats_jobs.plan import Scan
from stats_jobs.run import Runner


@dataclasses.dataclass(frozen=True, slots=True)
class Computed:
    """
    The statistics of a column.

    Attributes:
        values: Of each kind that was asked for, unless there is nothing to build it on.
        basis: What the column was built on in the end.
        reason: Why it was computed in full, if it was.
        provenance: How the statistics that it was built on came about.
        is_mapped: Whether a file without field ids was read, whose columns the table's name mapping told.
        kept: Where values are stored already.
    """

    column: Column
    values: Values
    basis: str
    reason: str | None
    provenance: Provenance = HASHED_HERE
    is_mapped: bool = False
    kept: Mapping[Kind[Any], KeptBlob] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Computation:
    """
    What was computed, and what that took.

    Attributes:
        files_read: Distinct data files.
        rows_read: Live rows, once for each time they were read.
        session_seconds: Starting Spark.
        waited_seconds: Waiting for other tables that computed on Spark.
    """

    columns: tuple[Computed, ...] = ()
    files_read: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    session_seconds: float = 0.0
    waited_seconds: float = 0.0


def compute(
    plans: Sequence[ColumnPlan],
    runner: Runner,
    all_files: Callable[[], tuple[FileScanTask, ...]],
    kinds: Sequence[Kind[Any]],
    partition_plans: Mapping[int, PartitionPlan] | None = None,
) -> Computation:
    """
    Carry out the plans.

    Args:
        all_files: The whole snapshot's, for columns that are computed in full.
        kinds: What columns as a whole are to have, in the order of the table of kinds.
        partition_plans: By field id, of columns that are to have sketches by partition.

    Raises:
        PuffinError: As `Runner.read`, of files that the snapshot has.
    """
    total = _Total(runner)
    unread = dict(partition_plans or {})
    by_partition = max((plan.lg_k for plan in unread.values()), default=PARTITION_SKETCHES.lg_k)
    scans = _Scans(tuple(kinds), dataclasses.replace(PARTITION_SKETCHES, lg_k=by_partition), all_files)
    done: dict[int, Computed] = {}
    failed: dict[int, ColumnPlan] = {}
    partitions: dict[int, PartitionSketches] = {}
    try:
        partial = total.read(scans.of(plans, unread))
        partitions, unread = _by_partition(unread, partial), {}
        for plan in plans:
            try:
                done[plan.column.field_id] = _computed(plan, partial, kinds)
            except Unsubtractable as exc:
                failed[plan.column.field_id] = ColumnPlan.in_full(plan.column, str(exc))
    except (NotFoundError, CorruptError) as exc:
        if all(plan.basis == FULL for plan in plans):
            raise
        # Perhaps a file that is no longer the table's: whether it is, the second run tells.
        failed = {p.column.field_id: p if p.basis == FULL else ColumnPlan.in_full(p.column, str(exc)) for p in plans}
        unread = {field_id: plan.in_full(all_files()) for field_id, plan in unread.items()}
    if failed:
        partial = total.read(scans.of(failed.values(), unread))
        partitions |= _by_partition(unread, partial)
        done |= {field_id: _computed(plan, partial, kinds) for field_id, plan in failed.items()}
    columns = (_with_partitions(done[plan.column.field_id], partitions) for plan in plans)
    return dataclasses.replace(total.took, columns=tuple(columns))


class _Total:
    """What all runs took together."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._files: set[str] = set()
        self.took = Computation()

    def read(self, scans: Sequence[Scan]) -> Partial:
        run = self._runner.read(scans)
        self._files |= {task.data_file.file_path for scan in scans for task in scan.tasks}
        self.took = Computation(
            files_read=len(self._files),
            rows_read=self.took.rows_read + run.partial.rows,
            bytes_read=self.took.bytes_read + run.partial.bytes_read,
            session_seconds=self.took.session_seconds + run.session_seconds,
            waited_seconds=self.took.waited_seconds + run.waited_seconds,
        )
        return run.partial


@dataclasses.dataclass(frozen=True, slots=True)
class _Scans:
    """Which files to read for which kinds; columns that need the same files are read together."""

    kinds: tuple[Kind[Any], ...]
    by_partition: Kind[PartitionSketches]
    all_files: Callable[[], tuple[FileScanTask, ...]]

    def of(self, plans: Iterable[ColumnPlan], partition_plans: Mapping[int, PartitionPlan]) -> list[Scan]:
        alike: dict[object, list[tuple[ColumnPlan, PartitionPlan | None]]] = {}
        for plan in plans:
            of_partitions = partition_plans.get(plan.column.field_id)
            bases = plan.base_id, of_partitions is not None, None if of_partitions is None else of_partitions.base_id
            alike.setdefault(bases, []).append((plan, of_partitions))
        return [scan for group in alike.values() for scan in self._of_group(group) if scan.tasks]

    def _of_group(self, group: Sequence[tuple[ColumnPlan, PartitionPlan | None]]) -> list[Scan]:
        columns, (plan, of_partitions) = tuple(plan.column for plan, _ in group), group[0]
        changes = Changes(self.all_files(), ()) if plan.changes is None else plan.changes
        needed = compare(changes.added, () if of_partitions is None else of_partitions.tasks, rows_of)
        return [
            Scan(columns, tuple(needed.before), self.kinds),
            Scan(columns, tuple(needed.both), (*self.kinds, self.by_partition)),
            Scan(columns, tuple(needed.after), (self.by_partition,)),
            Scan(columns, changes.removed, self.kinds, removed=True),
        ]


def _by_partition(plans: Mapping[int, PartitionPlan], partial: Partial) -> dict[int, PartitionSketches]:
    read = {field_id: PARTITION_SKETCHES.of(partial.added.get(field_id, {})) for field_id in plans}
    return {field_id: plan.sketches(read[field_id]) for field_id, plan in plans.items()}


def _with_partitions(computed: Computed, partitions: Mapping[int, PartitionSketches]) -> Computed:
    found = partitions.get(computed.column.field_id)
    if found is None:
        return computed
    return dataclasses.replace(computed, values={**computed.values, PARTITION_SKETCHES: found})


def _computed(plan: ColumnPlan, partial: Partial, kinds: Sequence[Kind[Any]]) -> Computed:
    field_id = plan.column.field_id
    if plan.base is not None and plan.basis == CARRIED:
        values: Values = {kind: plan.base.values[kind] for kind in kinds if kind in plan.base.values}
    else:
        parts = Parts(
            base=None if plan.base is None else plan.base.values,
            added=partial.added.get(field_id, {}),
            removed=partial.removed.get(field_id, {}),
        )
        values = _combined(parts, kinds)
    return Computed(
        plan.column,
        values,
        plan.basis,
        plan.reason,
        HASHED_HERE if plan.base is None else plan.base.provenance,
        field_id in partial.mapped,
        plan.base.kept if plan.base is not None and plan.basis == CARRIED else {},
    )


def _combined(parts: Parts, kinds: Sequence[Kind[Any]]) -> Values:
    made: dict[Kind[Any], Any] = {}
    for kind in kinds:
        value = kind.combined(parts, made)
        if value is not None:
            made[kind] = value
    return made
