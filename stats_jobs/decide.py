"""Decides what a run does: nothing if statistics are current, otherwise a plan for each column."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from puffin.statistics.answer import ColumnAnswer
from puffin.statistics.blob_properties import is_ours
from puffin.statistics.kinds import ROW_COUNTS, sized_kinds
from puffin.statistics.kinds.kind import Kind
from stats_jobs.basis import CHANGED, FULL, ColumnPlan, Wanted, plan_columns
from stats_jobs.current import current_answers
from stats_jobs.options import FULL as FULL_MODE
from stats_jobs.options import INCREMENTAL
from stats_jobs.partitions import PartitionPlans, partitions_kept, plan_partitions
from stats_jobs.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """What a run does: it keeps the current answers, or carries out the plans."""

    current: tuple[ColumnAnswer, ...] | None
    columns: tuple[ColumnPlan, ...]
    partitions: PartitionPlans

    def kinds(self, target: Target) -> Sequence[Kind[Any]]:
        """The kinds to compute for whole columns: those that are kept, and those needed to subtract rows."""
        options = target.options
        taken = [kind for kind in options.kinds if kind.is_reported or not options.dry_run]
        if any(plan.basis == CHANGED for plan in self.columns):
            taken.append(ROW_COUNTS)
        return [kind for kind in sized_kinds(options.lg_k) if kind in taken]


def decide(target: Target) -> Decision:
    """
    Decide what a run does.

    Raises UnsupportedError if the table does not support commits, or if the mode is ``"incremental"`` and a column has
    no base, and PuffinError if the snapshot's files cannot be planned.
    """
    options, opened = target.options, target.opened
    current = None if options.mode == FULL_MODE else current_answers(target)
    partitions = _plan_partitions(target, is_current=current is not None)
    if current is not None and not partitions.by_field:
        return Decision(current, (), partitions)
    if options.writes:
        opened.check_committable()
    return Decision(None, _plan_columns(target, partitions), partitions)


def _plan_partitions(target: Target, *, is_current: bool) -> PartitionPlans:
    """No plans if sketches by partition are not wanted, or all columns have them already."""
    opened, options, columns = target.opened, target.options, target.columns
    if not options.partitions:
        return PartitionPlans({})
    kept = partitions_kept(opened, columns) if is_current else None
    if kept is not None:
        return PartitionPlans({}, kept=kept)
    plans = plan_partitions(opened, columns, None if options.mode == FULL_MODE else target.blobs)
    for column in columns:
        if plans.by_field and plans.by_field[column.field_id].base is None:
            target.check_not_incremental(column, "there are no sketches by partition that fit")
    return plans


def _plan_columns(target: Target, partitions: PartitionPlans) -> tuple[ColumnPlan, ...]:
    options = target.options
    if options.mode == FULL_MODE:
        return tuple(ColumnPlan.in_full(column, "asked for") for column in target.columns)
    wanted = Wanted(options.lg_k, options.mode != INCREMENTAL, options.kinds)
    plans = plan_columns(target.opened, target.columns, wanted, target.bases)
    if partitions.by_field:
        plans = [_beside_partitions(plan, target) for plan in plans]
    for plan in plans:
        if plan.basis == FULL:
            target.check_not_incremental(plan.column, plan.reason)
    return tuple(plans)


def _beside_partitions(plan: ColumnPlan, target: Target) -> ColumnPlan:
    """A full run if the plan would keep another engine's sketch, which cannot announce sketches by partition."""
    snapshot_id = target.opened.snapshot.snapshot_id
    entry = target.opened.state.statistics.get(snapshot_id)
    blob = None if entry is None else entry.sketch_of(plan.column.field_id)
    if plan.base_id == snapshot_id and blob is not None and not is_ours(blob.properties):
        return ColumnPlan.in_full(plan.column, "another engine made its sketch, which cannot tell of partitions")
    return plan
