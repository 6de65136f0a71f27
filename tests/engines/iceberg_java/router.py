"""
A REST catalog for tests that write: what reads goes to the catalog under test, everything else to another.

Both have the same tables. A client gets the configuration of the one that reads, with the endpoints of the other that
change something.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias
from urllib.parse import urlsplit

Answer: TypeAlias = tuple[int, Mapping[str, str], bytes]

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

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """The answer to a request; its path has the query too."""
        at = path.partition("?")[0]
        if at == CONFIG:
            return self._config(path, headers)
        if not _is_read(method, at.removeprefix("/v1")):
            return _ask(self.writer, method, path, headers, body)
        status, *rest = _ask(self.reader, method, path, headers, body)
        self.answered[f"{method} {_kind(at)} {status}"] += 1
        return status, *rest

    def _config(self, path: str, headers: Mapping[str, str]) -> Answer:
        document, of_writer = (
            json.loads(_ask(target, "GET", path, headers, None)[2]) for target in (self.reader, self.writer)
        )
        for endpoint in of_writer["endpoints"]:
            method, _, template = endpoint.partition(" ")
            if not _is_read(method, template.removeprefix("/v1/{prefix}")):
                document["endpoints"].append(endpoint)
        return 200, {"content-type": "application/json"}, json.dumps(document).encode()


@contextmanager
def running_router(router: Router) -> Iterator[str]:
    """Run a router on a thread, and yield its URI."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_request(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length) if length else None
            status, headers, content = router.answer(self.command, self.path, self.headers, body)
            self.send_response_only(status)
            for name, value in _passed_on(headers).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_DELETE = handle_request  # noqa: N815 - names that the base class looks for

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _is_read(method: str, path: str) -> bool:
    return (method in ("GET", "HEAD") and _READ.fullmatch(path) is not None) or _PLANNING.fullmatch(path) is not None


def _kind(path: str) -> str:
    """``plan`` or ``tasks``, ``table`` or ``tables``, ``namespace`` or ``namespaces``."""
    parts = path.removeprefix("/v1/").split("/")
    if len(parts) > 4:
        return parts[4]
    return parts[-1] if len(parts) % 2 else parts[-2].removesuffix("s")


def _ask(target: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
    at = urlsplit(target)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=_SECONDS)
    try:
        connection.request(method, at.path + path, body, _passed_on(headers))
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
