"""
Errors as problem documents (RFC 9457).

A caller's mistake is 4xx, including any that a wrong name can cause: a file below a root that is not a table gives 422.
5xx needs the operator: storage or a catalog fails or does not answer in time.
"""

from __future__ import annotations

import asyncio
import json
import logging
from urllib.parse import quote

from puffin import errors

MEDIA_TYPE = "application/problem+json"
_LONGEST_DETAIL = 1000
_log = logging.getLogger(__name__)

_TITLES = {
    "bad-request": "The request cannot be understood",
    "unauthorized": "A bearer token is required",
    "forbidden": "Not served here",
    "not-found": "Not found",
    "method-not-allowed": "Method not allowed",
    "too-slow": "The request did not arrive in time",
    "too-large": "The request is too large",
    "misdirected": "The request is for another host",
    "invalid": "The request is not valid",
    "unsupported": "Not supported",
    "corrupt": "The table or file cannot be understood",
    "too-many": "Too many requests at once",
    "internal": "Internal error",
    "unavailable": "Storage or catalog failed",
    "timeout": "Storage or catalog did not answer in time",
}

# The first match counts.
_OF_ERRORS: tuple[tuple[type[errors.PuffinError], int, str], ...] = (
    (errors.UsageError, 400, "bad-request"),
    (errors.NotFoundError, 404, "not-found"),
    (errors.CorruptError, 422, "corrupt"),
    (errors.UnsupportedError, 422, "unsupported"),
    (errors.PuffinError, 503, "unavailable"),
)


class Problem(Exception):
    """A refused request, raised only within the server; ``kind`` is the stable name of the problem's type."""

    def __init__(self, status: int, kind: str, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(status, kind, detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = headers

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """Any exception as a problem."""
        if isinstance(error, Problem):
            return error
        if isinstance(error, asyncio.TimeoutError):
            return cls(504, "timeout", "storage or catalog did not answer in time")
        for class_, status, kind in _OF_ERRORS:
            if isinstance(error, class_):
                return cls(status, kind, errors.in_one_line(error)[:_LONGEST_DETAIL])
        return cls(500, "internal", "a defect of the server; its log has the details")

    @classmethod
    def too_many(cls, detail: str) -> Problem:
        """The problem of a request that is good, but comes while too many others run."""
        return cls(429, "too-many", detail, (("Retry-After", "1"),))

    def body(self, instance: str) -> bytes:
        """The encoded problem document for a request to the path ``instance``."""
        document = {
            "type": f"urn:puffin-sidecar:problem:{self.kind}",
            "title": _TITLES[self.kind],
            "status": self.status,
            "detail": self.detail,
            "instance": quote(instance, safe="/#"),
        }
        return json.dumps(document).encode()


def logged(error: Exception, table: str) -> Exception:
    """The same error about a table, which is in the log if it is a defect."""
    if Problem.of(error).kind == "internal":
        _log.error("%s: internal error, please report it", table, exc_info=error)
    return error
