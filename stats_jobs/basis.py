"""
Plan for each column what its statistics are built on, from metadata and stored sketches.

The base is the nearest ancestor whose rows were counted. If only compactions lie between it and the snapshot, its
statistics are carried over; otherwise the job reads the added and removed rows from the changed files. A column
without a usable base is computed in full, and the plan keeps the reason.

A base is complete if it has all that we keep for a column: bounds and counts in the entry, row counts in the private
state. A sketch of another engine is carried, or built on if it has every hash, only if we never kept statistics
ourselves. Otherwise an older base of ours, or a full run, restores what the other engine's commit replaced.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from puffin.errors import PuffinError
from puffin.statistics.blob_properties import (
    MAPPING_CHANGED,
    has_provenance,
    is_ours,
    is_read_otherwise,
    lg_k_of,
    type_of,
)
from puffin.statistics.kinds import ROW_COUNTS, THETA
from puffin.statistics.kinds.kind import Kind
from puffin.statistics.resolve import Ancestry, KnownBlob
from puffin.tables.base import BlobEntry, Column, Snapshot
from puffin.tables.changes import Changes, narrowed
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState
from puffin.values.value_type import hashes_alike
from stats_jobs.stored import Base, Bases

_log = logging.getLogger(__name__)

_Plan = TypeVar("_Plan")

FULL, ADDED, CHANGED, CARRIED = "full", "added-files", "changed-files", "carried"


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
        return cls(column, FULL, reason=reason)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """The size and kinds of a base; ``complete`` to skip incomplete ones if every row can be read instead."""

    lg_k: int
    complete: bool = True
    kinds: Sequence[Kind[Any]] = (ROW_COUNTS, THETA)


class Unfit(Exception):
    """Earlier statistics exist but cannot be built on; the message is logged or reported as the reason."""


def nearest_fit(
    known: Iterable[KnownBlob], column: Column, what: str, plan_on: Callable[[KnownBlob], _Plan | None]
) -> tuple[_Plan | None, list[str]]:
    """
    The plan for the nearest usable statistics, and why nearer ones are not usable; ``what`` names them in the log.

    ``plan_on`` plans one known sketch. It returns None to skip it, and raises `Unfit` or PuffinError with the reason.
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
    """Plan each column, in the order given; the changes since each ancestor are looked up once."""
    planner = _Planner(opened, wanted, bases)
    return [planner.plan(column) for column in columns]


def misfit(state: TableState, snapshot: Snapshot, column: Column, blob: BlobEntry, lg_k: int) -> str | None:
    """Why a stored sketch does not fit the column as it is now, or None."""
    if lg_k_of(blob.properties) != lg_k:
        return f"the earlier sketch has lg-k {lg_k_of(blob.properties)}, expected {lg_k}"
    is_known = is_ours(blob.properties)
    hashed = type_of(blob.properties) if is_known else state.column_type_at(snapshot, column.field_id)
    if hashed is None or not hashes_alike(hashed, column.type):
        return f"the earlier sketch is of type {hashed}, the column of type {column.type}"
    return misread(state, column, blob)


def misread(state: TableState, column: Column, blob: BlobEntry) -> str | None:
    """Why the sketch's files may give other values for the column today, or None."""
    if is_read_otherwise(state, column, blob.properties):
        return MAPPING_CHANGED
    if not has_provenance(blob.properties) and state.mapping_digest(column) is not None:
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
        """Whether another engine's sketch can be carried, or gives the same result as a full run when built on."""
        # Engines sample differently: only a sketch that has every hash is the same for all of them.
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
