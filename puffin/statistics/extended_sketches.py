"""
Sketches that Trino extended: what its INSERT makes of the statistics that it finds.

Trino 476 adds the rows of an INSERT to the sketch of the nearest ancestor that has one, and takes the sum for one of
the new snapshot. Rows that came or went in between without statistics (by DELETE, UPDATE or MERGE, or by another
engine) are not in it: 1,010 where the truth is 1,510. The table's metadata tells, as long as it has those snapshots.
"""

from __future__ import annotations

from puffin.statistics.blob_properties import is_ours
from puffin.tables.base import BlobEntry, Snapshot, TableState


def may_lack_changes(state: TableState, blob: BlobEntry) -> bool:
    """Whether changes of rows before a blob's snapshot may not be in it; of ours and of ANALYZE none are missing."""
    seen: set[int] = set()
    while True:
        snapshot = state.snapshots.get(blob.snapshot_id)
        if is_ours(blob.properties) or snapshot is None or not snapshot.is_trino_insert:
            return False
        base = _base_of(state, snapshot, blob)
        if base is None or blob.snapshot_id in seen:
            return snapshot.parent_id is not None
        seen.add(blob.snapshot_id)
        blob = base


def _base_of(state: TableState, snapshot: Snapshot, blob: BlobEntry) -> BlobEntry | None:
    """The sketch that has all rows of a snapshot's parent, whichever of compactions in between it stands at."""
    same_rows: list[int] = []
    for ancestor in list(state.ancestors(snapshot.snapshot_id))[1:]:
        same_rows.append(ancestor.snapshot_id)
        entry = state.statistics.get(ancestor.snapshot_id)
        base = None if entry is None else entry.sketch_of(blob.fields[0])
        if base is not None and base.snapshot_id in same_rows:
            return base
        if not ancestor.keeps_rows:
            return None
    return None
