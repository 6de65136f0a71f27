"""The files of a snapshot, and what changed in them since its ancestors: asked of the table once, when needed."""

from __future__ import annotations

import functools

from puffin.tables.base import Snapshot, TableState
from puffin.tables.changes import Changes
from puffin.tables.scan_task import FileScanTask
from puffin.tables.table import FileSource


class SnapshotFiles:
    """What can be asked of a snapshot's files; errors as `FileSource` has them."""

    def __init__(self, source: FileSource, state: TableState, snapshot: Snapshot) -> None:
        self.state = state
        self.snapshot = snapshot
        self._source = source
        self._changes: dict[int, Changes] = {}

    @functools.cached_property
    def tasks(self) -> tuple[FileScanTask, ...]:
        """Every data file, whole, with its deletes."""
        return self._source.plan(self.state, self.snapshot)

    def changes_since(self, base: Snapshot) -> Changes:
        """The files to read for the rows that came and went since an ancestor; whole, see `narrowed`."""
        if base.snapshot_id not in self._changes:
            self._changes[base.snapshot_id] = self._source.changes(self.state, base, self.snapshot)
        return self._changes[base.snapshot_id]

    def moved_since(self, base: Snapshot) -> tuple[FileScanTask, ...]:
        """Files between which compactions since an ancestor have moved rows from one partition spec to another."""
        return self._source.moved(self.state, base, self.snapshot)
