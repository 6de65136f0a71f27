"""
Finds tables in a pyiceberg catalog. The kind of the catalog decides how a table is read and committed, and whether a
list of tables tells their versions.

Most commands take less time than the import of pyiceberg's catalogs, so a table of a SQL catalog is found without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from puffin.errors import StorageError, UnsupportedTableError
from puffin.iceberg.sdk import catalog_kind, database_properties, open_catalog, said_by_library, sql_properties
from puffin.tables.snapshot import Table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.sql import SqlCatalog

    from puffin.iceberg.catalogs.sql import SqlDatabase


def sql_database(name: str, properties: Mapping[str, str]) -> SqlDatabase | None:
    """The database of a SQL catalog, which serves `table_of` as well; None if pyiceberg has to open the catalog."""
    found = sql_properties(name, properties)
    if found is None:
        return None
    from puffin.iceberg.catalogs.sql import SqlDatabase

    return SqlDatabase.of(name, found)


def opened_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """
    As `puffin.iceberg.sdk.open_catalog`, but never creates the lasting database of a SQL catalog or its tables.

    Raises SetupError if a SQL catalog's database does not exist, has no tables of a catalog, or has catalogs of other
    names alone, and StorageError if another process holds it; the user's own ``init_catalog_tables`` leaves that to
    pyiceberg.
    """
    found = database_properties(name, properties)
    if found is None:
        return open_catalog(name, properties)
    from puffin.iceberg.catalogs.sql import check_file, check_tables, is_in_memory

    uri = str(found["uri"])
    if is_in_memory(uri):
        return open_catalog(name, properties)
    check_file(name, uri)
    catalog = open_catalog(name, {"pool_pre_ping": "true", **found, "init_catalog_tables": "false"})
    check_tables(name, cast("SqlCatalog", catalog).engine)
    return catalog


def table_of(catalog: Any, name: str, identifier: str) -> Table:
    """The table with this identifier in the catalog that the user calls ``name``."""
    # Each kind needs its own library.
    match kind := catalog_kind(catalog):
        case "RestCatalog":
            from puffin.iceberg.catalogs.rest import IcebergRestTable

            return IcebergRestTable(catalog, identifier)
        case "SqlCatalog" | "SqlDatabase":
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
        raise StorageError(f"namespace {namespace}: catalog {name!r} failed: {said_by_library(exc)}") from exc
