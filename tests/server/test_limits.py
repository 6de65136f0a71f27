"""What one request may take, what all may take together, and that a slow table is slow alone."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.lookup import Lookup
from puffin.server.problems import Problem
from puffin.server.settings import Limits
from puffin.server.workers import Workers


async def chunks(count: int, size: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * size


def test_body_is_measured_as_it_arrives(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    """Without a Content-Length too."""
    answer = client_of(tmp_path, limits=Limits(body=10_000)).post("/v1/stats", content=chunks(11, 1000))
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:puffin-sidecar:problem:too-large"


@pytest.mark.parametrize("length", ["10001", "9" * 30])
def test_content_length_beyond_the_limit_is_refused_at_once(
    tmp_path: Path, client_of: Callable[..., Any], length: str
) -> None:
    client = client_of(tmp_path, limits=Limits(body=10_000))
    assert client.post("/v1/stats", content=chunks(1, 1), headers={"Content-Length": length}).status_code == 413


def test_body_up_to_the_limit_is_read(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    body = json.dumps({"requests": []}).encode()
    client = client_of(tmp_path, limits=Limits(body=len(body)))
    headers = {"Content-Type": "application/json"}
    assert client.post("/v1/stats", content=body, headers=headers).json() == {"results": []}
    assert client.post("/v1/stats", content=body + b" ", headers=headers).status_code == 413


def test_body_that_does_not_arrive_times_out(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    client = client_of(tmp_path, limits=Limits(arrival_seconds=0.1))

    async def receive() -> dict[str, Any]:
        if sent_before:
            await asyncio.Event().wait()
        sent_before.append(True)
        return {"type": "http.request", "body": b"{", "more_body": True}

    sent_before: list[bool] = []
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/stats", "query_string": b"", "headers": []}
    client.run(client.http._transport.app(scope, receive, send))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize(
    "body",
    [
        {"requests": [{"table": "/x"}] * 101},
        {"requests": [{"table": "/x", "columns": ["a"] * 1001}]},
        {"requests": [{"table": "/" + "x" * 5000}]},
        {"requests": [{"table": "/x", "snapshot-id": 1.5}]},
        {"requests": [{"table": "/x", "snapshot-id": "1"}]},
        {"requests": [{"table": "/x", "snapshot_id": 1}]},
        {"requests": [{}]},
        {"requests": {}},
        {"request": []},
        [],
        None,
    ],
)
def test_body_of_another_form_is_422(tmp_path: Path, client_of: Callable[..., Any], body: Any) -> None:
    """Too many questions or columns, too long a name, unknown keys or types."""
    answer = client_of(tmp_path).post("/v1/stats", json=body)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:puffin-sidecar:problem:invalid")


def test_body_of_another_content_type_is_told_of_the_right_one(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client_of(tmp_path).post("/v1/stats", content=b'{"requests": []}', headers=form)
    assert answer.status_code == 422
    assert answer.json()["detail"] == "body: expected a JSON object, and Content-Type: application/json"


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[" * 100_000, b'{"requests":' + b"9" * 10_000 + b"}", b"nul"])
def test_body_that_is_not_json_is_4xx(tmp_path: Path, client_of: Callable[..., Any], body: bytes) -> None:
    answer = client_of(tmp_path).post("/v1/stats", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_too_many_columns_in_a_query_are_422(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    assert client_of(tmp_path).stats("/x", column=["a"] * 65).status_code == 422


def test_slow_table_does_not_delay_others(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], hanging: Any
) -> None:
    """Other tables are answered while many requests still wait for the slow one."""
    slow, fast = write_table(tmp_path / "slow"), [write_table(tmp_path / f"t{i}") for i in range(8)]
    hanging(slow)
    client = client_of(tmp_path, limits=Limits(request_seconds=600))

    async def status(table: Path) -> int:
        return int((await client.http.get("/v1/stats", params={"table": str(table)})).status_code)

    async def story() -> None:
        stuck = [asyncio.ensure_future(status(slow)) for _ in range(30)]
        await _until(lambda: client.http._transport.app.metrics.running == len(stuck))
        assert await asyncio.gather(*map(status, fast)) == [200] * len(fast)
        assert not any(each.done() for each in stuck)
        hanging.end()
        assert await asyncio.gather(*stuck) == [200] * len(stuck)

    client.run(story())


def test_slow_table_in_a_batch_is_a_problem_in_its_place(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], hanging: Callable[[Path], None]
) -> None:
    slow, fast = (write_table(tmp_path / name) for name in ("slow", "fast"))
    hanging(slow)
    client = client_of(tmp_path, ttl_seconds=600, limits=Limits(request_seconds=0.5))
    warm(client, fast)
    answer = client.post("/v1/stats", json={"requests": [{"table": str(slow)}, {"table": str(fast)}]})
    problem, found = answer.json()["results"]
    assert (answer.status_code, problem["status"], found["table"]) == (200, 504, str(fast))


def test_lists_that_hang_delay_no_client_that_connects(
    tmp_path: Path, client_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over, stuck, listed = threading.Event(), [], Lookup.listed

    def hanging(*args: Any, **options: Any) -> Any:
        stuck.append(args)
        is_over.wait()
        return listed(*args, **options)

    monkeypatch.setattr(Lookup, "listed", hanging)
    client = client_of(tmp_path, iceberg=True, limits=Limits(request_seconds=5))

    async def story() -> None:
        lists = [asyncio.ensure_future(client.http.get(path)) for path in ("/v1/tables", "/v1/status")]
        await _until(lambda: len(stuck) == len(lists))
        answers = [await client.http.get(path) for path in ("/iceberg/v1/config", "/readyz")]
        is_over.set()
        await asyncio.gather(*lists)
        assert [answer.status_code for answer in answers] == [200, 200]

    client.run(story())


def test_list_continues_without_tables_that_do_not_answer(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], hanging: Callable[[Path], None]
) -> None:
    slow, fast = (write_table(tmp_path / name) for name in ("slow", "fast"))
    hanging(slow)
    client = client_of(tmp_path, ttl_seconds=600, limits=Limits(request_seconds=1))
    warm(client, fast)
    answer = client.get("/v1/tables").json()
    assert [table["table"] for table in answer["tables"]] == [str(fast)]
    assert answer["unreadable"] == [str(slow)]


def test_status_continues_without_tables_that_do_not_answer(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], hanging: Callable[[Path], None]
) -> None:
    slow, fast = write_table(tmp_path / "slow"), write_table(tmp_path / "fast", snapshots=(), ndv={})
    hanging(slow)
    client = client_of(tmp_path, ttl_seconds=600, limits=Limits(request_seconds=1))
    warm(client, fast)
    tables = {each["table"]: each for each in client.get("/v1/status").json()["tables"]}
    assert tables[str(slow)]["error"] == "storage or catalog did not answer in time"
    assert (tables[str(slow)]["health"], tables[str(fast)]["error"]) == (0, None)


def test_too_many_requests_for_one_slow_table_are_429(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], hanging: Callable[[Path], None]
) -> None:
    slow = write_table(tmp_path / "slow")
    hanging(slow)
    client = client_of(tmp_path, limits=Limits(request_seconds=0.5, waiting=5))
    answers = client.together(*(client.http.get("/v1/stats", params={"table": str(slow)}) for _ in range(9)))
    assert sorted(answer.status_code for answer in answers) == [429] * 4 + [504] * 5
    assert {answer.headers.get("retry-after") for answer in answers} == {"1", None}


def test_full_server_answers_429_except_from_its_cache(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], hanging: Any
) -> None:
    """It still answers from memory, and says that it lives."""
    slow, kept = (write_table(tmp_path / name) for name in ("slow", "kept"))
    client = client_of(tmp_path, ttl_seconds=600, limits=Limits(request_seconds=600, running=3))
    client.stats(kept)
    hanging(slow)

    async def status(path: str, **parameters: object) -> int:
        return int((await client.http.get(path, params=parameters)).status_code)

    async def story() -> None:
        stuck = [asyncio.ensure_future(status("/v1/stats", table=slow)) for _ in range(3)]
        await _until(lambda: client.http._transport.app.metrics.running == len(stuck))
        assert await status("/v1/stats", table=tmp_path / "cold") == 429
        assert await status("/v1/stats", table=kept) == 200
        assert await status("/healthz") == 200
        hanging.end()
        assert await asyncio.gather(*stuck) == [200] * len(stuck)

    client.run(story())


def test_peer_that_does_not_read_its_answer_holds_no_slot(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    """The work is over: as many others as may run are answered meanwhile."""
    client = client_of(tmp_path, limits=Limits(running=1))
    scope = {"type": "http", "method": "GET", "path": "/v1/tables", "query_string": b"", "headers": []}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def never(message: Any) -> None:
        is_sent.set()
        await asyncio.Event().wait()

    is_sent = asyncio.Event()

    async def story() -> int:
        stuck = asyncio.ensure_future(client.http._transport.app(scope, receive, never))
        await is_sent.wait()
        answer = await client.http.get("/v1/tables")
        stuck.cancel()
        return int(answer.status_code)

    assert client.run(story()) == 200


def test_threads_are_released_when_slow_storage_answers() -> None:
    """An abandoned thread counts until it ends, and no longer."""

    async def story() -> None:
        workers, go_on = Workers(Limits(threads=2, threads_per_table=1)), threading.Event()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(workers.run("slow", go_on.wait), 0.05)
        assert workers.busy == 1
        assert await workers.run("other", lambda: 5) == 5
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(workers.run("slow", lambda: 6), 0.05)
        go_on.set()
        assert await workers.run("slow", lambda: 7) == 7
        assert workers.busy == 0
        assert workers._tables == {}

    asyncio.run(story())


def test_error_in_a_thread_is_raised_where_it_is_awaited() -> None:
    def fail() -> None:
        raise Problem(403, "forbidden", "no")

    with pytest.raises(Problem):
        asyncio.run(Workers(Limits()).run("t", fail))


def warm(client: Any, table: Path) -> None:
    """Ask for a table until the answer comes in time: a busy machine may take as long for it as for a slow one."""
    while client.stats(table).status_code != 200:
        pass


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)
