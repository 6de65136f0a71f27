"""The parts of the OpenAPI document that FastAPI cannot know: problems, tokens, responses that are not JSON."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from puffin.server import metrics, problems
from puffin.server.entrance import OPEN

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
    408: "The body took too long to arrive.",
    413: "The body is too long.",
    421: "The header Host names none of the hosts that the server answers to.",
    422: "The request is not of the form described here; or the table is corrupt or not supported.",
    429: "Too many requests at once.",
    500: "A defect of the server.",
    503: "Storage or catalog failed.",
    504: "Storage or catalog did not answer in time.",
}
_PROBLEM = {"content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}}


def response(status: int) -> dict[str, Any]:
    """The description of a response other than 200."""
    return {"description": _MEANINGS[status], **({} if status == HTTPStatus.NOT_MODIFIED else _PROBLEM)}


def complete(document: dict[str, Any], *, is_guarded: bool) -> dict[str, Any]:
    """Complete FastAPI's document; ``is_guarded`` if the server requires a token."""
    document["info"]["description"] = _DESCRIPTION
    if is_guarded:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["responses"]["421"] = response(HTTPStatus.MISDIRECTED_REQUEST)
            if is_guarded and path not in OPEN:
                operation["security"] = [{"token": []}]
                operation["responses"]["401"] = response(HTTPStatus.UNAUTHORIZED)
    scrape = document["paths"]["/metrics"]["get"]["responses"]["200"]
    scrape["content"] = {metrics.MEDIA_TYPE.partition(";")[0]: {"schema": {"type": "string"}}}
    stats = document["paths"]["/v1/stats"]["get"]
    stats["parameters"].append(
        {
            "name": "If-None-Match",
            "in": "header",
            "required": False,
            "description": "Entity tags of answers that the caller has.",
            "schema": {"type": "string"},
        }
    )
    for status in ("200", "304"):
        stats["responses"][status]["headers"] = {
            "ETag": {
                "description": "Changes with the snapshot, the statistics files and the question.",
                "schema": {"type": "string"},
            }
        }
    return document
