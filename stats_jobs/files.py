"""The files of a snapshot, and what changed in them since its ancestors: asked of the table once, when needed."""

from __future__ import annotations

import functools

from puffin.storage import Store
from puffin.tables.base import Snapshot, TableState
from puffin.tables.changes import Changes
from puffin.tables.scan_task import FileScanTask
from puffin.tables.table import Table


class SnapshotFiles:
    """What can be asked of a snapshot's files; errors as `FileSource` has them."""

    def __init__(self, table: Table, state: TableState, snapshot: Snapshot) -> None:
        self.table = table
        self.state = state
        self.snapshot = snapshot
        self._changes: dict[int, Changes] = {}

    @functools.cached_property
    def tasks(self) -> tuple[FileScanTask, ...]:
        """Every data file, whole, with its deletes."""
        return self.table.plan(self.state, self.snapshot)

    def store_for(self, uri: str) -> Store:
        """The store that holds one of the table's files."""
        return self.table.store(uri)

    def changes_since(self, base: Snapshot) -> Changes:
        """The files to read for the rows that came and went since an ancestor; whole, see `narrowed`."""
        if base.snapshot_id not in self._changes:
            self._changes[base.snapshot_id] = self.table.changes(self.state, base, self.snapshot)
        return self._changes[base.snapshot_id]

    def moved_since(self, base: Snapshot) -> tuple[FileScanTask, ...]:
        """Files between which compactions since an ancestor have moved rows from one partition spec to another."""
        return self.table.moved(self.state, base, self.snapshot)
