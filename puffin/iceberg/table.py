"""
What all Iceberg tables share, wherever their metadata lives, open or not.

Modules that read data files, commit or clean are imported on demand, since a lookup needs almost none of them.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from puffin.cached import cached_property
from puffin.iceberg.stores import stores
from puffin.storage import Store, store_for
from puffin.tables.base import Column, Snapshot, SnapshotSelector, StatisticsEntry
from puffin.tables.snapshot import CURRENT, NewStatisticsFile, PartitionStatisticsWriter, TableSnapshot
from puffin.tables.state import TableState
from puffin.values.column_summary import ColumnSummary

if TYPE_CHECKING:
    import pyarrow as pa

    from puffin.iceberg.commit.patch import NextVersion
    from puffin.iceberg.scan.manifest_lists import ManifestFile
    from puffin.tables.changes import Changes
    from puffin.tables.closer_bounds import CloserBounds
    from puffin.tables.file_metrics import FileMetrics
    from puffin.tables.leftovers import AgeLimit, Leftovers, StoredEntry
    from puffin.tables.parted_plan import PartedPlan
    from puffin.tables.partition_rows import PartitionRows
    from puffin.tables.scan_task import FileScanTask, ScanContext
    from puffin.values.column_bounds import Bounds

_log = logging.getLogger(__name__)


class IcebergTable(ABC):
    """Where the metadata of an Iceberg table lives: how to find it and how to replace it by the next version."""

    lists_all_snapshots = True  # whether the metadata lists every snapshot that the table still has

    def __init__(
        self, name: str, store_for: Callable[[str], Store] = store_for, io_properties: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._store_for = store_for
        self._io_properties = io_properties or {}

    @abstractmethod
    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        """The table as it is now; raises what `puffin.tables.snapshot.Table.open` raises."""

    @abstractmethod
    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot: ...

    @abstractmethod
    def commit(self, base: IcebergSnapshot, entry: StatisticsEntry) -> TableState: ...

    @abstractmethod
    def remove_entries(self, base: IcebergSnapshot, entries: Sequence[StoredEntry]) -> None: ...

    def check_committable(self, state: TableState, *, ask_store: bool) -> None:  # noqa: B027 - most only refuse a commit
        """Implements `puffin.tables.snapshot.TableSnapshot.check_committable`."""

    def _bound(
        self, state: TableState, selector: SnapshotSelector, vended: Mapping[str, str] | None = None
    ) -> IcebergSnapshot:
        """The open table, with the catalog's stores, or with those of credentials that came with the state."""
        return IcebergSnapshot(
            name=self.name,
            state=state.called(self.name),
            selector=selector,
            store_for=self._store_for if vended is None else stores(vended),
            io_properties=self._io_properties if vended is None else vended,
            table=self,
        )


