"""
An open Delta table: what its log says, and where statistics go.

The entry files are the truth: only one job can write the next entry of a version. A note in the log announces it to
everybody else. The note changes no metadata and no file, so it disturbs no other writer.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, ClassVar

from puffin.cached import cached_property
from puffin.delta.log.protocol import check_writable
from puffin.delta.log.replay import DeltaLog
from puffin.delta.state import DeltaState
from puffin.delta.statistics.entries import StatisticsDirectory
from puffin.errors import PuffinError
from puffin.tables.base import Column, Snapshot, SnapshotSelector, StatisticsEntry
from puffin.tables.snapshot import CURRENT, NewStatisticsFile, TableSnapshot
from puffin.tables.state import TableState
from puffin.values.column_summary import ColumnSummary

if TYPE_CHECKING:  # a lookup scans and cleans nothing
    from puffin.tables.changes import Changes
    from puffin.tables.closer_bounds import CloserBounds
    from puffin.tables.file_metrics import FileMetrics
    from puffin.tables.leftovers import AgeLimit, Leftovers
    from puffin.tables.parted_plan import PartedPlan
    from puffin.tables.partition_rows import PartitionRows
    from puffin.tables.scan_task import FileScanTask, ScanContext
    from puffin.values.column_bounds import Bounds

FIELD_IDS = "puffin-sidecar.field-ids"
"""A property of statistics files that says which column each field id means: a JSON object of ids by name."""

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DeltaSnapshot(TableSnapshot):
    """A Delta table at one version; ``reopen`` opens the table as it is now."""

    counts_live_rows: ClassVar[bool] = True

    state: DeltaState
    log: DeltaLog
    statistics: StatisticsDirectory
    reopen: Callable[[SnapshotSelector], DeltaSnapshot]

    def refreshed(self, selector: SnapshotSelector = CURRENT) -> DeltaSnapshot:
        is_current = (
            selector == self.selector
            and self.state.segment.is_newest()
            and self.statistics.listing() == self.state.stored
        )
        return self if is_current else self.reopen(selector)

    @property
    def scan_context(self) -> ScanContext:
        """Files find columns by physical name, or by id where the table's column mapping says so."""
        from puffin.tables.scan_task import ScanContext

        schema = self.state.delta_schema
        # Some writers put partition columns into the files too, but the log has the values that count.
        partitioned = self.state.partitioned_ids
        names = schema.name_mapping and [each for each in schema.name_mapping if each["field-id"] not in partitioned]
        return ScanContext(self.state.partition_specs, names, {}, by_name=schema.by_name, rebases_dates=True)

    def column_summaries(self, columns: Sequence[Column]) -> Mapping[int, ColumnSummary]:
        from puffin.delta.scan.file_statistics import column_summaries

        return column_summaries(self.state, columns)

    def closer_bounds(self, known: Mapping[Column, Bounds]) -> Mapping[int, CloserBounds]:
        from puffin.delta.scan.file_statistics import closer_bounds

        return closer_bounds(self.state, known)

    def other_partitions(self, base: Snapshot) -> str | None:
        from puffin.delta.scan.plan import other_partitions

        known = self._other_partitions
        if base.snapshot_id not in known:
            known[base.snapshot_id] = other_partitions(self.state, base)
        return known[base.snapshot_id]

    def partition_rows(self) -> Sequence[PartitionRows] | None:
        from puffin.delta.scan.partition_rows import partition_rows

        return partition_rows(self.state)

    def file_metrics(self, columns: Sequence[Column]) -> Mapping[int, Sequence[FileMetrics]]:
        from puffin.delta.scan.file_statistics import file_metrics

        return file_metrics(self.state, columns)

    def still_referenced(self, paths: Set[str]) -> Set[str]:
        """Files that VACUUM has not removed, since an earlier version may have them."""
        return frozenset(path for path in paths if self.store_for(path).exists(path))

    def new_statistics_file(self, snapshot_id: int) -> NewStatisticsFile:
        """A place below the log; the file's properties say what its field ids mean."""
        ids = {column.name: column.field_id for column in self.state.columns}
        return NewStatisticsFile(self.statistics.new_path(snapshot_id), {FIELD_IDS: json.dumps(ids)})

    def check_committable(self, *, ask_store: bool = True) -> None:
        """Refuse a table whose log only its own writers may append to, and a store that cannot put a file only once."""
        check_writable(self.state.protocol, self.state.metadata.configuration, self.state.location)
        if ask_store:
            self.statistics.check_putting()

    def commit(self, entry: StatisticsEntry) -> TableState:
        """Write the next entry file of the version, and a note in the log."""
        from puffin.delta.log.note import append_note

        state = self.state
        schema, stored = state.delta_schema, state.stored
        if schema.assigned:
            ids = {**state.known_ids, **schema.assigned}
            self.statistics.put_field_ids(ids, stored.next_field_ids_generation())
        self._put(entry)
        try:
            for each in entry.repairs:
                self._put(each)
        except PuffinError as exc:
            # From here on an entry names the new statistics file, which a failed commit would delete.
            _log.warning("the statistics are committed, but earlier entries are not repaired: %s", exc)
        try:
            append_note(self.log, state.metadata.id, entry)
        except PuffinError as exc:
            _log.warning("the statistics are committed, but the log has no note of them: %s", exc)
        self.statistics.remove_superseded(stored)
        self.statistics.remove_versions(stored, entry.removals)
        return state

    def earlier_entries(self, snapshot_id: int) -> tuple[int, ...]:
        return tuple(version for version in self.state.stored.entries if version < snapshot_id)

    def leftovers(self, limit: AgeLimit) -> Leftovers:
        """Files of our directory that no reader can need, and temporary files of the log."""
        from puffin.delta.leftovers import find_leftovers

        return find_leftovers(self.state, limit, self.statistics, self.log.store)

    @cached_property
    def _other_partitions(self) -> dict[int, str | None]:
        return {}

    def _plan(self) -> tuple[FileScanTask, ...]:
        from puffin.delta.scan.plan import plan_version

        return plan_version(self.state)

    def _in_parts(self) -> PartedPlan | None:
        from puffin.delta.scan.parts import plan_in_parts

        return plan_in_parts(self.state)

    def _changes_since(self, base: Snapshot) -> Changes:
        from puffin.delta.scan.plan import changes_between

        return changes_between(self.state, base, self.snapshot)

    def _put(self, entry: StatisticsEntry) -> None:
        state, version = self.state, entry.snapshot_id
        log_entry = state.segment.checksum(version)
        generation = state.stored.next_generation(version)
        self.statistics.put(entry, state.metadata.id, state.delta_schema.paths, generation, log_entry)
