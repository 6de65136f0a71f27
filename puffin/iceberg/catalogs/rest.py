"""
Tables of REST catalogs: the server patches the metadata, we send it updates.

What the updates are, and what a commit may have overwritten, is in `puffin.iceberg.commit.updates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from puffin.iceberg.catalogs.rest_protocol import LoadedTable, commit_updates, load_table
from puffin.iceberg.commit.patch import removal_update
from puffin.iceberg.commit.updates import applied_to, set_updates
from puffin.iceberg.metadata.document import parse_state
from puffin.iceberg.sdk import filesystem_for, has_all_snapshots
from puffin.iceberg.table import IcebergTable
from puffin.storage import Store, store_for
from puffin.tables.base import SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.leftovers import StoredEntry
from puffin.tables.table import CURRENT

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog


class IcebergRestTable(IcebergTable):
    """
    An Iceberg table of a REST catalog.

    Attributes:
        name: ``namespace.table``.
        io_properties: What the server said the file system needs, vended credentials included; empty before a load.
    """

    def __init__(self, catalog: RestCatalog, identifier: str) -> None:
        super().__init__(identifier, {})
        self._catalog = catalog
        self._filesystem_for = filesystem_for({})

    def load(self, selector: SnapshotSelector = CURRENT) -> TableState:  # noqa: ARG002 - the document has them all
        """
        The table as it is now.

        Raises:
            TableNotFound: The catalog has no such table.
            StorageError: The catalog does not answer.
            CorruptMetadataError, UnsupportedTableError: It is not metadata that this version understands.
        """
        loaded = self._load_table()
        return parse_state(loaded.document, loaded.metadata_location)

    def refresh(self, state: TableState, selector: SnapshotSelector = CURRENT) -> TableState:  # noqa: ARG002 - as above
        """The table as it is now, which nobody but the server can tell; errors as for `load`."""
        loaded = self._load_table()
        if loaded.metadata_location == state.metadata_location:
            return state
        return parse_state(loaded.document, loaded.metadata_location)

    def store(self, uri: str) -> Store:
        """The store that holds one of the table's files, with the credentials the server gave with the last load."""
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
        asserted = _same_table(base)
        if (schema_id := base.document.get("current-schema-id")) is not None:
            asserted.append({"type": "assert-current-schema-id", "current-schema-id": schema_id})
        answer = commit_updates(self._catalog, self.name, set_updates(entry), asserted)
        return applied_to(
            answer,
            base,
            entry,
            name=self.name,
            store_for=self.store,
            post=lambda updates: commit_updates(self._catalog, self.name, updates, _same_table(base)),
        )

    def dead_entries(self, state: TableState) -> tuple[StoredEntry, ...]:
        """The entries whose snapshots are gone; none where the client has the server leave snapshots out."""
        return super().dead_entries(state) if has_all_snapshots(self._catalog) else ()

    def remove_entries(self, base: TableState, entries: Sequence[StoredEntry]) -> None:
        """Have the server remove the entries; a snapshot that is gone never comes back, so any base will do."""
        removals = [removal_update(entry) for entry in entries]
        commit_updates(self._catalog, self.name, removals, _same_table(base))

    def _load_table(self) -> LoadedTable:
        # The credentials are as fresh as the metadata, and what they open serves every file until the next load.
        loaded = load_table(self._catalog, self.name)
        self.io_properties = loaded.io_properties
        self._filesystem_for = filesystem_for(self.io_properties)
        return loaded


def _same_table(base: TableState) -> list[dict[str, Any]]:
    return [] if base.uuid is None else [{"type": "assert-table-uuid", "uuid": base.uuid}]
