"""
What every request passes before it reaches a route, and every response on its way back.

In this order, so that a stranger costs as little as can be: the host that is meant, the token, a question that was
asked before and can be answered from memory, the body (as it arrives, so long and no longer), a place among those that
are being worked on. It is given back before anything is sent: a peer that takes its time takes no place of others.
It is plain ASGI: layers of middleware would cost a warm answer more than the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from puffin.server import page
from puffin.server.hosts import Hosts, misdirected
from puffin.server.metrics import Metrics
from puffin.server.problems import MEDIA_TYPE, Problem
from puffin.server.service import COMMON, Encoded, Question, Service
from puffin.server.settings import Settings

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = Scope
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Headers: TypeAlias = list[tuple[bytes, bytes]]
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
        self._service = service
        self._metrics = metrics
        self._warm: dict[bytes, Question] = {}
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
            status = await _refuse(misdirected(), path, send)
        elif self._token is None or path in OPEN or _presents(scope["headers"], self._token):
            if path == STATS and scope["method"] == "GET":
                question = self._warm.get(scope["query_string"])
                found = None if question is None else self._service.at_hand(question)
                if found is not None:
                    status, headers, body = response_to(scope["headers"], found)
                    await send({"type": "http.response.start", "status": status, "headers": headers})
                    await send({"type": "http.response.body", "body": body})
                    self._metrics.observe(STATS, status, time.perf_counter() - began)
                    return
            status = await self._route(scope, receive, send)
        else:
            status = await _refuse(_unauthorized(), path, send)
        self._metrics.observe(path if path in self.routes else _OTHER, status, time.perf_counter() - began)

    def remember(self, query_string: bytes, question: Question) -> None:
        """The next time these bytes ask for statistics, that question is meant."""
        if len(query_string) <= _LONGEST_WARM:
            self._warm[query_string] = question
            if len(self._warm) > _MOST_WARM:
                del self._warm[next(iter(self._warm))]

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
        except asyncio.TimeoutError:
            problem = Problem.timeout(self._limits.request_seconds)
        except Problem as exc:
            problem = exc
        except Exception:
            _logger.exception("%s %s failed", scope["method"], scope["path"])
            problem = Problem.defect()
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


def response_to(headers: Headers, answer: Encoded) -> tuple[int, Headers, bytes]:
    """The status, headers and body that send an answer, or say that the caller has it already."""
    for name, value in headers:
        if name == b"if-none-match" and _matches(value, answer.etag):
            return 304, [(b"etag", answer.etag), *COMMON], b""
    return 200, answer.headers, answer.body


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


def _unauthorized() -> Problem:
    challenge = (("WWW-Authenticate", 'Bearer realm="puffin"'),)
    return Problem(401, "unauthorized", "expected the header Authorization: Bearer and the server's token", challenge)


def _matches(if_none_match: bytes, etag: bytes) -> bool:
    """Whether one of the tags is this one; weakly, as RFC 9110 says for If-None-Match."""
    if if_none_match.strip() == b"*":
        return True
    return etag in (tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b","))
