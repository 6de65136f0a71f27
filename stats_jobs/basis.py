"""
What the statistics of each column can be built on: decided column by column, from metadata and stored sketches.

The nearest rows of the snapshot's ancestry that were counted are the base. If nothing lies between them and the
snapshot but compactions, they are carried; else the rows that came and the rows that went are read, in the files that
changed. Where there is no base, or none that fits, the column is computed in full, and the reason is kept: a sketch is
worth having only if it is right.

A base is complete if everything that we keep of a column is there: bounds and counts in the entry, row counts in the
private state. Another engine's sketch stands as it is, or is built on if it has every hash, only while nothing of ours
ever was: after that, an older base of ours, or every row, restores what the other engine's commit replaced.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from puffin.errors import PuffinError
from puffin.statistics.blob_properties import (
    MAPPING_CHANGED,
    is_by_an_earlier_version,
    is_ours,
    is_read_otherwise,
    lg_k_of,
    type_of,
)
from puffin.statistics.kinds import ROW_COUNTS, THETA
from puffin.statistics.kinds.kind import Kind
from puffin.statistics.resolve import Ancestry, KnownBlob
from puffin.tables.base import BlobEntry, Column, Snapshot, TableState
from puffin.tables.changes import Changes, narrowed
from puffin.tables.document import column_type_at, mapping_digest
from puffin.tables.snapshot import TableSnapshot
from puffin.values.value_type import hashes_alike
from stats_jobs.stored import Base, Bases

_log = logging.getLogger(__name__)

_Plan = TypeVar("_Plan")

FULL, ADDED, CHANGED, CARRIED = "full", "added-files", "changed-files", "carried"


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnPlan:
    """
    How the statistics of a column come about.

    Attributes:
        basis: ``"full"``, ``"added-files"``, ``"changed-files"`` or ``"carried"``.
        base: What it is built on, unless in full.
        base_id: The snapshot whose rows that is.
        changes: The files to read for it, unless in full.
        reason: Why it is computed in full.
    """

    column: Column
    basis: str
    base: Base | None = None
    base_id: int | None = None
    changes: Changes | None = None
    reason: str | None = None

    @classmethod
    def in_full(cls, column: Column, reason: str) -> ColumnPlan:
        """Every row is read."""
        return cls(column, FULL, reason=reason)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """
    What a base has to be.

    Attributes:
        lg_k: Base-2 logarithm of the nominal entries asked for.
        complete: Whether one that lacks something is passed over where every row can be read instead.
        kinds: The kinds of statistics that are built on it.
    """

    lg_k: int
    complete: bool = True
    kinds: Sequence[Kind[Any]] = (ROW_COUNTS, THETA)


class Unfit(Exception):
    """Earlier statistics are there and cannot be built on; the message is the reason that is logged or reported."""


def nearest_fit(
    known: Iterable[KnownBlob], column: Column, what: str, plan_on: Callable[[KnownBlob], _Plan | None]
) -> tuple[_Plan | None, list[str]]:
    """
    The plan on the nearest statistics that can be built on, and why nearer ones cannot.

    Args:
        what: What is to be built on, for the log.
        plan_on: Gives the plan on a known sketch; None to pass it over, `Unfit` or PuffinError with the reason.
    """
    reasons: list[str] = []
    for each in known:
        try:
            plan = plan_on(each)
            if plan is not None:
                return plan, reasons
        except Unfit as unfit:
            _log.info("column %s: earlier %s cannot be built on: %s", column.name, what, unfit)
            reasons.append(str(unfit))
        except PuffinError as exc:
            _log.warning("column %s: earlier %s cannot be built on: %s", column.name, what, exc)
            reasons.append(str(exc))
    return None, reasons


def plan_columns(opened: TableSnapshot, columns: Sequence[Column], wanted: Wanted, bases: Bases) -> list[ColumnPlan]:
    """The plan of each column, in the order asked; the changes since each ancestor are asked for once."""
    planner = _Planner(opened, wanted, bases)
    return [planner.plan(column) for column in columns]


def misfit(state: TableState, snapshot: Snapshot, column: Column, blob: BlobEntry, lg_k: int) -> str | None:
    """Why a sketch of a snapshot's rows is not one of the column as it is now; None if it is."""
    if lg_k_of(blob.properties) != lg_k:
        return f"the earlier sketch has lg-k {lg_k_of(blob.properties)}, asked for is {lg_k}"
    is_known = is_ours(blob.properties)
    hashed = type_of(blob.properties) if is_known else column_type_at(state, snapshot, column.field_id)
    if hashed is None or not hashes_alike(hashed, column.type):
        return f"the earlier sketch is of type {hashed}, the column of type {column.type}"
    return misread(state, column, blob)


