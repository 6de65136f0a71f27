"""
A REST catalog for tests that write: what reads goes to the catalog under test, everything else to another.

Both have the same tables. A client gets the configuration of the one that reads, with the endpoints of the other that
change something.
"""

from __future__ import annotations

import http.client
import json
import re
from collections import Counter
from collections.abc import Mapping
from urllib.parse import urlsplit

from tests.http_server import Answer, Asked, json_answer

CONFIG = "/v1/config"
_READ = re.compile(r"/namespaces(/[^/]+(/tables(/[^/]+)?)?)?")
_PLANNING = re.compile(r"/namespaces/[^/]+/tables/[^/]+/(plan(/[^/]+)?|tasks|credentials)")
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
_SECONDS = 120


class Router:
    """
    Where requests go.

    Attributes:
        reader: The URI of the catalog under test.
        writer: The URI of the other.
        answered: How many requests the reader answered, by method, kind and status, as in ``POST plan 200``.
    """

    def __init__(self, reader: str, writer: str) -> None:
        self.reader = reader
        self.writer = writer
        self.answered: Counter[str] = Counter()

    def answer(self, asked: Asked) -> Answer:
        at = asked.path.partition("?")[0]
        if at == CONFIG:
            return self._config(asked)
        if not _is_read(asked.method, at.removeprefix("/v1")):
            return _ask(self.writer, asked)
        status, headers, body = _ask(self.reader, asked)
        self.answered[f"{asked.method} {_kind(at)} {status}"] += 1
        return status, headers, body

    def _config(self, asked: Asked) -> Answer:
        document, of_writer = (json.loads(_ask(target, asked)[2]) for target in (self.reader, self.writer))
        for endpoint in of_writer["endpoints"]:
            method, _, template = endpoint.partition(" ")
            if not _is_read(method, template.removeprefix("/v1/{prefix}")):
                document["endpoints"].append(endpoint)
        return json_answer(document)


def _is_read(method: str, path: str) -> bool:
    return (method in ("GET", "HEAD") and _READ.fullmatch(path) is not None) or _PLANNING.fullmatch(path) is not None


def _kind(path: str) -> str:
    """``plan`` or ``tasks``, ``table`` or ``tables``, ``namespace`` or ``namespaces``."""
    parts = path.removeprefix("/v1/").split("/")
    if len(parts) > 4:
        return parts[4]
    return parts[-1] if len(parts) % 2 else parts[-2].removesuffix("s")


def _ask(target: str, asked: Asked) -> Answer:
    at = urlsplit(target)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=_SECONDS)
    try:
        connection.request(asked.method, at.path + asked.path, asked.body or None, _passed_on(asked.headers))
        answer = connection.getresponse()
        return answer.status, _passed_on(answer.headers), answer.read()
    finally:
        connection.close()


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
