"""Decides what a run does: nothing if statistics are current, otherwise a plan for each column."""

from __future__ import annotations

import dataclasses
from typing import Any

from puffin.statistics.answer import ColumnAnswer
from puffin.statistics.kinds import ROW_COUNTS, sized_kinds
from puffin.statistics.kinds.kind import Kind
from stats_jobs.basis import CHANGED, FULL, ColumnPlan, plan_columns
from stats_jobs.current import current_answers
from stats_jobs.options import FULL as FULL_MODE
from stats_jobs.partitions import PartitionPlans, plan_partitions
from stats_jobs.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """
    What a run does: it keeps the current answers, or carries out the plans.

    Attributes:
        kinds: The kinds to compute for whole columns: those that are kept, and those needed to subtract rows.
    """

    current: tuple[ColumnAnswer, ...] | None
    columns: tuple[ColumnPlan, ...]
    partitions: PartitionPlans
    kinds: tuple[Kind[Any], ...] = ()


def decide(target: Target) -> Decision:
    """
    Decide what a run does.

    Raises UnsupportedError if the table does not support commits, or if the mode is ``"incremental"`` and a column has
    no base, and PuffinError if the snapshot's files cannot be planned.
    """
    options = target.options
    current = None if options.mode == FULL_MODE else current_answers(target)
    partitions = plan_partitions(target, is_current=current is not None)
    if current is not None and not partitions.by_field:
        return Decision(current, (), partitions)
    if options.writes:
        target.opened.check_committable()
    if options.mode == FULL_MODE:
        plans = [ColumnPlan.in_full(column, "asked for") for column in target.columns]
    else:
        plans = plan_columns(target, target.columns, beside_partitions=bool(partitions.by_field))
    for plan in plans:
        if plan.basis == FULL:
            target.check_not_incremental(plan.column, plan.reason)
    taken = [kind for kind in options.kinds if kind.is_reported or not options.dry_run]
    if any(plan.basis == CHANGED for plan in plans):
        taken.append(ROW_COUNTS)
    kinds = tuple(kind for kind in sized_kinds(options.lg_k) if kind in taken)
    return Decision(None, tuple(plans), partitions, kinds)
