"""
Tables of REST catalogs: the server patches the metadata, we send it updates.

The protocol has no compare-and-set for statistics: it can assert the table's uuid and schema, but not which
entry is replaced. So what a commit overwrote is looked up afterwards, in the version the server's metadata log
names as the one before, and handed back for the caller to merge and commit again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puffin.errors import CommitUnknownError, PuffinError, SnapshotNotFound
from puffin.storage import Store, store_for
from puffin.tables.base import SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.iceberg.file import read_state
from puffin.tables.iceberg.metadata import parse_state
from puffin.tables.iceberg.patch import partition_statistics_update, removal_update
from puffin.tables.iceberg.sdk import (
    filesystem_for,
    has_all_snapshots,
    io_properties,
    load_catalog_table,
    post_statistics,
)
from puffin.tables.iceberg.table import IcebergTable
from puffin.tables.leftovers import StoredEntry
from puffin.tables.statistics_json import entry_to_json
from puffin.tables.table import CURRENT

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_log = logging.getLogger(__name__)


class IcebergRestTable(IcebergTable):
    """
    An Iceberg table of a REST catalog.

    Attributes:
        name: ``namespace.table``.
        io_properties: What the server said the file system needs, vended credentials included.
    """

    def __init__(self, catalog: Catalog, identifier: str) -> None:
        super().__init__(identifier, {})
        self._catalog = catalog
        self._load_table()

    def load(self, selector: SnapshotSelector = CURRENT) -> TableState:  # noqa: ARG002 - the document has them all
        """
        The table as it is now.

        Raises:
            TableNotFound: The catalog has no such table.
            StorageError: The catalog does not answer.
            CorruptMetadataError, UnsupportedTableError: It is not metadata that this version understands.
        """
        self._load_table()
        return self._state()

    def refresh(self, state: TableState, selector: SnapshotSelector = CURRENT) -> TableState:  # noqa: ARG002 - as above
        """The table as it is now, which nobody but the server can tell; errors as for `load`."""
        self._load_table()
        return state if self._table.metadata_location == state.metadata_location else self._state()

    def store(self, uri: str) -> Store:
        """The store that holds one of the table's files, with the credentials the server gave."""
        return store_for(uri, self._filesystem_for)

    def check_committable(self, state: TableState) -> None:
        """What can be committed is up to the server, which is asked by committing."""

    def commit(self, base: TableState, entry: StatisticsEntry) -> TableState:
        """
        Have the server set the entry.

        Returns:
            The state it was applied to: ``base``, or one that another writer committed in between.

        Raises:
            ConflictError: The server refused; the schema has changed, or it lost a race of its own.
            CommitUnknownError: No clear answer came.
            TableNotFound, StorageError, UnsupportedTableError: The server refused for good.
            SnapshotNotFound: The snapshot expired in between; the entry has been removed again.
        """
        schema_id = base.document.get("current-schema-id")
        updates = [{"action": "set-statistics", "snapshot-id": entry.snapshot_id, "statistics": entry_to_json(entry)}]
        if entry.partitions is not None:
            updates.append(partition_statistics_update(entry.partitions))
        answer = post_statistics(self._catalog, self._table, updates, schema_id)
        if entry.snapshot_id not in {s["snapshot-id"] for s in answer.get("snapshots") or ()}:
            self._remove(entry)
            raise SnapshotNotFound(
                f"{self.name}: snapshot {entry.snapshot_id} expired while its statistics were committed"
            )
        return self._state_before(answer, base)

    def dead_entries(self, state: TableState) -> tuple[StoredEntry, ...]:
        """The entries whose snapshots are gone; none where the client has the server leave snapshots out."""
        return super().dead_entries(state) if has_all_snapshots(self._catalog) else ()

    def remove_entries(self, base: TableState, entries: Sequence[StoredEntry]) -> None:  # noqa: ARG002 - the server's is
        """Have the server remove the entries; a snapshot that is gone never comes back, so any base will do."""
        post_statistics(self._catalog, self._table, [removal_update(entry) for entry in entries], None)

    def _remove(self, entry: StatisticsEntry) -> None:
        # Expiry removes the entries of the snapshots it removes, and has been here: this one would stay until a clean.
        stored = [StoredEntry(entry.snapshot_id, entry.statistics_path, of_partitions=False)]
        if entry.partitions is not None:
            stored.append(StoredEntry(entry.snapshot_id, entry.partitions.statistics_path, of_partitions=True))
        try:
            post_statistics(self._catalog, self._table, [removal_update(each) for each in stored], None)
        except PuffinError as exc:
            raise CommitUnknownError(
                f"{self.name}: snapshot {entry.snapshot_id} expired while its statistics were committed, "
                f"and their entry cannot be removed: {exc}"
            ) from exc

    def _state(self) -> TableState:
        table = self._table
        return parse_state(table.metadata.model_dump(mode="json", by_alias=True), table.metadata_location)

    def _load_table(self) -> None:
        # The credentials are as fresh as the metadata, and what they open serves every file until the next load.
        self._table = load_catalog_table(self._catalog, self.name)
        self.io_properties = io_properties(self._table.io.properties)
        self._filesystem_for = filesystem_for(self.io_properties)

    def _state_before(self, answer: Mapping[str, Any], base: TableState) -> TableState:
        log = answer.get("metadata-log") or ()
        before = log[-1]["metadata-file"] if log else base.metadata_location
        if before == base.metadata_location:
            return base
        try:
            return read_state(before, self.store(before))
        except PuffinError as exc:
            # A job whose columns are gone sees that when it reads back, if it has not done so already.
            _log.warning("cannot see whether statistics of another job were replaced: %s", exc)
            return base
