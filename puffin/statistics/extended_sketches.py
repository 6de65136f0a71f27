"""
Detects sketches that Trino extended on INSERT and that may lack rows.

Trino 476 adds the rows of an INSERT to the sketch of the nearest ancestor that has one, and stores the sum for the new
snapshot. It lacks rows that other writes added or removed in between without statistics: 1,010 instead of 1,510. Table
metadata shows that as long as it has those snapshots.
"""

from __future__ import annotations

from puffin.statistics.blob_properties import SketchProperties
from puffin.tables.base import BlobEntry, Snapshot
from puffin.tables.state import TableState


def may_lack_changes(state: TableState, blob: BlobEntry) -> bool:
    """Whether a sketch may lack changes before its snapshot; ours and those of ANALYZE do not."""
    seen: set[int] = set()
    while True:
        snapshot = state.snapshots.get(blob.snapshot_id)
        if SketchProperties(blob.properties).is_ours or snapshot is None or not snapshot.is_trino_insert:
            return False
        base = _base_of(state, snapshot, blob)
        if base is None or blob.snapshot_id in seen:
            return snapshot.parent_id is not None
        seen.add(blob.snapshot_id)
        blob = base


def _base_of(state: TableState, snapshot: Snapshot, blob: BlobEntry) -> BlobEntry | None:
    """The sketch that has all rows of a snapshot's parent, past compactions."""
    same_rows: list[int] = []
    for ancestor in list(state.ancestors(snapshot.snapshot_id))[1:]:
        same_rows.append(ancestor.snapshot_id)
        entry = state.statistics.get(ancestor.snapshot_id)
        base = None if entry is None else entry.sketches.get(blob.fields[0])
        if base is not None and base.snapshot_id in same_rows:
            return base
        if not ancestor.keeps_rows:
            return None
    return None
