"""
Decides what a run does: nothing if statistics are current, otherwise a plan for each column.

Current statistics are made from this snapshot, for its columns as they are now, in the wanted size. If this version
made the statistics, table metadata and the file names and sizes of private state are enough to decide that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from puffin.errors import StorageError
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.answer import ColumnAnswer
from puffin.statistics.basis import CARRIED, READ_CHANGED, ColumnPlan, plan_columns
from puffin.statistics.damage import damaged_entries
from puffin.statistics.draft import surplus_entries
from puffin.statistics.kinds import ROW_COUNTS, sized_kinds
from puffin.statistics.kinds.kind import Kind
from puffin.statistics.resolve import answer_columns
from puffin.tables.base import StatisticsEntry
from puffin.tables.snapshot import Table
from stats_jobs.joint import ColumnSet, JointPlans, columns_of, has_other_sets, plan_joint, wanted_sets
from stats_jobs.options import FULL, INCREMENTAL, Options
from stats_jobs.partitions import PartitionPlans, partitions_kept, plan_partitions
from stats_jobs.plan_scans import Plans
from stats_jobs.target import Target
from stats_jobs.writable import check_home, check_statistics_place


@dataclasses.dataclass(frozen=True, slots=True)
class Current:
    """Statistics are current: their answers, and why there are no plans for partitions."""

    answers: tuple[ColumnAnswer, ...]
    partitions: PartitionPlans


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Statistics are not current: the plans that bring them up to date, and the kinds to compute."""

    columns: tuple[ColumnPlan, ...]
    partitions: PartitionPlans
    kinds: tuple[Kind[Any], ...]
    joint: JointPlans

    @property
    def plans(self) -> Plans:
        return Plans(self.columns, self.partitions.by_field, self.joint.plans)


Decision: TypeAlias = Current | Work


def decide(target: Target) -> Decision:
    """
    Decide what a run does.

    Raises UnsupportedError if the table does not support commits, or if the mode is ``"incremental"`` and a column has
    no base, NotWritable, and PuffinError if the snapshot's files cannot be planned, or storage fails for an abridged
    entry.
    """
    options = target.options
    sets = wanted_sets(target)
    current = None if options.mode == FULL else _current_answers(target, sets)
    partitions = plan_partitions(target, is_current=current is not None)
    if current is not None and not partitions.by_field:
        return Current(current, partitions)
    if not options.dry_run:
        check_statistics_place(target.opened)
        check_home(target.opened, options.home)
    if options.writes:
        target.opened.check_committable()  # it may write a probe
    if options.mode == FULL:
        plans = [ColumnPlan.in_full(column, "asked for") for column in target.columns]
    else:
        announcing = {column.field_id for column in target.columns} if partitions.by_field else set(sets)
        plans = plan_columns(target.planning_input, target.columns, announcing=announcing)
    unbased = {field_id for field_id, plan in partitions.by_field.items() if plan.base is None}
    no_sketches = "there are no sketches by partition that fit"
    reasons = [(column, no_sketches) for column in target.columns if column.field_id in unbased]
    target.check_not_incremental([*reasons, *((plan.column, plan.reason) for plan in plans)])
    # The kinds to store (a dry run computes them too, to report the same numbers), and row counts to subtract rows.
    taken = list(options.kinds)
    if any(plan.basis == READ_CHANGED for plan in plans):
        taken.append(dataclasses.replace(ROW_COUNTS, lg_k=options.lg_k))
    kinds = tuple(taken[taken.index(kind)] for kind in sized_kinds(options.lg_k) if kind in taken)
    rewritten = {each.field_id for each in target.columns if target.must_rewrite(each)} | partitions.by_field.keys()
    return Work(tuple(plans), partitions, kinds, plan_joint(target, plans, sets, rewritten))


def is_stale(table: Table, options: Options) -> bool:
    """
    Whether something that the options ask for is not current, sketches by partition included.

    A table is stale without a snapshot, with a damaged entry or with more entries than are to stay, and current without
    a column to analyze. With too many partitions for sketches it stays stale: only its files tell how many partitions
    it has. Raises PuffinError if the table cannot be loaded, or has no such snapshot or column.
    """
    opened = table.open(options.selector)
    is_empty, columns = opened.is_empty, columns_of(opened, options)
    if damaged_entries(opened.state):
        return True
    if not columns or is_empty:
        return bool(columns)
    target = Target.of(opened, columns, options)
    if surplus_entries(opened, target.settled.snapshot_id, options.keep_entries):
        return True
    if _current_answers(target, wanted_sets(target)) is None:
        return True
    return options.partitions and target.is_partitioned and partitions_kept(target) is None


def _current_answers(target: Target, sets: Mapping[int, Sequence[ColumnSet]]) -> tuple[ColumnAnswer, ...] | None:
    """The stored answers, if every column has one of this snapshot, type and size, and just these sets are kept."""
    opened, options, entry = target.opened, target.options, target.entry
    if entry is None or has_other_sets(target, sets):
        return None
    if not all(opened.state.field_ids.issuperset(blob.fields) for blob in entry.blobs):
        return None  # a blob for a dropped field makes Spark's planner fail, so a new entry has to replace it
    wants_partition_file = options.partitions and entry.snapshot_id not in opened.state.partition_statistics
    if wants_partition_file and opened.keeps_partition_statistics():
        return None
    for column in target.columns:
        known = target.current.get(column.field_id)
        if known is None or known.properties.lg_k != options.lg_k or known.column_mismatch is not None:
            return None
        if known.blob.snapshot_id != entry.snapshot_id or target.must_rewrite(column) or not _is_whole(known):
            return None
    if not _are_whole(target, entry):
        return None
    answers = answer_columns(target.known, target.columns, lambda: target.blobs)
    if any(answer.stats_snapshot_id != entry.snapshot_id for answer in answers):
        return None  # the entry's own sketch cannot be read, and an older one answers
    return tuple(dataclasses.replace(answer, basis=CARRIED) for answer in answers)


def _is_whole(known: KnownSketch) -> bool:
    """Whether the file has what an abridged entry leaves to it; StorageError if the storage failed, for a retry."""
    if isinstance(known.footer_error, StorageError):
        raise known.footer_error
    return known.footer_error is None


def _are_whole(target: Target, entry: StatisticsEntry) -> bool:
    """
    Whether sketches that fit can be trusted and nothing beside them is missing.

    Ours say so themselves; only whether their file and their private state are there is looked up. Others must pass as
    a base.
    """
    blobs = target.blobs
    ours = {field_id: known for field_id, known in target.current.items() if known.properties.is_ours}
    if ours and blobs.has_lost_file(entry):
        return False
    must_be_complete = target.options.mode != INCREMENTAL
    if must_be_complete and any(blobs.has_lost_state(known) for known in ours.values()):
        return False
    plans = plan_columns(target.planning_input, [column for column in target.columns if column.field_id not in ours])
    return all(plan.basis == CARRIED and plan.base_id == entry.snapshot_id for plan in plans)
