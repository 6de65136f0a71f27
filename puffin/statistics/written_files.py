"""Writes statistics files and their private state, and deletes them if their commit has certainly failed."""

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
from puffin.tables.base import StatisticsEntry
from puffin.tables.leftovers import APPLICATION
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState
from puffin.version import version

_log = logging.getLogger(__name__)


class WrittenFiles:
    """Writes the files of one run, and knows which of them nothing refers to; ``home`` is None for the default."""

    def __init__(self, opened: TableSnapshot, home: str | None = None) -> None:
        self._store_for = opened.store_for
        self._asked = home
        self._pending: list[str] = []

    def home(self, state: TableState) -> str | None:
        return places.chosen_home(state, self._asked)

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
        state, properties = opened.state, {CREATED_BY: created_by}
        private = PrivateStateWriter(state, self.home(state), opened.store_for, properties, self.add)
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


def retained_blobs(opened: TableSnapshot, entry: StatisticsEntry) -> list[RetainedBlob]:
    """The sketches in the file of an entry, each with its private blobs; PuffinError if the file cannot be read."""
    path = entry.statistics_path
    with opened.store_for(path).open_source(path) as source:
        reader = PuffinReader(source, file_size=entry.file_size_in_bytes, footer_size=entry.file_footer_size_in_bytes)
        raws: list[RawBlob] = reader.read_all_raw()
        retained = with_entries(entry, raws, reader.file_metadata.properties.get(CREATED_BY))
    manifest = read_manifest(opened, entry)
    if manifest is None:
        return retained
    directory = places.directory(opened.state, places.home_of(entry))
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
