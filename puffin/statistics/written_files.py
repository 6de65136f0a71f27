"""Writes statistics files and their private state, and deletes them if their commit has certainly failed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from puffin.format import CREATED_BY, Blob, PuffinWriter
from puffin.statistics.assemble import Contents
from puffin.statistics.private_state.writing import PrivateStateWriter, delete_files
from puffin.storage import Store
from puffin.tables.base import StatisticsEntry
from puffin.tables.leftovers import APPLICATION
from puffin.tables.snapshot import TableSnapshot
from puffin.version import version

_log = logging.getLogger(__name__)


class WrittenFiles:
    """Writes the files of one run, and knows which of them nothing refers to."""

    def __init__(self, store_for: Callable[[str], Store]) -> None:
        self._store_for = store_for
        self._pending: list[str] = []

    def write(self, opened: TableSnapshot, snapshot_id: int, contents: Contents) -> StatisticsEntry:
        """
        Write a statistics file of a snapshot, and its private state; return the entry for it.

        Raises StorageError if a file cannot be written (`discard` deletes those that were), and CorruptError if private
        state to copy from another home is broken.
        """
        self._store_for = opened.store_for
        file = opened.new_statistics_file(snapshot_id)
        created_by = f"{APPLICATION} {version()}"
        with opened.store_for(file.path).create(file.path) as sink:
            writer = PuffinWriter(sink, properties={CREATED_BY: created_by, **file.properties})
            for blob in contents.blobs:
                _ = writer.add(blob) if isinstance(blob, Blob) else writer.copy(blob)
            written = writer.finish()
        self.add(file.path)
        entry = StatisticsEntry(
            snapshot_id=snapshot_id,
            statistics_path=file.path,
            file_size_in_bytes=written.file_size,
            file_footer_size_in_bytes=written.footer_size,
            blobs=contents.entries,
        )
        properties = {CREATED_BY: created_by}
        private = PrivateStateWriter(opened.state, contents.home, opened.store_for, properties, self.add)
        private.write(entry, contents.private)
        return entry

    def add(self, path: str) -> None:
        """Add a file of this run, written or about to be."""
        self._pending.append(path)

    def keep(self) -> None:
        """Keep the files: something refers to them, or may."""
        self._pending.clear()

    def discard(self) -> None:
        """Delete the files that were not kept."""
        pending, self._pending = self._pending, []
        for failure in delete_files(pending, self._store_for):
            _log.warning("could not delete a file, which stays behind: %s", failure)
