"""
What all Iceberg tables have in common, wherever their metadata lives: their files, and where statistics go.

A lookup asks none of it, so what knows data files is imported when it is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from puffin.iceberg.commit.patch import statistics_path, stored_entries
from puffin.storage import Store, store_for
from puffin.tables.base import Column, Snapshot, TableState
from puffin.tables.changes import Changes
from puffin.tables.document import name_mapping, partition_specs
from puffin.tables.leftovers import AgeLimit, Leftovers, StoredEntry
from puffin.tables.scan_task import FileScanTask, ScanContext
from puffin.tables.table import NewStatisticsFile, PartitionStatisticsWriter
from puffin.values.column_summary import ColumnSummary

if TYPE_CHECKING:
    import pyarrow as pa


class IcebergTable(ABC):
    """
    An Iceberg table, but for how its metadata is found and swapped; the methods are those of `puffin.tables.table`.

    Attributes:
        name: What the user called it.
        io_properties: What a file system needs to open its files; empty if the environment's credentials do.
    """

    def __init__(
        self, name: str, io_properties: Mapping[str, str], store_for: Callable[[str], Store] = store_for
    ) -> None:
        self.name = name
        self.io_properties = io_properties
        self._store_for = store_for

    @abstractmethod
    def check_committable(self, state: TableState) -> None:
        """Refuse now what no commit to this table can do, as `puffin.tables.table.Committer` has it."""

    def store(self, uri: str) -> Store:
        """The store that holds one of the table's files."""
        return self._store_for(uri)

    def new_statistics_file(self, state: TableState, snapshot_id: int) -> NewStatisticsFile:
        """A place beside the table's metadata, as Iceberg's own writers choose it."""
        return NewStatisticsFile(statistics_path(state, snapshot_id), {})

    def scan_context(self, state: TableState) -> ScanContext:
        """The partition specs, the name mapping and what opens the files."""
        return ScanContext(partition_specs(state.document), name_mapping(state), self.io_properties)

    def plan(self, state: TableState, snapshot: Snapshot) -> tuple[FileScanTask, ...]:
        """One task for each whole data file of the snapshot, in manifest order."""
        from puffin.iceberg.scan.plan import plan_snapshot

        return plan_snapshot(state, snapshot, self.io_properties)

    def column_summaries(
        self, state: TableState, snapshot: Snapshot, columns: Sequence[Column]
    ) -> Mapping[int, ColumnSummary]:
        """What the snapshot's manifests tell of columns, by field id."""
        from puffin.iceberg.scan.column_metrics import column_summaries

        return column_summaries(state, snapshot, columns, self.store)

    def certain_values(
        self, state: TableState, snapshot: Snapshot, columns: Sequence[Column]
    ) -> Mapping[int, pa.Array]:
        """Some values that columns have for certain, by field id, from at most two of the snapshot's manifests."""
        from puffin.iceberg.scan.certain_values import certain_values

        return certain_values(state, snapshot, columns, self.store)

    def changes(self, state: TableState, base: Snapshot, target: Snapshot) -> Changes:
        """The whole data files to read for the rows that came after ``base`` and those that are gone in ``target``."""
        from puffin.iceberg.scan.changes import changes_between

        return changes_between(state, base, target, self.io_properties)

    def moved(self, state: TableState, base: Snapshot, target: Snapshot) -> tuple[FileScanTask, ...]:
        """Files between which compactions since ``base`` have moved rows from one partition spec to another."""
        from puffin.iceberg.scan.changes import moved_between_specs

        return moved_between_specs(state, base, target, self.io_properties)

    def keeps_partition_statistics(self, state: TableState) -> bool:
        """Whether the table was ever partitioned."""
        from puffin.iceberg.commit.partition_stats import unified_partition_type

        return bool(unified_partition_type(state.document))

    def partition_statistics(self, state: TableState, snapshot: Snapshot) -> PartitionStatisticsWriter:
        """What writes the partition statistics of a snapshot, which its manifests tell."""
        from puffin.iceberg.commit.partition_stats import partition_statistics, write_partition_statistics

        rows = partition_statistics(state, snapshot, self.io_properties)
        return lambda current: write_partition_statistics(rows, current, snapshot.snapshot_id, self.store)

    def dead_entries(self, state: TableState) -> tuple[StoredEntry, ...]:
        """The entries, of statistics and of partition statistics, whose snapshots the metadata no longer has."""
        entries = dict.fromkeys(stored_entries(state.document))
        return tuple(entry for entry in entries if entry.snapshot_id not in state.snapshots)

    def leftovers(self, state: TableState, limit: AgeLimit) -> Leftovers:
        """
        What the metadata directories hold that no metadata file there, or in the table's metadata log, names.

        Raises:
            UsageError, UnsupportedTableError: This is not where the table's current metadata is known.
        """
        from puffin.iceberg.leftovers import find_leftovers

        self.check_committable(state)
        return find_leftovers(state, limit, self.store)
