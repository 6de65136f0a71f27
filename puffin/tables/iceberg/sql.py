"""
Tables of pyiceberg's SQL catalogs (SQLite, PostgreSQL and others): the row of ``iceberg_tables`` is the table.

A commit writes the next metadata file and moves the row from the one location to the other, on condition that
the row still has the old one. pyiceberg's own commit is not used: it rebuilds the metadata from its models,
which loses what they do not know, and it does not write format version 3.
"""

from __future__ import annotations

import functools
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import String, column, select, table, update
from sqlalchemy.exc import SQLAlchemyError

from puffin.errors import CommitUnknownError, ConflictError, PuffinError, StorageError, TableNotFound
from puffin.storage import Store, store_for
from puffin.tables.base import SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.iceberg.file import read_current_state, read_state
from puffin.tables.iceberg.metadata import encode_document
from puffin.tables.iceberg.patch import NextVersion, next_metadata_location, with_statistics, without_entries
from puffin.tables.iceberg.sdk import filesystem_for, io_properties, one_line
from puffin.tables.iceberg.table import IcebergTable
from puffin.tables.leftovers import StoredEntry
from puffin.tables.stores import delete_quietly
from puffin.tables.table import CURRENT

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy import Connection

_CODEC = "write.metadata.compression-codec"
_GZIP_NAME = ".gz"
# SQLSTATEs of a transaction that the database gave up for another's sake: serialization failure, deadlock, lock held.
_LOST_RACES = ("40001", "40P01", "55P03")
_TABLES = table(
    "iceberg_tables",
    column("catalog_name", String),
    column("table_namespace", String),
    column("table_name", String),
    column("metadata_location", String),
    column("previous_metadata_location", String),
)


class IcebergSqlTable(IcebergTable):
    """
    An Iceberg table of a SQL catalog.

    Attributes:
        name: ``namespace.table``.
        io_properties: The catalog's properties that open files.
    """

    def __init__(self, catalog: SqlCatalog, identifier: str) -> None:
        super().__init__(identifier, io_properties(catalog.properties))
        self._catalog = catalog
        namespace, _, self._table = identifier.rpartition(".")
        self._row = (
            (_TABLES.c.catalog_name == catalog.name)
            & (_TABLES.c.table_namespace == namespace)
            & (_TABLES.c.table_name == self._table)
        )
        self._filesystem_for = filesystem_for(self.io_properties)

    def load(self, selector: SnapshotSelector = CURRENT) -> TableState:  # noqa: ARG002 - the document has them all
        """
        The table as it is now.

        Raises:
            TableNotFound: The catalog has no such table.
            StorageError: The database or the file system does not answer.
            CorruptMetadataError, UnsupportedTableError: It is not metadata that this version understands.
        """
        return read_current_state(self._location, lambda location: read_state(location, self.store(location)))

    def refresh(self, state: TableState, selector: SnapshotSelector = CURRENT) -> TableState:
        """The table as it is now: ``state``, if the catalog's row still says so; errors as for `load`."""
        return state if self._location() == state.metadata_location else self.load(selector)

    def store(self, uri: str) -> Store:
        """The store that holds one of the table's files, with the catalog's credentials."""
        return store_for(uri, self._filesystem_for)

    def check_committable(self, state: TableState) -> None:
        """Any table of a SQL catalog can be committed to, whatever its format version."""

    def commit(self, base: TableState, entry: StatisticsEntry) -> TableState:
        """
        Write the version after ``base`` and move the row to it; returns ``base``, since no other can come between.

        Raises:
            ConflictError: The row has another location by now, or another transaction has it locked.
            CommitUnknownError: The database failed while committing.
        """
        self._follow(base, functools.partial(with_statistics, entry=entry))
        return base

    def remove_entries(self, base: TableState, entries: Sequence[StoredEntry]) -> None:
        """Write the version after ``base`` without these entries and move the row to it; errors as for `commit`."""
        self._follow(base, functools.partial(without_entries, entries=entries))

    def _follow(self, base: TableState, change: Callable[..., NextVersion]) -> None:
        codec = base.properties.get(_CODEC)
        compress = _GZIP_NAME in base.metadata_location if codec is None else codec.lower() == "gzip"
        location = next_metadata_location(base, compress=compress)
        following = change(base, now_ms=time.time_ns() // 1_000_000)
        store = self.store(location)
        with store.create(location) as sink:
            sink.write(encode_document(following.document, compress=compress))
        try:
            self._move_row(base.metadata_location, location)
        except CommitUnknownError:
            raise
        except PuffinError:
            delete_quietly(location, self.store)
            raise
        for superseded in following.superseded:
            delete_quietly(superseded, self.store)

    def _location(self) -> str:
        try:
            with self._catalog.engine.connect() as connection:
                location = connection.execute(select(_TABLES.c.metadata_location).where(self._row)).scalar()
        except SQLAlchemyError as exc:
            raise StorageError(f"{self.name}: the catalog's database failed: {one_line(exc)}") from exc
        if location is None:
            raise TableNotFound(f"{self.name}: no such table in catalog {self._catalog.name!r}")
        return str(location)

    def _move_row(self, base_location: str, location: str) -> None:
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
            message = f"{self.name}: the catalog's database failed while committing: {one_line(exc)}"
            raise (ConflictError if lost else failure)(message) from exc


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except SQLAlchemyError:
        # SQLAlchemy takes the transaction for ended and would not roll it back: the next commit would carry it along.
        connection.invalidate()
        raise


def _lost_a_race(exc: SQLAlchemyError) -> bool:
    """Whether the database ended the transaction because of another one; then nothing was written, even at COMMIT."""
    cause = getattr(exc, "orig", None)
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state in _LOST_RACES or (isinstance(cause, sqlite3.OperationalError) and "is locked" in str(cause))
