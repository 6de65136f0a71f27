"""
Carries out the plans of columns: reads all that they need in one run and combines it.

What is read for a column is combined with its base, kind by kind. If that fails (the files of a base are gone, the row
counts contradict them, or more was deleted than the headroom covers) a second run computes the column in full: nothing
uncertain is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from puffin.errors import CorruptError, NotFoundError
from puffin.sketches.joint_sketches import JointSketch, JointSketches
from puffin.statistics.aside import PutAside, changed, chosen, put_aside
from puffin.statistics.basis import CARRIED, ColumnPlan
from puffin.statistics.deltas import WITH_DELTAS
from puffin.statistics.kinds import JOINT, PARTITION_SKETCHES, THETA
from puffin.statistics.kinds.kind import Kind, Parts, Unsubtractable, Values
from puffin.statistics.private_state.blobs import KeptBlob
from stats_jobs.joint import JointPlan
from stats_jobs.partial import Partial
from stats_jobs.plan_scans import Plans, ScanPlanner
from stats_jobs.run import Runner
from stats_jobs.scan import Scan, Work, counted_once, name_and_count

ExtendScans: TypeAlias = Callable[[Iterable[Scan]], list[Scan]]


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
class Computation:
    """
    The computed columns, and the work they took.

    Attributes:
        files_read: Distinct data files; of packed ones, all that are listed.
        files_packed: Those of them that are packed.
        rows_read: Live rows; those that scans of several columns read are counted once.
        read: What was read, with all that was computed beside the statistics.
    """

    columns: tuple[Computed, ...] = ()
    files_read: int = 0
    files_packed: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    read: tuple[Partial, ...] = ()


def compute(
    plans: Plans,
    runner: Runner,
    all_files: Callable[[], tuple[Work, ...]],
    kinds: Sequence[Kind[Any]],
    extend: ExtendScans = list,
) -> Computation:
    """
    Carry out the plans; raises as `Runner.read`, for files of the snapshot.

    Args:
        all_files: The whole snapshot's, for full runs.
        kinds: The kinds for whole columns, in the order of the table of kinds.
        extend: Adds kinds, such as filters of an index, to the scans of the first reading that succeeds.
    """
    total = _Total(runner, extend)
    by_partition = max((plan.lg_k for plan in plans.partitions.values()), default=PARTITION_SKETCHES.lg_k)
    lg_k = max((kind.lg_k for kind in kinds), default=THETA.lg_k)
    scans = ScanPlanner(tuple(kinds), dataclasses.replace(PARTITION_SKETCHES, lg_k=by_partition), lg_k, all_files)
    combiner = _Combiner(kinds, lg_k, put_aside(len(plans.columns)))
    done = _Done()
    try:
        done = combiner.combined(plans, total.read(scans.of(plans)))
        left = done.left
    except (NotFoundError, CorruptError) as exc:
        if plans.are_in_full:
            raise
        # A removed file may be gone or broken; if it is a live one, the second run fails too.
        left = plans.in_full(str(exc), all_files)
    if left.columns or left.joint:
        done = done.plus(combiner.combined(left, total.read(scans.of(left))))
    return dataclasses.replace(total.took, columns=done.in_order_of(plans.columns))


class _Total:
    def __init__(self, runner: Runner, extend: ExtendScans) -> None:
        self._runner = runner
        self._extend = extend
        self._scans: list[Scan] = []
        self._files: dict[str, int] = {}
        self.took = Computation()

    def read(self, scans: Sequence[Scan]) -> Partial:
        scans = counted_once(scans if self.took.read else self._extend(scans), self._scans)
        partial = self._runner.read(scans)
        self._scans += scans
        for work in (work for scan in scans for work in scan.tasks):
            name, files = name_and_count(work)
            if name not in partial.resumed:
                self._files[name] = files
        packed = {files.digest for scan in self._scans for files in scan.packed}
        self.took = Computation(
            files_read=sum(self._files.values()),
            files_packed=sum(self._files.get(digest, 0) for digest in packed),
            rows_read=self.took.rows_read + partial.rows,
            bytes_read=self.took.bytes_read + partial.bytes_read,
            read=(*self.took.read, partial),
        )
        return partial


@dataclasses.dataclass(frozen=True, slots=True)
class _Done:
    """
    What a reading gave, by field id.

    Attributes:
        left: Plans in full, in place of those that could not be carried out.
    """

    columns: Mapping[int, Computed] = dataclasses.field(default_factory=dict)
    partitions: Mapping[int, Values] = dataclasses.field(default_factory=dict)
    joint: Sequence[tuple[JointPlan, JointSketch]] = ()
    left: Plans = dataclasses.field(default_factory=Plans)

    def plus(self, other: _Done) -> _Done:
        """With what was left, which is done now."""
        partitions = {**self.partitions, **other.partitions}
        return _Done({**self.columns, **other.columns}, partitions, (*self.joint, *other.joint), other.left)

    def in_order_of(self, plans: Sequence[ColumnPlan]) -> tuple[Computed, ...]:
        """The computed columns, each with what it has beside its own statistics."""
        return tuple(self._whole(plan.column.field_id) for plan in plans)

    def _whole(self, field_id: int) -> Computed:
        computed, values = self.columns[field_id], self.columns[field_id].values
        if field_id in self.partitions:
            values = changed(values, self.partitions[field_id])
        sets = [each for each in self.joint if each[0].first.field_id == field_id]
        if not sets:
            return dataclasses.replace(computed, values=values)
        stored = sets[0][0].kept
        return dataclasses.replace(
            computed,
            values=changed(values, {JOINT: JointSketches.of(sketch for _, sketch in sets)}),
            kept={} if stored is None else {JOINT: stored},
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Combiner:
    """Combines what was read with the bases of plans."""

    kinds: Sequence[Kind[Any]]
    lg_k: int
    put: PutAside

    def combined(self, plans: Plans, partial: Partial) -> _Done:
        columns, failed = {}, []
        for plan in plans.columns:
            try:
                columns[plan.column.field_id] = self._computed(plan, partial)
            except Unsubtractable as exc:
                failed.append(ColumnPlan.in_full(plan.column, str(exc)))
        joint, failed_sets = [], []
        for of_set in plans.joint:
            try:
                joint.append((of_set, of_set.sketch(partial, self.lg_k)))
            except Unsubtractable as exc:
                failed_sets.append(of_set.in_full(str(exc)))
        partitions = {field_id: self._of_partitions(field_id, plans, partial) for field_id in plans.partitions}
        return _Done(columns, partitions, joint, Plans(failed, joint=failed_sets))

    def _of_partitions(self, field_id: int, plans: Plans, partial: Partial) -> Values:
        read = PARTITION_SKETCHES.of(partial.added.get(field_id, {}))
        return self.put({PARTITION_SKETCHES: plans.partitions[field_id].sketches(read)})

    def _computed(self, plan: ColumnPlan, partial: Partial) -> Computed:
        field_id = plan.column.field_id
        base = None if plan.base is None else plan.base.values
        if base is not None and plan.basis == CARRIED:
            values = chosen(base, self.kinds)
            return Computed(plan, values, field_id in partial.mapped, deltas=_deltas(plan, self.kinds))
        # Each is made once, and gone when the next column is computed.
        parts = Parts(
            None if base is None else {**base},
            {**partial.added.get(field_id, {})},
            {**partial.removed.get(field_id, {})},
        )
        found: dict[Kind[Any], Any] = {}
        for kind in self.kinds:
            value = kind.combined(parts, found)
            if value is not None:
                found[kind] = value
        deltas = _deltas(plan, self.kinds, parts.added)
        deltas = self.put(deltas) if deltas else deltas
        return Computed(plan, self.put(found), field_id in partial.mapped, deltas=deltas)


def _deltas(plan: ColumnPlan, kinds: Sequence[Kind[Any]], added: Values | None = None) -> Values:
    """What is added to the values of the base that were not read, by kind; None for each if no rows came."""
    if plan.base is None or not plan.base.gets_deltas:
        return {}
    unread = [kind for kind in kinds if kind in WITH_DELTAS]
    if added is None:
        return dict.fromkeys(unread)
    return {kind: added[kind] if kind in added else kind.start().compact() for kind in unread}
