"""
From the plans of columns to their statistics: what has to be read is read in one run, and added up.

What is read for a column is added to its base, or subtracted from it. If that does not come out (the files a base was
made of are gone, the row counts contradict them, or too much was deleted for the headroom that is kept) the column is
computed in full in a second run: nothing that is not certain is written.

Sketches by partition have plans of their own. A file that both need is read once for both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from puffin.errors import CorruptError, NotFoundError, PuffinError
from puffin.sketches import RowCounts, ThetaSketch, merge
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.statistics.blob_properties import HASHED_HERE, Provenance
from puffin.statistics.private_state.writing import KeptBlob
from puffin.tables.base import Column
from puffin.tables.changes import Changes, compare, rows_of
from puffin.tables.scan_task import FileScanTask
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary
from stats_jobs.basis import CARRIED, FULL, ColumnPlan
from stats_jobs.execute import Measure, Partial
from stats_jobs.partitions import PartitionPlan
from stats_jobs.plan import Scan
from stats_jobs.run import Runner


@dataclasses.dataclass(frozen=True, slots=True)
class Computed:
    """
    The statistics of a column.

    Attributes:
        counts: To subtract rows from later; None if they are not kept, or were not there to begin with.
        summary: None if it was not asked for, or built on statistics that have none.
        basis: What the column was built on in the end.
        reason: Why it was computed in full, if it was.
        base: How the statistics that it was built on came about.
        is_mapped: Whether a file without field ids was read, whose columns the table's name mapping told.
        kept_counts: Where the counts are stored already; None if they are new.
    """

    column: Column
    sketch: ThetaSketch
    counts: RowCounts | None
    summary: ColumnSummary | None
    basis: str
    reason: str | None
    base: Provenance = HASHED_HERE
    is_mapped: bool = False
    kept_counts: KeptBlob | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Computation:
    """
    What was computed, and what that took.

    Attributes:
        partitions: Sketches by partition, by field id, of columns that were to have them.
        files_read: Distinct data files.
        rows_read: Live rows, once for each time they were read.
        session_seconds: Starting Spark.
        waited_seconds: Waiting for other tables that computed on Spark.
    """

    columns: tuple[Computed, ...]
    partitions: Mapping[int, PartitionSketches]
    files_read: int
    rows_read: int
    bytes_read: int
    session_seconds: float
    waited_seconds: float


def compute(
    plans: Sequence[ColumnPlan],
    runner: Runner,
    all_files: Callable[[], tuple[FileScanTask, ...]],
    measure: Measure,
    partition_plans: Mapping[int, PartitionPlan] | None = None,
) -> Computation:
    """
    Carry out the plans.

    Args:
        all_files: The whole snapshot's, for columns that are computed in full.
        partition_plans: By field id, of columns that are to have sketches by partition.

    Raises:
        PuffinError: As `Runner.read`, of files that the snapshot has.
    """
    total = _Total(runner, measure)
    done: dict[int, Computed] = {}
    failed: dict[int, ColumnPlan] = {}
    unread = partition_plans or {}
    partitions: dict[int, PartitionSketches] = {}
    try:
        partial = total.read(_scans(plans, unread, all_files))
        partitions, unread = _by_partition(unread, partial), {}
        for plan in plans:
            try:
                done[plan.column.field_id] = _added_up(plan, partial, measure)
            except _DoesNotComeOut as exc:
                failed[plan.column.field_id] = ColumnPlan.in_full(plan.column, str(exc))
    except (NotFoundError, CorruptError) as exc:
        if all(plan.basis == FULL for plan in plans):
            raise
        # Perhaps a file that is no longer the table's: whether it is, the second run tells.
        failed = {p.column.field_id: p if p.basis == FULL else ColumnPlan.in_full(p.column, str(exc)) for p in plans}
        unread = {field_id: plan.in_full(all_files()) for field_id, plan in unread.items()}
    if failed:
        partial = total.read(_scans(failed.values(), unread, all_files))
        partitions |= _by_partition(unread, partial)
        done |= {field_id: _added_up(plan, partial, measure) for field_id, plan in failed.items()}
    return Computation(
        tuple(done[plan.column.field_id] for plan in plans),
        partitions,
        files_read=len(total.files),
        rows_read=total.rows,
        bytes_read=total.bytes,
        session_seconds=total.session_seconds,
        waited_seconds=total.waited_seconds,
    )


class _Total:
    """What all runs took together."""

    def __init__(self, runner: Runner, measure: Measure) -> None:
        self._runner = runner
        self._measure = measure
        self.files: set[str] = set()
        self.rows = self.bytes = 0
        self.session_seconds = self.waited_seconds = 0.0

    def read(self, scans: Sequence[Scan]) -> Partial:
        run = self._runner.read(scans, self._measure)
        self.files |= {task.data_file.file_path for scan in scans for task in scan.tasks}
        self.rows += run.partial.rows
        self.bytes += run.partial.bytes_read
        self.session_seconds += run.session_seconds
        self.waited_seconds += run.waited_seconds
        return run.partial


def _scans(
    plans: Iterable[ColumnPlan],
    partition_plans: Mapping[int, PartitionPlan],
    all_files: Callable[[], tuple[FileScanTask, ...]],
) -> list[Scan]:
    """Columns that need the same files are read together."""
    alike: dict[object, list[tuple[ColumnPlan, PartitionPlan | None]]] = {}
    for plan in plans:
        of_partitions = partition_plans.get(plan.column.field_id)
        bases = plan.base_id, of_partitions is not None, None if of_partitions is None else of_partitions.base_id
        alike.setdefault(bases, []).append((plan, of_partitions))
    scans = []
    for group in alike.values():
        columns, (plan, of_partitions) = tuple(plan.column for plan, _ in group), group[0]
        changes = Changes(all_files(), ()) if plan.changes is None else plan.changes
        needed = compare(changes.added, () if of_partitions is None else of_partitions.tasks, _rows_of)
        scans += [
            Scan(columns, tuple(needed.before)),
            Scan(columns, tuple(needed.both), by_partition=True),
            Scan(columns, tuple(needed.after), whole=False, by_partition=True),
            Scan(columns, changes.removed, removed=True),
        ]
    return [scan for scan in scans if scan.tasks]


def _rows_of(task: FileScanTask) -> Hashable:
    return rows_of(task), task.deleted_by is None


def _by_partition(plans: Mapping[int, PartitionPlan], partial: Partial) -> dict[int, PartitionSketches]:
    return {field_id: plan.sketches(partial.partitions.get(field_id)) for field_id, plan in plans.items()}


def _added_up(plan: ColumnPlan, partial: Partial, measure: Measure) -> Computed:
    base = HASHED_HERE if plan.base is None else plan.base.provenance
    is_mapped = plan.column.field_id in partial.mapped
    return dataclasses.replace(_tallied(plan, partial, measure), base=base, is_mapped=is_mapped)


def _tallied(plan: ColumnPlan, partial: Partial, measure: Measure) -> Computed:
    field_id = plan.column.field_id
    added = partial.added.get(field_id, measure.nothing())
    removed = partial.removed.get(field_id, measure.nothing())
    summary = _summed_up(plan, partial) if measure.summaries else None
    if plan.base is None:
        return _computed(plan, added, summary, measure)
    if plan.basis == CARRIED:
        base = plan.base
        return Computed(plan.column, base.sketch, base.counts, summary, plan.basis, None, kept_counts=base.kept_counts)
    if plan.base.counts is not None and isinstance(added, RowCounts) and isinstance(removed, RowCounts):
        try:
            return _computed(plan, plan.base.counts.combine(added, removed, measure.limit), summary, measure)
        except PuffinError as exc:
            raise _DoesNotComeOut(str(exc)) from exc
    sketch = merge((plan.base.sketch, measure.sketch(added)), measure.lg_k)
    return Computed(plan.column, sketch, None, summary, plan.basis, None)


def _computed(
    plan: ColumnPlan, tally: RowCounts | ThetaSketch, summary: ColumnSummary | None, measure: Measure
) -> Computed:
    if isinstance(tally, ThetaSketch):
        return Computed(plan.column, tally, None, summary, plan.basis, plan.reason)
    sketch = tally.sketch(measure.lg_k)
    if sketch is None:
        raise _DoesNotComeOut("so many rows were deleted that the headroom of its row counts is spent")
    return Computed(plan.column, sketch, tally, summary, plan.basis, plan.reason)


def _summed_up(plan: ColumnPlan, partial: Partial) -> ColumnSummary | None:
    type_ = plan.column.type
    summary = RowSummary()
    if plan.base is not None:
        if plan.base.summary is None:
            return None
        summary = RowSummary.of(plan.base.summary, type_)
    return summary.plus(partial.summaries.get(plan.column.field_id, RowSummary())).to_column(type_)


class _DoesNotComeOut(Exception):
    """What was read does not add up to a sketch; the message is the reason the user gets."""
