"""
The statistics file of a run: written against the table as it is, and again if the table has moved on.

A file is written under a name nobody else uses. It stays if its commit succeeds or may have; otherwise it is
deleted, and one that was written for an attempt that lost its race is deleted as soon as the next replaces it,
unless the table turns out to refer to it all the same.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence

import puffin
from puffin.errors import PuffinError
from puffin.format import CREATED_BY, PARTITION_SKETCHES_V1, ROW_COUNTS_V1, Blob, PuffinReader, PuffinWriter, RawBlob
from puffin.lookup.resolve import Ancestry
from puffin.tables.base import Column, Snapshot, StatisticsEntry, TableState
from puffin.tables.column_summary import ColumnSummary
from puffin.tables.leftovers import APPLICATION
from puffin.tables.partition_sketches import PartitionSketches
from puffin.tables.table import NewStatisticsFile, PartitionStatisticsWriter, StatisticsHome
from puffin.theta import RowCounts, ThetaSketch
from stats_jobs.assemble import (
    COMPANIONS,
    Contents,
    RetainedBlob,
    assemble,
    choose_retained,
    companion_blobs,
    sketch_blobs,
    with_entries,
)

_log = logging.getLogger(__name__)


class StatisticsDraft:
    """
    Sketches of one snapshot on their way into a file.

    Attributes:
        snapshot_id: The snapshot they were computed from.
        table_uuid: The table they were computed from.
    """

    def __init__(
        self,
        state: TableState,
        snapshot: Snapshot,
        columns: Sequence[Column],
        sketches: Mapping[int, ThetaSketch],
        *,
        lg_k: int,
        codec: str | None,
        home: StatisticsHome,
        summaries: Mapping[int, ColumnSummary] | None = None,
        row_counts: Mapping[int, RowCounts] | None = None,
        partition_sketches: Mapping[int, PartitionSketches] | None = None,
        partition_statistics: PartitionStatisticsWriter | None = None,
    ) -> None:
        self.snapshot_id = snapshot.snapshot_id
        self.table_uuid = state.uuid
        self._snapshot = snapshot
        self._columns = tuple(columns)
        self._sketches = sketches
        self._summaries = summaries or {}
        self._row_counts = row_counts or {}
        self._partition_sketches = partition_sketches or {}
        self._partition_statistics = partition_statistics
        self._lg_k = lg_k
        self._codec = codec
        self._home = home
        self._written: tuple[StatisticsEntry, object] | None = None

    def write(self, state: TableState, existing: Sequence[StatisticsEntry]) -> StatisticsEntry:
        """
        Write the file, unless the one at hand is what would be written again.

        Args:
            state: The table as it is; a column that it no longer has gets no blob.
            existing: Entries of this snapshot whose blobs for other columns are kept, the first first. Of columns
                that they lack, the ancestors' newest are kept.

        Returns:
            The entry that refers to the file.

        Raises:
            StorageError: The file cannot be written; nothing is left behind.
            ConflictError: Another job gave the columns other field ids first.
        """
        columns = [column for column in self._columns if state.still_has(column)]
        older = self._of_ancestors(state, existing)
        basis = (state.field_ids, tuple(entry.statistics_path for entry in [*existing, *older]))
        if self._written is not None:
            written, its_basis = self._written
            if its_basis == basis:
                return written
            if any(entry.statistics_path == written.statistics_path for entry in existing):
                self.keep()
        self.discard()
        snapshot, by_partition = self._snapshot, self._partition_sketches
        computed = [
            *sketch_blobs(
                self._sketches,
                columns,
                snapshot,
                lg_k=self._lg_k,
                codec=self._codec,
                partitions=by_partition,
                summaries=self._summaries,
            ),
            *companion_blobs(ROW_COUNTS_V1, self._row_counts, columns, snapshot),
            *companion_blobs(PARTITION_SKETCHES_V1, by_partition, columns, snapshot),
        ]
        stored = [blob for entry in existing for blob in self._stored_blobs(entry)]
        stored += [blob for entry in older for blob in self._stored_blobs(entry) if _is_ours_to_carry(blob)]
        retained = choose_retained(
            stored,
            snapshot_id=self.snapshot_id,
            computed={column.field_id for column in columns},
            current_fields=state.field_ids,
        )
        file = self._home.new_statistics_file(state, self.snapshot_id)
        entry = self._write_file(file, assemble(computed, retained))
        self._written = entry, basis
        if self._partition_statistics is not None:
            entry = dataclasses.replace(entry, partitions=self._partition_statistics(state))
            self._written = entry, basis
        return entry

    def keep(self) -> None:
        """Let go of the file: the table refers to it, or may; another attempt gets another file."""
        self._written = None

    def discard(self) -> None:
        """Delete what was written and not let go of: its commit has certainly failed."""
        if self._written is None:
            return
        entry, self._written = self._written[0], None
        partitions = () if entry.partitions is None else (entry.partitions.statistics_path,)
        for path in (entry.statistics_path, *partitions):
            try:
                self._home.store(path).delete(path)
            except PuffinError as exc:
                _log.warning("left behind, since it cannot be deleted: %s (%s)", path, exc)

    def _of_ancestors(self, state: TableState, existing: Sequence[StatisticsEntry]) -> list[StatisticsEntry]:
        """What ancestors know of the columns that are neither computed nor in an entry of this snapshot."""
        lacking = state.field_ids - {column.field_id for column in self._columns}
        lacking -= {field_id for entry in existing for blob in entry.blobs for field_id in blob.fields}
        ancestry = Ancestry(state, self._snapshot)
        older = [entry for entry in ancestry.entries if entry.snapshot_id != self.snapshot_id]
        nearest = [known[0].entry for field_id in lacking if (known := ancestry.blobs_of(field_id))]
        return [entry for entry in older if entry in nearest]

    def _write_file(self, file: NewStatisticsFile, contents: Contents) -> StatisticsEntry:
        properties = {CREATED_BY: f"{APPLICATION} {puffin.__version__}", **file.properties}
        with self._home.store(file.path).create(file.path) as sink:
            writer = PuffinWriter(sink, properties=properties)
            for blob in contents.blobs:
                _ = writer.add(blob) if isinstance(blob, Blob) else writer.copy(blob)
            written = writer.finish()
        return StatisticsEntry(
            snapshot_id=self.snapshot_id,
            statistics_path=file.path,
            file_size_in_bytes=written.file_size,
            file_footer_size_in_bytes=written.footer_size,
            blobs=contents.entries,
        )

    def _stored_blobs(self, entry: StatisticsEntry) -> Iterable[RetainedBlob]:
        path = entry.statistics_path
        try:
            with self._home.store(path).open_source(path) as source:
                reader = PuffinReader(
                    source, file_size=entry.file_size_in_bytes, footer_size=entry.file_footer_size_in_bytes
                )
                raws: list[RawBlob] = reader.read_all_raw()
        except PuffinError as exc:
            _log.warning("statistics of other columns are dropped, since their file cannot be read: %s", exc)
            return []
        return with_entries(entry, raws)


def _is_ours_to_carry(blob: RetainedBlob) -> bool:
    """Of an older snapshot, what another engine keeps in the footer alone may not hold for this one."""
    return blob.entry is not None or blob.raw.metadata.type in COMPANIONS
