"""What others are told: events by webhook, metrics and health over HTTP."""

from __future__ import annotations

import json
import queue
import resource
import shutil
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from puffin.autopilot.counts import Counts
from puffin.autopilot.endpoint import Endpoint
from puffin.autopilot.events import DONE, Event, Publisher, WorkDone
from puffin.autopilot.questions import Asked, questions
from puffin.errors import SetupError, StorageError, UsageError
from puffin.policy.model import Policy
from tests import http_server

EVENT = Event(
    seconds=0.0,
    table="n.t",
    catalog="prod",
    action="statistics",
    outcome=DONE,
    reason="stale",
    work=WorkDone(bytes_read=7),
)


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a server that takes events, and their bodies."""
    bodies: list[bytes] = []

    def answer(asked: http_server.Asked) -> http_server.Answer:
        bodies.append(asked.body)
        return 204, {}, b""

    with http_server.answering(answer) as url:
        yield f"{url}/events", bodies


def test_webhook_gets_the_event(webhook: tuple[str, list[bytes]]) -> None:
    url, bodies = webhook
    Publisher(Policy(file="p", event_webhook=url)).publish(EVENT)
    (body,) = bodies
    assert json.loads(body) == EVENT.to_json()
    assert EVENT.to_json()["time"] == "1970-01-01T00:00:00.000+00:00"


def test_event_that_cannot_be_sent_is_an_error_once(caplog: pytest.LogCaptureFixture) -> None:
    """Until one was sent; what the URL has beside the server is not told, since it may be a token."""
    publisher = Publisher(Policy(file="p", event_webhook="http://me:secret@127.0.0.1:9/secret?secret"))
    for _ in range(2):
        publisher.publish(EVENT)
    assert [(record.levelname, record.getMessage()[:42]) for record in caplog.records] == [
        ("ERROR", "http://127.0.0.1:9: the event is not sent:"),
        ("WARNING", "http://127.0.0.1:9: the event is not sent:"),
    ]
    assert "secret" not in caplog.text


def test_event_that_cannot_be_written_is_an_error_again_after_one_that_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "made" / "events"
    file.parent.mkdir()
    publisher = Publisher(Policy(file="p", event_file=str(file)))
    for is_there in (False, False, True, False):
        if is_there:
            file.parent.mkdir()
        else:
            shutil.rmtree(file.parent, ignore_errors=True)
        publisher.publish(EVENT)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "ERROR"]


def test_file_of_events_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"expected a file for the autopilot's events: .*No such file"):
        Publisher(Policy(file="p", event_file=str(tmp_path / "no" / "events")))


def test_server_that_does_not_speak_http_is_logged_alone(caplog: pytest.LogCaptureFixture) -> None:
    """For events as for questions."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for _ in range(2):
            connection, _address = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.0\r\n\r\n")

    threading.Thread(target=answer, daemon=True).start()
    url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    Publisher(Policy(file="p", event_webhook=url)).publish(EVENT)
    assert questions(url, Asked()) == {}
    assert [record.getMessage() for record in caplog.records] == [
        f"{url.rstrip('/')}: the event is not sent: SSH-2.0-OpenSSH_9.0",
        f"{url}: what planners ask for is not known: SSH-2.0-OpenSSH_9.0",
    ]
    server.close()


def test_event_that_does_not_fit_on_the_disk_leaves_no_part_of_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("{}\n")
    publisher = Publisher(Policy(file="p", event_file=str(file)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        publisher.publish(EVENT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_text() == "{}\n"
    assert "the event is not written" in caplog.text


def test_health_fails_when_no_look_has_ended_for_long() -> None:
    counts = Counts()
    url = f"http://127.0.0.1:{Endpoint(counts, '127.0.0.1', 0, patience=-1).port}"
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(f"{url}/healthz", timeout=60)
    assert (failed.value.code, json.loads(failed.value.read())["status"][:7]) == (503, "no look")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{url}/other", timeout=60)
    counts.add(EVENT)
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    assert "puffin_autopilot_bytes_read_total 7\n" in text
    assert all(line.startswith(("#", "puffin_autopilot_")) for line in text.splitlines())


def test_connection_that_is_reset_is_not_told(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those of a probe of ports. A bug is logged, and does not stand on stderr as it is."""
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    shut = ThreadingHTTPServer.shutdown_request

    def shut_and_tell(server: ThreadingHTTPServer, request: Any) -> None:
        shut(server, request)
        ended.put(server.server_port)

    def wait_for_end() -> None:
        while ended.get(timeout=60) != port:  # servers of other tests may still end connections
            pass

    monkeypatch.setattr(ThreadingHTTPServer, "shutdown_request", shut_and_tell)
    counts = Counts()
    port = Endpoint(counts, "127.0.0.1", 0, patience=60).port
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset when it is closed
    wait_for_end()
    assert caplog.messages == []
    monkeypatch.setattr(counts, "render", lambda: 1 // 0)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        wait_for_end()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("host", ["::1", "::"])
def test_metrics_are_served_over_ipv6(host: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 on this system")
    port = Endpoint(Counts(), host, 0, patience=60).port
    with urllib.request.urlopen(f"http://[::1]:{port}/metrics", timeout=60) as answer:
        assert answer.status == 200


def test_empty_host_is_wrong_usage() -> None:
    """As of a variable that is not set; it would open the metrics to everybody."""
    with pytest.raises(UsageError, match="--metrics-host: expected a name or address"):
        Endpoint(Counts(), "", 0, patience=1)


def test_address_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SetupError, match="expected an address"):
        Endpoint(Counts(), "127.0.0.1", taken.getsockname()[1], patience=1)
