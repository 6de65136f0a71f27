"""``/metrics`` and ``/healthz`` of an autopilot, over HTTP, for monitoring."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from puffin.autopilot.counts import Counts
from puffin.errors import SetupError, UsageError

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = 10

_log = logging.getLogger(__name__)


class Endpoint:
    """
    Answers at an address, in threads of its own; port 0 picks a free one.

    ``/healthz`` is 503 if no look at the tables has ended for ``patience`` seconds. Raises SetupError if the address is
    not available, and UsageError if no host is named.
    """

    def __init__(self, counts: Counts, host: str, port: int, patience: float) -> None:
        if not host:  # which would mean every interface
            raise UsageError("--metrics-host: expected a name or address to listen at, found none")
        server = _ServerOverIPv6 if ":" in host else _Server
        try:
            self._server = server((host, port), _handler(counts, patience))
        except OSError as exc:
            raise SetupError(f"{host}:{port}: expected an address to listen at: {exc.strerror}") from exc
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="puffin-metrics", daemon=True).start()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - of socketserver
        """Log what went wrong with a request; a client that is gone is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            _log.error("a request of %s failed, please report it", client_address, exc_info=True)


class _ServerOverIPv6(_Server):
    address_family = socket.AF_INET6


def _handler(counts: Counts, patience: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, _TEXT, counts.render())
            elif self.path == "/healthz":
                silent = counts.silent_seconds()
                healthy = silent <= patience
                status = "ok" if healthy else f"no look at the tables for {silent:.0f} seconds"
                self._answer(200 if healthy else 503, "application/json", f'{{"status":"{status}"}}')
            else:
                self._answer(404, "text/plain", "expected /metrics or /healthz\n")

        def log_message(self, *_args: object) -> None:
            """Requests of monitoring are not worth a line."""

        def _answer(self, code: int, media: str, text: str) -> None:
            data = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
