"""
The server process: the socket, uvicorn on it, and the shutdown.

uvicorn speaks HTTP. Limits on the size and pace of headers and on connections are up to the proxy, which any interface
but loopback needs.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from puffin.errors import SetupError, UsageError
from puffin.server.app import create_app
from puffin.server.entrance import App
from puffin.server.hosts import Hosts, is_loopback
from puffin.server.service import check_catalogs
from puffin.server.settings import Limits, Settings
from puffin.server.spelling import spelling_etag

_BACKLOG = 2048


def serve(settings: Settings, host: str, port: int, on_start: Callable[[str, int], None]) -> None:
    """
    Serve until SIGTERM or SIGINT; then finish running requests and return.

    Port 0 picks a free one; ``on_start`` is told the address and port once connections are accepted. Raises UsageError
    for invalid settings, for a host that is no name, and for ``iceberg`` without a token on an interface other than
    loopback; SetupError if the address is not available or the catalog is not configured.
    """
    check_catalogs(settings)
    with _listening(host, port) as listener:
        address, bound = listener.getsockname()[:2]
        if settings.iceberg and settings.token is None and not is_loopback(address):
            raise UsageError(f"--host {host}: expected --token-file with --iceberg; only loopback can do without it")
        app = create_app(settings, Hosts.at(address, settings.hosts))
        run(
            spelling_etag(app) if settings.iceberg else app, settings.limits, listener, lambda: on_start(address, bound)
        )


def run(app: App, limits: Limits, listener: socket.socket, on_start: Callable[[], None]) -> None:
    """Run an application on a socket until SIGTERM or SIGINT."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=limits.shutdown_seconds,
    )
    _Server(config, on_start).run([listener])


class _Server(uvicorn.Server):
    """Returns after a signal; uvicorn's own class raises the signal again, which ends the process."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # modules stay; scanning them at each collection stalls the loop for 40 ms
        self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        self.force_exit = self.should_exit  # a second signal
        self.should_exit = True


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=is_dual)
    except OSError as exc:
        raise SetupError(f"--host {host} --port {port}: cannot listen there: {exc.strerror}") from exc
    except UnicodeError as exc:  # labels of a wrong length
        raise UsageError(f"--host {host}: expected a name or address to listen at") from exc
