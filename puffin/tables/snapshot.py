"""
What formats and catalogs implement: a table, and the open table.

An open table is one version of its metadata, bound to a snapshot and to the stores that hold its files.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, TypeVar

from puffin.cached import cached_property
from puffin.errors import GONE_OR_BROKEN, PuffinError, SnapshotNotFound
from puffin.storage import Store
from puffin.tables.base import Column, PartitionStatisticsEntry, Snapshot, SnapshotSelector, StatisticsEntry
from puffin.tables.state import TableState
from puffin.values.column_summary import ColumnSummary

if TYPE_CHECKING:  # a lookup scans and cleans nothing
    import pyarrow as pa

    from puffin.tables.changes import Changes
    from puffin.tables.closer_bounds import CloserBounds
    from puffin.tables.file_metrics import FileMetrics
    from puffin.tables.leftovers import AgeLimit, Leftovers, StoredEntry
    from puffin.tables.parted_plan import PartedPlan
    from puffin.tables.partition_rows import PartitionRows
    from puffin.tables.scan_task import FileScanTask, ScanContext
    from puffin.values.column_bounds import Bounds

CURRENT = SnapshotSelector()

_Opened = TypeVar("_Opened", bound="TableSnapshot")


@dataclasses.dataclass(frozen=True, slots=True)
class NewStatisticsFile:
    """Where to write a statistics file, and the file properties that the table's format requires."""

    path: str
    properties: Mapping[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TableSnapshot(ABC):
    """
    A table at one version of its metadata, and the rows of one of its snapshots.

    Methods that plan or read files raise CorruptMetadataError for metadata that cannot be parsed, UnsupportedTableError
    for a file that this version cannot read, FileNotFound and StorageError.

    Attributes:
        name: What the user called the table.
        store_for: Opens every file of the table; the only source of confined stores and of a catalog's credentials.
        counts_live_rows: Whether what the format's metadata counts are live rows; otherwise the counts include deleted
            rows whose data files remain.
    """

    counts_live_rows: ClassVar[bool] = False

    name: str
    state: TableState
    selector: SnapshotSelector
    store_for: Callable[[str], Store]

    @property
    def is_empty(self) -> bool:
        """Whether the selector means the current snapshot and the table has none yet; raises what `snapshot` raises."""
        return self._selected is None

    @property
    def snapshot(self) -> Snapshot:
        """The selected snapshot; SnapshotNotFound if the table does not have it."""
        if self._selected is None:
            raise SnapshotNotFound(f"{self.name}: the table has no snapshot yet")
        return self._selected

    @property
    def snapshot_id(self) -> int | None:
        """The id of the selected snapshot, None if `is_empty`; raises what `snapshot` raises."""
        return None if self._selected is None else self._selected.snapshot_id

    @cached_property
    def _selected(self) -> Snapshot | None:
        return self.state.select_snapshot(self.selector)

    @cached_property
    def columns_by_id(self) -> Mapping[int, Column]:
        """The columns of the current schema by field id, as `TableState.columns_at`; raises what `snapshot` raises."""
        return self.state.columns_by_id if self._selected is None else self.state.columns_at(self._selected)

    @cached_property
    def unreadable(self) -> Mapping[int, str]:
        """The columns of now in `TableState.unreadable_at` by field id, each with its types in words."""
        at = () if self._selected is None else self.state.unreadable_at(self._selected)
        return {
            id_: f"of type {self.state.column_type_at(self._selected, id_)} at snapshot {self.snapshot_id}, "
            f"now {self.state.columns_by_id[id_].type}"
            for id_ in at
            if id_ in self.state.columns_by_id
        }

    def of(self: _Opened, selector: SnapshotSelector) -> _Opened:
        """The same version of the metadata, bound to another snapshot."""
        return self if selector == self.selector else dataclasses.replace(self, selector=selector)

    @abstractmethod
    def refreshed(self, selector: SnapshotSelector = CURRENT) -> TableSnapshot:
        """
        The table as it is now, cheaper than opening it again if nothing was committed since.

        Without a commit, the result has the same ``state`` and credentials that still hold. Raises what
        `Table.open` raises.
        """

    @property
    @abstractmethod
    def scan_context(self) -> ScanContext:
        """What all scans of the table share."""

    @cached_property
    def tasks(self) -> tuple[FileScanTask, ...]:
        """One task for each whole data file of the snapshot, with its deletes; planned once."""
        return self._plan()

    @property
    def is_planned(self) -> bool:
        """Whether `tasks` has its plan."""
        return "tasks" in self.__dict__

    def in_parts(self) -> PartedPlan | None:
        """How to plan the snapshot elsewhere; None unless it is so large that this pays, or the plan is there."""
        return None if self.is_planned else self._in_parts()

    def _in_parts(self) -> PartedPlan | None:
        return None

    def changes_since(self, base: Snapshot) -> Changes:
        """
        The whole data files with the rows that came or went since ``base``; see `Changes.narrowed`.

        Raises SnapshotNotFound if ``base`` is not an ancestor or the table no longer has the snapshots in between, and
        UnsupportedError if a Delta table had other partition columns then.
        """
        if base.snapshot_id not in self._changes:
            try:
                self._changes[base.snapshot_id] = self._changes_since(base)
            except GONE_OR_BROKEN as exc:  # it may do next time after another error
                self._changes[base.snapshot_id] = exc
        found = self._changes[base.snapshot_id]
        if isinstance(found, PuffinError):
            raise found
        return found

    @cached_property
    def _changes(self) -> dict[int, Changes | PuffinError]:
        return {}

    @abstractmethod
    def _plan(self) -> tuple[FileScanTask, ...]: ...

    @abstractmethod
    def _changes_since(self, base: Snapshot) -> Changes: ...

    def moved_since(self, base: Snapshot) -> tuple[FileScanTask, ...]:  # noqa: ARG002 - for formats with one spec
        """The files of compactions since ``base`` that moved rows from one partition spec to another."""
        return ()

    def other_partitions(self, base: Snapshot) -> str | None:  # noqa: ARG002 - for formats with ids of specs
        """Why partitions of an ancestor are not to be compared with those of the snapshot, or None."""
        return None

    @abstractmethod
    def column_summaries(self, columns: Sequence[Column]) -> Mapping[int, ColumnSummary]:
        """
        Counts and bounds, without sizes, by field id, from the metadata of the snapshot's data files.

        A figure that is not known for all rows is None; delete files make most of them unknown.
        """

    @abstractmethod
    def closer_bounds(self, known: Mapping[Column, Bounds]) -> Mapping[int, CloserBounds]:
        """
        The bounds of columns in the live rows, by field id, as the metadata of data files has them.

        Args:
            known: Bounds that hold, but may be those of removed rows.
        """

    @abstractmethod
    def partition_rows(self) -> Sequence[PartitionRows] | None:
        """The live rows of each partition of the snapshot, without reading manifests; None if that is not known."""

    @abstractmethod
    def file_metrics(self, columns: Sequence[Column]) -> Mapping[int, Sequence[FileMetrics]]:
        """What the metadata says of columns in each file of `tasks`, in that order, by field id."""

    @abstractmethod
    def still_referenced(self, paths: Set[str]) -> Set[str]:
        """Those of these data files that some snapshot of the table still has, as far as its metadata tells."""

    def certain_values(self, snapshot: Snapshot, columns: Sequence[Column]) -> Mapping[int, pa.Array]:  # noqa: ARG002
        """
        Some values that columns have in rows of a snapshot, by field id, to check another engine's sketch against.

        Columns without known values are absent. So are all columns of a format for which only we write sketches.
        """
        return {}

    @abstractmethod
    def new_statistics_file(self, snapshot_id: int) -> NewStatisticsFile:
        """Where to write a snapshot's statistics file, under a unique name."""

    def statistics_directories(self) -> Sequence[str]:
        """Where statistics files of the table may be, without those of copies and of earlier settings."""
        return (self.new_statistics_file(0).path.rpartition("/")[0],)

    @abstractmethod
    def check_committable(self, *, ask_store: bool = True) -> None:
        """
        Refuse early what no commit to this table can do, before anything is computed or written.

        ``ask_store`` also finds out whether the store can put a file only once, for which it may put a probe.

        Raises UsageError or UnsupportedError.
        """

    @abstractmethod
    def commit(self, entry: StatisticsEntry) -> TableState:
        """
        Make ``entry`` the entry of its snapshot, in the version after this one.

        Returns:
            The state that the entry was applied to: this one, or a later one where the catalog has no compare-and-set
                for statistics. The commit has then replaced that state's entry.

        Raises:
            ConflictError: Another writer won; nothing was changed.
            CommitUnknownError: The entry may or may not have been committed.
            PuffinError: Nothing was changed, for a reason that another attempt does not cure.
        """

    def keeps_partition_statistics(self) -> bool:
        """Whether the format has partition statistics files, and the table was ever partitioned."""
        return False

    def partition_statistics_writer(self) -> PartitionStatisticsWriter | None:
        """A function that writes the snapshot's partition statistics, None without; raises as `tasks`."""
        return None

    def dead_entries(self) -> tuple[StoredEntry, ...]:
        """The entries of expired snapshots that the metadata lists; CorruptMetadataError if one cannot be parsed."""
        return ()

    def remove_entries(self, entries: Sequence[StoredEntry]) -> None:
        """Remove `dead_entries` in the version after this one; raises what `commit` raises."""
        raise NotImplementedError(f"the format {self.state.format} has no dead entries, found {len(entries)}")

    @abstractmethod
    def earlier_entries(self, snapshot_id: int) -> tuple[int, ...]:
        """
        The snapshots before this one whose entries nobody needs once this one has an entry, nearest first.

        The nearest entry of each branch and tag is needed.
        """

    @abstractmethod
    def leftovers(self, limit: AgeLimit) -> Leftovers:
        """
        Our old files that nothing refers to, and the candidates that must stay.

        Raises UsageError or UnsupportedTableError if references to files cannot be known here.
        """


PartitionStatisticsWriter: TypeAlias = Callable[[TableSnapshot], PartitionStatisticsEntry]
"""Writes the partition statistics file of a snapshot, against the table as it is now; StorageError if it cannot."""


class Table(Protocol):
    """A table that can be read and given statistics; ``name`` is what the user called it."""

    name: str

    def open(self, selector: SnapshotSelector = CURRENT) -> TableSnapshot:
        """
        Open the table as it is now, bound to a snapshot.

        Raises:
            NotFoundError: The table does not exist, or the snapshot does not; some formats notice the latter later.
            UnsupportedTableError: The table has a feature that this version cannot honour.
            CorruptMetadataError: Its metadata cannot be parsed.
            StorageError: The storage or the catalog does not answer.
        """
