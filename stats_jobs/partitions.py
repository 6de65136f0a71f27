"""
Plan the sketches by partition of each column: what they are built on, and which files to read.

Sketches cannot forget rows, but a partition is small: if it lost rows, all of its live files are read again. If it only
gained rows, these are merged in; an unchanged partition stays. After a change of the partition spec, a compaction may
move rows to other partitions, and the job reads all partitions involved.

The size of the sketches depends on the number of partitions. When that grows, larger sketches are cut down to the
smaller size. When it shrinks a little, the sketches keep their size, so that a table is not read again each time its
number of partitions crosses a boundary.

A run without sketches by partition computes none, and carries those that are still valid.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Collection, Iterable, Mapping

from puffin.errors import GONE_OR_BROKEN, UsageError
from puffin.sketches.partition_sketches import PartitionSketches, lg_k_for
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.aside import Later, LaterValues
from puffin.statistics.bases import Base
from puffin.statistics.basis import Unfit, nearest_fit
from puffin.statistics.kinds import PARTITION_SKETCHES
from puffin.tables.base import Column
from puffin.tables.partition_reading import PartitionReading, partition_of
from puffin.values.partition_tuples import PartitionKey, plain_key
from puffin.values.value_type import hashes_alike
from stats_jobs.options import FULL
from stats_jobs.scan import Work
from stats_jobs.target import Target

_log = logging.getLogger(__name__)

_TOLERANCE = 1  # how far the lg_k of sketches may be below the wanted one


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionPlan:
    """
    How to get the sketches of a column's partitions.

    Attributes:
        tasks: The live files to read.
        base: What makes the sketches to merge with what is read; None to compute all of them.
        base_id: The snapshot of the base.
        stale: Partitions for which the base is no longer valid.
    """

    lg_k: int
    tasks: tuple[Work, ...]
    base: Later | None = None
    base_id: int | None = None
    stale: frozenset[PartitionKey] = frozenset()

    def sketches(self, read: PartitionSketches | None) -> PartitionSketches:
        """Merge the base with the sketches that were read."""
        kind = dataclasses.replace(PARTITION_SKETCHES, lg_k=self.lg_k)
        base = None if self.base is None else self.base.make()
        return kind.joined([part for part in (base, read) if part is not None], without=self.stale)


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionPlans:
    """
    The plan of each column, by field id; without plans, the reason, if there is one.

    ``kept`` is how many partitions of this snapshot have sketches already, if so.
    """

    by_field: Mapping[int, PartitionPlan]
    kept: int | None = None
    reason: str | None = None


def plan_partitions(target: Target, *, is_current: bool) -> PartitionPlans:
    """
    Plan the sketches by partition of the columns, whose own statistics may be current.

    There are no plans if they are not wanted or exist already, or if the table was never partitioned or has too many
    partitions. Raises PuffinError if the snapshot's files cannot be planned.
    """
    if not target.options.partitions:
        return PartitionPlans({})
    if is_current and (kept := partitions_kept(target)) is not None:
        return PartitionPlans({}, kept=kept)
    if not target.is_partitioned:
        return PartitionPlans({}, reason="the table is not partitioned")
    planner = _Planner(target)
    try:
        plans = {column.field_id: planner.plan(column) for column in target.columns}
    except _TooManyPartitions as exc:
        _log.warning("no sketches by partition: %s", exc)
        return PartitionPlans({}, reason=str(exc))
    return PartitionPlans(plans)


def carry_partitions(target: Target, columns: Iterable[Column]) -> tuple[dict[int, Base], str | None]:
    """
    The earlier sketches by partition, by field id, that are still valid for columns whose own sketches are rewritten.

    They are valid if only compactions within their partition specs happened since. Others are left behind, with the
    reason: sketches of some partitions alone cannot answer a filter.
    """
    planner = _Planner(target)
    carried: dict[int, Base] = {}
    reason = None
    for column in columns:
        known = next((each for each in target.known[column.field_id] if each.properties.is_ours), None)
        if known is None or known.properties.partitions is None:
            continue
        try:
            carried[column.field_id] = planner.carry(known)
        except (*GONE_OR_BROKEN, Unfit, _TooManyPartitions) as exc:
            reason = f"they were not asked for, and {exc}"
            _log.warning("column %s: earlier sketches by partition are left behind: %s", column.name, exc)
    return carried, reason


def partitions_kept(target: Target) -> int | None:
    """How many partitions of this snapshot have sketches already; None if a column lacks them."""
    of_columns = (target.current.get(column.field_id) for column in target.columns)
    of_snapshot = (known for known in of_columns if known is not None and known.snapshot == target.settled)
    counts = [known.properties.partitions for known in of_snapshot if known.properties.partitions is not None]
    return max(counts, default=0) if len(counts) == len(target.columns) else None


class _Planner:
    """Plans one column after the other; what they have in common is planned once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._read_since = functools.cache(functools.partial(PartitionReading.since, target.opened))
        self._in_full = functools.cache(self._plan_in_full)

    def plan(self, column: Column) -> PartitionPlan:
        if self._target.options.mode == FULL:
            return self._in_full()
        known = [each for each in self._target.known[column.field_id] if each.properties.partitions is not None]
        return nearest_fit(known, column, "sketches by partition", self._plan_on)[0] or self._in_full()

    def carry(self, known: KnownSketch) -> Base:
        """The sketches by partition that are known beside a sketch; Unfit unless they are valid as they are."""
        if known.freshness.snapshots_behind != 0:
            raise Unfit(f"rows have changed since those of snapshot {known.blob.snapshot_id}")
        plan = self._plan_on(known)
        if plan.tasks or plan.stale:
            raise Unfit(f"a compaction moved rows between partitions since those of snapshot {plan.base_id}")
        is_stored = plan.base is not None and plan.lg_k == plan.base.make().lg_k
        kept = self._target.blobs.where_stored(known, PARTITION_SKETCHES) if is_stored else None
        made = functools.partial(plan.sketches, None)
        values = LaterValues({PARTITION_SKETCHES: Later(made) if self._target.blobs.puts_aside else made()})
        return Base(values, kept={} if kept is None else {PARTITION_SKETCHES: kept})

    def _plan_on(self, known: KnownSketch) -> PartitionPlan:
        if known.snapshot is None:
            raise Unfit("the snapshot of its earlier sketches by partition has expired, or is of another branch")
        hashed, type_ = known.properties.type, known.column.type
        if hashed is None or not hashes_alike(hashed, type_):
            raise Unfit(f"the earlier sketches by partition are of type {hashed}, the column of type {type_}")
        if known.mapping_doubt is not None:
            raise Unfit(known.mapping_doubt)
        reading = self._read_since(known.snapshot)
        base = self._target.blobs.require(known, PARTITION_SKETCHES)
        opened = self._target.opened
        types = opened.state.tuple_types_at(opened.snapshot)
        if any(plain_key(key, types) != key for key in base.keys):
            raise Unfit("the earlier sketches by partition, of version 0.1.0, write decimals or years in another form")
        wanted = _lg_k_for((set(base.keys) - reading.stale) | reading.partitions)
        if base.lg_k < wanted - _TOLERANCE:
            expected = f"expected {wanted} for this many partitions"
            raise Unfit(f"the earlier sketches by partition have lg-k {base.lg_k}, {expected}")
        later = Later(lambda: base)
        if self._target.blobs.puts_aside:
            later = Later(functools.partial(self._target.blobs.require, known, PARTITION_SKETCHES))
        return PartitionPlan(min(base.lg_k, wanted), reading.tasks, later, known.snapshot.snapshot_id, reading.stale)

    def _plan_in_full(self) -> PartitionPlan:
        tasks = self._target.opened.tasks
        return PartitionPlan(_lg_k_for({partition_of(task) for task in tasks}), tasks)


def _lg_k_for(keys: Collection[PartitionKey]) -> int:
    try:
        return lg_k_for(keys)
    except UsageError as exc:
        raise _TooManyPartitions(str(exc)) from exc


class _TooManyPartitions(Exception):
    """The table has more partitions than we keep sketches for."""
