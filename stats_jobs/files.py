"""The files of a snapshot, and what changed in them since its ancestors: asked of the table once, when needed."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from puffin.tables.base import Snapshot, TableState
from puffin.tables.iceberg_changes import Changes, changes_between
from puffin.tables.iceberg_plan import plan_snapshot
from puffin.tables.scan_task import FileScanTask


class SnapshotFiles:
    """
    What can be asked of a snapshot's files; errors as `plan_snapshot` and `changes_between` have them.

    Args:
        io_properties: What opens manifests.
    """

    def __init__(self, state: TableState, snapshot: Snapshot, io_properties: Mapping[str, str]) -> None:
        self.state = state
        self.snapshot = snapshot
        self.io_properties = io_properties
        self._changes: dict[int, Changes] = {}

    @functools.cached_property
    def tasks(self) -> tuple[FileScanTask, ...]:
        """Every data file, whole, with its deletes."""
        return plan_snapshot(self.state, self.snapshot, self.io_properties)

    def changes_since(self, base: Snapshot) -> Changes:
        """The files to read for the rows that came and went since an ancestor; whole, see `narrowed`."""
        if base.snapshot_id not in self._changes:
            self._changes[base.snapshot_id] = changes_between(self.state, base, self.snapshot, self.io_properties)
        return self._changes[base.snapshot_id]
