"""
Plan for each column what its statistics are built on, from metadata and stored sketches.

The base is the nearest ancestor whose rows were counted. If only compactions lie between it and the snapshot, its
statistics are carried over; otherwise the job reads the added and removed rows from the changed files. A column
without a usable base is computed in full, and the plan keeps the reason.

A base is complete if it has all that we keep for a column: bounds and counts in the entry, row counts in the private
state. A sketch of another engine is carried, or built on if it has every hash, only if we never kept statistics
ourselves, and leave those of the snapshot as they are. Otherwise an older base of ours, or a full run, restores what
the other engine's commit replaced.

Each of these tells why statistics cannot be used, or None, and is asked in this order:

- `KnownSketch.column_mismatch`: the column was hashed as another type, or read by another name mapping, or may have
  been (a lookup asks `KnownSketch.mapping_changed` alone);
- `Kind.mismatch`: values that were stored together are not of the same rows;
- `Bases.objection`: the sketch has other hashes than ours, or may have;
- `Kind.cannot_subtract`: rows were removed, and the stored values cannot give them up;
- `Bases.missing_beside`: statistics of ours have to be complete, and are not.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from puffin.errors import GONE_OR_BROKEN, StorageError
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.bases import Base, Bases
from puffin.statistics.kinds import THETA
from puffin.statistics.kinds.kind import Kind
from puffin.tables.base import Column
from puffin.tables.changes import Changes
from puffin.tables.snapshot import TableSnapshot

_log = logging.getLogger(__name__)

_Plan = TypeVar("_Plan")

READ_ALL, READ_ADDED, READ_CHANGED, CARRIED = "full", "added-files", "changed-files", "carried"

_CANNOT_ANNOUNCE = "another engine made its sketch, which cannot tell of more statistics"
_INCOMPLETE = "another engine made its sketch, without row counts and bounds, and other columns get sketches of ours"


@dataclasses.dataclass(frozen=True, slots=True)
class PlanningInput:
    """
    The earlier statistics of a table, and what is wanted of new ones.

    Attributes:
        known: The sketches of each column, by field id, as `puffin.statistics.ancestry.known_sketches`.
        kinds: The kinds of statistics to keep for each column, in the wanted size.
        lg_k: That size.
        completes: Whether statistics of ours must have all that we keep beside them.
        may_get_deltas: Whether all that was kept stays as it is, so that it need not be read to add rows.
    """

    opened: TableSnapshot
    known: Mapping[int, Sequence[KnownSketch]]
    bases: Bases
    kinds: Sequence[Kind[Any]]
    lg_k: int
    completes: bool = True
    may_get_deltas: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnPlan:
    """
    How to get the statistics of a column.

    Attributes:
        basis: ``"full"``, ``"added-files"``, ``"changed-files"`` or ``"carried"``.
        base, base_id, changes: The stored values, their snapshot and the files to read on top; None for a full run.
        reason: Why every row is read.
    """

    column: Column
    basis: str
    base: Base | None = None
    base_id: int | None = None
    changes: Changes | None = None
    reason: str | None = None

    @classmethod
    def in_full(cls, column: Column, reason: str) -> ColumnPlan:
        return cls(column, READ_ALL, reason=reason)


class Unfit(Exception):
    """Earlier statistics exist but cannot be built on; the message is logged or reported as the reason."""


def nearest_fit(
    known: Iterable[KnownSketch], column: Column, what: str, plan_on: Callable[[KnownSketch], _Plan]
) -> tuple[_Plan | None, list[str]]:
    """
    The plan for the nearest usable statistics, and why nearer ones are not usable; ``what`` names them in the log.

    ``plan_on`` plans one known sketch, or raises `Unfit` or PuffinError with the reason why it cannot. Its StorageError
    gets out: what a store does not give now is not gone, and the next run can build on it.
    """
    reasons: list[str] = []
    for each in known:
        try:
            return plan_on(each), reasons
        except (Unfit, *GONE_OR_BROKEN) as exc:
            level = logging.INFO if isinstance(exc, Unfit) else logging.WARNING
            _log.log(level, "column %s: earlier %s cannot be built on: %s", column.name, what, exc)
            reasons.append(str(exc))
    return None, reasons


def plan_columns(
    given: PlanningInput, columns: Iterable[Column], *, announcing: Collection[int] = ()
) -> list[ColumnPlan]:
    """
    Plan each column, in the order given; ``announcing`` has the field ids of those that also get sketches by partition
    or joint sketches, which the column's own sketch has to announce.

    Sketches of another engine that are of the snapshot itself stay together or not at all. Beside a sketch of ours the
    next run takes them for replacements of ours, and would read in full what this run called up to date.
    """
    plans = [_plan(given, column) for column in columns]
    foreign = {plan.column.field_id for plan in plans if _keeps_foreign(given, plan)}
    in_full = dict.fromkeys(foreign.intersection(announcing), _CANNOT_ANNOUNCE)
    if given.completes and (in_full or len(foreign) < len(plans)):
        in_full = {**dict.fromkeys(foreign, _INCOMPLETE), **in_full}
    reasons = ((plan, in_full.get(plan.column.field_id)) for plan in plans)
    return [plan if reason is None else ColumnPlan.in_full(plan.column, reason) for plan, reason in reasons]


def _plan(given: PlanningInput, column: Column) -> ColumnPlan:
    bases, incomplete = given.bases, list[ColumnPlan]()

    def plan_on(known: KnownSketch) -> ColumnPlan:
        plan = _plan_on(given, known)
        if given.completes and (lack := bases.missing_beside(known)) is not None:
            if _can_do(known, plan):
                incomplete.append(plan)
            raise Unfit(lack)
        return plan

    plan, reasons = nearest_fit(given.known[column.field_id], column, "statistics", plan_on)
    if plan is not None:
        return plan
    if incomplete and not bases.had_ours(column):
        return incomplete[0]
    return ColumnPlan.in_full(column, reasons[0] if reasons else "no earlier statistics of the column")


def _plan_on(given: PlanningInput, known: KnownSketch) -> ColumnPlan:
    bases = given.bases
    if known.snapshot is None:
        raise Unfit("the snapshot of its earlier statistics has expired, or is of another branch")
    if known.properties.lg_k != given.lg_k:
        raise Unfit(f"the earlier sketch has lg-k {known.properties.lg_k}, expected {given.lg_k}")
    if known.column_mismatch is not None:
        raise Unfit(known.column_mismatch)
    changes = given.opened.changes_since(known.snapshot).narrowed
    only_adds = given.may_get_deltas and not changes.removed
    try:
        base = bases.read(known, changes.rows_added if only_adds else None)
    except StorageError as exc:
        if known.properties.is_ours:
            raise
        # A file of another engine may be out of reach for good, and nothing of ours is lost with it.
        raise Unfit(f"another engine made the earlier sketch, whose file cannot be read: {exc}") from exc
    if (reason := bases.objection(known, base, given.lg_k)) is not None:
        raise Unfit(reason)
    basis = READ_CHANGED if changes.removed else READ_ADDED if changes.added else CARRIED
    if basis == READ_CHANGED:
        refusals = (kind.cannot_subtract(base.values) for kind in given.kinds)
        if (refusal := next(filter(None, refusals), None)) is not None:
            raise Unfit(bases.missing_beside(known) or refusal)
    return ColumnPlan(known.column, basis, base, known.snapshot.snapshot_id, changes)


def _can_do(known: KnownSketch, plan: ColumnPlan) -> bool:
    """Whether another engine's sketch can be carried, or gives the same result as a full run when built on."""
    if known.properties.is_ours or plan.base is None:
        return False
    # Engines sample differently: only a sketch that has every hash is the same for all of them.
    return known.age == 0 or not plan.base.values[THETA].estimating


def _keeps_foreign(given: PlanningInput, plan: ColumnPlan) -> bool:
    """Whether the plan leaves another engine's sketch of the snapshot itself as it is."""
    nearest = next(iter(given.known[plan.column.field_id]), None)
    return plan.base_id == given.opened.snapshot.snapshot_id and nearest is not None and not nearest.properties.is_ours
