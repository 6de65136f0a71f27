"""A table as it was opened: one version of its metadata, bound to a snapshot and to the stores that hold its files."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

from puffin.errors import SnapshotNotFound
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

_Opened = TypeVar("_Opened", bound="TableSnapshot")


@dataclasses.dataclass(frozen=True, slots=True)
class NewStatisticsFile:
    """The place for a statistics file, and the file properties that the table's format asks for."""

    path: str
    properties: Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TableSnapshot(ABC):
    """
    A table at one version of its metadata, and the rows of one of its snapshots.

    Whatever plans or reads files raises CorruptMetadataError for metadata that cannot be understood,
    UnsupportedTableError for a file that this version does not read, FileNotFound and StorageError.

    Attributes:
        name: What the user called the table.
        selector: Which snapshot was asked for.
        store_for: Opens every file of the table. A store that is confined, or has a catalog's credentials, comes from
            here alone.
    """

    name: str
    state: TableState
    selector: SnapshotSelector
    store_for: Callable[[str], Store]

    @property
    def is_empty(self) -> bool:
        """Whether the current snapshot is asked for and the table has none yet; SnapshotNotFound as `snapshot`."""
        return self._selected is None

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot asked for; SnapshotNotFound if the table has no such snapshot, branch or tag, or none yet."""
        if self._selected is None:
            raise SnapshotNotFound(f"{self.state.location}: the table has no snapshot yet")
        return self._selected

    @functools.cached_property
    def _selected(self) -> Snapshot | None:
        return self.state.select_snapshot(self.selector)

    def of(self: _Opened, selector: SnapshotSelector) -> _Opened:
        """The same version of the metadata, bound to another of its snapshots."""
        return self if selector == self.selector else dataclasses.replace(self, selector=selector)

    @abstractmethod
    def refreshed(self, selector: SnapshotSelector = CURRENT) -> TableSnapshot:
        """
        The table as it is now, for less than opening it where nothing was committed since.

        Returns:
            One of the same ``state``, with credentials that still hold, if nothing was committed.

        Raises:
            PuffinError: As for `puffin.tables.table.Table.open`.
        """

    @property
    @abstractmethod
    def scan_context(self) -> ScanContext:
        """What all scans of the table share."""

    @functools.cached_property
    def tasks(self) -> tuple[FileScanTask, ...]:
        """One task for each whole data file of the snapshot, with its deletes."""
        return self._plan()

    def changes_since(self, base: Snapshot) -> Changes:
        """
        The whole data files to read for the rows that came after ``base`` and those that are gone; see `narrowed`.

        Raises:
            SnapshotNotFound: ``base`` is no ancestor, or the table no longer has the snapshots in between.
        """
        if base.snapshot_id not in self._changes:
            self._changes[base.snapshot_id] = self._changes_since(base)
        return self._changes[base.snapshot_id]

    @functools.cached_property
    def _changes(self) -> dict[int, Changes]:
        return {}

    @abstractmethod
    def _plan(self) -> tuple[FileScanTask, ...]:
        """As `tasks`."""

    @abstractmethod
    def _changes_since(self, base: Snapshot) -> Changes:
        """As `changes_since`."""

    def moved_since(self, base: Snapshot) -> tuple[FileScanTask, ...]:  # noqa: ARG002 - for formats with one spec
        """Files between which compactions since ``base`` have moved rows from one partition spec to another."""
        return ()

    @abstractmethod
    def column_summaries(self, columns: Sequence[Column]) -> Mapping[int, ColumnSummary]:
        """
        What the metadata of the snapshot's data files tells of columns, by field id: counts and bounds, no sizes.

        What is not known of every row is None; with a delete file that applies, little is.
        """

    def certain_values(self, snapshot: Snapshot, columns: Sequence[Column]) -> Mapping[int, pa.Array]:  # noqa: ARG002
        """
        Some values that columns have in rows of a snapshot, by field id, to check another engine's sketch against.

        Columns without known values are left out; so are all columns of a format that only we write sketches for.
        """
        return {}

    @abstractmethod
    def new_statistics_file(self, snapshot_id: int) -> NewStatisticsFile:
        """A place for a statistics file of a snapshot, under a name that nobody else uses."""

    @abstractmethod
    def check_committable(self) -> None:
        """
        Refuse now what no commit to this table can do, so that nothing is computed or written for it.

        Raises:
            UsageError, UnsupportedError: The reason.
        """

    @abstractmethod
    def commit(self, entry: StatisticsEntry) -> TableState:
        """
        Make ``entry`` the entry of its snapshot, in the version after this one.

        Returns:
            The state it was applied to. That is this one's where the swap is atomic; where the catalog has no
            compare-and-set for statistics it may be a later one, whose entry has then been overwritten.

        Raises:
            ConflictError: Another writer was faster; nothing was changed.
            CommitUnknownError: It may or may not have been applied.
            PuffinError: It was not applied, for a reason that another attempt does not cure.
        """

    @abstractmethod
    def leftovers(self, limit: AgeLimit) -> Leftovers:
        """
        The files of ours that nothing refers to and that are old, and those of which that cannot be proved.

        Raises:
            UsageError, UnsupportedTableError: What refers to files here cannot be known.
        """


PartitionStatisticsWriter: TypeAlias = Callable[[TableSnapshot], PartitionStatisticsEntry]
"""Writes the partition statistics file of a snapshot, against the table as it is now; StorageError if it cannot."""


@runtime_checkable
class PartitionStatistics(Protocol):
    """A format that has partition statistics files."""

    def keeps_partition_statistics(self) -> bool:
        """Whether the table was ever partitioned."""
        ...

    def partition_statistics_writer(self) -> PartitionStatisticsWriter:
        """What writes the partition statistics of the snapshot; errors as `TableSnapshot.tasks`."""
        ...


@runtime_checkable
class MetadataEntries(Protocol):
    """A format whose metadata lists the entries of statistics, those of snapshots that are gone too."""

    def dead_entries(self) -> tuple[StoredEntry, ...]:
        """The entries whose snapshots are gone; CorruptMetadataError if one is none."""
        ...

    def remove_entries(self, entries: Sequence[StoredEntry]) -> None:
        """
        Take entries out of the metadata, in the version after this one.

        Raises:
            ConflictError: Another writer was faster; nothing was changed.
            CommitUnknownError: They may or may not have been taken out.
            PuffinError: They were not, for a reason that another attempt does not cure.
        """
        ...
