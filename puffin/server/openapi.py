"""The parts of the OpenAPI document that FastAPI cannot know: problems, tokens, responses that are not JSON."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from puffin.server import metrics, problems
from puffin.server.entrance import OPEN
from puffin.server.iceberg.errors import MEDIA_TYPE
from puffin.server.iceberg.paths import ICEBERG

_DESCRIPTION = (
    "What a query planner asks: the number of distinct values of columns, with bounds and age, from the metadata of "
    "Iceberg and Delta tables. Errors are problem documents (RFC 9457)."
)
_MEANINGS = {
    304: "The caller has this answer already.",
    400: "The request cannot be understood, or contradicts itself.",
    401: "The bearer token is missing or wrong.",
    403: "The table is outside of what the server serves, whether it exists or not.",
    404: "There is no such table, snapshot, column, or there are no statistics.",
    406: "The protocol cannot carry what is asked for, or the table cannot be planned here.",
    408: "The body took too long to arrive.",
    413: "The body is too long.",
    421: "The header Host names none of the hosts that the server answers to.",
    422: "The request is not of the form described here; or the table is corrupt or not supported.",
    429: "Too many requests at once.",
    500: "A defect of the server.",
    503: "Storage or catalog failed.",
    504: "Storage or catalog did not answer in time.",
}
_OF_FACE = (400, 403, 404, 406, 408, 413, 421, 422, 429, 500, 503, 504)
_PROBLEM = {"content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}}
_ICEBERG_ERROR = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/IcebergErrorDocument"}}}}


def response(status: int, error: dict[str, Any] = _PROBLEM) -> dict[str, Any]:
    """The description of a response other than 200."""
    return {"description": _MEANINGS[status], **({} if status == HTTPStatus.NOT_MODIFIED else error)}


def complete(document: dict[str, Any], *, is_guarded: bool) -> dict[str, Any]:
    """Complete FastAPI's document; ``is_guarded`` if the server requires a token."""
    document["info"]["description"] = _DESCRIPTION
    if is_guarded:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        is_of_face = path.startswith(ICEBERG)
        error, statuses = (_ICEBERG_ERROR, _OF_FACE) if is_of_face else (_PROBLEM, (HTTPStatus.MISDIRECTED_REQUEST,))
        for operation in operations.values():
            for status in statuses:
                operation["responses"][str(int(status))] = response(status, error)
            if is_guarded and path not in OPEN:
                operation["security"] = [{"token": []}]
                operation["responses"]["401"] = response(HTTPStatus.UNAUTHORIZED, error)
            if operation["operationId"] == "iceberg-table":
                _add_etag(operation, "Changes with the metadata, the listed snapshots and who plans.")
    scrape = document["paths"]["/metrics"]["get"]["responses"]["200"]
    scrape["content"] = {metrics.MEDIA_TYPE.partition(";")[0]: {"schema": {"type": "string"}}}
    stats = document["paths"]["/v1/stats"]["get"]
    _add_etag(stats, "Changes with the snapshot, the statistics files and the question.")
    return document


def _add_etag(operation: dict[str, Any], meaning: str) -> None:
    operation["parameters"].append(
        {
            "name": "If-None-Match",
            "in": "header",
            "required": False,
            "description": "Entity tags of answers that the caller has.",
            "schema": {"type": "string"},
        }
    )
    operation["responses"].setdefault("304", response(HTTPStatus.NOT_MODIFIED))
    for status in ("200", "304"):
        operation["responses"][status]["headers"] = {"ETag": {"description": meaning, "schema": {"type": "string"}}}
