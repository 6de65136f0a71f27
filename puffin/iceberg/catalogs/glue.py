"""
Tables of the AWS Glue Data Catalog, where a parameter of the Glue table names the metadata file.

An update of a Glue table carries the id of the version that it changes, and Glue refuses it if there is a newer one.
The client repeats a request whose answer was lost, and so may a proxy on the way, so a refused update may already have
succeeded the first time. The table itself therefore decides who won. Outcomes without a clear refusal are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from puffin.errors import CommitUnknownError, ConflictError, StorageError, TableNotFound, UnsupportedTableError
from puffin.iceberg.catalogs.metastore import LOCATION, IcebergMetastoreTable
from puffin.iceberg.sdk import no_such_table, said_by_library
from puffin.tables.state import TableState

if TYPE_CHECKING:
    from pyiceberg.catalog.glue import GlueCatalog

_SKIP_ARCHIVE = "glue.skip-archive"
_NOT_FOUND = "EntityNotFoundException"
_LOST_RACES = ("ConcurrentModificationException", "VersionMismatchException")
# The only client error that leaves the outcome open.
_TIMEOUT = "OperationTimeoutException"


class IcebergGlueTable(IcebergMetastoreTable):
    _catalog: GlueCatalog

    def _location(self) -> str:
        return self._location_in(self._glue_table().get("Parameters"))

    def _replace(self, base: TableState, location: str) -> None:
        table = self._glue_table()
        parameters = self._next_parameters(table.get("Parameters", {}), base, location)
        if (version := table.get("VersionId")) is None:
            raise UnsupportedTableError(f"{self.name}: expected a Glue table with a version to compare, found none")
        request = {
            "DatabaseName": self._namespace,
            "TableInput": {**self._settable(table), "Parameters": parameters},
            "VersionId": version,
            "SkipArchive": str(self._catalog.properties.get(_SKIP_ARCHIVE, True)).lower() == "true",
        }
        try:
            self._catalog.glue.update_table(**request)
        except ClientError as exc:
            self._sort_out(exc, location)
        except Exception as exc:  # of the connection, or of an invalid answer
            raise CommitUnknownError(f"{self.name}: no clear answer to the commit: {said_by_library(exc)}") from exc

    def _glue_table(self) -> dict[str, Any]:
        try:
            answer = self._catalog.glue.get_table(DatabaseName=self._namespace, Name=self._table)
        except (ClientError, BotoCoreError) as exc:
            if isinstance(exc, ClientError) and _code(exc) == _NOT_FOUND:
                raise no_such_table(self.name, self._catalog.name) from exc
            raise StorageError(f"{self.name}: catalog {self._catalog.name!r} failed: {said_by_library(exc)}") from exc
        table: dict[str, Any] | None = answer.get("Table")
        if table is None:  # such as from a proxy's page for people
            raise StorageError(
                f"{self.name}: catalog {self._catalog.name!r} answered without a table: check its endpoint"
            )
        return table

    def _settable(self, table: dict[str, Any]) -> dict[str, Any]:
        update = self._catalog.glue.meta.service_model.operation_model("UpdateTable")
        settable = update.input_shape.members["TableInput"].members
        return {key: value for key, value in table.items() if key in settable}

    def _sort_out(self, exc: ClientError, location: str) -> None:
        """Raise the error that a failed update means; return if the update succeeded after all."""
        answer = exc.response.get("ResponseMetadata", {})
        code, was_repeated = _code(exc), answer.get("RetryAttempts", 0) > 0
        refused = f"{self.name}: the catalog refused the commit: {said_by_library(exc)}"
        if code in _LOST_RACES:
            self._check_who_won(location, exc)
        elif was_repeated or code == _TIMEOUT or answer.get("HTTPStatusCode", 500) // 100 != 4:
            raise CommitUnknownError(f"{self.name}: no clear answer to the commit: {said_by_library(exc)}") from exc
        elif code == _NOT_FOUND:
            raise TableNotFound(refused) from exc
        else:
            try:
                self._check_who_won(location, exc)
            except ConflictError:  # nobody else need have won
                raise StorageError(refused) from exc


def listed_locations(catalog: GlueCatalog, namespace: str) -> dict[str, str]:
    """The current metadata files of the tables in a database, by their names there."""
    pages = catalog.glue.get_paginator("get_tables").paginate(DatabaseName=namespace)
    tables = [table for page in pages for table in page["TableList"]]
    return {t["Name"]: t["Parameters"][LOCATION] for t in tables if LOCATION in t.get("Parameters", {})}


def _code(exc: ClientError) -> str:
    return str(exc.response.get("Error", {}).get("Code"))
