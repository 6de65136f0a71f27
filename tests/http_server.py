"""An HTTP server on a thread, for clients that need one: what it answers is a function."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Answer: TypeAlias = tuple[int, Mapping[str, str], bytes]
"""Status, headers but for the length, body."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request; ``path`` has the query too, and headers are found by names in any case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def json_answer(document: Any, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(document).encode()


@contextmanager
def answering(answer: Callable[[Asked], Answer], port: int = 0) -> Iterator[str]:
    """Serve on a thread for each connection, and yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, content = answer(Asked(self.command, self.path, self.headers, body))
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_DELETE = handle_request  # noqa: N815 - names that the base class looks for

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
