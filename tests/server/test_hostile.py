"""
Hostile callers: thousands of requests that nobody should send, some of them incomplete.

``PUFFIN_HOSTILE_REQUESTS`` says how many; 10,000 take about a minute.
"""

import contextlib
import json
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

REQUESTS = int(os.environ.get("PUFFIN_HOSTILE_REQUESTS", "1000"))
PATIENCE = 60  # seconds, after which what has not come never will
MOST_GROWTH = 16 * 1024  # KiB; what the requests hold together is several times as much
RIGHT = "Authorization: Bearer right\r\n"
UP = ("..", "%2e%2e", ".", "%252e%252e", "..%5c", "..;", "\\..", "%c0%ae%c0%ae", "..%00", "%u002e")


class Attacker:
    """
    Makes hostile requests, the same ones each time.

    Args:
        inside: A table that is served; beside it are ``link``, a link to the table ``outside``, and ``half``, whose
            metadata are a link.
        outside: A table that is not.
    """

    def __init__(self, port: int, inside: Path, outside: Path) -> None:
        self._port = port
        self._inside = inside
        self._outside = outside
        self._random = random.Random(7)
        self._half_open: list[socket.socket] = []

    def attack(self, count: int) -> list[bytes]:
        """Send this many requests, leave some of them half open, and return the answers."""
        answers = []
        for _ in range(count):
            if self._random.random() < 0.02:
                self._half_open.append(socket.create_connection(("127.0.0.1", self._port)))
                self._half_open[-1].sendall(self._request()[: self._random.randint(0, 2000)])
            else:
                answers.append(self._exchange(self._request()))
        return answers

    def give_up(self) -> None:
        """Close the half-open connections."""
        for peer in self._half_open:
            peer.close()

    def _exchange(self, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE) as peer:
            received = b""
            with contextlib.suppress(ConnectionError):
                peer.sendall(data)
                while chunk := peer.recv(65536):
                    received += chunk
            return received

    def _request(self) -> bytes:
        any_of, number = self._random.choice, self._random.randint
        up = "/".join(any_of(UP) for _ in range(number(1, 9)))
        inside, outside, beside = self._inside, self._outside, self._inside.parent
        path = any_of(["stats", "dump", "history"])
        column = "&column=a" if path == "history" else ""
        return any_of(
            [
                lambda: _get(f"/v1/{path}?table={inside}/{up}/outside/t{column}"),
                lambda: _get(f"/v1/{path}?table={beside}/{any_of(['link', 'half', 'link/metadata'])}{column}"),
                lambda: _get(f"/v1/{path}?table={beside}/link/metadata/v1.metadata.json{column}"),
                lambda: _get(f"/v1/stats?table={quote(str(outside))}%00"),
                lambda: _get(f"/v1/dump?table={any_of(['file://', 'FILE:', 's3://', 'http://', 'memory:/'])}{outside}"),
                lambda: _get(f"/{up}/{outside}"),
                lambda: _get(f"/v1/stats?table={inside}", f"Authorization: Bearer {self._junk(8).hex()}\r\n"),
                lambda: _get(f"/v1/stats?table={inside}", RIGHT + RIGHT),
                lambda: _get(f"/v1/stats?table={inside}", f"{RIGHT}X: {'y' * number(1, 500_000)}\r\n"),
                lambda: _get(f"/v1/stats?table={inside}", RIGHT, host=any_of(["evil.example", "", "localhost, x"])),
                lambda: _get(f"/v1/stats?table={inside}&snapshot-id={number(-(10**30), 10**30)}"),
                lambda: _get(f"/v1/stats?table={inside}&column={self._junk(6).hex()}"),
                lambda: _get(f"/v1/history?table={inside}&column=%ff%fe%00"),
                lambda: _get(f"/v1/tables?limit={number(-9, 99999)}&after={up}"),
                lambda: _get("/v1/stats?" + "column=a&" * number(900, 2000) + f"table={inside}"),
                lambda: _post({"requests": [{"table": str(outside)}] * number(90, 5000)}),
                lambda: _post({"requests": [{"table": f"{inside}/{i}"} for i in range(100)]}),
                lambda: _post({"requests": [{"table": str(inside), "columns": ["\ud800"]}]}),
                lambda: _post({"requests": [{"table": str(inside), "columns": ["a" * number(1, 9000)] * 100}]}),
                lambda: _post(b'{"requests":[{"table":' + b"[" * number(1, 50_000)),
                lambda: _post(b" " * number(1024**2, 2 * 1024**2)),
                lambda: _post(self._junk(number(0, 300))),
                lambda: _post(
                    {side: {"table": str(inside), "column": up} for side in ("left", "right")}, "estimate/join"
                ),
                lambda: self._junk(number(1, 300)) + b"\r\n\r\n",
                lambda: b"GET http://other/ HTTP/1.1\r\nConnection: close\r\n\r\n",
                lambda: b"OPTIONS * HTTP/1.1\r\nConnection: close\r\n\r\n",
                lambda: b"POST /v1/stats HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            ]
        )()

    def _junk(self, length: int) -> bytes:
        return self._random.randbytes(length)


def _get(target: str, headers: str = RIGHT, host: str = "localhost") -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n".encode()


def _post(body: Any, path: str = "stats") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    about = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{RIGHT}{about}\r\n"
    return head.encode() + data


@pytest.fixture
def attacked(
    process_of: Callable[..., Any], write_table: Callable[..., Path], tmp_path: Path
) -> tuple[Any, Path, Attacker]:
    """A server process, a table that it serves, and its attacker."""
    (tmp_path / "token").write_text("right")
    outside = write_table(tmp_path / "outside" / "t", columns=("secret_column",))
    inside = write_table(tmp_path / "inside" / "t")
    (tmp_path / "inside" / "link").symlink_to(outside)
    (tmp_path / "inside" / "half").mkdir()
    (tmp_path / "inside" / "half" / "metadata").symlink_to(outside / "metadata")
    process = process_of(tmp_path / "inside", "--token-file", tmp_path / "token")
    return process, inside, Attacker(process.port, inside, outside)


def test_hostile_requests_get_no_5xx_and_nothing_outside_and_leave_no_trace(
    attacked: tuple[Any, Path, Attacker],
) -> None:
    """Traversal, links, huge batches and heads, wrong tokens and hosts, half requests; then all is as before."""
    process, inside, attacker = attacked
    answers = attacker.attack(REQUESTS // 3)
    before = process.resident_kib()
    answers += attacker.attack(REQUESTS - REQUESTS // 3)
    assert not [answer for answer in answers if answer.startswith(b"HTTP/1.1 5")]
    assert not [answer for answer in answers if b"secret_column" in answer]
    assert process.resident_kib() < before + MOST_GROWTH
    asked = httpx.get(
        f"{process.url}/v1/stats",
        params={"table": str(inside)},
        headers={"Authorization": "Bearer right"},
        timeout=PATIENCE,
    )
    assert asked.status_code == 200
    attacker.give_up()
    deadline = time.monotonic() + PATIENCE
    while not all(found < most for found, most in zip(process.threads_and_files(), (10, 40), strict=True)):
        assert time.monotonic() < deadline, process.threads_and_files()
        time.sleep(0.05)
    assert process.stop() == 0
