"""The process: what it says when it starts, when peers stall, when it is stopped, and what hostile callers cost it."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from puffin.server.app import create_app
from puffin.server.process import run
from puffin.server.settings import Limits, Settings

HOSTILE_REQUESTS = 1500


def exchange(port: int, data: bytes, *, wait: float = 5) -> bytes:
    """All that the server answers until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as peer:
        received = b""
        with contextlib.suppress(ConnectionError):
            peer.sendall(data)
            while chunk := peer.recv(65536):
                received += chunk
        return received


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_exit_code_0(process_of: Callable[..., Any], tmp_path: Path, number: int) -> None:
    """Connections that are idle or half open do not hold it up."""
    process = process_of("--allow-root", tmp_path)
    idle, half = (socket.create_connection(("127.0.0.1", process.port)) for _ in range(2))
    with idle, half:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(1000).startswith(b"HTTP/1.1 200")
        half.sendall(b"GET /healthz HT")
        time.sleep(0.1)
        assert process.stop(number) == 0
    assert process.process.stderr.read() == ""


def test_what_runs_is_finished_before_the_end(
    process_of: Callable[..., Any], write_table: Callable[..., Path], tmp_path: Path
) -> None:
    """A request whose body arrives after the signal is answered."""
    process = process_of("--allow-root", tmp_path)
    body = json.dumps({"requests": [{"table": str(write_table(tmp_path / "t"))}]}).encode()
    head = (
        f"POST /v1/stats HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", process.port), timeout=5) as peer:
        peer.sendall(head.encode() + body[:10])
        time.sleep(0.2)
        process.process.terminate()
        time.sleep(0.3)
        peer.sendall(body[10:])
        answer = peer.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200")
    assert process.stop() == 0


def test_storage_that_hangs_does_not_keep_it_from_ending(
    process_of: Callable[..., Any], write_table: Callable[..., Path], tmp_path: Path
) -> None:
    """A read of a pipe that nobody writes to never ends; the process does, within its 10 s."""
    table = write_table(tmp_path / "t")
    (table / "metadata" / "version-hint.text").unlink()
    os.mkfifo(table / "metadata" / "version-hint.text")
    process = process_of("--allow-root", tmp_path, "--timeout", "0.5")
    answer = httpx.get(f"{process.url}/v1/stats", params={"table": str(table)})
    assert answer.status_code == 504
    assert process.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--allow-root", "relative"], 2, "expected an absolute path"),
        (["--token-file", "/no/such/file"], 2, "/no/such/file"),
        (["--host", "no.such.host.invalid"], 1, "no.such.host.invalid"),
        (["--host", "192.0.2.1"], 1, "192.0.2.1"),
        (["--catalog-property", "a=b"], 2, "catalog"),
        (["--catalog", "nope"], 1, "nope"),
        (["--ttl", "-1"], 2, "ttl"),
    ],
)
def test_what_keeps_it_from_starting_is_one_line(arguments: list[str], code: int, told: str) -> None:
    command = [sys.executable, "-m", "puffin", "serve", "--port", "0", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ran.returncode == code
    assert told in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr


def test_a_body_that_is_much_too_long_finds_its_413(process_of: Callable[..., Any], tmp_path: Path) -> None:
    """The peer that is still sending gets an answer and no reset."""
    process = process_of("--allow-root", tmp_path)
    assert httpx.post(f"{process.url}/v1/stats", content=b" " * 20_000_000).status_code == 413


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "puffin", "serve", "--port", str(taken.getsockname()[1])]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)


def test_the_token_file_guards_the_process(
    process_of: Callable[..., Any], write_table: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("abc\n")
    process = process_of("--allow-root", tmp_path, "--token-file", tmp_path / "token")
    asked = f"{process.url}/v1/stats?table={quote(str(write_table(tmp_path / 't')))}"
    assert httpx.get(asked).status_code == 401
    assert httpx.get(asked, headers={"Authorization": "Bearer abc"}).status_code == 200


@pytest.fixture(scope="module")
def impatient() -> int:
    """The port of a server of this process that waits no longer than 0.3 s for the rest of a request."""
    settings = Settings(limits=Limits(arrival_seconds=0.3, idle_seconds=1, head=4096))
    listener = socket.create_server(("127.0.0.1", 0))
    started = threading.Event()
    serving = threading.Thread(target=run, args=(create_app(settings), settings.limits, listener, started.set))
    serving.daemon = True
    serving.start()
    assert started.wait(10)
    port: int = listener.getsockname()[1]
    return port


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /healthz",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/stats HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{",
        b"POST /v1/stats HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\n",
    ],
)
def test_a_connection_that_stalls_is_closed(impatient: int, begun: bytes) -> None:
    """Before a request, within its head, within its body, after it, and within the head of the next one."""
    began = time.monotonic()
    exchange(impatient, begun)
    assert 0.2 < time.monotonic() - began < 3


