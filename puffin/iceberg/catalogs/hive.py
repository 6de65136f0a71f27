"""
Tables of a Hive metastore, where a parameter of the Hive table names the metadata file.

A commit holds the table's exclusive lock, as Iceberg's and pyiceberg's own do, while it compares and changes the
parameter. A table whose writers take no lock says so with ``engine.hive.lock-enabled``. The change also carries the
expected value, which metastores since 2.3.10 and 4.0 compare themselves, so there it is safe without the lock. The
commit holds the lock for two calls only, so it needs no heartbeats.

Each operation opens its own connection with bounded waits, because threads cannot share the one of pyiceberg's catalog.
It asks for tables by requests, since 4.0 no longer has ``get_table``, which pyiceberg calls, and its plural.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from hive_metastore.ttypes import (
    CheckLockRequest,
    EnvironmentContext,
    GetTableRequest,
    GetTablesRequest,
    InvalidOperationException,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    MetaException,
    NoSuchObjectException,
    UnlockRequest,
)
from thrift.Thrift import TException

from puffin.errors import CommitUnknownError, ConflictError, StorageError, TableNotFound
from puffin.iceberg.catalogs.metastore import LOCATION, IcebergMetastoreTable
from puffin.iceberg.sdk import bound_waits, no_such_table, said_by_library
from puffin.tables.state import TableState

if TYPE_CHECKING:
    from pyiceberg.catalog.hive import HiveCatalog

_LOCK_ENABLED = "engine.hive.lock-enabled"
_LOCK_SECONDS = 60.0  # of waiting for the lock; then the caller waits and tries again
_FIRST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.05, 2.0
_MODIFIED = "The table has been modified"  # the metastore's own words; Iceberg matches them too


def listed_locations(catalog: HiveCatalog, namespace: str) -> dict[str, str]:
    """The current metadata files of the tables in a database, by their names there."""
    with bound_waits(catalog._create_hive_client(catalog.properties)) as metastore:
        names = metastore.get_all_tables(db_name=namespace)
        tables = metastore.get_table_objects_by_name_req(GetTablesRequest(dbName=namespace, tblNames=names)).tables
    return {table.tableName: table.parameters[LOCATION] for table in tables if LOCATION in (table.parameters or {})}


class IcebergHiveTable(IcebergMetastoreTable):
    _catalog: HiveCatalog

    def _location(self) -> str:
        with self._metastore() as metastore:
            return self._location_in(self._hive_table(metastore).parameters)

    def _replace(self, base: TableState, location: str) -> None:
        with self._metastore() as metastore, self._locked(metastore, base):
            table = self._hive_table(metastore)
            table.parameters = self._next_parameters(table.parameters or {}, base, location)
            expected = {"expected_parameter_key": LOCATION, "expected_parameter_value": base.metadata_location}
            context = EnvironmentContext(properties={**expected, "DO_NOT_UPDATE_STATS": "true"})
            try:
                metastore.alter_table_with_environment_context(self._namespace, self._table, table, context)
            except NoSuchObjectException as exc:
                raise TableNotFound(f"{self.name}: the catalog no longer has this table") from exc
            except InvalidOperationException as exc:
                raise StorageError(f"{self.name}: the metastore refused the commit: {said_by_library(exc)}") from exc
            except Exception as exc:  # of the metastore, the connection, or an invalid answer
                if not (isinstance(exc, MetaException) and _MODIFIED in said_by_library(exc)):
                    raise CommitUnknownError(
                        f"{self.name}: no clear answer to the commit: {said_by_library(exc)}"
                    ) from exc
                # The metastore retries after failures of its database, and may have met its own change.
                self._check_who_won(location, exc)

    @contextmanager
    def _metastore(self) -> Iterator[Any]:
        """A connection. Errors that are not sorted out already mean that nothing was changed."""
        client = bound_waits(self._catalog._create_hive_client(self._catalog.properties))
        try:
            yield client.__enter__()
        except (TException, OSError) as exc:
            raise StorageError(f"{self.name}: catalog {self._catalog.name!r} failed: {said_by_library(exc)}") from exc
        finally:
            with suppress(TException, OSError):  # the work is already done
                client.__exit__(None, None, None)

    def _hive_table(self, metastore: Any) -> Any:
        try:
            return metastore.get_table_req(GetTableRequest(dbName=self._namespace, tblName=self._table)).table
        except NoSuchObjectException as exc:
            raise no_such_table(self.name, self._catalog.name) from exc

    @contextmanager
    def _locked(self, metastore: Any, base: TableState) -> Iterator[None]:
        """The table's exclusive lock, if its writers take one; ConflictError if another writer keeps it."""
        if base.properties.get(_LOCK_ENABLED, "true").lower() == "false":
            yield
            return
        component = LockComponent(
            type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname=self._namespace, tablename=self._table
        )
        request = LockRequest(component=[component], user=_user(), hostname=socket.gethostname())
        lock = metastore.lock(request)
        try:
            self._wait_for(metastore, lock)
            yield
        finally:
            with suppress(TException, OSError):  # the lock expires anyway, and the commit is decided
                metastore.unlock(UnlockRequest(lockid=lock.lockid))

    def _wait_for(self, metastore: Any, lock: Any) -> None:
        deadline, wait = time.monotonic() + _LOCK_SECONDS, _FIRST_LOOK_SECONDS
        while lock.state == LockState.WAITING and time.monotonic() < deadline:
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_LOOK_SECONDS)
            lock = metastore.check_lock(CheckLockRequest(lockid=lock.lockid))
        if lock.state != LockState.ACQUIRED:
            raise ConflictError(f"{self.name}: another writer holds the table's lock")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that no user has
        return str(os.getuid())
