"""Finds a table in a pyiceberg catalog. The kind of the catalog decides how the table is read and committed."""

from __future__ import annotations

from typing import Any

from puffin.errors import UnsupportedTableError
from puffin.iceberg.sdk import catalog_kind
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
