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
from collections.abc import Sequence

from puffin.errors import PuffinError
from puffin.statistics.blob_properties import (
    MAPPING_CHANGED,
    is_by_an_earlier_version,
    is_ours,
    is_read_otherwise,
    lg_k_of,
    type_of,
)
from puffin.statistics.resolve import Ancestry, KnownBlob
from puffin.tables.base import BlobEntry, Column, Snapshot, TableState
from puffin.tables.changes import Changes, narrowed
from puffin.tables.document import column_type_at, mapping_digest
from puffin.tables.snapshot import TableSnapshot
from puffin.values.value_type import hashes_alike
from stats_jobs.stored import StoredSketch, StoredSketches

_log = logging.getLogger(__name__)

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
    base: StoredSketch | None = None
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
    """

    lg_k: int
    complete: bool = True


def plan_columns(
    opened: TableSnapshot, columns: Sequence[Column], wanted: Wanted, stored: StoredSketches
) -> list[ColumnPlan]:
    """The plan of each column, in the order asked."""
    planner = _Planner(opened, wanted, stored)
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
    def __init__(self, opened: TableSnapshot, wanted: Wanted, stored: StoredSketches) -> None:
        self._opened = opened
        self._ancestry = Ancestry(opened)
        self._wanted = wanted
        self._stored = stored
        self._changes: dict[int, Changes | PuffinError] = {}

    def plan(self, column: Column) -> ColumnPlan:
        reasons: list[str] = []
        incomplete: ColumnPlan | None = None
        for known in self._ancestry.blobs_of(column.field_id):
            try:
                plan = self._plan_on(column, known)
                if not self._wanted.complete or (lack := self._stored.lacks(known)) is None:
                    return plan
                incomplete = incomplete or (plan if self._can_do(known, plan) else None)
                reasons.append(lack)
            except _Unfit as unfit:
                reasons.append(str(unfit))
            except PuffinError as exc:
                _log.warning("column %s: earlier statistics cannot be built on: %s", column.name, exc)
                reasons.append(str(exc))
        if incomplete is not None and not self._stored.had_ours(column):
            return incomplete
        return ColumnPlan.in_full(column, reasons[0] if reasons else "no earlier statistics of the column")

    def _plan_on(self, column: Column, known: KnownBlob) -> ColumnPlan:
        if known.snapshot is None:
            raise _Unfit("the snapshot of its earlier statistics has expired, or is of another branch")
        if (reason := misfit(self._opened.state, known.snapshot, column, known.blob, self._wanted.lg_k)) is not None:
            raise _Unfit(reason)
        changes = self._changes_to(known.snapshot)
        base = self._stored.read(known.entry, known.blob)
        if (reason := self._stored.objection(known, column, base.sketch, self._wanted.lg_k)) is not None:
            raise _Unfit(reason)
        basis = CHANGED if changes.removed else ADDED if changes.added else CARRIED
        if basis == CHANGED and base.counts is None:
            nothing_kept = "rows were deleted, and the earlier statistics have no row counts to subtract them from"
            raise _Unfit(self._stored.lacks(known) or nothing_kept)
        return ColumnPlan(column, basis, base, known.snapshot.snapshot_id, changes)

    @staticmethod
    def _can_do(known: KnownBlob, plan: ColumnPlan) -> bool:
        """Whether another engine's sketch can stand as it is, or be built on to the same as every row would give."""
        # Engines sample in ways of their own: only a sketch that has every hash is the same whoever made it.
        has_every_hash = plan.base is not None and not plan.base.sketch.estimating
        return not is_ours(known.blob.properties) and (known.age == 0 or has_every_hash)

    def _changes_to(self, base: Snapshot) -> Changes:
        if base.snapshot_id not in self._changes:
            try:
                self._changes[base.snapshot_id] = narrowed(self._opened.changes_since(base))
            except PuffinError as exc:
                self._changes[base.snapshot_id] = exc
        found = self._changes[base.snapshot_id]
        if isinstance(found, PuffinError):
            raise found
        return found


class _Unfit(Exception):
    """Earlier statistics are there and cannot be built on; the message is the reason the user gets."""
