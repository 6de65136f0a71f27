"""Connections that stall, are too many, or never read cost little and delay nobody else."""

import contextlib
import math
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from puffin.server.app import create_app
from puffin.server.heads import Heads
from puffin.server.process import _Protocol, run
from puffin.server.settings import Limits, Settings

KEPT = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSED = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
STALLS = [
    b"",
    b"GET /healthz",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
    b"POST /v1/stats HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{",
    b"POST /v1/stats HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    HEALTH,
    HEALTH + b"GET /healthz HTTP/1.1\r\n",
]
LONG = 16_000_000  # bytes of an answer, more than the buffers of any operating system hold
DEPARTURE = 0.2  # seconds
PATIENCE = 60  # seconds, after which what has not come never will


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def received(peer: socket.socket, most: float = math.inf) -> bytes:
    """Read until the connection is closed, or until this many bytes have come."""
    content = bytearray()
    with contextlib.suppress(ConnectionError):
        while len(content) < most and (chunk := peer.recv(1 << 20)):
            content += chunk
    return bytes(content)


def exchange(port: int, data: bytes) -> bytes:
    with connect(port) as peer:
        with contextlib.suppress(ConnectionError):
            peer.sendall(data)
        return received(peer)


def expect_health(peer: socket.socket) -> None:
    """Ask for the server's health, and read the whole answer, which may come in pieces."""
    peer.sendall(HEALTH)
    answer = b""
    while not answer.endswith(b'{"status":"ok"}'):
        chunk = peer.recv(4096)
        assert chunk
        answer += chunk
    assert answer.startswith(b"HTTP/1.1 200")


