"""
A load of HTTP requests from one process: kept-alive connections, one request, answers that all have the same length.

Nothing is parsed but the first line of an answer, so that the server is what is measured: a client that did more would
take longer over an answer than the server. Times of a paced load begin when a request was due, not when it was sent, so
that a server which stalls is not spared the requests that had to wait.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque

_RECEIVE = 256 * 1024


def throughput(port: int, request: bytes, connections: int, seconds: float) -> float:
    """Answers a second when every connection asks again as soon as it is answered."""
    peers = _connect(port, request, connections)
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer.socket, selectors.EVENT_READ, peer)
            peer.ask()
        answered = 0
        began = time.perf_counter()
        until = began + seconds
        while (now := time.perf_counter()) < until:
            for key, _ in selector.select(until - now):
                if key.data.answered():
                    answered += 1
                    key.data.ask()
    for peer in peers:
        peer.socket.close()
    return answered / (now - began)


def latencies(port: int, request: bytes, connections: int, rate: float, seconds: float) -> list[float]:
    """The seconds that each answer took, of so many requests a second that are due at even distances."""
    peers = _connect(port, request, connections)
    idle = deque(peers)
    took: list[float] = []
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer.socket, selectors.EVENT_READ, peer)
        began = time.perf_counter()
        asked, wanted = 0, int(rate * seconds)
        while len(took) < wanted:
            now = time.perf_counter()
            while asked < wanted and idle and (due := began + asked / rate) <= now:
                peer = idle.popleft()
                peer.due = due
                peer.ask()
                asked += 1
            next_due = began + asked / rate - time.perf_counter() if asked < wanted and idle else 1
            for key, _ in selector.select(max(0, next_due)):
                if key.data.answered():
                    took.append(time.perf_counter() - key.data.due)
                    idle.append(key.data)
    for peer in peers:
        peer.socket.close()
    return took


class _Peer:
    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = 0.0
        self._request = request
        self._expected = self._first_answer()
        self._missing = 0

    def ask(self) -> None:
        self.socket.sendall(self._request)
        self._missing = self._expected

    def answered(self) -> bool:
        """Take what has arrived; whether the answer is complete."""
        received = self._receive()
        if self._missing == self._expected and not received.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"expected an answer, found {received[:80]!r}")
        self._missing -= len(received)
        return self._missing == 0

    def _first_answer(self) -> int:
        """The length of an answer, found by asking."""
        self.socket.sendall(self._request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._receive()
        head, _, body = answer.partition(b"\r\n\r\n")
        (length,) = (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(body) < length:
            body += self._receive()
        return len(head) + 4 + length

    def _receive(self) -> bytes:
        if received := self.socket.recv(_RECEIVE):
            return received
        raise SystemExit("expected an answer, found that the server has closed the connection")


def _connect(port: int, request: bytes, connections: int) -> list[_Peer]:
    return [_Peer(port, request) for _ in range(connections)]
