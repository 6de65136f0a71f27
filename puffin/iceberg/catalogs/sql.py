"""
Tables of pyiceberg's SQL catalogs (SQLite, PostgreSQL and others), each a row of ``iceberg_tables``.

One statement changes the row's location, provided that it still has the old one.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine, String, column, create_engine, literal, select, table, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from puffin.errors import CommitUnknownError, ConflictError, PuffinError, SetupError, StorageError
from puffin.iceberg.catalogs.metastore import IcebergMetastoreTable
from puffin.iceberg.sdk import no_such_table, said_by_library
from puffin.tables.state import TableState

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy import Connection

# SQLSTATEs of transactions that lost against another: serialization failure, deadlock, lock held.
_LOST_RACES = ("40001", "40P01", "55P03")
_NAMES_SHOWN = 5
_TABLES = table(
    "iceberg_tables",
    column("catalog_name", String),
    column("table_namespace", String),
    column("table_name", String),
    column("metadata_location", String),
    column("previous_metadata_location", String),
)


_NAMESPACES = table("iceberg_namespace_properties", column("catalog_name", String))


@dataclasses.dataclass(frozen=True)
class SqlDatabase:
    """A SQL catalog as far as `IcebergSqlTable` needs it, which is less than pyiceberg's."""

    name: str
    properties: Mapping[str, str]
    engine: Engine

    @classmethod
    def of(cls, name: str, properties: Mapping[str, str]) -> SqlDatabase | None:
        """The database of a catalog with these properties; None if it cannot be used, or lacks a catalog's tables."""
        try:
            if _missing_file(properties["uri"]) is not None:
                return None
            # A connection may be idle for hours while a run computes, and databases and firewalls end such.
            engine = create_engine(properties["uri"], pool_pre_ping=True)
            with engine.connect() as connection:
                _look_at_tables(connection)
        except (SQLAlchemyError, ImportError):
            return None
        return cls(name, properties, engine)


def is_in_memory(uri: str) -> bool:
    """Whether the database is one of SQLite in memory, which is always new."""
    try:
        url = make_url(uri)
    except SQLAlchemyError:
        return False  # pyiceberg says what is wrong with the URI
    return url.get_backend_name() == "sqlite" and (url.database or ":memory:") == ":memory:"


def check_file(name: str, uri: str) -> None:
    """Raise SetupError if the catalog's database is a SQLite file that does not exist."""
    try:
        missing = _missing_file(uri)
    except SQLAlchemyError:
        return  # pyiceberg says what is wrong with the URI
    if missing is not None:
        raise SetupError(f"catalog {name!r} cannot be used: its database {missing} does not exist: check its uri")


def check_tables(name: str, engine: Engine) -> None:
    """
    Raise SetupError if the database of a catalog cannot be reached, lacks the tables of one, or has catalogs of other
    names alone, and StorageError if another process holds it.
    """
    try:
        with engine.connect() as connection:
            try:
                _look_at_tables(connection)
            except SQLAlchemyError as exc:
                if _lost_a_race(exc):
                    raise StorageError(f"catalog {name!r} failed: {said_by_library(exc)}: try again") from exc
                raise SetupError(
                    f"catalog {name!r} cannot be used: expected the tables of a catalog in its database, found "
                    f"{said_by_library(exc)}: check its uri"
                ) from exc
            if others := _other_names(name, connection):
                raise SetupError(
                    f"catalog {name!r} cannot be used: expected its namespaces or tables in its database, found only "
                    f"those of {', '.join(map(repr, others))}: name the catalog as its writers do"
                )
    except SQLAlchemyError as exc:
        raise SetupError(f"catalog {name!r} cannot be used: {said_by_library(exc)}") from exc


class IcebergSqlTable(IcebergMetastoreTable):
    _catalog: SqlCatalog | SqlDatabase

    def __init__(self, catalog: SqlCatalog | SqlDatabase, identifier: str) -> None:
        super().__init__(catalog, identifier)
        self._row = (
            (_TABLES.c.catalog_name == catalog.name)
            & (_TABLES.c.table_namespace == self._namespace)
            & (_TABLES.c.table_name == self._table)
        )

    def _location(self) -> str:
        try:
            with self._catalog.engine.connect() as connection:
                location = connection.execute(select(_TABLES.c.metadata_location).where(self._row)).scalar()
        except SQLAlchemyError as exc:
            raise StorageError(f"{self.name}: the catalog's database failed: {said_by_library(exc)}") from exc
        if location is None:
            raise no_such_table(self.name, self._catalog.name)
        return str(location)

    def _replace(self, base: TableState, location: str) -> None:
        base_location = base.metadata_location
        statement = (
            update(_TABLES)
            .where(self._row & (_TABLES.c.metadata_location == base_location))
            .values(metadata_location=location, previous_metadata_location=base_location)
        )
        failure: type[PuffinError] = StorageError
        try:
            with self._catalog.engine.connect() as connection:
                if connection.execute(statement).rowcount != 1:
                    raise ConflictError(f"{self.name}: another writer committed after {base_location}")
                failure = CommitUnknownError
                _commit(connection)
        except SQLAlchemyError as exc:
            lost = _lost_a_race(exc)
            message = f"{self.name}: the catalog's database failed while committing: {said_by_library(exc)}"
            raise (ConflictError if lost else failure)(message) from exc


def listed_locations(catalog: SqlCatalog, namespace: str) -> dict[str, str]:
    """The current metadata files of the tables in a namespace, by their names there."""
    in_namespace = (_TABLES.c.catalog_name == catalog.name) & (_TABLES.c.table_namespace == namespace)
    with catalog.engine.connect() as connection:
        rows = connection.execute(select(_TABLES.c.table_name, _TABLES.c.metadata_location).where(in_namespace))
        return {name: location for name, location in rows if location is not None}


def _look_at_tables(connection: Connection) -> None:
    for each in (_TABLES, _NAMESPACES):
        connection.execute(select(literal(1)).select_from(each).limit(1))


def _other_names(name: str, connection: Connection) -> list[str]:
    """Some names of catalogs that have tables in a database, if the catalog of this name has nothing in it."""
    for each in (_NAMESPACES, _TABLES):
        if connection.execute(select(literal(1)).select_from(each).where(each.c.catalog_name == name).limit(1)).first():
            return []
    return sorted(connection.scalars(select(_TABLES.c.catalog_name).distinct().limit(_NAMES_SHOWN)))


def _missing_file(uri: str) -> str | None:
    """The file of a SQLite database that does not exist; None for any other. SQLite would make it."""
    url = make_url(uri)
    file = url.database
    is_file = url.get_backend_name() == "sqlite" and not is_in_memory(uri) and not str(file).startswith("file:")
    return file if is_file and not Path(str(file)).exists() else None


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except SQLAlchemyError:
        # SQLAlchemy considers the transaction ended and would not roll it back, so the next commit would include it.
        connection.invalidate()
        raise


def _lost_a_race(exc: SQLAlchemyError) -> bool:
    """Whether the database ended the transaction because of another one; then it wrote nothing, even at COMMIT."""
    cause = getattr(exc, "orig", None)
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state in _LOST_RACES or (isinstance(cause, sqlite3.OperationalError) and "is locked" in str(cause))
