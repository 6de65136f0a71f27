"""The server process: what it prints when it starts, whom it answers, and how it ends."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from puffin.cli import main
from tests.server.iceberg_face import table_of_files, table_path
from tools.serving import Server


def test_ctrl_c_ends_the_server_with_exit_code_0(process_of: Callable[..., Any], tmp_path: Path) -> None:
    process = process_of(tmp_path)
    assert process.stop(signal.SIGINT) == 0
    assert process.logged() == ""


def test_sigterm_before_the_server_serves_ends_it_with_exit_code_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while it waits for a catalog."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("puffin.server.process.check_catalogs", lambda _: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as end:
        main(["serve", "--port", "0", "--allow-root", "/"])
    assert (end.value.code, signal.getsignal(signal.SIGTERM)) == (0, before)


def test_server_that_logs_much_goes_on() -> None:
    lines = """print("serving at http://127.0.0.1:1", *["much"] * 50_000, sep="\\n", file=sys.stderr)"""
    with Server(program=("-c", f"import sys; {lines}")) as server:
        assert server.process.wait(60) == 0
        assert server.logged() == "much\n" * 50_000


def test_sigterm_finishes_running_requests_only(
    process_of: Callable[..., Any], write_table: Callable[..., Path], tmp_path: Path
) -> None:
    """
    A request whose body arrives after the signal is answered; idle and half-open connections do not delay the end.
    """
    process = process_of(tmp_path)
    body = json.dumps({"requests": [{"table": str(write_table(tmp_path / "t"))}]}).encode()
    about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n"
    head = f"POST /v1/stats HTTP/1.1\r\nHost: localhost\r\n{about}\r\n"
    peer, idle, half = (socket.create_connection(("127.0.0.1", process.port), timeout=60) for _ in range(3))
    with peer, idle, half:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):  # which may come in pieces
            chunk = idle.recv(1000)
            assert chunk
            answer += chunk
        half.sendall(b"GET /healthz HT")
        peer.sendall(head.encode())
        assert peer.recv(1000).startswith(b"HTTP/1.1 100")  # it waits for the body
        peer.sendall(body[:10])
        process.process.terminate()
        assert idle.recv(1000) == b""  # it knows that it is to end
        peer.sendall(body[10:])
        assert peer.recv(65536).startswith(b"HTTP/1.1 200")
        assert process.stop() == 0
    assert process.logged() == ""


def test_hanging_storage_does_not_keep_the_server_from_ending(
    process_of: Callable[..., Any], write_table: Callable[..., Path], tmp_path: Path
) -> None:
    """A read of a pipe that nobody writes to never ends; the process does."""
    table = write_table(tmp_path / "t")
    (table / "metadata" / "version-hint.text").unlink()
    os.mkfifo(table / "metadata" / "version-hint.text")
    process = process_of(tmp_path, "--timeout", "0.3")
    answer = httpx.get(f"{process.url}/v1/stats", params={"table": str(table)}, timeout=60)
    assert answer.status_code == 504
    assert process.stop() == 0


def test_hanging_manifest_does_not_keep_the_server_from_ending(process_of: Callable[..., Any], tmp_path: Path) -> None:
    """Manifests are read in threads of their own."""
    table = table_of_files(tmp_path / "db" / "t", "f")
    (manifest,) = table.root.glob("manifest*")
    manifest.unlink()
    os.mkfifo(manifest)
    process = process_of(tmp_path, "--iceberg", "--timeout", "0.3")
    answer = httpx.post(f"{process.url}/iceberg/v1{table_path('db', 't')}/plan", json={}, timeout=60)
    assert answer.status_code == 504
    assert process.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--allow-root", "relative"], 2, "expected an absolute path"),
        (["--allow-host", "http://name"], 2, "--allow-host http://name"),
        (["--token-file", "/no/such/file"], 2, "/no/such/file"),
        (["--host", "no.such.host.invalid"], 1, "no.such.host.invalid"),
        (["--host", "192.0.2.1"], 1, "192.0.2.1"),
        (["--host", "a..b"], 2, "--host a..b: expected a name or address"),
        (["--catalog-property", "a=b"], 2, "catalog"),
        (["--catalog", "nope"], 1, "nope"),
        (["--ttl", "-1"], 2, "ttl"),
        (["--timeout", "nan"], 2, "--timeout"),
        (["--iceberg", "--host", "0.0.0.0"], 2, "--host 0.0.0.0: expected --token-file with --iceberg"),
    ],
)
def test_startup_failure_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str
) -> None:
    """In this process, where the server would not serve even if it started."""
    monkeypatch.setattr("puffin.server.process.run", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        main(["serve", "--port", "0", "--allow-root", "/", *arguments])
    assert end.value.code == code
    assert told in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "is_open"),
    [
        (["--host", "127.0.0.1"], False),
        (["--host", "0.0.0.0"], True),
        (["--host", "0.0.0.0", "--token-file", "t"], False),
    ],
)
def test_server_that_others_can_reach_without_a_token_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    is_open: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t").write_text("a-token-that-is-long-enough-to-be-one")
    monkeypatch.setattr("puffin.server.process.run", lambda *of_server: of_server[-1]())
    with pytest.raises(SystemExit) as end:
        main(["serve", "--port", "0", "--allow-root", "/", *arguments])
    said = capsys.readouterr().err.splitlines()
    assert (end.value.code, said[0].startswith("serving at http://")) == (0, True)
    assert said[1:] == ["no --token-file: whoever reaches this address can read statistics"] * is_open


@pytest.mark.parametrize("arguments", [[], ["--iceberg"], ["--catalog-property", "a=b"]])
def test_server_of_nothing_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """It would refuse whatever it is asked for."""
    monkeypatch.setattr("puffin.server.process.run", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        main(["serve", "--port", "0", *arguments])
    told = capsys.readouterr().err.splitlines()[-1]
    assert (end.value.code, "expected --allow-root, --catalog or --policy" in told) == (2, True)


def test_occupied_port_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as end:
        main(["serve", "--port", str(taken.getsockname()[1]), "--allow-root", "/"])
    assert (end.value.code, len(capsys.readouterr().err.splitlines())) == (1, 1)


def test_peer_that_sends_too_long_a_body_receives_413(shared: Any) -> None:
    """It is still sending when it gets the answer, and the connection is not reset."""
    assert httpx.post(f"{shared.url}/v1/stats", content=b" " * 20_000_000, timeout=60).status_code == 413


def test_server_listens_on_loopback_and_answers_to_its_own_names(shared: Any) -> None:
    """By default neither another machine nor a web page in a local browser reaches it."""
    assert shared.url.startswith("http://127.0.0.1:")
    for name, status in (("localhost", 200), ("evil.example", 421)):
        assert httpx.get(f"{shared.url}/healthz", headers={"Host": name}, timeout=60).status_code == status


def test_command_line_can_allow_a_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    apps: list[Any] = []
    monkeypatch.setattr("puffin.server.process.run", lambda app, *_: apps.append(app))
    with pytest.raises(SystemExit):
        main(["serve", "--port", "0", "--allow-root", "/", "--allow-host", "planner.internal"])

    async def status(name: str) -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=apps[0])) as client:
            return (await client.get("http://server/healthz", headers={"Host": name})).status_code

    assert [asyncio.run(status(name)) for name in ("planner.internal:80", "evil.example")] == [200, 421]


def test_token_file_guards_the_server(guarded: Any, write_table: Callable[..., Path]) -> None:
    asked = f"{guarded.url}/v1/stats?table={quote(str(write_table(guarded.root / 'table')))}"
    assert httpx.get(asked, timeout=60).status_code == 401
    assert httpx.get(asked, headers={"Authorization": "Bearer abc"}, timeout=60).status_code == 200
