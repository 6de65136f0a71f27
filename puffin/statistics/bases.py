"""
Reads the stored values that a column can be built on: sketches of any engine, and our other kinds beside our own.

A file or blob that is gone or broken does not fail the job: the column is computed again, and the reason is kept.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from puffin.errors import CorruptError, FileNotFound
from puffin.statistics.ancestry import KnownSketch
from puffin.statistics.aside import Later, LaterValues
from puffin.statistics.blob_properties import HASHED_HERE, Provenance, SketchProperties
from puffin.statistics.deltas import WITH_DELTAS, can_have_delta
from puffin.statistics.kinds import SUMMARY, THETA, private_kinds, sized_kinds
from puffin.statistics.kinds.kind import Home, Kind, Values
from puffin.statistics.private_state.blobs import KeptBlob
from puffin.statistics.private_state.upkeep import has_private_state
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.statistics.trust import Trust, noted_objection
from puffin.tables.base import Column
from puffin.tables.snapshot import TableSnapshot
from puffin.values.column_bounds import NO_VALUES, UNKNOWN
from puffin.values.row_summary import RowSummary

_FULL_SHARE = 0.9  # of the nominal entries: every engine's sketch has as many hashes once it estimates


@dataclasses.dataclass(frozen=True, slots=True)
class Base:
    """
    The stored values of a column's earlier rows, always with a sketch; ``kept`` is where private ones are stored.

    If ``gets_deltas``, row counts and the distribution were not read: what comes is stored beside them.
    """

    values: Values
    provenance: Provenance = HASHED_HERE
    kept: Mapping[Kind[Any], KeptBlob] = dataclasses.field(default_factory=dict)
    gets_deltas: bool = False


class Bases:
    """Reads the stored values of some columns and decides whether they can be built on."""

    def __init__(self, opened: TableSnapshot, blobs: StoredBlobs, columns: Sequence[Column]) -> None:
        self._opened = opened
        self._blobs = blobs
        self._trust = Trust(opened, blobs, columns)

    def read(self, known: KnownSketch, rows_added: int | None = None) -> Base:
        """
        The values stored with a known sketch; PuffinError if a blob cannot be read or contradicts the entry.

        If only so many rows are added, the base may get deltas.
        """
        properties = known.properties
        gets_deltas = rows_added is not None and self._takes_delta(known, rows_added)
        found = {
            kind: self._value(known, kind)
            for kind in sized_kinds(properties.lg_k)
            if kind.is_default and (kind.home is not Home.PRIVATE or properties.is_ours)
            if not (gets_deltas and kind in WITH_DELTAS)
        }
        values: Values = {kind: value for kind, value in found.items() if value is not None}
        summary = SUMMARY.of(values)
        if summary is not None and self._has_old_bounds(known, summary):
            values = {**values, SUMMARY: dataclasses.replace(summary, is_loose=True)}
        for kind in values:
            if (wrong := kind.mismatch(values)) is not None:
                raise CorruptError(f"{known.entry.statistics_path}: field {known.column.field_id}: {wrong}")
        stored = WITH_DELTAS if gets_deltas else [kind for kind in values if kind.home is Home.PRIVATE]
        provenance = properties.provenance
        if not properties.is_ours:
            provenance = Provenance(writer=properties.writer(self._blobs.created_by(known.entry)) or "")
        if self._blobs.puts_aside:
            # What is put aside is read again, now that it is known to be whole.
            later = {kind: self._later(known, kind) for kind in values if kind.home is Home.PRIVATE}
            values = LaterValues({**values, **later})
        return Base(values, provenance, self._blobs.stored_of(known, stored), gets_deltas)

    def objection(self, known: KnownSketch, base: Base, lg_k: int) -> str | None:
        """Why a base cannot be built on, or None. Raises as `Trust.objection`."""
        sketch = base.values[THETA]
        if not known.properties.is_ours and sketch.estimating and sketch.retained < _FULL_SHARE * (1 << lg_k):
            return f"the earlier sketch has {sketch.retained} hashes, fewer than one of lg-k {lg_k}"
        return self._trust.objection(known, sketch)

    def missing_beside(self, known: KnownSketch) -> str | None:
        """What is missing beside a sketch, or None; StorageError if the storage failed."""
        if not known.properties.is_ours:
            return "another engine made the earlier sketch, without row counts and bounds"
        if self._blobs.has_lost_file(known.entry):
            return "the earlier statistics file is gone, or is not the one that was written"
        return "the private state beside the earlier sketch is gone" if self._blobs.has_lost_state(known) else None

    def had_ours(self, column: Column) -> bool:
        """Whether we ever kept statistics of the table, from what is left; StorageError if the storage failed."""
        sketches = (entry.sketches.get(column.field_id) for entry in self._opened.state.statistics.values())
        if any(blob is not None and SketchProperties(blob.properties).is_hashed_here for blob in sketches):
            return True
        return has_private_state(self._opened)

    def _has_old_bounds(self, known: KnownSketch, summary: RowSummary) -> bool:
        """Whether there are bounds, and they may be of deleted rows without a note of it."""
        return summary.bounds not in (UNKNOWN, NO_VALUES) and self._blobs.may_have_old_bounds(known)

    def _takes_delta(self, known: KnownSketch, rows: int) -> bool:
        if not known.properties.is_ours or not self._blobs.takes_delta(known, rows):
            return False
        return can_have_delta(self._blobs.stored_of(known, WITH_DELTAS), self._opened.snapshot.snapshot_id)

    def _later(self, known: KnownSketch, kind: Kind[Any]) -> Later:
        return Later(functools.partial(self._value, known, kind))

    def _value(self, known: KnownSketch, kind: Kind[Any]) -> Any:
        if kind.home is Home.FILE:
            return self._blobs.require(known, kind)
        try:
            return self._blobs.read(known, kind)
        except FileNotFound:
            return None  # `missing_beside` reports it


class AnnouncedBases(Bases):
    """
    As `Bases`, but our own statistics count as stored as they were announced: no sketch of them is read.

    The values of a base are those that the manifest lists, and are read when somebody asks for them. Other sketches are
    read, since only their files tell who made them and whether they have every hash.
    """

    def read(self, known: KnownSketch, rows_added: int | None = None) -> Base:
        if not known.properties.is_ours:
            return super().read(known, rows_added)
        if known.footer_error is not None:
            raise known.footer_error
        kinds = (THETA, *self._blobs.stored_of(known, private_kinds()))
        return Base(LaterValues({kind: self._later(known, kind) for kind in kinds}), known.properties.provenance)

    def objection(self, known: KnownSketch, base: Base, lg_k: int) -> str | None:
        return noted_objection(known) if known.properties.is_ours else super().objection(known, base, lg_k)
