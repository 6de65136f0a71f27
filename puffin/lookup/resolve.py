"""
From statistics entries to answers: which entry speaks for a column of a snapshot.

Ancestry decides, not time: statistics of another branch, or of a snapshot that was rolled back, say nothing
about this one. Of the ancestors' entries the one whose rows are nearest wins; an entry may keep a blob that was
computed from an older snapshot than its own, so it is the blob's snapshot that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from puffin.lookup.answer import ANCESTOR, SNAPSHOT, ColumnAnswer
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry, TableState
from puffin.tables.blob_properties import Distinct, from_properties

_REPLACE = "replace"  # the operation of a snapshot that holds the same rows in other files

SketchReader = Callable[[StatisticsEntry, BlobEntry], Distinct | None]


def resolve(
    state: TableState, snapshot: Snapshot, columns: Sequence[Column], read_sketch: SketchReader
) -> tuple[ColumnAnswer, ...]:
    """
    The answer for each column, in the order asked.

    Args:
        read_sketch: Asked for a blob whose properties have no ``ndv``; None means that the file cannot tell either.
    """
    ancestry = tuple(state.ancestors(snapshot.snapshot_id))
    distance = {ancestor.snapshot_id: steps for steps, ancestor in enumerate(ancestry)}
    return tuple(_resolve(state, ancestry, distance, column, read_sketch) for column in columns)


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
        changes += ancestor.operation != _REPLACE
    return None


def _resolve(
    state: TableState,
    ancestry: Sequence[Snapshot],
    distance: dict[int, int],
    column: Column,
    read_sketch: SketchReader,
) -> ColumnAnswer:
    best, best_distance = ColumnAnswer.missing(column), len(ancestry) + 1
    for steps, ancestor in enumerate(ancestry):
        if best_distance <= steps:
            break
        entry = state.statistics.get(ancestor.snapshot_id)
        blob = None if entry is None else entry.sketch_of(column.field_id)
        if entry is None or blob is None:
            continue
        # A blob from a snapshot that is no longer known is older than every ancestor that is.
        age = distance.get(blob.snapshot_id, len(ancestry))
        if age >= best_distance:
            continue
        distinct = from_properties(blob.properties) or read_sketch(entry, blob)
        if distinct is not None:
            source = SNAPSHOT if age == 0 else ANCESTOR
            best, best_distance = ColumnAnswer(column, distinct, blob.snapshot_id, source), age
    return best
