"""From what a user calls a table to the table: told apart by what is there, never by how the name looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from puffin.errors import FileNotFound, TableNotFound, UnsupportedTableError, UsageError
from puffin.storage import Store, join, local_path, store_for
from puffin.tables.table import Table


def load_table(table: str, *, catalog: str | None = None, catalog_properties: Mapping[str, str] | None = None) -> Table:
    """
    The table of this name.

    Args:
        table: A path or URI of a table directory or of an Iceberg metadata file; with ``catalog``, ``namespace.table``.
        catalog: A catalog of pyiceberg's configuration.
        catalog_properties: Properties that override that configuration.

    Raises:
        TableNotFound: There is no table there.
        UnsupportedTableError: It is of a catalog that this version cannot commit to.
        SetupError: The catalog is not configured.
        UsageError: The name fits no catalog.
        StorageError: The storage does not answer.
    """
    if catalog is not None:
        return _catalog_table(table, catalog, catalog_properties or {})
    if catalog_properties:
        raise UsageError("catalog properties need a catalog: name it with --catalog")
    return _table_at(table)


def namespace_tables(namespace: str, *, catalog: str, catalog_properties: Mapping[str, str]) -> list[str]:
    """The names of a namespace's tables, sorted; errors as for `load_table`."""
    from puffin.tables.iceberg.sdk import list_tables, open_catalog

    return list_tables(open_catalog(catalog, catalog_properties), namespace)


def _table_at(location: str) -> Table:
    from puffin.tables.iceberg.directory import IcebergDirectory
    from puffin.tables.iceberg.file import IcebergMetadataFile

    store = store_for(location)
    if local_path(location) is not None and not store.exists(location):
        raise TableNotFound(f"{location}: no such file or directory")
    if _is_file(store, location):
        return IcebergMetadataFile(location)
    if store.exists(join(location, "_delta_log")):
        from puffin.tables.delta.directory import DeltaDirectory

        return DeltaDirectory(location)
    if not store.list(join(location, "metadata")):
        raise TableNotFound(f"{location}: expected a table: _delta_log or metadata in it, found neither")
    return IcebergDirectory(location)


def _is_file(store: Store, location: str) -> bool:
    try:
        store.size(location)
    except FileNotFound:
        return False
    return True


def _catalog_table(identifier: str, name: str, properties: Mapping[str, str]) -> Table:
    if "." not in identifier:
        raise UsageError(f"{identifier}: expected namespace.table, since a catalog is named")
    from puffin.tables.iceberg.rest import IcebergRestTable
    from puffin.tables.iceberg.sdk import catalog_kind, open_catalog
    from puffin.tables.iceberg.sql import IcebergSqlTable

    catalog: Any = open_catalog(name, properties)
    kind = catalog_kind(catalog)
    if kind == "sql":
        return IcebergSqlTable(catalog, identifier)
    if kind == "rest":
        return IcebergRestTable(catalog, identifier)
    raise UnsupportedTableError(f"catalog {name!r}: expected a sql or rest catalog, found {kind}, not supported yet")
