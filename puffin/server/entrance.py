"""
What every request passes before it reaches a route, and every response on its way back.

The cheapest check comes first: the host, the token, an answer from memory, the body as it arrives, a place among the
requests that run. The place is free again before anything is sent, so that a slow peer does not hold it. This is plain
ASGI: layers of middleware would cost more than a warm answer does.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
import weakref
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from puffin.lookup.cache import Kept
from puffin.server import page
from puffin.server.encoded import COMMON, Encoded, Headers
from puffin.server.hosts import Hosts
from puffin.server.metrics import Metrics
from puffin.server.problems import MEDIA_TYPE, Problem
from puffin.server.service import Service
from puffin.server.settings import Settings

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = Scope
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STATS = "/v1/stats"
HEALTH = "/healthz"
READY = "/readyz"
OPEN = frozenset({HEALTH, READY, *page.FILES})
"""Paths for which no token is needed: they tell nothing of any table."""

_MOST_WARM = 4096
_LONGEST_WARM = 4096  # bytes of a query string
_LINGER = 1.0  # seconds
_OTHER = "other"  # the route of what has none

_logger = logging.getLogger(__name__)


class Entrance:
    """
    The server's outermost ASGI application.

    Args:
        app: What has the routes.

    Attributes:
        routes: Their paths, which metrics may name.
        running: How many requests are being worked on.
    """

    def __init__(self, app: App, settings: Settings, hosts: Hosts, service: Service, metrics: Metrics) -> None:
        self._app = app
        self._hosts = hosts
        self.routes: frozenset[str] = frozenset()
        self._limits = settings.limits
        self._token = settings.token
        self._lookup = service.lookup
        self._metrics = metrics
        # An answer that the lookup gives up must not live on here, with all that its view knows of the table.
        self._warm: dict[bytes, weakref.ref[Kept]] = {}
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        path = scope["path"]
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # uvicorn, which has the scope as it was, leaves the body out
        if not self._hosts.include(scope["headers"]):
            status = await _refuse(_misdirected(), path, send)
        elif self._token is None or path in OPEN or _presents(scope["headers"], self._token):
            if path == STATS and scope["method"] == "GET":
                answer = self._warm_answer(scope["query_string"])
                if answer is not None:
                    status, headers, body = answer.response_to(scope["headers"])
                    await send({"type": "http.response.start", "status": status, "headers": headers})
                    await send({"type": "http.response.body", "body": body})
                    self._metrics.observe(STATS, status, time.perf_counter() - began)
                    return
            status = await self._route(scope, receive, send)
        else:
            status = await _refuse(_unauthorized(), path, send)
        self._metrics.observe(path if path in self.routes else _OTHER, status, time.perf_counter() - began)

    def remember(self, query_string: bytes, kept: Kept) -> None:
        """The next time these bytes ask for statistics, they are asking for this answer, as long as it counts."""
        if len(query_string) <= _LONGEST_WARM:
            self._warm[query_string] = weakref.ref(kept)
            if len(self._warm) > _MOST_WARM:
                del self._warm[next(iter(self._warm))]

    def _warm_answer(self, query_string: bytes) -> Encoded | None:
        known = self._warm.get(query_string)
        kept = None if known is None else known()
        if kept is None or not self._lookup.still_counts(kept):
            return None
        answer: Encoded | None = kept.encoded
        return answer

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> int:
        response = _Response()
        try:
            body = await self._arrived(scope, receive)
            if self.running >= self._limits.running and scope["path"] not in OPEN:
                raise Problem(429, "too-many", "the server is busy", (("Retry-After", "1"),))
            self.running += 1
            try:
                await asyncio.wait_for(self._app(scope, _replay(body), response), self._limits.request_seconds)
            finally:
                self.running -= 1
        except Exception as exc:
            problem = Problem.of(exc)
            if problem.status == 500:
                _logger.exception("%s %s failed", scope["method"], scope["path"])
        else:
            return await response.send_by(send)
        return await _refuse(problem, scope["path"], send)

    async def _arrived(self, scope: Scope, receive: Receive) -> bytes:
        seconds = self._limits.arrival_seconds
        try:
            return await asyncio.wait_for(self._body(scope, receive), seconds)
        except asyncio.TimeoutError:
            raise Problem(408, "too-slow", f"expected the whole body within {seconds:g} s", _CLOSE) from None

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._limits.body
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
        body = bytearray()
        if not declared.isdigit() or int(declared) <= limit:
            while len(body) <= limit:
                message = await receive()
                if message["type"] != "http.request":
                    raise Problem(400, "bad-request", "the body is not complete")
                body += message.get("body", b"")
                if len(body) <= limit and not message.get("more_body", False):
                    return bytes(body)
        # A peer that still sends would find the connection reset, and no answer: take in some of what comes.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_discard(receive), _LINGER)
        raise Problem(413, "too-large", f"expected a body of at most {limit:,} bytes", _CLOSE)


_CLOSE = (("Connection", "close"),)  # what is left of the body is not read


class _Response:
    """Takes a response, and sends it later with the headers that all have."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self._messages.append(message)

    async def send_by(self, send: Send) -> int:
        """Send it; returns its status."""
        start = self._messages[0]
        present = {name.lower() for name, _ in start["headers"]}
        start["headers"] = [*start["headers"], *(header for header in COMMON if header[0] not in present)]
        for message in self._messages:
            await send(message)
        return int(start["status"])


async def _discard(receive: Receive) -> None:
    while (await receive()).get("more_body", False):
        pass


def _replay(body: bytes) -> Receive:
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    return receive


async def _refuse(problem: Problem, path: str, send: Send) -> int:
    body = problem.body(path)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers),
        *COMMON,
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    return problem.status


def _presents(headers: Headers, token: bytes) -> bool:
    presented = [value for name, value in headers if name == b"authorization"]
    if len(presented) != 1:
        return False
    scheme, _, value = presented[0].partition(b" ")
    return hmac.compare_digest(value.strip(), token) and scheme.lower() == b"bearer"


def _misdirected() -> Problem:
    return Problem(421, "misdirected", "expected the header Host to name this server; --allow-host adds names")


def _unauthorized() -> Problem:
    challenge = (("WWW-Authenticate", 'Bearer realm="puffin"'),)
    return Problem(401, "unauthorized", "expected the header Authorization: Bearer and the server's token", challenge)