def misread(state: TableState, column: Column, blob: BlobEntry) -> str | None:
    """Why the files that a sketch was made of may have other values of the column today; None if they have not."""
    if is_read_otherwise(state, column, blob.properties):
        return MAPPING_CHANGED
    is_noted = is_ours(blob.properties) and not is_by_an_earlier_version(blob.properties)
    if not is_noted and mapping_digest(state, column) is not None:
        return "the table has a name mapping, and nobody noted whether the earlier sketch depends on it"
    return None


class _Planner:
    def __init__(self, opened: TableSnapshot, wanted: Wanted, bases: Bases) -> None:
        self._opened = opened
        self._ancestry = Ancestry(opened)
        self._wanted = wanted
        self._bases = bases
        self._changes: dict[int, Changes | PuffinError] = {}

    def plan(self, column: Column) -> ColumnPlan:
        incomplete: list[ColumnPlan] = []

        def plan_on(known: KnownBlob) -> ColumnPlan:
            plan = self._plan_on(column, known)
            if self._wanted.complete and (lack := self._bases.lacks(known)) is not None:
                if self._can_do(known, plan):
                    incomplete.append(plan)
                raise Unfit(lack)
            return plan

        plan, reasons = nearest_fit(self._ancestry.blobs_of(column.field_id), column, "statistics", plan_on)
        if plan is not None:
            return plan
        if incomplete and not self._bases.had_ours(column):
            return incomplete[0]
        return ColumnPlan.in_full(column, reasons[0] if reasons else "no earlier statistics of the column")

    def _plan_on(self, column: Column, known: KnownBlob) -> ColumnPlan:
        if known.snapshot is None:
            raise Unfit("the snapshot of its earlier statistics has expired, or is of another branch")
        if (reason := misfit(self._opened.state, known.snapshot, column, known.blob, self._wanted.lg_k)) is not None:
            raise Unfit(reason)
        changes = self._changes_since(known.snapshot)
        base = self._bases.read(known, column)
        if (reason := self._bases.objection(known, column, base, self._wanted.lg_k)) is not None:
            raise Unfit(reason)
        basis = CHANGED if changes.removed else ADDED if changes.added else CARRIED
        if basis == CHANGED:
            refusals = (kind.cannot_forget(base.values) for kind in self._wanted.kinds)
            if (refusal := next(filter(None, refusals), None)) is not None:
                raise Unfit(self._bases.lacks(known) or refusal)
        return ColumnPlan(column, basis, base, known.snapshot.snapshot_id, changes)

    @staticmethod
    def _can_do(known: KnownBlob, plan: ColumnPlan) -> bool:
        """Whether another engine's sketch can stand as it is, or be built on to the same as every row would give."""
        # Engines sample in ways of their own: only a sketch that has every hash is the same whoever made it.
        has_every_hash = plan.base is not None and not plan.base.values[THETA].estimating
        return not is_ours(known.blob.properties) and (known.age == 0 or has_every_hash)

    def _changes_since(self, base: Snapshot) -> Changes:
        if base.snapshot_id not in self._changes:
            try:
                self._changes[base.snapshot_id] = narrowed(self._opened.changes_since(base))
            except PuffinError as exc:
                self._changes[base.snapshot_id] = exc
        found = self._changes[base.snapshot_id]
        if isinstance(found, PuffinError):
            raise found
        return found
