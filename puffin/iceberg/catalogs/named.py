"""
Finds tables in a pyiceberg catalog. The kind of the catalog decides how a table is read and committed, and whether a
list of tables tells their versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from puffin.errors import StorageError, UnsupportedTableError
from puffin.iceberg.sdk import catalog_kind, one_line
from puffin.tables.snapshot import Table


def table_of(catalog: Any, name: str, identifier: str) -> Table:
    """The table with this identifier in the catalog that the user calls ``name``."""
    # Each kind needs its own library.
    match kind := catalog_kind(catalog):
        case "RestCatalog":
            from puffin.iceberg.catalogs.rest import IcebergRestTable

            return IcebergRestTable(catalog, identifier)
        case "SqlCatalog":
            from puffin.iceberg.catalogs.sql import IcebergSqlTable

            return IcebergSqlTable(catalog, identifier)
        case "GlueCatalog":
            from puffin.iceberg.catalogs.glue import IcebergGlueTable

            return IcebergGlueTable(catalog, identifier)
        case "HiveCatalog":
            from puffin.iceberg.catalogs.hive import IcebergHiveTable

            return IcebergHiveTable(catalog, identifier)
    raise UnsupportedTableError(f"catalog {name!r}: expected one of SQL, REST, Glue or Hive, found a {kind}")


def listed_versions(catalog: Any, name: str, namespace: str) -> dict[str, str]:
    """
    The current metadata files of a namespace's tables by ``namespace.table``, as one list of the catalog tells them.

    Empty for a REST catalog, whose lists have names only. Raises StorageError if the catalog fails.
    """
    listed: Callable[[Any, str], dict[str, str]]
    match catalog_kind(catalog):
        case "SqlCatalog":
            from puffin.iceberg.catalogs.sql import listed_locations as listed
        case "GlueCatalog":
            from puffin.iceberg.catalogs.glue import listed_locations as listed
        case "HiveCatalog":
            from puffin.iceberg.catalogs.hive import listed_locations as listed
        case _:
            return {}
    try:
        return {f"{namespace}.{table}": location for table, location in listed(catalog, namespace).items()}
    except Exception as exc:  # every catalog library has its own errors
        raise StorageError(f"namespace {namespace}: catalog {name!r} failed: {one_line(exc)}") from exc
