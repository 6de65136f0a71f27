"""
From the plans of columns to their statistics: what has to be read is read in one run, and added up.

What is read for a column is added to its base, or subtracted from it. If that does not come out (the files a base was
made of are gone, the row counts contradict them, or too much was deleted for the headroom that is kept) the column is
computed in full in a second run: nothing that is not certain is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from puffin.errors import CorruptError, NotFoundError, PuffinError
from puffin.tables.base import Column
from puffin.tables.scan_task import FileScanTask
from puffin.theta import RowCounts, ThetaSketch, merge
from stats_jobs.basis import CARRIED, FULL, ColumnPlan
from stats_jobs.execute import Measure, Partial
from stats_jobs.plan import Scan
from stats_jobs.run import Runner


@dataclasses.dataclass(frozen=True, slots=True)
class Computed:
    """
    The statistics of a column.

    Attributes:
        counts: To subtract rows from later; None if they are not kept, or were not there to begin with.
        basis: What the column was built on in the end.
        reason: Why it was computed in full, if it was.
    """

    column: Column
    sketch: ThetaSketch
    counts: RowCounts | None
    basis: str
    reason: str | None


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

    columns: tuple[Computed, ...]
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
) -> Computation:
    """
    Carry out the plans.

    Args:
        all_files: The whole snapshot's, for columns that are computed in full.

    Raises:
        PuffinError: As `Runner.read`, of files that the snapshot has.
    """
    total = _Total(runner, measure)
    done: dict[int, Computed] = {}
    failed: dict[int, ColumnPlan] = {}
    try:
        partial = total.read(_scans(plans, all_files))
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
    if failed:
        partial = total.read(_scans(failed.values(), all_files))
        done |= {field_id: _added_up(plan, partial, measure) for field_id, plan in failed.items()}
    return Computation(
        tuple(done[plan.column.field_id] for plan in plans),
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


def _scans(plans: Iterable[ColumnPlan], all_files: Callable[[], tuple[FileScanTask, ...]]) -> list[Scan]:
    """Columns that need the same files are read together."""
    in_full: list[Column] = []
    by_base: dict[int, list[ColumnPlan]] = {}
    for plan in plans:
        if plan.base_id is None:
            in_full.append(plan.column)
        elif plan.basis != CARRIED:
            by_base.setdefault(plan.base_id, []).append(plan)
    scans = [Scan(tuple(in_full), all_files())] if in_full else []
    for group in by_base.values():
        columns, changes = tuple(plan.column for plan in group), group[0].changes
        if changes is not None:
            scans += [Scan(columns, changes.added), Scan(columns, changes.removed, removed=True)]
    return [scan for scan in scans if scan.tasks]


def _added_up(plan: ColumnPlan, partial: Partial, measure: Measure) -> Computed:
    field_id = plan.column.field_id
    added = partial.added.get(field_id, measure.nothing())
    removed = partial.removed.get(field_id, measure.nothing())
    if plan.base is None:
        return _computed(plan, added, measure)
    if plan.basis == CARRIED:
        return Computed(plan.column, plan.base.sketch, plan.base.counts, plan.basis, None)
    if plan.base.counts is not None and isinstance(added, RowCounts) and isinstance(removed, RowCounts):
        try:
            return _computed(plan, plan.base.counts.combine(added, removed, measure.limit), measure)
        except PuffinError as exc:
            raise _DoesNotComeOut(str(exc)) from exc
    sketch = merge((plan.base.sketch, measure.sketch(added)), measure.lg_k)
    return Computed(plan.column, sketch, None, plan.basis, None)


def _computed(plan: ColumnPlan, tally: RowCounts | ThetaSketch, measure: Measure) -> Computed:
    if isinstance(tally, ThetaSketch):
        return Computed(plan.column, tally, None, plan.basis, plan.reason)
    sketch = tally.sketch(measure.lg_k)
    if sketch is None:
        raise _DoesNotComeOut("so many rows were deleted that the headroom of its row counts is spent")
    return Computed(plan.column, sketch, tally, plan.basis, plan.reason)


class _DoesNotComeOut(Exception):
    """What was read does not add up to a sketch; the message is the reason the user gets."""
