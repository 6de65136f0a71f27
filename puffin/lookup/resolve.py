"""
From statistics entries to answers: which entry speaks for a column of a snapshot.

Ancestry decides, not time: statistics of another branch, or of a snapshot that was rolled back, say nothing
about this one. Of the ancestors' entries the one whose rows are nearest wins; an entry may keep a blob that was
computed from an older snapshot than its own, so it is the blob's snapshot that counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from puffin.lookup.answer import ANCESTOR, SNAPSHOT, ColumnAnswer
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry, TableState
from puffin.tables.blob_properties import Distinct, from_properties

SketchReader = Callable[[StatisticsEntry, BlobEntry], Distinct | None]


@dataclasses.dataclass(frozen=True, slots=True)
class KnownBlob:
    """
    A sketch of a column that table metadata knows.

    Attributes:
        snapshot: Whose rows were counted; None if the table no longer has it.
        age: How many snapshots lie between those rows and the ones asked for.
    """

    entry: StatisticsEntry
    blob: BlobEntry
    snapshot: Snapshot | None
    age: int


class Ancestry:
    """What is known of a snapshot's columns from its own statistics and those of its ancestors."""

    def __init__(self, state: TableState, snapshot: Snapshot) -> None:
        ancestors = tuple(state.ancestors(snapshot.snapshot_id))
        self._by_id = {ancestor.snapshot_id: (age, ancestor) for age, ancestor in enumerate(ancestors)}
        # A blob from a snapshot that is no longer known is older than every ancestor that is.
        self._unknown = len(ancestors), None
        self.entries = tuple(state.statistics[a.snapshot_id] for a in ancestors if a.snapshot_id in state.statistics)
        """Statistics entries, the nearest first."""

    def blobs_of(self, field_id: int) -> list[KnownBlob]:
        """The theta blobs of a column, those of the nearest rows first, and of equals the nearest entry's."""
        known = []
        for entry in self.entries:
            blob = entry.sketch_of(field_id)
            if blob is not None:
                age, snapshot = self._by_id.get(blob.snapshot_id, self._unknown)
                known.append(KnownBlob(entry, blob, snapshot, age))
        return sorted(known, key=lambda k: k.age)


def resolve(
    state: TableState, snapshot: Snapshot, columns: Sequence[Column], read_sketch: SketchReader
) -> tuple[ColumnAnswer, ...]:
    """
    The answer for each column, in the order asked.

    Args:
        read_sketch: Asked for a blob whose properties have no ``ndv``; None means that the file cannot tell either.
    """
    ancestry = Ancestry(state, snapshot)
    return tuple(_resolve(ancestry.blobs_of(column.field_id), column, read_sketch) for column in columns)


def staleness(state: TableState, snapshot: Snapshot, stats_snapshot_id: int) -> int | None:
    """
    How many snapshots have changed the rows since statistics were computed: compactions change none.

    Returns:
        Their number; None if the statistics are of a snapshot that the table no longer has, or of another branch.
    """
    changes = 0
    for ancestor in state.ancestors(snapshot.snapshot_id):
        if ancestor.snapshot_id == stats_snapshot_id:
            return changes
        changes += not ancestor.keeps_rows
    return None


def _resolve(known: Sequence[KnownBlob], column: Column, read_sketch: SketchReader) -> ColumnAnswer:
    for candidate in known:
        distinct = from_properties(candidate.blob.properties) or read_sketch(candidate.entry, candidate.blob)
        if distinct is not None:
            source = SNAPSHOT if candidate.age == 0 else ANCESTOR
            return ColumnAnswer(column, distinct, candidate.blob.snapshot_id, source)
    return ColumnAnswer.missing(column)
