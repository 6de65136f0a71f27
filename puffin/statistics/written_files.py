"""
Files of statistics and private state as they are written, and deleted again where their commit has certainly failed.
"""

from __future__ import annotations

import logging

from puffin.format import CREATED_BY, Blob, PuffinReader, PuffinWriter, RawBlob
from puffin.statistics.assemble import Contents, RetainedBlob, with_entries
from puffin.statistics.private_state import places
from puffin.statistics.private_state.writing import (
    KeptBlob,
    OmittedBlob,
    PrivateBlob,
    PrivateStateWriter,
    delete_files,
)
from puffin.statistics.stored_blobs import read_manifest
from puffin.tables.base import StatisticsEntry, TableState
from puffin.tables.leftovers import APPLICATION
from puffin.tables.table import StatisticsHome
from puffin.version import version

_log = logging.getLogger(__name__)


class WrittenFiles:
    """
    Writes the files of one run's statistics, and knows which of them nothing refers to yet.

    Args:
        table: Where the files go.
        home: Where the caller wants private state; None for what the table says, or the default.
    """

    def __init__(self, table: StatisticsHome, home: str | None = None) -> None:
        self._table = table
        self._asked = home
        self._pending: list[str] = []

    def home(self, state: TableState) -> str | None:
        """Where private state goes, as `assemble` takes it."""
        return places.chosen_home(state, self._asked)

    def write(self, state: TableState, snapshot_id: int, contents: Contents) -> StatisticsEntry:
        """
        Write a statistics file of a snapshot, and its private state; returns the entry that refers to it.

        Raises:
            StorageError: A file cannot be written; those that were are deleted by `discard`.
            CorruptError: Private state that has to be copied from another home is broken.
        """
        file = self._table.new_statistics_file(state, snapshot_id)
        created_by = f"{APPLICATION} {version()}"
        with self._table.store(file.path).create(file.path) as sink:
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
        private = PrivateStateWriter(state, self.home(state), self._table.store, {CREATED_BY: created_by}, self.add)
        private.write(entry, contents.private)
        return entry

    def add(self, path: str) -> None:
        """Take a file that was written, or is about to be, for one of this run's."""
        self._pending.append(path)

    def keep(self) -> None:
        """Let go of the files: something refers to them, or may."""
        self._pending.clear()

    def discard(self) -> None:
        """Delete the files that were not let go of."""
        pending, self._pending = self._pending, []
        for failure in delete_files(pending, self._table.store):
            _log.warning("a file is left behind, since it cannot be deleted: %s", failure)


def retained_blobs(state: TableState, entry: StatisticsEntry, table: StatisticsHome) -> list[RetainedBlob]:
    """
    What the file of an entry has, with the private blobs that belong to each sketch.

    Raises:
        PuffinError: The file cannot be read.
    """
    path = entry.statistics_path
    with table.store(path).open_source(path) as source:
        reader = PuffinReader(source, file_size=entry.file_size_in_bytes, footer_size=entry.file_footer_size_in_bytes)
        raws: list[RawBlob] = reader.read_all_raw()
        retained = with_entries(entry, raws, reader.file_metadata.properties.get(CREATED_BY))
    manifest = read_manifest(state, entry, table.store)
    if manifest is None:
        return retained
    directory = places.directory(state, places.home_of(entry))
    beside: dict[tuple[int, int], list[PrivateBlob]] = {}
    for key, stored in manifest.blobs.items():
        beside.setdefault((key.field_id, key.snapshot_id), []).append(KeptBlob(key, stored, directory))
    for key in manifest.omitted:
        beside.setdefault((key.field_id, key.snapshot_id), []).append(OmittedBlob(key))
    return [
        RetainedBlob(kept.raw, kept.entry, tuple(beside.get((kept.entry.fields[0], kept.entry.snapshot_id), ())))
        for kept in retained
        if kept.entry.fields
    ]
