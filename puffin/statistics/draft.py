"""
Writes the statistics file of a run for the table as it is, and again if the table has changed.

A file gets a unique name. It stays if its commit succeeds or may have; otherwise it is deleted. A file whose attempt
lost a race is deleted when the next one replaces it, unless the table turns out to refer to it.

The draft also repairs entries of other snapshots: those that list blobs which some engine cannot load, and those of
files of an earlier version, from which engines would copy such blobs.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from puffin.errors import PuffinError
from puffin.statistics.ancestry import known_sketches
from puffin.statistics.assemble import (
    ColumnStatistics,
    RetainedBlob,
    assemble,
    choose_retained,
    companion_blobs,
    sketch_blobs,
)
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.kinds import private_kinds
from puffin.statistics.written_files import WrittenFiles, retained_blobs
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.snapshot import PartitionStatisticsWriter, TableSnapshot
from puffin.tables.state import TableState

PRESTOS = ("presto-sum-data-size-bytes-v1", "presto-kll-sketch-bytes-v1")
"""Types that Presto lists in entries, and pyiceberg cannot load."""

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
        self._files = WrittenFiles(opened, options.home)
        self._written: tuple[StatisticsEntry, object] | None = None

    def write(self, opened: TableSnapshot, existing: Sequence[StatisticsEntry]) -> StatisticsEntry:
        """
        Write the file, unless the last one written is still right.

        Args:
            opened: The table as it is, at this snapshot; a column that it no longer has gets no blob.
            existing: Entries of this snapshot whose blobs for other columns are kept, by priority. Of columns that they
                lack, the ancestors' newest are kept.

        Returns:
            The entry for the file, with the repaired entries.

        Raises:
            StorageError: The file cannot be written; nothing is left behind.
            ConflictError: Another job gave the columns other field ids first.
        """
        state = opened.state
        statistics = [each for each in self._statistics if state.still_has(each.column)]
        older = self._of_ancestors(opened, existing)
        damaged = damaged_entries(state) if self._options.repairs else []
        damaged = [entry for entry in damaged if entry.snapshot_id != self.snapshot_id]
        basis = (state.field_ids, tuple(entry.statistics_path for entry in [*existing, *older, *damaged]))
        if self._written is not None:
            written, its_basis = self._written
            if its_basis == basis:
                return written
            if any(entry.statistics_path == written.statistics_path for entry in existing):
                self.keep()
        self.discard()
        retained = choose_retained(
            [blob for entry in [*existing, *older] for blob in self._stored_blobs(opened, entry)],
            snapshot_id=self.snapshot_id,
            computed={each.column.field_id for each in statistics},
            current_fields=state.field_ids,
        )
        options, home = self._options, self._files.home(state)
        computed = sketch_blobs(statistics, self._snapshot, options.codec)
        contents = assemble(computed, retained, companion_blobs(statistics, self._snapshot), home)
        try:
            entry = self._files.write(opened, self.snapshot_id, contents)
            repairs = [repaired for each in damaged if (repaired := self._repaired(opened, each)) != each]
            entry = dataclasses.replace(entry, repairs=tuple(repairs))
            if self._partition_statistics is not None:
                partitions = self._partition_statistics(opened)
                self._files.add(partitions.statistics_path)
                entry = dataclasses.replace(entry, partitions=partitions)
        except BaseException:
            self._files.discard()
            raise
        self._written = entry, basis
        return entry

    def keep(self) -> None:
        """Keep the file: the table refers to it, or may; another attempt gets another file."""
        self._written = None
        self._files.keep()

    def discard(self) -> None:
        """Delete what was written and not kept: its commit has certainly failed."""
        self._written = None
        self._files.discard()

    def _of_ancestors(self, opened: TableSnapshot, existing: Sequence[StatisticsEntry]) -> list[StatisticsEntry]:
        """The ancestors' entries for columns that are neither computed nor in an entry of this snapshot."""
        lacking = opened.state.field_ids - {each.column.field_id for each in self._statistics}
        lacking -= {field_id for entry in existing for blob in entry.blobs for field_id in blob.fields}
        known = known_sketches(opened, lacking)
        nearest = {of_field[0].entry.snapshot_id for of_field in known.values() if of_field} - {self.snapshot_id}
        ancestors = opened.state.ancestors(self.snapshot_id)
        return [opened.state.statistics[a.snapshot_id] for a in ancestors if a.snapshot_id in nearest]

    def _stored_blobs(self, opened: TableSnapshot, entry: StatisticsEntry) -> Sequence[RetainedBlob]:
        try:
            return retained_blobs(opened, entry)
        except PuffinError as exc:
            _log.warning("statistics of other columns are dropped: cannot read their file: %s", exc)
            return []

    def _repaired(self, opened: TableSnapshot, entry: StatisticsEntry) -> StatisticsEntry:
        """The entry of a new file with the same sketches and nothing else; of the old file, if that is lost."""
        try:
            candidates = retained_blobs(opened, entry)
        except PuffinError as exc:
            _log.warning("an entry is repaired in the table's metadata only: %s", exc)
            sketches = (blob for blob in entry.blobs if blob.is_sketch)
            marked = (dataclasses.replace(b, properties=SketchProperties(b.properties).carried(None)) for b in sketches)
            return dataclasses.replace(entry, blobs=tuple(marked))
        state = opened.state
        kept = choose_retained(candidates, snapshot_id=entry.snapshot_id, computed=(), current_fields=state.field_ids)
        return self._files.write(opened, entry.snapshot_id, assemble([], kept, home=self._files.home(state)))


def damaged_entries(state: TableState) -> list[StatisticsEntry]:
    """The entries of any snapshot that a run repairs, from table metadata alone."""
    return [entry for entry in state.statistics.values() if any(map(_is_damage, entry.blobs))]


def _is_damage(blob: BlobEntry) -> bool:
    # Blobs of unknown types stay: their writer may need them.
    private = {kind.name for kind in private_kinds()}
    return blob.type in private or blob.type in PRESTOS or SketchProperties(blob.properties).is_unmarked
