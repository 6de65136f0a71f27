"""
What goes wrong, as problem documents (RFC 9457).

A caller's fault is 4xx, and so is whatever a caller can bring about by naming the wrong thing: a file below a root that
is no table gives 422 and not 5xx. 5xx is for what the operator has to look at: storage or a catalog that fails or does
not answer in time.
"""

from __future__ import annotations

import json
from typing import Any
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

# By what the caller does next; the first class that fits.
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
    def of(cls, error: errors.PuffinError) -> Problem:
        """An error of the library as a problem."""
        status, kind = next((status, kind) for type_, status, kind in _OF_ERRORS if isinstance(error, type_))
        return cls(status, kind, " ".join(str(error).split())[:_LONGEST_DETAIL])

    @classmethod
    def timeout(cls, seconds: float) -> Problem:
        """Storage took longer than these seconds."""
        return cls(504, "timeout", f"storage or catalog did not answer within {seconds:g} s")

    @classmethod
    def defect(cls) -> Problem:
        """Something that must not happen did."""
        return cls(500, "internal", "a defect of the server; its log has the details")

    def document(self, instance: str) -> dict[str, Any]:
        """The problem document of a request to the path ``instance``."""
        return {
            "type": f"urn:puffin-sidecar:problem:{self.kind}",
            "title": _TITLES[self.kind],
            "status": self.status,
            "detail": self.detail,
            "instance": quote(instance, safe="/#"),
        }

    def body(self, instance: str) -> bytes:
        """That document, encoded."""
        return json.dumps(self.document(instance)).encode()
