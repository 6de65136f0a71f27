"""
Reads the stored values that a column can be built on: sketches of any engine, and our other kinds beside our own.

A file or blob that cannot be read does not fail the job: the column is computed again, and the reason is kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from puffin.errors import CorruptError, FileNotFound
from puffin.statistics.blob_properties import (
    HASHED_HERE,
    Provenance,
    is_hashed_here,
    is_ours,
    is_unmarked,
    lg_k_of,
    provenance_of,
    writer_of,
)
from puffin.statistics.kinds import THETA, sized_kinds
from puffin.statistics.kinds.kind import Home, Kind, Values
from puffin.statistics.private_state.upkeep import has_private_state
from puffin.statistics.private_state.writing import KeptBlob
from puffin.statistics.resolve import KnownBlob
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.statistics.trust import Trust
from puffin.tables.base import Column
from puffin.tables.snapshot import TableSnapshot

_FULL_SHARE = 0.9  # of the nominal entries: every engine's sketch has as many hashes once it estimates


@dataclasses.dataclass(frozen=True, slots=True)
class Base:
    """The stored values of a column's earlier rows, always with a sketch; ``kept`` is where private ones are stored."""

    values: Values
    provenance: Provenance = HASHED_HERE
    kept: Mapping[Kind[Any], KeptBlob] = dataclasses.field(default_factory=dict)


class Bases:
    """Reads the stored values of some columns and decides whether they can be built on."""

    def __init__(self, opened: TableSnapshot, blobs: StoredBlobs, columns: Sequence[Column]) -> None:
        self._opened = opened
        self._blobs = blobs
        self._trust = Trust(opened, blobs, columns)

    def read(self, known: KnownBlob, column: Column) -> Base:
        """The values stored with a known sketch; PuffinError if a blob cannot be read or contradicts the entry."""
        entry, blob = known.entry, known.blob
        found = {
            kind: self._value(known, kind, column)
            for kind in sized_kinds(lg_k_of(blob.properties))
            if kind.is_default and (kind.home is not Home.PRIVATE or is_ours(blob.properties))
        }
        values = {kind: value for kind, value in found.items() if value is not None}
        for kind in values:
            if (said := kind.contradiction(values)) is not None:
                raise CorruptError(f"{entry.statistics_path}: field {column.field_id}: {said}")
        private = {kind: self._blobs.kept(entry, blob, kind) for kind in values if kind.home is Home.PRIVATE}
        kept = {kind: where for kind, where in private.items() if where is not None}
        provenance = provenance_of(blob.properties)
        if not is_ours(blob.properties):
            provenance = Provenance(writer=writer_of(blob.properties, self._blobs.created_by(entry)) or "")
        return Base(values, provenance, kept)

    def objection(self, known: KnownBlob, column: Column, base: Base, lg_k: int) -> str | None:
        """Why a base cannot be built on, or None. Raises as `Trust.objection`."""
        sketch = base.values[THETA]
        if not is_ours(known.blob.properties) and sketch.estimating and sketch.retained < _FULL_SHARE * (1 << lg_k):
            return f"the earlier sketch has {sketch.retained} hashes, fewer than one of lg-k {lg_k}"
        return self._trust.objection(known.entry, known.blob, known.snapshot, column, sketch)

    def lacks(self, known: KnownBlob) -> str | None:
        """What is missing beside a sketch, or None; StorageError if the storage failed."""
        if not is_ours(known.blob.properties):
            return "another engine made the earlier sketch, without row counts and bounds"
        if is_unmarked(known.blob.properties):
            return None  # its statistics file holds the state and was read
        lost = self._blobs.has_lost_state(known.entry) or self._blobs.misses(known.entry, known.blob)
        return "the private state beside the earlier sketch is gone" if lost else None

    def had_ours(self, column: Column) -> bool:
        """Whether we ever kept statistics of the table, from what is left; StorageError if the storage failed."""
        state = self._opened.state
        sketches = (entry.sketch_of(column.field_id) for entry in state.statistics.values())
        if any(blob is not None and is_hashed_here(blob.properties) for blob in sketches):
            return True
        return has_private_state(self._opened)

    def _value(self, known: KnownBlob, kind: Kind[Any], column: Column) -> Any:
        if kind.home is Home.FILE:
            return self._blobs.require(known.entry, known.blob, kind, column)
        try:
            return self._blobs.read(known.entry, known.blob, kind, column)
        except FileNotFound:
            return None  # `lacks` reports it
