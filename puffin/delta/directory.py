"""
Delta tables, by their directory: a log of versions under ``_delta_log/``, and no catalog.

The log has no place for statistics, so they have a directory of their own below it, out of the reach of VACUUM and of
log cleanup. The entry files in it are the truth: of several jobs one can put the next of a version. A note in the log
says so to everybody else, and disturbs nobody: it neither changes the metadata nor touches a file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from puffin.delta.log.log_entry import append_note
from puffin.delta.log.protocol import check_readable, check_writable
from puffin.delta.log.replay import DeltaLog
from puffin.delta.schema import table_schema
from puffin.delta.state import DeltaState, describe, partition_fields
from puffin.delta.statistics.entries import StatisticsDirectory
from puffin.errors import PuffinError, UnsupportedTableError
from puffin.storage import Store, local_path, store_for
from puffin.tables.base import Column, Snapshot, SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.changes import Changes
from puffin.tables.document import partition_specs
from puffin.tables.leftovers import AgeLimit, Leftovers, StoredEntry
from puffin.tables.scan_task import FileScanTask, ScanContext
from puffin.tables.table import CURRENT, NewStatisticsFile, PartitionStatisticsWriter
from puffin.values.column_summary import ColumnSummary

if TYPE_CHECKING:
    import pyarrow as pa

FIELD_IDS = "puffin-sidecar.field-ids"
"""The property of a statistics file that says which column each field id means: a JSON object of ids by name."""


_log = logging.getLogger(__name__)


class DeltaDirectory:
    """
    A Delta table by its directory; the methods are those of `puffin.tables.table`.

    Args:
        store_for: Opens the files in that directory and those that its log names.

    Attributes:
        name: The directory, as it was given.
        io_properties: Empty: the credentials are those of the environment.
    """

    def __init__(self, directory: str, store_for: Callable[[str], Store] = store_for) -> None:
        self.name = directory
        self.io_properties: Mapping[str, str] = {}
        # The log names files relative to the table, and executors need not have our working directory.
        path = local_path(directory)
        self._location = directory.rstrip("/") if path is None else str(path.absolute())
        self._store_for = store_for
        self._files = store_for(self._location)
        self._log = DeltaLog(self._location, self._files)
        self._statistics = StatisticsDirectory(self._location, self._files)

    def load(self, selector: SnapshotSelector = CURRENT) -> TableState:
        """
        The table at the version that is meant.

        Raises:
            TableNotFound: There is no log.
            SnapshotNotFound: The table has no such version, or no longer.
            UnsupportedTableError: It has a reader feature that this version cannot honour.
            CorruptMetadataError: The log cannot be understood.
        """
        segment = self._log.segment(selector.snapshot_id)
        if selector.as_of_ms is not None:
            segment = segment.at(segment.version_at(selector.as_of_ms))
        protocol, metadata = segment.protocol_and_metadata()
        check_readable(protocol, self._location)
        stored = self._statistics.listing()
        known_ids = self._statistics.field_ids(stored)
        schema = table_schema(metadata.schema_string, metadata.configuration, known_ids, self._location)
        entries = self._statistics.entries(stored, segment.version, metadata.id, schema.is_same_column)
        return describe(
            self._location,
            segment,
            protocol,
            metadata,
            schema,
            entries,
            known_ids=known_ids,
            stored=stored,
            selector=selector,
        )

    def refresh(self, state: TableState, selector: SnapshotSelector = CURRENT) -> TableState:
        """The table as it is now: ``state``, if log and statistics are as they were then; errors as for `load`."""
        delta = _delta(state)
        is_current = (
            selector == delta.selector and delta.segment.is_newest() and self._statistics.listing() == delta.stored
        )
        return state if is_current else self.load(selector)

    def store(self, uri: str) -> Store:
        """The store that holds one of the table's files."""
        return self._store_for(uri)

    def new_statistics_file(self, state: TableState, snapshot_id: int) -> NewStatisticsFile:
        """A place below the log; the file says itself what its field ids mean."""
        ids = {column.name: column.field_id for column in state.columns}
        return NewStatisticsFile(self._statistics.new_path(snapshot_id), {FIELD_IDS: json.dumps(ids)})

    def scan_context(self, state: TableState) -> ScanContext:
        """Columns are found by their physical names, or by id where the table's column mapping says so."""
        delta = _delta(state)
        schema = delta.delta_schema
        # Some writers put partition columns into the files too, but it is the log that has their values.
        partitioned = {field["source-id"] for field in partition_fields(delta.metadata, schema)}
        names = schema.name_mapping and [each for each in schema.name_mapping if each["field-id"] not in partitioned]
        return ScanContext(partition_specs(state.document), names, {}, by_name=schema.by_name, rebases_dates=True)

    def plan(self, state: TableState, snapshot: Snapshot) -> tuple[FileScanTask, ...]:  # noqa: ARG002 - it is the state's
        """One task for each whole data file."""
        from puffin.delta.scan.plan import plan_version

        return plan_version(_delta(state))

    def column_summaries(
        self,
        state: TableState,
        snapshot: Snapshot,  # noqa: ARG002 - it is the state's
        columns: Sequence[Column],
    ) -> Mapping[int, ColumnSummary]:
        """What the statistics of the live files tell of columns, by field id."""
        from puffin.delta.scan.file_statistics import column_summaries

        return column_summaries(_delta(state), columns)

    def certain_values(
        self,
        state: TableState,  # noqa: ARG002
        snapshot: Snapshot,  # noqa: ARG002
        columns: Sequence[Column],  # noqa: ARG002
    ) -> Mapping[int, pa.Array]:
        """None: nobody else writes sketches of Delta tables, so that there are none to check."""
        return {}

    def changes(self, state: TableState, base: Snapshot, target: Snapshot) -> Changes:
        """The whole data files to read for the rows that came after ``base`` and those that are gone in ``target``."""
        from puffin.delta.scan.plan import changes_between

        return changes_between(_delta(state), base, target)

    def moved(self, state: TableState, base: Snapshot, target: Snapshot) -> tuple[FileScanTask, ...]:  # noqa: ARG002
        """None: a Delta table's partition columns never change."""
        return ()

    def keeps_partition_statistics(self, state: TableState) -> bool:  # noqa: ARG002
        """No: the format has no such files."""
        return False

    def partition_statistics(self, state: TableState, snapshot: Snapshot) -> PartitionStatisticsWriter:  # noqa: ARG002
        """Refused, with UnsupportedTableError."""
        raise UnsupportedTableError(f"{self.name}: Delta tables have no partition statistics files")

    def check_committable(self, state: TableState) -> None:
        """
        Refuse a table whose log nobody but its own writers may append to, and a store that cannot put a file once.

        Raises:
            UnsupportedError, MissingDependencyError, StorageError: The reason.
        """
        delta = _delta(state)
        check_writable(delta.protocol, delta.metadata.configuration, self._location)
        self._statistics.check_putting()

    def commit(self, base: TableState, entry: StatisticsEntry) -> TableState:
        """
        Put the next entry file of the version, and a note in the log; returns ``base``.

        Raises:
            ConflictError: Another job put it first, or gave columns other ids.
            CommitUnknownError: The store failed while it was written.
        """
        state = _delta(base)
        schema, stored = state.delta_schema, state.stored
        if schema.assigned:
            ids = {**state.known_ids, **schema.assigned}
            self._statistics.put_field_ids(ids, stored.next_field_ids_generation())
        for each in (entry, *entry.repairs):
            generation = stored.next_generation(each.snapshot_id)
            self._statistics.put(each, state.metadata.id, schema.paths, generation)
        try:
            append_note(self._log, self._files, self._location, state.metadata.id, entry)
        except PuffinError as exc:
            _log.warning("the statistics are committed, but the log has no note of them: %s", exc)
        self._statistics.remove_superseded(stored)
        return base

    def dead_entries(self, state: TableState) -> tuple[StoredEntry, ...]:  # noqa: ARG002
        """None: there are no entries but in files of their own, which are among the `leftovers`."""
        return ()

    def remove_entries(self, base: TableState, entries: Sequence[StoredEntry]) -> None:
        """Nothing to do, as there are none."""

    def leftovers(self, state: TableState, limit: AgeLimit) -> Leftovers:
        """Of our directory, what no reader of a version that can be made looks for; and temporary files of the log."""
        from puffin.delta.leftovers import find_leftovers

        return find_leftovers(_delta(state), limit, self._statistics, self._files)


def _delta(state: TableState) -> DeltaState:
    if not isinstance(state, DeltaState):
        raise TypeError(f"expected the state of a Delta table, found that of an {state.format} table")
    return state
