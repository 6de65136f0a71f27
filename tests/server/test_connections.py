"""Connections that are idle or stall: the server answers others, and closes them in the end."""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from puffin.server.app import create_app
from puffin.server.process import run
from puffin.server.settings import Limits, Settings

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATIENCE = 60  # seconds, after which what has not come never will


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def exchange(port: int, data: bytes) -> bytes:
    """All that comes until the server closes the connection."""
    with connect(port) as peer:
        peer.sendall(data)
        return b"".join(iter(lambda: peer.recv(1 << 20), b""))


@pytest.fixture(scope="module")
def port_of() -> Callable[..., int]:
    """Serves in a thread of this process with these limits, and gives the port."""

    def start(**limits: Any) -> int:
        settings = Settings(limits=Limits(**limits))
        listener = socket.create_server(("127.0.0.1", 0))
        started = threading.Event()
        arguments = (create_app(settings), settings.limits, listener, started.set)
        threading.Thread(target=run, args=arguments, daemon=True).start()
        assert started.wait(PATIENCE)
        port: int = listener.getsockname()[1]
        return port

    return start


@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 5\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"],
    ids=["of a length", "in chunks"],
)
def test_stalled_body_is_408_and_closes_the_connection(port_of: Callable[..., int], body: bytes) -> None:
    port = port_of(arrival_seconds=0.3)
    assert exchange(port, b"POST /v1/stats HTTP/1.1\r\nHost: x\r\n" + body).startswith(b"HTTP/1.1 408 ")


def test_idle_connection_is_closed(port_of: Callable[..., int]) -> None:
    began = time.monotonic()
    assert exchange(port_of(idle_seconds=1), HEALTH).startswith(b"HTTP/1.1 200 ")
    assert 0.5 < time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize("path", [b"/healthz", b"/v1/tables", b"/nowhere"])
def test_head_request_gets_the_head_of_a_get(port_of: Callable[..., int], path: bytes) -> None:
    port = port_of()
    asked = path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    head, alone = (exchange(port, method + asked).partition(b"\r\n\r\n")[::2] for method in (b"GET ", b"HEAD "))
    assert (alone[0].splitlines()[0], alone[1]) == (head[0].splitlines()[0], b"")
    assert f"content-length: {len(head[1])}".encode() in alone[0].splitlines()
    assert head[1]


def test_idle_connections_do_not_use_up_the_server(port_of: Callable[..., int]) -> None:
    """More of them than requests may run; the next request is answered all the same."""
    port = port_of(running=2)
    idle = [connect(port) for _ in range(50)]
    for peer in idle[:25]:
        peer.sendall(b"GET /healthz HTTP/1.1\r\n")
    asked = b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert exchange(port, asked).startswith(b"HTTP/1.1 200 ")
    for peer in idle:
        peer.close()