class IcebergTableInFiles(IcebergTable, ABC):
    """An Iceberg table whose next version we write ourselves, as a metadata file."""

    def commit(self, base: IcebergSnapshot, entry: StatisticsEntry) -> TableState:
        """Write the version after ``base``. No other version can come between."""
        from puffin.iceberg.commit.patch import with_statistics

        self._follow(base.state, functools.partial(with_statistics, entry=entry, now_ms=_now_ms()))
        return base.state

    def remove_entries(self, base: IcebergSnapshot, entries: Sequence[StoredEntry]) -> None:
        """Write the version after ``base`` without these entries; raises what `commit` raises."""
        from puffin.iceberg.commit.patch import without_entries

        self._follow(base.state, functools.partial(without_entries, entries=entries, now_ms=_now_ms()))

    @abstractmethod
    def _follow(self, base: TableState, change: Callable[[TableState], NextVersion]) -> None:
        """Write the version that ``change`` makes of ``base`` and make it current."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class IcebergSnapshot(TableSnapshot):
    """An open Iceberg table."""

    io_properties: Mapping[str, str]  # to open its files on executors; empty if the environment's credentials do
    table: IcebergTable

    def refreshed(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        return self.table.refresh(self, selector)

    @property
    def scan_context(self) -> ScanContext:
        from puffin.tables.scan_task import ScanContext

        return ScanContext(self.state.partition_specs, self.state.name_mapping, self.io_properties)

    def _plan(self) -> tuple[FileScanTask, ...]:
        from puffin.iceberg.scan.plan import plan_snapshot

        return plan_snapshot(self, self.snapshot)

    def _in_parts(self) -> PartedPlan | None:
        from puffin.iceberg.scan.parts import plan_in_parts

        return plan_in_parts(self, self.snapshot)

    def _changes_since(self, base: Snapshot) -> Changes:
        from puffin.iceberg.scan.changes import changes_between

        return changes_between(self, base)

    def moved_since(self, base: Snapshot) -> tuple[FileScanTask, ...]:
        from puffin.iceberg.scan.changes import moved_between_specs

        return moved_between_specs(self, base)

    def column_summaries(self, columns: Sequence[Column]) -> Mapping[int, ColumnSummary]:
        from puffin.iceberg.scan.column_metrics import column_summaries

        return column_summaries(self, columns)

    def closer_bounds(self, known: Mapping[Column, Bounds]) -> Mapping[int, CloserBounds]:
        from puffin.iceberg.scan.column_metrics import closer_bounds

        return closer_bounds(self, known)

    def partition_rows(self) -> Sequence[PartitionRows] | None:
        """Those of the partition statistics file, or of the manifests once these have been read."""
        from puffin.iceberg.scan.partition_rows import partition_rows
        from puffin.tables.partition_rows import rows_of_tasks

        return rows_of_tasks(self.tasks) if self.is_planned else partition_rows(self)

    def file_metrics(self, columns: Sequence[Column]) -> Mapping[int, Sequence[FileMetrics]]:
        from puffin.iceberg.scan.column_metrics import file_metrics

        return file_metrics(self, columns)

    def still_referenced(self, paths: Set[str]) -> Set[str]:
        from puffin.iceberg.scan.manifests import NamedFiles

        named, found = NamedFiles(paths), set[str]()
        for manifest in self._every_manifest():
            if len(found) == len(paths):
                break
            found.update(file.file_path for file in named.among(manifest, self.store_for))
        return found

    def _every_manifest(self) -> Iterator[ManifestFile]:
        """Those of all snapshots, each once; first what the last ones before this one had that it has not."""
        from puffin.iceberg.scan.manifest_lists import manifests_of

        own = () if self.is_empty else manifests_of(self, self.snapshot)
        given = {manifest.manifest_path for manifest in own}
        newest_first = sorted(self.state.snapshots.values(), key=lambda s: (s.sequence_number, s.timestamp_ms))[::-1]
        for manifest in (each for snapshot in newest_first for each in manifests_of(self, snapshot)):
            if manifest.manifest_path not in given:
                given.add(manifest.manifest_path)
                yield manifest
        yield from own

    def certain_values(self, snapshot: Snapshot, columns: Sequence[Column]) -> Mapping[int, pa.Array]:
        from puffin.iceberg.scan.certain_values import certain_values

        return certain_values(self, snapshot, columns)

    def new_statistics_file(self, snapshot_id: int) -> NewStatisticsFile:
        from puffin.iceberg.commit.patch import statistics_path

        return NewStatisticsFile(statistics_path(self.state, snapshot_id), {})

    def statistics_directories(self) -> Sequence[str]:
        from puffin.iceberg.commit.patch import statistics_directories

        return statistics_directories(self.state)

    def check_committable(self, *, ask_store: bool = True) -> None:
        self.table.check_committable(self.state, ask_store=ask_store)

    def commit(self, entry: StatisticsEntry) -> TableState:
        return self.table.commit(self, entry)

    def keeps_partition_statistics(self) -> bool:
        from puffin.iceberg.commit.partition_stats import unified_partition_type

        return bool(unified_partition_type(self.state)) and not self._retyped_partition_fields

    @cached_property
    def _retyped_partition_fields(self) -> list[str]:
        """The partition fields whose values at the snapshot a file of the types of now cannot hold."""
        if self.is_empty:
            return []
        from puffin.iceberg.commit.partition_stats import unified_partition_type

        now, then = (unified_partition_type(self.state, at) for at in (None, self.snapshot))
        return [field.name for field, before in zip(now, then, strict=True) if field.type != before.type]

    def partition_statistics_writer(self) -> PartitionStatisticsWriter | None:
        from puffin.iceberg.commit.partition_stats import partition_statistics, write_partition_statistics

        if not self.keeps_partition_statistics():
            if fields := self._retyped_partition_fields:
                then = f"{', '.join(fields)} had another type at snapshot {self.snapshot_id}"
                _log.warning("%s: no partition statistics file: %s", self.name, then)
            return None
        rows, snapshot_id = partition_statistics(self), self.snapshot.snapshot_id
        return lambda current: write_partition_statistics(rows, current, snapshot_id)

    def dead_entries(self) -> tuple[StoredEntry, ...]:
        """The entries of expired snapshots; empty where the metadata does not list all snapshots."""
        from puffin.iceberg.commit.patch import stored_entries

        entries = dict.fromkeys(stored_entries(self.state.document)) if self.table.lists_all_snapshots else ()
        return tuple(entry for entry in entries if entry.snapshot_id not in self.state.snapshots)

    def remove_entries(self, entries: Sequence[StoredEntry]) -> None:
        self.table.remove_entries(self, entries)

    def earlier_entries(self, snapshot_id: int) -> tuple[int, ...]:
        state, entries = self.state, {*self.state.statistics, snapshot_id}

        def with_entries(head: int) -> Iterator[int]:
            return (each.snapshot_id for each in state.ancestors(head) if each.snapshot_id in entries)

        needed = {snapshot_id, *(next(with_entries(head), snapshot_id) for head in state.refs.values())}
        return tuple(each for each in with_entries(snapshot_id) if each not in needed)

    def leftovers(self, limit: AgeLimit) -> Leftovers:
        """Statistics files in the metadata directories that no metadata file there or in the metadata log names."""
        from puffin.iceberg.leftovers import find_leftovers

        self.check_committable(ask_store=False)  # asking may write a probe
        return find_leftovers(self.state, limit, self.store_for)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
