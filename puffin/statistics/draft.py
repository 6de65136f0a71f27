"""
Writes the statistics file of a run for the table as it is, and again if the table has changed.

A file gets a unique name. It stays if its commit succeeds or may have; otherwise it is deleted. A file whose attempt
lost a race is deleted when the next one replaces it, unless the table turns out to refer to it.

The draft also repairs the damaged entries of other snapshots.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from puffin.errors import PuffinError
from puffin.format import CREATED_BY
from puffin.statistics.ancestry import nearest_entries
from puffin.statistics.assemble import ColumnStatistics, Contents, assemble, companion_blobs, sketch_blobs
from puffin.statistics.private_state.places import chosen_home
from puffin.statistics.private_state.writing import PrivateStateWriter, delete_files, write_blobs
from puffin.statistics.retained import choose_retained, damaged_entries, marked_entry, retain, stored_sketches
from puffin.tables.base import StatisticsEntry
from puffin.tables.leftovers import APPLICATION
from puffin.tables.snapshot import PartitionStatisticsWriter, TableSnapshot
from puffin.version import version

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class FileOptions:
    """
    How to write a statistics file: the codec of its sketches, and the home of private state if not the table's.

    ``repairs`` tells whether to repair damaged entries too, which takes a commit.
    """

    codec: str | None = None
    home: str | None = None
    repairs: bool = True


class StatisticsDraft:
    """Computed statistics of one snapshot of one table, to be written to a file."""

    def __init__(
        self,
        opened: TableSnapshot,
        statistics: Sequence[ColumnStatistics],
        options: FileOptions,
        partition_statistics: PartitionStatisticsWriter | None = None,
    ) -> None:
        self.snapshot_id = opened.snapshot.snapshot_id
        self.table_uuid = opened.state.uuid
        self._snapshot = opened.snapshot
        self._statistics = tuple(statistics)
        self._options = options
        self._partition_statistics = partition_statistics
        self._store_for = opened.store_for
        self._pending: list[str] = []
        self._written: tuple[StatisticsEntry, object] | None = None

    def write(self, opened: TableSnapshot, existing: Sequence[StatisticsEntry]) -> StatisticsEntry:
        """
        Write the file, unless the last one written is still right; return its entry, with the repaired entries.

        A column that the table no longer has gets no blob. Of columns that ``existing`` lacks, the ancestors' newest
        are kept. If it raises (StorageError; ConflictError, if another job gave the columns other field ids first),
        nothing is left behind.
        """
        state = opened.state
        statistics = [each for each in self._statistics if state.still_has(each.column)]
        computed = {each.column.field_id for each in self._statistics}
        stored = {field_id for entry in existing for blob in entry.blobs for field_id in blob.fields}
        entries = [*existing, *nearest_entries(opened, state.field_ids - computed - stored)]
        damaged = damaged_entries(state) if self._options.repairs else []
        damaged = [entry for entry in damaged if entry.snapshot_id != self.snapshot_id]
        basis = (state.field_ids, tuple(entry.statistics_path for entry in [*entries, *damaged]))
        if self._written is not None:
            written, its_basis = self._written
            if its_basis == basis:
                return written
            if any(entry.statistics_path == written.statistics_path for entry in existing):
                self.keep()
        self.discard()
        retained = retain(opened, entries, self.snapshot_id, {each.column.field_id for each in statistics})
        home = chosen_home(state, self._options.home)
        sketches = sketch_blobs(statistics, self._snapshot, self._options.codec)
        contents = assemble(sketches, retained, companion_blobs(statistics, self._snapshot), home)
        try:
            entry = self._write_file(opened, self.snapshot_id, contents)
            repairs = [repaired for each in damaged if (repaired := self._repaired(opened, each, home)) != each]
            entry = dataclasses.replace(entry, repairs=tuple(repairs))
            if self._partition_statistics is not None:
                partitions = self._partition_statistics(opened)
                self._pending.append(partitions.statistics_path)
                entry = dataclasses.replace(entry, partitions=partitions)
        except BaseException:
            self.discard()
            raise
        self._written = entry, basis
        return entry

    def keep(self) -> None:
        """Keep the file: the table refers to it, or may; another attempt gets another file."""
        self._written = None
        self._pending.clear()

    def discard(self) -> None:
        """Delete what was written and not kept: its commit has certainly failed."""
        self._written = None
        pending, self._pending = self._pending, []
        for failure in delete_files(pending, self._store_for):
            _log.warning("could not delete a file, which stays behind: %s", failure)

    def _repaired(self, opened: TableSnapshot, entry: StatisticsEntry, home: str | None) -> StatisticsEntry:
        """The entry of a new file with the same sketches and nothing else; of the old file, if that is lost."""
        try:
            candidates = stored_sketches(opened, entry)
        except PuffinError as exc:
            _log.warning("an entry is repaired in the table's metadata only: %s", exc)
            marked = (marked_entry(blob, None) for blob in entry.blobs if blob.is_sketch)
            return dataclasses.replace(entry, blobs=tuple(marked))
        fields = opened.state.field_ids
        kept = choose_retained(candidates, snapshot_id=entry.snapshot_id, computed=(), current_fields=fields)
        return self._write_file(opened, entry.snapshot_id, assemble([], kept, home=home))

    def _write_file(self, opened: TableSnapshot, snapshot_id: int, contents: Contents) -> StatisticsEntry:
        """
        Write a statistics file of a snapshot, and its private state; return the entry for it.

        Raises StorageError if a file cannot be written, and CorruptError if private state to copy from another home is
        broken.
        """
        self._store_for = opened.store_for
        file = opened.new_statistics_file(snapshot_id)
        created_by = {CREATED_BY: f"{APPLICATION} {version()}"}
        properties = {**created_by, **file.properties}
        written = write_blobs(opened.store_for(file.path), file.path, contents.blobs, properties)
        self._pending.append(file.path)
        entry = StatisticsEntry(snapshot_id, file.path, written.file_size, written.footer_size, contents.entries)
        private = PrivateStateWriter(opened, contents.home, created_by, self._pending.append)
        private.write(entry, contents.private)
        return entry
