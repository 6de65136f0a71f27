"""
Talks to a REST catalog's server about one table, in JSON over pyiceberg's session.

pyiceberg finds the server and authenticates. Its models are not used: they cannot read tables with unknown types or
blobs, and they drop fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptMetadataError,
    PuffinError,
    StorageError,
    TableNotFound,
    UnsupportedTableError,
    said_by,
)
from puffin.iceberg.sdk import no_object, no_such_table, said_by_library
from puffin.iceberg.vended import TABLE_PATH, opening_properties, request
from puffin.tables.statistics_json import typed

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog

_COMMIT_ENDPOINT = f"POST /v1/{{prefix}}/{TABLE_PATH}"


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table's metadata, its location, and the properties that open its files, vended credentials included."""

    document: dict[str, Any]
    metadata_location: str
    io_properties: dict[str, str]


def load_table(catalog: RestCatalog, identifier: str) -> LoadedTable:
    """The table as the server has it now; raises what `puffin.tables.snapshot.Table.open` raises."""
    try:
        response = request(catalog, "GET", TABLE_PATH, identifier)
    except Exception as exc:  # every way to authorize has its own errors
        raise StorageError(f"{identifier}: catalog {catalog.name!r} failed: {said_by_library(exc)}") from exc
    if response.status_code == HTTPStatus.NOT_FOUND:
        raise no_such_table(identifier, catalog.name)
    if not response.ok:
        raise StorageError(f"{identifier}: catalog {catalog.name!r} failed: {_problem(response)}")
    try:
        answer = response.json()
        location, document = typed(answer, "metadata-location", str), typed(answer, "metadata", dict)
        of_table = document.get("properties") or {}
        return LoadedTable(document, location, opening_properties(catalog, identifier, location, answer, of_table))
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise CorruptMetadataError(
            f"{identifier}: catalog {catalog.name!r} gave no table metadata: {no_object(response) or said_by(exc)}"
        ) from exc


def commit_updates(
    catalog: RestCatalog,
    identifier: str,
    updates: Sequence[Mapping[str, Any]],
    requirements: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Have the server update a table; returns the metadata document of its answer. Errors are those of `_refusal`."""
    if _COMMIT_ENDPOINT not in map(str, catalog._supported_endpoints):
        raise UnsupportedTableError(f"{identifier}: the catalog takes no commits")
    *namespace, name = identifier.split(".")
    body = {
        "identifier": {"namespace": namespace, "name": name},
        "requirements": list(requirements),
        "updates": list(updates),
    }
    response = None
    try:
        response = request(catalog, "POST", TABLE_PATH, identifier, json=body)
        if response.ok:
            document: dict[str, Any] = typed(response.json(), "metadata", dict)
            return document
    except Exception as exc:
        why = (None if response is None else no_object(response)) or said_by_library(exc)
        raise CommitUnknownError(f"{identifier}: no clear answer to the commit: {why}") from exc
    error, what = _refusal(response.status_code)
    raise error(f"{identifier}: {what}: {_problem(response)}")


def _refusal(status: int) -> tuple[type[PuffinError], str]:
    """What the HTTP status of a failed commit means; as in Iceberg's own client, only 4xx is a clear answer."""
    if status == HTTPStatus.NOT_FOUND:
        return TableNotFound, "the catalog no longer has this table"
    if status == HTTPStatus.CONFLICT:
        return ConflictError, "the catalog refused the commit"
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return UnsupportedTableError, "the catalog takes no commits"
    if status // 100 == HTTPStatus.BAD_REQUEST // 100:
        return StorageError, "the catalog refused the commit"
    return CommitUnknownError, "no clear answer to the commit"


def _problem(response: Any) -> str:
    try:
        error = response.json()["error"]
        message = f"{error['type']}: {error['message']}".splitlines()[0]
    except (ValueError, KeyError, TypeError, IndexError):
        message = str(response.reason or "no reason given")
    return f"{response.status_code} {message}"
