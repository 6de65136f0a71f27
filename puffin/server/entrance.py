"""
What every request passes before it reaches a route, and every response on its way back.

The cheapest check comes first: the host, the token, an answer from memory, the body, the limit of running requests. A
request stops counting before its response is sent, so that a slow peer does not block others. This is plain ASGI:
middleware layers would cost more than an answer from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, TypeAlias

from puffin.server import page
from puffin.server.encoded import COMMON, IS_HEAD
from puffin.server.hosts import Hosts
from puffin.server.iceberg import errors as iceberg_errors
from puffin.server.iceberg.errors import error_body, iceberg_problem
from puffin.server.iceberg.paths import ICEBERG, ICEBERG_CONFIG, ICEBERG_V1
from puffin.server.metrics import Metrics
from puffin.server.problems import MEDIA_TYPE, Problem
from puffin.server.service import Service
from puffin.server.tokens import has_token

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = Scope
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STATS = "/v1/stats"
PLAN = "/v1/plan"
HEALTH = "/healthz"
READY = "/readyz"
OPEN = frozenset({HEALTH, READY, *page.FILES})
"""Paths that need no token: they reveal nothing about tables."""

_LINGER = 1.0  # seconds
_PIECE = 256 * 1024  # bytes of a response
_OTHER = "other"  # the route in metrics of unknown paths

_logger = logging.getLogger(__name__)


class Entrance:
    """The outermost ASGI application; ``routes`` are the paths that metrics may name."""

    def __init__(self, app: App, routes: Collection[str], hosts: Hosts, service: Service, metrics: Metrics) -> None:
        self._app = app
        self._hosts = hosts
        self.routes = frozenset(routes)
        self._limits = service.settings.limits
        self._token = service.settings.token
        self._warm = service.warm
        self._service = service
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        path = scope["path"]
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET", IS_HEAD: True}  # uvicorn keeps the original scope, and drops the body
        if not self._hosts.include(scope["headers"]):
            status = await _refuse(_MISDIRECTED, path, send)
        elif self._is_open(path) or (self._token is not None and has_token(scope["headers"], self._token)):
            if path == STATS and scope["method"] == "GET":
                answer = self._warm.answer(scope["query_string"])
                if answer is not None:
                    status, headers, body = answer.response_to(scope["headers"])
                    await send({"type": "http.response.start", "status": status, "headers": headers})
                    await send({"type": "http.response.body", "body": body})
                    self.metrics.observe(STATS, status, time.perf_counter() - began)
                    return
            status = await self._route(scope, receive, send)
        else:
            status = await _refuse(_UNAUTHORIZED, path, send)
        template = getattr(scope.get("route"), "path", path)
        self.metrics.observe(template if template in self.routes else _OTHER, status, time.perf_counter() - began)

    def _is_open(self, path: str) -> bool:
        return self._token is None or path in OPEN or (path.startswith(ICEBERG) and self._is_forwarded(path))

    def _is_forwarded(self, path: str) -> bool:
        """Whether a path leads to a catalog that authorizes its callers: their tokens are for that."""
        others = self._service.warehouses
        if path == ICEBERG_CONFIG:  # it has no secrets, and which catalog is meant stands in the query
            return any(service.upstream is not None for service in (self._service, *others.values()))
        name = path.removeprefix(ICEBERG_V1).partition("/")[0]
        return others.get(name, self._service).upstream is not None

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> int:
        response: list[Message] = []

        async def collect(message: Message) -> None:
            response.append(message)

        try:
            body = await self._body_in_time(scope, receive)
            if self.metrics.running >= self._limits.running and scope["path"] not in OPEN:
                raise Problem.too_many("the server is busy")
            self.metrics.running += 1
            try:
                await asyncio.wait_for(self._app(scope, _replay(body), collect), self._limits.request_seconds)
            finally:
                self.metrics.running -= 1
        except Exception as exc:
            is_iceberg = scope["path"].startswith(ICEBERG)
            problem = iceberg_problem(exc) if is_iceberg else Problem.of(exc)
            if problem.status == 500 and (is_iceberg or scope["path"] == PLAN):
                # The messages of errors may quote values of the filter, which belong in no log.
                frames = "".join(traceback.format_tb(exc.__traceback__))
                _logger.error("a plan failed: %s\n%s", type(exc).__name__, frames)
            elif problem.status == 500:
                _logger.exception("%s %s failed", scope["method"], scope["path"])
        else:
            return await _send_all(response, send)
        return await _refuse(problem, scope["path"], send)

    async def _body_in_time(self, scope: Scope, receive: Receive) -> bytes:
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
        # Read on for a moment: a peer that is still sending would get a reset connection instead of the answer.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_discard(receive), _LINGER)
        raise Problem(413, "too-large", f"expected a body of at most {limit:,} bytes", _CLOSE)


_CLOSE = (("Connection", "close"),)  # the rest of the body is not read
_MISDIRECTED = Problem(421, "misdirected", "expected the header Host to name this server; --allow-host adds names")
_UNAUTHORIZED = Problem(
    401,
    "unauthorized",
    "expected the header Authorization: Bearer and the server's token",
    (("WWW-Authenticate", 'Bearer realm="puffin"'),),
)


async def _send_all(response: list[Message], send: Send) -> int:
    """Send a response with the default headers; return its status."""
    start = response[0]
    present = {name.lower() for name, _ in start["headers"]}
    start["headers"] = [*start["headers"], *(header for header in COMMON if header[0] not in present)]
    for message in response:
        rest = memoryview(message.get("body", b""))
        if len(rest) <= _PIECE:
            await send(message)
            continue
        while rest:  # the loop copies what it sends, and waits for a slow peer between pieces
            piece, rest = bytes(rest[:_PIECE]), rest[_PIECE:]
            await send({"type": message["type"], "body": piece, "more_body": len(rest) > 0})
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
    is_iceberg = path.startswith(ICEBERG)
    body = error_body(problem) if is_iceberg else problem.body(path)
    headers = [
        (b"content-type", (iceberg_errors.MEDIA_TYPE if is_iceberg else MEDIA_TYPE).encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers),
        *COMMON,
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    return problem.status