def test_a_head_that_drips_is_closed(impatient: int) -> None:
    """Every byte in time does not make the whole be in time."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", impatient)) as peer, contextlib.suppress(ConnectionError):
        for byte in b"GET /healthz HTTP/1.1" * 5:
            peer.sendall(bytes([byte]))
            time.sleep(0.05)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("data", [b"GET /" + b"x" * 5000, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"y" * 5000])
def test_a_head_that_is_too_long_is_431(impatient: int, data: bytes) -> None:
    assert exchange(impatient, data).startswith(b"HTTP/1.1 431 ")


def test_idle_connections_do_not_use_up_the_server(
    process_of: Callable[..., Any], write_table: Callable[..., Path], tmp_path: Path
) -> None:
    """More of them than requests may run; the next request is answered all the same."""
    process = process_of("--allow-root", tmp_path, "--max-requests", "2")
    idle = [socket.create_connection(("127.0.0.1", process.port)) for _ in range(50)]
    for peer in idle[:25]:
        peer.sendall(b"GET /healthz HTTP/1.1\r\n")
    table = write_table(tmp_path / "t")
    assert httpx.get(f"{process.url}/v1/stats", params={"table": str(table)}).status_code == 200
    for peer in idle:
        peer.close()


def test_hostile_requests_get_no_5xx_nothing_outside_and_leave_nothing_behind(
    process_of: Callable[..., Any], write_table: Callable[..., Path], tmp_path: Path
) -> None:
    """Traversal, batches too large, wrong tokens, wrong protocols, half-open connections; then all is as it was."""
    (tmp_path / "token").write_text("right")
    secret = write_table(tmp_path / "outside" / "t", columns=("secret_column",))
    inside = write_table(tmp_path / "inside" / "t")
    process = process_of("--allow-root", tmp_path / "inside", "--token-file", tmp_path / "token")
    rng = random.Random(7)
    right = "Authorization: Bearer right\r\n"

    def get(target: str, headers: str = right) -> bytes:
        return f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n".encode()

    def post(body: bytes) -> bytes:
        head = f"POST /v1/stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{right}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def any_of() -> bytes:
        up = "/".join(
            rng.choice(["..", "%2e%2e", ".", "%252e%252e", "..%5c", "..;", "\\.."]) for _ in range(rng.randint(1, 9))
        )
        return rng.choice(
            [
                lambda: get(f"/v1/stats?table={inside}/{up}/outside/t"),
                lambda: get(f"/v1/stats?table={quote(str(secret))}%00"),
                lambda: get(f"/v1/dump?table={rng.choice(['file://', 'FILE:', 's3://', 'http://'])}{secret}"),
                lambda: get(f"/{up}/{secret}"),
                lambda: get(f"/v1/stats?table={inside}", f"Authorization: Bearer {rng.randbytes(8).hex()}\r\n"),
                lambda: get(f"/v1/stats?table={inside}&snapshot-id={rng.randint(-(10**30), 10**30)}"),
                lambda: get(f"/v1/stats?table={inside}&column={rng.randbytes(6).hex()}"),
                lambda: get(f"/v1/history?table={inside}&column=%ff%fe%00"),
                lambda: get(f"/v1/tables?limit={rng.randint(-9, 99999)}&after={up}"),
                lambda: get("/v1/stats?" + "column=a&" * rng.randint(900, 2000) + f"table={inside}"),
                lambda: post(json.dumps({"requests": [{"table": str(secret)}] * rng.randint(90, 5000)}).encode()),
                lambda: post(b'{"requests":[{"table":' + b"[" * rng.randint(1, 50_000)),
                lambda: post(json.dumps({"requests": [{"table": str(inside), "columns": ["\ud800"]}]}).encode()),
                lambda: post(rng.randbytes(rng.randint(0, 300))),
                lambda: rng.randbytes(rng.randint(1, 300)) + b"\r\n\r\n",
                lambda: b"GET http://other/ HTTP/1.1\r\nConnection: close\r\n\r\n",
                lambda: b"OPTIONS * HTTP/1.1\r\nConnection: close\r\n\r\n",
                lambda: b"POST /v1/stats HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            ]
        )()

    half_open = []

    def attack(count: int) -> list[bytes]:
        answers = []
        for _ in range(count):
            if rng.random() < 0.02:
                half_open.append(socket.create_connection(("127.0.0.1", process.port)))
                half_open[-1].sendall(any_of()[:20])
            else:
                answers.append(exchange(process.port, any_of()))
        return answers

    answers = attack(HOSTILE_REQUESTS // 3)
    before = process.resident_kib()
    answers += attack(HOSTILE_REQUESTS - HOSTILE_REQUESTS // 3)
    assert not [answer for answer in answers if answer.startswith(b"HTTP/1.1 5")]
    assert not [answer for answer in answers if b"secret_column" in answer]
    assert process.resident_kib() < before + 8 * 1024
    for peer in half_open:
        peer.close()
    asked = httpx.get(
        f"{process.url}/v1/stats", params={"table": str(inside)}, headers={"Authorization": "Bearer right"}
    )
    assert asked.status_code == 200
    time.sleep(0.2)
    threads, files = process.threads_and_files()
    assert threads < 10
    assert files < 40
    assert process.stop() == 0
