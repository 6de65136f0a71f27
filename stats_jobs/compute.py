"""
Carries out the plans of columns: reads all that they need in one run and combines it.

What is read for a column is combined with its base, kind by kind. If that fails (the files of a base are gone, the row
counts contradict them, or more was deleted than the headroom covers) a second run computes the column in full: nothing
uncertain is written.

Sketches by partition and joint sketches have plans of their own. A file that two plans need for the same columns is
read once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from puffin.errors import CorruptError, NotFoundError
from puffin.sketches.joint_sketches import JointSketch, JointSketches
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.statistics.aside import PutAside, changed, chosen, put_aside
from puffin.statistics.basis import CARRIED, FULL, ColumnPlan
from puffin.statistics.deltas import WITH_DELTAS
from puffin.statistics.kinds import JOINT, PARTITION_SKETCHES, THETA
from puffin.statistics.kinds.joint import JointKind
from puffin.statistics.kinds.kind import Kind, Parts, Unsubtractable, Values
from puffin.statistics.private_state.writing import KeptBlob
from puffin.tables.base import Column
from puffin.tables.changes import Changes, Difference, RowKeys, compare
from stats_jobs.execute import Partial
from stats_jobs.joint import JointPlan
from stats_jobs.partitions import PartitionPlan
from stats_jobs.plan import PackedFiles, Scan, Work, counted, counted_once
from stats_jobs.run import Runner
from stats_jobs.session import Turn

Beside: TypeAlias = Callable[[Iterable[Scan]], list[Scan]]


@dataclasses.dataclass(frozen=True, slots=True)
class Computed:
    """
    The statistics of a column, with the plan that was carried out in the end.

    Attributes:
        is_mapped: Whether a file without field ids was read, so that the table's name mapping was used.
        kept: Where values that are not of the plan's base are stored already, by kind.
        deltas: What is added to stored values of the base that were not read, by kind; None if no rows came.
    """

    plan: ColumnPlan
    values: Values
    is_mapped: bool
    kept: Mapping[Kind[Any], KeptBlob] = dataclasses.field(default_factory=dict)
    deltas: Values = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class BesideColumns:
    """The plans of what columns get beside their own statistics: ``partitions`` by field id, and sets of columns."""

    partitions: Mapping[int, PartitionPlan] = dataclasses.field(default_factory=dict)
    joint: Sequence[JointPlan] = ()


_NOTHING = BesideColumns()


@dataclasses.dataclass(frozen=True, slots=True)
class Computation:
    """
    The computed columns, and the work they took.

    Attributes:
        files_read: Distinct data files; of packed ones, all that are listed.
        files_packed: Those of them that are packed.
        rows_read: Live rows; those that scans of several columns read are counted once.
        session_seconds: Starting Spark.
        waited_seconds: Waiting for other tables that computed on Spark.
        read: What was read, with all that was computed beside the statistics.
    """

    columns: tuple[Computed, ...] = ()
    files_read: int = 0
    files_packed: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    session_seconds: float = 0.0
    waited_seconds: float = 0.0
    read: tuple[Partial, ...] = ()

    def after(self, turn: Turn) -> Computation:
        """The same, after this turn on Spark."""
        return dataclasses.replace(
            self,
            session_seconds=self.session_seconds + turn.session_seconds,
            waited_seconds=self.waited_seconds + turn.waited_seconds,
        )


def compute(
    plans: Sequence[ColumnPlan],
    runner: Runner,
    all_files: Callable[[], tuple[Work, ...]],
    kinds: Sequence[Kind[Any]],
    others: BesideColumns = _NOTHING,
    beside: Beside = list,
) -> Computation:
    """
    Carry out the plans; raises as `Runner.read`, for files of the snapshot.

    Args:
        all_files: The whole snapshot's, for full runs.
        kinds: The kinds for whole columns, in the order of the table of kinds.
        others: The plans of sketches by partition and of joint sketches of these columns.
        beside: Adds kinds, such as filters of an index, to the scans of the first reading that succeeds.
    """
    total = _Total(runner, beside)
    put = put_aside(len(plans))
    unread, sets = dict(others.partitions), list(others.joint)
    by_partition = max((plan.lg_k for plan in unread.values()), default=PARTITION_SKETCHES.lg_k)
    lg_k = max((kind.lg_k for kind in kinds), default=THETA.lg_k)
    scans = _Scans(tuple(kinds), dataclasses.replace(PARTITION_SKETCHES, lg_k=by_partition), lg_k, all_files)
    done: dict[int, Computed] = {}
    failed: dict[int, ColumnPlan] = {}
    partitions: dict[int, Values] = {}
    joint: list[tuple[JointPlan, JointSketch]] = []
    try:
        partial = total.read(scans.of(plans, unread, sets))
        partitions, unread = _by_partition(unread, partial, put), {}
        for plan in plans:
            try:
                done[plan.column.field_id] = _computed(plan, partial, kinds, put)
            except Unsubtractable as exc:
                failed[plan.column.field_id] = ColumnPlan.in_full(plan.column, str(exc))
        joint, sets = _joint(sets, partial, lg_k)
    except (NotFoundError, CorruptError) as exc:
        if all(plan.basis == FULL for plan in plans) and all(plan.base is None for plan in sets):
            raise
        # A removed file may be gone or broken; if it is a live one, the second run fails too.
        failed = {p.column.field_id: p if p.basis == FULL else ColumnPlan.in_full(p.column, str(exc)) for p in plans}
        unread = {field_id: PartitionPlan(plan.lg_k, all_files()) for field_id, plan in unread.items()}
        sets = [plan if plan.base is None else plan.in_full(str(exc)) for plan in sets]
    if failed or sets:
        partial = total.read(scans.of(failed.values(), unread, sets))
        partitions |= _by_partition(unread, partial, put)
        done |= {field_id: _computed(plan, partial, kinds, put) for field_id, plan in failed.items()}
        joint += _joint(sets, partial, lg_k)[0]
    for field_id, sketches in partitions.items():
        values = changed(done[field_id].values, sketches)
        done[field_id] = dataclasses.replace(done[field_id], values=values)
    for field_id in dict.fromkeys(plan.first.field_id for plan, _ in joint):
        done[field_id] = _with_joint(done[field_id], [each for each in joint if each[0].first.field_id == field_id])
    return dataclasses.replace(total.took, columns=tuple(done[plan.column.field_id] for plan in plans))


class _Total:
    def __init__(self, runner: Runner, beside: Beside) -> None:
        self._runner = runner
        self._beside = beside
        self._scans: list[Scan] = []
        self._files: dict[str, int] = {}
        self._packed: set[str] = set()
        self.took = Computation()

    def read(self, scans: Sequence[Scan]) -> Partial:
        scans = counted_once(scans if self.took.read else self._beside(scans), self._scans)
        partial, turn = self._runner.read(scans)
        self._scans += scans
        for work in (work for scan in scans for work in scan.tasks):
            name, files = counted(work)
            if name not in partial.resumed:
                self._files[name] = files
                if isinstance(work, PackedFiles):
                    self._packed.add(name)
        self.took = Computation(
            files_read=sum(self._files.values()),
            files_packed=sum(self._files[name] for name in self._packed),
            rows_read=self.took.rows_read + partial.rows,
            bytes_read=self.took.bytes_read + partial.bytes_read,
            session_seconds=self.took.session_seconds + turn.session_seconds,
            waited_seconds=self.took.waited_seconds + turn.waited_seconds,
            read=(*self.took.read, partial),
        )
        return partial


@dataclasses.dataclass(frozen=True, slots=True)
class _Scans:
    """Decides which files to read for which kinds; columns that need the same files share a scan."""

    kinds: tuple[Kind[Any], ...]
    by_partition: Kind[PartitionSketches]
    lg_k: int
    all_files: Callable[[], tuple[Work, ...]]

    def of(
        self,
        plans: Iterable[ColumnPlan],
        partition_plans: Mapping[int, PartitionPlan],
        sets: Sequence[JointPlan],
    ) -> list[Scan]:
        alike: dict[object, list[tuple[ColumnPlan, PartitionPlan | None]]] = {}
        for plan in plans:
            of_partitions = partition_plans.get(plan.column.field_id)
            bases = plan.base_id, of_partitions is not None, None if of_partitions is None else of_partitions.base_id
            alike.setdefault(bases, []).append((plan, of_partitions))
        left = [plan for plan in sets if not plan.is_carried]
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
        needed = _compared(added, () if of_partitions is None else of_partitions.tasks)
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


def _compared(before: Iterable[Work], after: Iterable[Work]) -> Difference[Work]:
    """What is read for the columns, for both, and for sketches by partition alone; packed files are always the same."""
    keys = RowKeys()
    return compare(before, after, lambda work: work.digest if isinstance(work, PackedFiles) else keys(work))


def _by_partition(plans: Mapping[int, PartitionPlan], partial: Partial, put: PutAside) -> dict[int, Values]:
    return {
        field_id: put({PARTITION_SKETCHES: plan.sketches(PARTITION_SKETCHES.of(partial.added.get(field_id, {})))})
        for field_id, plan in plans.items()
    }


def _computed(plan: ColumnPlan, partial: Partial, kinds: Sequence[Kind[Any]], put: PutAside) -> Computed:
    field_id = plan.column.field_id
    base = None if plan.base is None else plan.base.values
    if base is not None and plan.basis == CARRIED:
        return Computed(plan, chosen(base, kinds), field_id in partial.mapped, deltas=_deltas(plan, kinds))
    # Each is made once, and gone when the next column is computed.
    parts = Parts(
        None if base is None else {**base}, {**partial.added.get(field_id, {})}, {**partial.removed.get(field_id, {})}
    )
    values: dict[Kind[Any], Any] = {}
    for kind in kinds:
        value = kind.combined(parts, values)
        if value is not None:
            values[kind] = value
    deltas = _deltas(plan, kinds, parts.added)
    return Computed(plan, put(values), field_id in partial.mapped, deltas=put(deltas) if deltas else deltas)


def _deltas(plan: ColumnPlan, kinds: Sequence[Kind[Any]], added: Values | None = None) -> Values:
    """What is added to the values of the base that were not read, by kind; None for each if no rows came."""
    if plan.base is None or not plan.base.gets_deltas:
        return {}
    unread = [kind for kind in kinds if kind in WITH_DELTAS]
    if added is None:
        return dict.fromkeys(unread)
    return {kind: added[kind] if kind in added else kind.start().compact() for kind in unread}


def _joint(
    plans: Iterable[JointPlan], partial: Partial, lg_k: int
) -> tuple[list[tuple[JointPlan, JointSketch]], list[JointPlan]]:
    """The joint sketches of the plans, and the plans in full of those that could not be combined."""
    done, failed = [], []
    for plan in plans:
        try:
            done.append((plan, plan.sketch(partial, lg_k)))
        except Unsubtractable as exc:
            failed.append(plan.in_full(str(exc)))
    return done, failed


def _with_joint(computed: Computed, sets: Sequence[tuple[JointPlan, JointSketch]]) -> Computed:
    values = changed(computed.values, {JOINT: JointSketches.of(sketch for _, sketch in sets)})
    kept = sets[0][0].kept
    return dataclasses.replace(computed, values=values, kept={} if kept is None else {JOINT: kept})
