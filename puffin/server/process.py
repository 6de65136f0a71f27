"""
The process that serves: the socket, connections that stall, signals.

uvicorn speaks HTTP. It waits for the rest of a request's head and for an answer to be taken as long as the peer likes,
lets heads be of any length and number, and ends by raising the signal again that it was stopped with; the classes below
are the corrections.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from puffin.errors import SetupError
from puffin.server.app import create_app
from puffin.server.entrance import App
from puffin.server.heads import Heads
from puffin.server.hosts import Hosts
from puffin.server.problems import MEDIA_TYPE, Problem
from puffin.server.service import check_catalog
from puffin.server.settings import Limits, Settings

_BACKLOG = 2048
_LINGER = 0.5  # seconds


def serve(settings: Settings, host: str, port: int, on_start: Callable[[str, int], None]) -> None:
    """
    Serve until SIGTERM or SIGINT; then finish what runs, and return.

    Args:
        port: 0 for one that is free.
        on_start: Called with the address and port once connections are accepted.

    Raises:
        UsageError: The settings cannot be used.
        SetupError: The address cannot be listened at, or the catalog is not configured.
    """
    check_catalog(settings)
    with _listening(host, port) as listener:
        address, bound = listener.getsockname()[:2]
        app = create_app(settings, Hosts.at(address, settings.hosts))
        run(app, settings.limits, listener, lambda: on_start(address, bound))


def run(app: App, limits: Limits, listener: socket.socket, on_start: Callable[[], None]) -> None:
    """Run an application on a socket until SIGTERM or SIGINT."""
    config = uvicorn.Config(
        app,
        http=_Protocol.within(limits),
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


class _Protocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds: heads arrive in time, are not too long and not too many, and answers are taken in time."""

    limits: Limits
    heads: Heads
    most: int  # connections
    _is_in_head = True  # the head of the first request begins with the connection
    _head = 0  # bytes that arrived since
    _overdue: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None
    _is_refused = False

    @classmethod
    def within(cls, limits: Limits) -> type[_Protocol]:
        """The protocol with these limits; uvicorn wants a class."""
        most = _room_for(limits.connections)
        return type("Protocol", (cls,), {"limits": limits, "heads": Heads(limits), "most": most})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._give_up = transport.abort
        if len(self.connections) > self.most:
            transport.abort()
            return
        transport.set_write_buffer_limits(0)  # to be told as soon as anything is left, and when nothing is
        self._watch_head(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_in_head = False
        self._watch_head(b"")
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken = self.loop.call_later(self.limits.departure_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._untaken is not None:
            self._untaken.cancel()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return  # what the peer still sends is taken, so that it finds the answer and no reset
        super().data_received(data)
        if self._is_in_head or self._overdue is not None:
            self._watch_head(data)

    def _watch_head(self, data: bytes) -> None:
        if not self._is_in_head:
            self._head = 0
            self.heads.release(self._give_up)
            if self._overdue is not None:
                self._overdue.cancel()
                self._overdue = None
            return
        self._head += len(data)
        if data:
            self.heads.hold(self._give_up, len(data))
        if self._head > self.limits.head:
            self._is_refused = True
            self.transport.write(_refusal(self.limits.head))
            self.loop.call_later(_LINGER, self.transport.abort)
        elif self._overdue is None:
            self._overdue = self.loop.call_later(self.limits.arrival_seconds, self.transport.abort)


def _room_for(connections: int) -> int:
    """How many connections leave as many files to all else; the process is let have as many as that takes."""
    try:
        import resource
    except ImportError:  # not on this operating system
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    with contextlib.suppress(ValueError, OSError):  # some systems have a lower limit than they tell
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )
    return min(connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def _refusal(most: int) -> bytes:
    body = Problem(431, "head-too-large", f"expected a head of at most {most:,} bytes").body("")
    head = (
        "HTTP/1.1 431 Request Header Fields Too Large\r\n"
        f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


class _Server(uvicorn.Server):
    """Ends with its work done and exit code 0, whatever signal told it to."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # modules and models stay: to look through them again and again stalls the loop for 40 ms
        self._on_start()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # signals are for the main thread
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as exc:
        raise SetupError(f"{host}: expected the name or address of an interface: {exc.strerror}") from exc
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as exc:
            raise SetupError(f"{host}:{port}: expected an address to listen at: {exc.strerror}") from exc
        yield listener
