"""Iceberg's REST catalog behind a proxy that does what that server cannot: authorize its callers, and vend to them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tests.http_server import Answer, Asked, answering

PREFIX = "main"
VENDED = [{"prefix": "file:", "config": {"s3.access-key-id": "KEY-FOR-A-CALLER", "s3.session-token": "vended-token"}}]
OF_TABLE = {"s3.region": "here", "client.refresh-credentials-endpoint": "v1/main/namespaces/n/tables/a/credentials"}
TAG = '"tag-of-the-catalog'
CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"


@dataclasses.dataclass
class Authorizing:
    """
    The proxy; a test may change what it does.

    Attributes:
        allowed: The tables that the holder of each token may load.
        seen: The requests so far: the path with its query, and the headers by lower-case name.
        failure: The status, headers and body of the answer to every request, None for none.
        of_tables: What the ``config`` of a table gets.
        compares_tags: Whether it answers 304.
        of_catalog: What the configuration of the catalog gets as overrides.
    """

    uri: str
    allowed: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    seen: list[tuple[str, dict[str, str]]] = dataclasses.field(default_factory=list)
    failure: Answer | None = None
    of_tables: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    of_catalog: dict[str, str] = dataclasses.field(default_factory=dict)
    compares_tags: bool = True

    @property
    def loads(self) -> list[str]:
        """The tables that were loaded, from the last change of this list."""
        return [path.partition("?")[0].rpartition("/")[2] for path, _ in self.seen if "/tables/" in path]

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        """What a caller gets."""
        self.seen.append((path, dict(headers)))
        if self.failure is not None:
            return self.failure
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.allowed:
            return _error(401, "NotAuthorizedException", "no such caller", {"WWW-Authenticate": 'Bearer realm="up"'})
        parts = urlsplit(path)
        table = parts.path.split("/tables/")[1].split("/")[0] if "/tables/" in parts.path else None
        if table in ("a", "b", "large") and table not in self.allowed[token]:
            return _error(403, "ForbiddenException", f"not for you: {table}")
        if parts.path.endswith("/credentials"):
            return 200, {}, json.dumps({"storage-credentials": VENDED}).encode()
        status, data = self._forward(path.replace(f"/v1/{PREFIX}/", "/v1/"))
        if status != 200:
            return status, {}, data
        document = json.loads(data)
        if parts.path == "/v1/config":
            document["overrides"] = {
                **document["overrides"],
                "prefix": PREFIX,
                "s3.endpoint": "http://files",
                **self.of_catalog,
            }
            document["endpoints"] = [*document.get("endpoints", ()), CREDENTIALS]
        elif table is not None:
            tag = f'{TAG}-{document["metadata-location"].rpartition("/")[2]}"'
            if self.compares_tags and tag == headers.get("if-none-match"):
                return 304, {"ETag": tag}, b""
            document["config"] = {**document.get("config", {}), **OF_TABLE, **self.of_tables.get(table, {})}
            document["labels"] = {"kept": "as it is"}
            if headers.get("x-iceberg-access-delegation") == "vended-credentials":
                document["storage-credentials"] = VENDED
            return 200, {"ETag": tag}, json.dumps(document).encode()
        return 200, {"Set-Cookie": "session=of-another; Path=/"}, json.dumps(document).encode()

    def _forward(self, path: str) -> tuple[int, bytes]:
        try:
            with urlopen(Request(self.uri + path)) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()


@contextmanager
def authorizing(uri: str) -> Iterator[tuple[Authorizing, str]]:
    """Run the proxy before the catalog at ``uri``; yields it and its own address."""
    made = Authorizing(uri)

    def answer(asked: Asked) -> Answer:
        status, headers, body = made.answer(asked.path, {name.lower(): value for name, value in asked.headers.items()})
        return status, {"Content-Type": "application/json", **headers}, body

    with answering(answer) as url:
        yield made, url


def _error(
    status: int, type_: str, message: str, headers: Mapping[str, str] | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    body = {"error": {"message": message, "type": type_, "code": status}}
    return status, headers or {}, json.dumps(body).encode()
