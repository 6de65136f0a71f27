"""
Tables of REST catalogs: we send updates, and the server patches the metadata.

`puffin.iceberg.commit.updates` makes the updates and finds out what a commit may have overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from puffin.iceberg.catalogs.rest_protocol import commit_updates, load_table
from puffin.iceberg.commit.patch import removal_update
from puffin.iceberg.commit.updates import applied_to, set_updates
from puffin.iceberg.metadata.document import parse_state
from puffin.iceberg.sdk import has_all_snapshots
from puffin.iceberg.table import IcebergSnapshot, IcebergTable
from puffin.tables.base import SnapshotSelector, StatisticsEntry
from puffin.tables.leftovers import StoredEntry
from puffin.tables.snapshot import CURRENT
from puffin.tables.state import TableState

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog


class IcebergRestTable(IcebergTable):
    """An Iceberg table of a REST catalog, named ``namespace.table``."""

    def __init__(self, catalog: RestCatalog, identifier: str) -> None:
        super().__init__(identifier)
        self._catalog = catalog
        self._identifier = identifier
        # If the server omits snapshots, their entries look dead.
        self.lists_all_snapshots = has_all_snapshots(catalog)

    def open(self, selector: SnapshotSelector = CURRENT) -> IcebergSnapshot:
        return self._opened(selector, None)

    def refresh(self, opened: IcebergSnapshot, selector: SnapshotSelector) -> IcebergSnapshot:
        return self._opened(selector, opened.state)

    def _opened(self, selector: SnapshotSelector, known: TableState | None) -> IcebergSnapshot:
        # Only the server knows whether its metadata has changed, and its answer brings fresh credentials.
        loaded = load_table(self._catalog, self._identifier)
        if known is None or known.metadata_location != loaded.metadata_location:
            known = parse_state(loaded.document, loaded.metadata_location)
        return self._bound(known, selector, loaded.io_properties)

    def commit(self, base: IcebergSnapshot, entry: StatisticsEntry) -> TableState:
        """Have the server set the entry; returns and raises what `applied_to` does."""
        asserted = _same_table(base.state)
        if (schema_id := base.state.document.get("current-schema-id")) is not None:
            asserted.append({"type": "assert-current-schema-id", "current-schema-id": schema_id})
        answer = commit_updates(self._catalog, self._identifier, set_updates(entry), asserted)
        return applied_to(
            answer,
            base,
            entry,
            post=lambda updates: commit_updates(self._catalog, self._identifier, updates, _same_table(base.state)),
        )

    def remove_entries(self, base: IcebergSnapshot, entries: Sequence[StoredEntry]) -> None:
        """Have the server remove the entries; any base will do, since an expired snapshot never comes back."""
        removals = [removal_update(entry) for entry in entries]
        commit_updates(self._catalog, self._identifier, removals, _same_table(base.state))


def _same_table(base: TableState) -> list[dict[str, Any]]:
    return [] if base.uuid is None else [{"type": "assert-table-uuid", "uuid": base.uuid}]