async def long_answer(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", str(LONG).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"x" * LONG})


@pytest.fixture(scope="module")
def port_of() -> Callable[..., int]:
    """Serves in a thread of this process with these limits, and returns the port."""

    def start(app: Any = None, **limits: Any) -> int:
        settings = Settings(limits=Limits(**limits))
        listener = socket.create_server(("127.0.0.1", 0))
        started = threading.Event()
        arguments = (app or create_app(settings), settings.limits, listener, started.set)
        threading.Thread(target=run, args=arguments, daemon=True).start()
        assert started.wait(PATIENCE)
        port: int = listener.getsockname()[1]
        return port

    return start


@pytest.fixture(scope="module")
def impatient(port_of: Callable[..., int]) -> int:
    """The port of a server that waits at most 0.3 s for the rest of a request."""
    return port_of(arrival_seconds=0.3, idle_seconds=1, head=4096)


@pytest.fixture(scope="module")
def stalled(impatient: int) -> dict[bytes, float]:
    """How long each connection stayed open after sending only this, all at the same time."""

    def seconds(begun: bytes) -> float:
        began = time.monotonic()
        exchange(impatient, begun)
        return time.monotonic() - began

    with ThreadPoolExecutor(len(STALLS)) as pool:
        return dict(zip(STALLS, pool.map(seconds, STALLS), strict=True))


@pytest.mark.parametrize("begun", STALLS)
def test_stalled_connection_is_closed(stalled: dict[bytes, float], begun: bytes) -> None:
    """Before a request, within its head, within its body, after it, and within the next head."""
    assert 0.2 < stalled[begun] < PATIENCE / 2


def test_slowly_dripping_head_is_closed(impatient: int) -> None:
    """The whole head must arrive in time, not just each byte."""

    def drip() -> None:
        for byte in b"GET /healthz HTTP/1.1" * 50:
            peer.sendall(bytes([byte]))
            time.sleep(0.05)

    with connect(impatient) as peer, pytest.raises(ConnectionError):
        drip()


@pytest.mark.parametrize(
    "data",
    [b"GET /" + b"x" * 5000, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"y" * 5000],
    ids=["its first line", "a header"],
)
def test_too_long_head_is_431(impatient: int, data: bytes) -> None:
    assert exchange(impatient, data).startswith(b"HTTP/1.1 431 ")


def test_oldest_half_open_head_is_dropped_when_there_are_too_many(
    port_of: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complete requests are answered before and after."""
    held, hold = threading.Semaphore(0), Heads.hold

    def noted(self: Heads, give_up: Callable[[], None], size: int) -> None:
        hold(self, give_up, size)
        held.release()

    monkeypatch.setattr(Heads, "hold", noted)
    port = port_of(heads=3)
    peers = [connect(port) for _ in range(5)]
    for peer in peers:
        peer.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        assert held.acquire(timeout=PATIENCE)  # in this order
    assert [received(peer) for peer in peers[:2]] == [b"", b""]
    whole = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert exchange(port, whole).startswith(b"HTTP/1.1 200 ")
    for peer in peers[2:]:
        peer.sendall(b" localhost\r\nConnection: close\r\n\r\n")
        assert received(peer).startswith(b"HTTP/1.1 200 ")
        peer.close()


def test_half_open_heads_are_bounded_by_number_and_bytes() -> None:
    given_up: list[str] = []
    heads = Heads(Limits(heads=3, arriving=100))
    ways = {name: lambda name=name: given_up.append(name) for name in "abcd"}
    for name in "abcd":
        heads.hold(ways[name], 10)
    assert given_up == ["a"]
    heads.hold(ways["d"], 75)
    assert given_up == ["a", "b"]
    heads.release(ways["d"])
    heads.hold(ways["c"], 90)
    assert given_up == ["a", "b"]
    heads.hold(ways["c"], 1)
    assert given_up == ["a", "b", "c"]


def test_connections_beyond_the_limit_are_closed(port_of: Callable[..., int]) -> None:
    """Open ones continue, and a closed one makes room."""
    port = port_of(connections=3)
    peers = [connect(port) for _ in range(3)]
    for peer in peers:
        expect_health(peer)
    assert exchange(port, HEALTH) == b""
    expect_health(peers[0])
    peers[1].close()
    whole, deadline = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), time.monotonic() + PATIENCE
    while not exchange(port, whole).startswith(b"HTTP/1.1 200"):
        assert time.monotonic() < deadline
    for peer in peers:
        peer.close()


def test_peer_that_reads_nothing_is_cut_off(port_of: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept alive or not, and even if it sends more requests."""
    cut_off, connection_lost = threading.Semaphore(0), _Protocol.connection_lost

    def noted(self: _Protocol, exc: Exception | None) -> None:
        connection_lost(self, exc)
        if self.limits.departure_seconds == DEPARTURE:
            cut_off.release()

    monkeypatch.setattr(_Protocol, "connection_lost", noted)
    port = port_of(long_answer, departure_seconds=DEPARTURE)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(connect(port)) for _ in range(3)]
        for peer, asked in zip(peers, (KEPT, KEPT * 3, CLOSED), strict=True):
            peer.sendall(asked)
        for _ in peers:
            assert cut_off.acquire(timeout=PATIENCE)
        assert all(len(received(peer)) < LONG for peer in peers)


def test_peer_that_reads_slowly_gets_the_whole_answer(port_of: Callable[..., int]) -> None:
    assert len(exchange(port_of(long_answer, departure_seconds=PATIENCE), CLOSED)) >= LONG


@pytest.mark.parametrize("path", [b"/healthz", b"/v1/tables", b"/nowhere"])
def test_head_request_gets_the_head_of_a_get(port_of: Callable[..., int], path: bytes) -> None:
    port = port_of()
    asked = path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head, alone = (exchange(port, method + asked).partition(b"\r\n\r\n")[::2] for method in (b"GET ", b"HEAD "))
    assert (alone[0].splitlines()[0], alone[1]) == (head[0].splitlines()[0], b"")
    assert f"content-length: {len(head[1])}".encode() in alone[0].splitlines()
    assert head[1]


def test_idle_connections_do_not_use_up_the_server(port_of: Callable[..., int]) -> None:
    """There are more of them than requests may run; the next request is still answered."""
    port = port_of(running=2)
    idle = [connect(port) for _ in range(50)]
    for peer in idle[:25]:
        peer.sendall(b"GET /healthz HTTP/1.1\r\n")
    asked = b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert exchange(port, asked).startswith(b"HTTP/1.1 200 ")
    for peer in idle:
        peer.close()
