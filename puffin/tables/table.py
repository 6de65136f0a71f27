"""What a table can be asked and told, whatever its format and wherever it lives: the seam that formats fill."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from puffin.storage import Store
from puffin.tables.base import (
    Column,
    PartitionStatisticsEntry,
    Snapshot,
    SnapshotSelector,
    StatisticsEntry,
    TableState,
)
from puffin.tables.changes import Changes
from puffin.tables.leftovers import AgeLimit, Leftovers, StoredEntry
from puffin.tables.scan_task import FileScanTask, ScanContext
from puffin.values.column_summary import ColumnSummary

if TYPE_CHECKING:
    import pyarrow as pa

CURRENT = SnapshotSelector()

PartitionStatisticsWriter: TypeAlias = Callable[[TableState], PartitionStatisticsEntry]
"""Writes the partition statistics file of a snapshot, against the table as it is now; StorageError if it cannot."""


@dataclasses.dataclass(frozen=True, slots=True)
class NewStatisticsFile:
    """Where a statistics file is to be written, and the file properties that the table's format asks for."""

    path: str
    properties: Mapping[str, str]


class Committer(Protocol):
    """Where a table's current metadata lives: it can be read, and swapped for a next version."""

    def load(self, selector: SnapshotSelector = CURRENT) -> TableState:
        """
        The table as it is now.

        Args:
            selector: The snapshot that the state will be asked about, for formats whose schema depends on it.

        Raises:
            SnapshotNotFound: There is no such snapshot, which other formats find out when the state is asked.
        """
        ...

    def refresh(self, state: TableState, selector: SnapshotSelector = CURRENT) -> TableState:
        """
        The table as it is now, for less than loading it where nothing was committed since.

        Returns:
            ``state`` itself, if it is that and can be asked about the snapshot.

        Raises:
            PuffinError: As for `load`.
        """
        ...

    def check_committable(self, state: TableState) -> None:
        """
        Refuse now what no commit to this table can do, so that nothing is computed or written for it.

        Raises:
            UsageError, UnsupportedError: The reason.
        """
        ...

    def commit(self, base: TableState, entry: StatisticsEntry) -> TableState:
        """
        Make ``entry`` the entry of its snapshot.

        Returns:
            The state it was applied to. That is ``base`` where the swap is atomic; where the catalog has no
            compare-and-set for statistics it may be a later one, whose entry has then been overwritten.

        Raises:
            ConflictError: Another writer was faster; nothing was changed.
            CommitUnknownError: It may or may not have been applied.
            PuffinError: It was not applied, for a reason that another attempt does not cure.
        """
        ...


class StatisticsHome(Protocol):
    """Where statistics files are kept."""

    def store(self, uri: str) -> Store:
        """The store that holds one of the table's files."""
        ...

    def new_statistics_file(self, state: TableState, snapshot_id: int) -> NewStatisticsFile:
        """A place for a statistics file of a snapshot, under a name that nobody else uses."""
        ...


class FileSource(Protocol):
    """What is known of a table's data files."""

    def scan_context(self, state: TableState) -> ScanContext:
        """What all scans of the table share; CorruptMetadataError if the metadata cannot be understood."""
        ...

    def plan(self, state: TableState, snapshot: Snapshot) -> tuple[FileScanTask, ...]:
        """
        One task for each whole data file of the snapshot.

        Raises:
            UnsupportedTableError: A file is of a kind or format that this version does not read; names the file.
            CorruptMetadataError: The metadata cannot be understood, or contradicts itself.
            FileNotFound, StorageError: A metadata file is not there, or the storage failed.
        """
        ...

    def column_summaries(
        self, state: TableState, snapshot: Snapshot, columns: Sequence[Column]
    ) -> Mapping[int, ColumnSummary]:
        """
        What the metadata of the snapshot's data files tells of columns, by field id: counts and bounds, no sizes.

        What is not known of every row is None; with a delete file that applies, little is.

        Raises:
            PuffinError: As for `plan`.
        """
        ...

    def certain_values(
        self, state: TableState, snapshot: Snapshot, columns: Sequence[Column]
    ) -> Mapping[int, pa.Array]:
        """
        Some values that columns have in rows of the snapshot, by field id, as the metadata of a few files tells.

        They are for a sketch to be checked against. A column of which none is known is left out.

        Raises:
            PuffinError: As for `plan`.
        """
        ...

    def changes(self, state: TableState, base: Snapshot, target: Snapshot) -> Changes:
        """
        The whole data files to read for the rows that came after ``base`` and those that are gone in ``target``.

        Raises:
            SnapshotNotFound: ``base`` is no ancestor of ``target``, or the table no longer has those between them.
            PuffinError: As for `plan`.
        """
        ...

    def moved(self, state: TableState, base: Snapshot, target: Snapshot) -> tuple[FileScanTask, ...]:
        """Files between which compactions since ``base`` have moved rows from one partition spec to another."""
        ...


class Upkeep(Protocol):
    """What is left of statistics that nobody needs, and how it goes."""

    def dead_entries(self, state: TableState) -> tuple[StoredEntry, ...]:
        """The entries in the table's metadata whose snapshots are gone; CorruptMetadataError if one is none."""
        ...

    def remove_entries(self, base: TableState, entries: Sequence[StoredEntry]) -> None:
        """
        Take entries out of the metadata that followed from ``base``.

        Raises:
            ConflictError: Another writer was faster; nothing was changed.
            CommitUnknownError: They may or may not have been taken out.
            PuffinError: They were not, for a reason that another attempt does not cure.
        """
        ...

    def leftovers(self, state: TableState, limit: AgeLimit) -> Leftovers:
        """
        The files of ours that nothing refers to and that are old, and those of which that cannot be proved.

        Raises:
            UsageError, UnsupportedTableError: What refers to files here cannot be known.
            CorruptMetadataError: The table's metadata cannot be understood.
            StorageError: The storage failed.
        """
        ...


class Table(Committer, StatisticsHome, FileSource, Upkeep, Protocol):
    """
    A table that can be read and given statistics.

    Attributes:
        name: What the user called it.
        io_properties: What a file system needs to open its files, for whoever opens them elsewhere.
    """

    name: str
    io_properties: Mapping[str, str]

    def keeps_partition_statistics(self, state: TableState) -> bool:
        """Whether the table's format has partition statistics files, and the table was ever partitioned."""
        ...

    def partition_statistics(self, state: TableState, snapshot: Snapshot) -> PartitionStatisticsWriter:
        """
        What writes the partition statistics of a snapshot; only of a table that keeps them.

        Raises:
            PuffinError: As for `plan`.
        """
        ...
