"""
Delta tables by their directory: a log of versions under ``_delta_log/``, and no catalog.

The log has no place for statistics. They have a directory of their own below it, which VACUUM and log cleanup ignore.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from puffin.delta.log.replay import DeltaLog
from puffin.delta.snapshot import DeltaSnapshot
from puffin.delta.state import read_state
from puffin.delta.statistics.entries import StatisticsDirectory
from puffin.storage import Store, local_path, store_for
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT


class DeltaDirectory:
    """A Delta table by its directory, which is its name; ``store_for`` opens its files and those that its log names."""

    def __init__(self, directory: str, store_for: Callable[[str], Store] = store_for) -> None:
        self.name = directory
        # The log has relative paths, and executors may have another working directory. An index knows files by their
        # paths, which are the same with and without a detour.
        path = local_path(directory)
        location = directory.rstrip("/") if path is None else str(path.absolute())
        if path is not None and ".." in path.parts:
            location = os.path.realpath(location)
        self._store_for = store_for
        self._log = DeltaLog(location, store_for(location))
        self._statistics = StatisticsDirectory(location, self._log.store)

    def open(self, selector: SnapshotSelector = CURRENT) -> DeltaSnapshot:
        """The table at the selected version; raises what `puffin.tables.snapshot.Table.open` raises."""
        segment = self._log.segment(selector.snapshot_id)
        if selector.as_of_ms is not None:
            segment = segment.at(segment.version_at(selector.as_of_ms))
        return DeltaSnapshot(
            name=self.name,
            state=read_state(self._log.location, segment, self._statistics, selector),
            selector=selector,
            store_for=self._store_for,
            log=self._log,
            statistics=self._statistics,
            reopen=self.open,
        )
