"""
What goes wrong, as problem documents (RFC 9457).

A caller's fault is 4xx, and so is whatever a caller can bring about by naming the wrong thing: a file below a root that
is no table gives 422 and not 5xx. 5xx is for what the operator has to look at: storage or a catalog that fails or does
not answer in time.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote

from puffin import errors

MEDIA_TYPE = "application/problem+json"
_LONGEST_DETAIL = 1000

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

# The first class that fits.
_OF_ERRORS: tuple[tuple[type[errors.PuffinError], int, str], ...] = (
    (errors.UsageError, 400, "bad-request"),
    (errors.NotFoundError, 404, "not-found"),
    (errors.CorruptError, 422, "corrupt"),
    (errors.UnsupportedError, 422, "unsupported"),
    (errors.PuffinError, 503, "unavailable"),
)


class Problem(Exception):
    """
    A request that is refused; raised inside of this room only.

    Attributes:
        status: Of the response.
        kind: Names the problem's type; stable.
        detail: What is wrong with this request.
        headers: That the response has for it.
    """

    def __init__(self, status: int, kind: str, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(status, kind, detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = headers

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """Whatever was raised as a problem."""
        if isinstance(error, Problem):
            return error
        if isinstance(error, asyncio.TimeoutError):
            return cls(504, "timeout", "storage or catalog did not answer in time")
        for class_, status, kind in _OF_ERRORS:
            if isinstance(error, class_):
                return cls(status, kind, " ".join(str(error).split())[:_LONGEST_DETAIL])
        return cls(500, "internal", "a defect of the server; its log has the details")

    def body(self, instance: str) -> bytes:
        """The problem document of a request to the path ``instance``, encoded."""
        document = {
            "type": f"urn:puffin-sidecar:problem:{self.kind}",
            "title": _TITLES[self.kind],
            "status": self.status,
            "detail": self.detail,
            "instance": quote(instance, safe="/#"),
        }
        return json.dumps(document).encode()
