"""``POST /v1/plan``: the plan document, who may have it, and that no log or metric repeats a filter's values."""

import json
import logging
import math
import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import puffin
from puffin.planning.file_plan import FilePlan
from puffin.server.settings import Limits
from stats_jobs.index import index
from stats_jobs.options import IndexOptions

SECRET = "s3cretvalue"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A Delta table of three files with an index of ``s``."""
    path = tmp_path / "t"
    for i in range(3):
        write_deltalake(path, pa.table({"k": [i, i + 10], "s": [f"a{i}", f"z{i}"]}), mode="append")
    index(str(path), IndexOptions(columns=("s",)))
    return path


def asked(client: Any, table: object, where: str | None = None, **others: Any) -> Any:
    return client.post("/v1/plan", json={"table": str(table), "where": where, **others})


@pytest.mark.parametrize("where", ["s = 'a1'", "k > 10 and s != 'x'", "s in ('a0', 'nope')", None])
def test_answer_equals_the_plan_document(table: Path, client_of: Callable[..., Any], where: str | None) -> None:
    answer = asked(client_of(table.parent), table, where)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == puffin.plan(str(table), where).to_json()
    assert list(answer.json()) == list(puffin.plan(str(table), where).to_json())


def test_partition_that_json_has_no_word_for_is_text(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    """Python would write NaN and Infinity, which no other reader of JSON takes."""
    rows = pa.table({"k": [1, 2, 3], "p": [math.nan, -math.inf, 0.5]})
    write_deltalake(tmp_path / "t", rows, partition_by=["p"])
    planned = client_of(tmp_path).post("/v1/plan", json={"table": str(tmp_path / "t")}).json()
    assert {file["partition"]["p"] for file in planned["files"]} == {"NaN", "-Infinity", 0.5}


def test_index_leaves_one_file(table: Path, client_of: Callable[..., Any]) -> None:
    answer = asked(client_of(table.parent), table, "s = 'a1'").json()
    assert (answer["files-total"], answer["files-matched"]) == (3, 1)
    assert answer["index"] == {"columns": ["s"], "files-covered": 3}


def test_snapshot_is_chosen_by_id_or_ref(table: Path, tagged: Path, client_of: Callable[..., Any]) -> None:
    client = client_of(table.parent)
    assert asked(client, table, **{"snapshot-id": 1}).json()["files-total"] == 2
    old = asked(client, tagged, "a = 1", ref="old").json()
    assert (old["files-total"], old["snapshot-id"]) == (1, asked(client, tagged, ref="old").json()["snapshot-id"])
    assert asked(client, tagged, ref="old", **{"snapshot-id": old["snapshot-id"]}).status_code == 200
    current = asked(client, tagged).json()["snapshot-id"]
    assert asked(client, tagged, ref="old", **{"snapshot-id": current}).status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"where": "nope = 1"}, 404, "not-found"),
        ({"where": "k ="}, 400, "bad-request"),
        ({"where": "k = 'x'"}, 400, "bad-request"),
        ({"where": ""}, 400, "bad-request"),
        ({"where": "(" * 5000}, 400, "bad-request"),
        ({"where": "k = 1" + " " * 70_000}, 422, "invalid"),
        ({"where": 1}, 422, "invalid"),
        ({"filter": "k = 1"}, 422, "invalid"),
        ({"snapshot-id": 99}, 404, "not-found"),
        ({"ref": "nope"}, 404, "not-found"),
        ({"table": "TABLE/nope"}, 404, "not-found"),
        ({"table": "/"}, 403, "forbidden"),
        ({"table": None}, 422, "invalid"),
    ],
)
def test_errors_are_problem_documents(
    table: Path, client_of: Callable[..., Any], body: dict[str, Any], status: int, kind: str
) -> None:
    sent = {"table": "TABLE", **body}
    if sent["table"]:
        sent["table"] = sent["table"].replace("TABLE", str(table))
    answer = client_of(table.parent).post("/v1/plan", json=sent)
    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (status, f"urn:puffin-sidecar:problem:{kind}")
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["instance"] == "/v1/plan"
    assert len(problem["detail"]) <= 1000


def test_long_filter_is_answered(table: Path, client_of: Callable[..., Any]) -> None:
    where = " or ".join(["s = 'a1'"] * 1000)
    assert asked(client_of(table.parent, limits=Limits(request_seconds=60)), table, where).json()["files-matched"] == 1


def test_plan_needs_the_token(table: Path, client_of: Callable[..., Any]) -> None:
    """A planned answer in memory does not change that."""
    client = client_of(table.parent, token=b"right", ttl_seconds=60)
    body = {"table": str(table), "where": "s = 'a1'"}
    for header, status in ((None, 401), ("right", 200), ("wrong", 401), (None, 401)):
        headers = {"Authorization": f"Bearer {header}"} if header else {}
        assert client.post("/v1/plan", json=body, headers=headers).status_code == status


def test_manifests_and_index_outside_of_the_roots_are_not_read(
    tagged: Path, tmp_path: Path, client_of: Callable[..., Any]
) -> None:
    """Whoever can write a table's metadata may name any file in it."""
    root = tmp_path / "root"
    root.mkdir()
    document = json.loads(tagged.read_text())
    document["properties"]["puffin-sidecar.home"] = str(tmp_path / "home")
    (root / "a.metadata.json").write_text(json.dumps(document))
    answer = asked(client_of(root), root / "a.metadata.json", "a = 1")
    assert answer.status_code == 404
    assert "outside of its roots" in answer.json()["detail"]


def test_hanging_index_costs_its_table_the_time_limit_and_nobody_else(
    table: Path, tagged: Path, client_of: Callable[..., Any], hanging: Any
) -> None:
    hanging(table / "_puffin_sidecar")
    client = client_of(table.parent, ttl_seconds=600, limits=Limits(request_seconds=2))
    while asked(client, tagged, "a = 1").status_code != 200:  # a busy machine may take long to load it
        pass
    late, *others = client.together(
        client.http.post("/v1/plan", json={"table": str(table), "where": "s = 'a1'"}),
        *(client.http.post("/v1/plan", json={"table": str(tagged), "where": f"a = {i}"}) for i in range(8)),
    )
    assert (late.status_code, late.json()["type"]) == (504, "urn:puffin-sidecar:problem:timeout")
    assert [answer.status_code for answer in others] == [200] * 8


def write_log(table: Path, files: int) -> None:
    """A Delta table of files that do not exist."""
    fields = [{"name": "k", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    format_ = {"provider": "parquet", "options": {}}
    metadata = {"id": str(uuid.uuid4()), "format": format_, "schemaString": schema, "partitionColumns": []}
    add = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "configuration": {}}},
        *({"add": {"path": f"{i:06}.parquet", **add}} for i in range(files)),
    ]
    (table / "_delta_log").mkdir(parents=True)
    (table / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_large_plan_is_made_and_encoded_in_a_thread(
    tmp_path: Path, client_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop sends it in pieces."""
    write_log(tmp_path / "t", 10_000)
    threads: set[str] = set()
    for name in ("head_to_json", "_file_to_json"):
        method = getattr(FilePlan, name)

        def seen(self: FilePlan, *arguments: Any, method: Any = method) -> Any:
            threads.add(threading.current_thread().name)
            return method(self, *arguments)

        monkeypatch.setattr(FilePlan, name, seen)
    client = client_of(tmp_path)
    pieces: list[int] = []
    app = client.http._transport.app

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def seen(message: Any) -> None:
            pieces.append(len(message.get("body", b"")))
            await send(message)

        await app(scope, receive, seen)

    client.http._transport.app = watched
    answer = asked(client, tmp_path / "t", "k = 1")
    assert [file["path"][-14:] for file in answer.json()["files"]] == [f"{i:06}.parquet" for i in range(10_000)]
    assert threads == {"puffin-storage"}
    assert max(pieces) <= 256 * 1024 < sum(pieces)


def test_large_plan_arrives_whole_over_a_network(shared: Any) -> None:
    write_log(shared.root / "large", 10_000)
    body = {"table": str(shared.root / "large"), "where": "k is not null"}
    answer = httpx.post(f"{shared.url}/v1/plan", json=body, timeout=60)
    assert answer.json()["files-matched"] == len(answer.json()["files"]) == 10_000
    assert answer.headers["content-length"] == str(len(answer.content))


def test_values_of_filters_reach_no_log_and_no_metric(
    table: Path, process_of: Callable[..., Any], tmp_path: Path
) -> None:
    """Whatever becomes of the filter: an answer, a mistake of the caller, or an index that cannot be read."""
    process = process_of(tmp_path, "--verbose")
    filters = [
        f"s = '{SECRET}'",
        f"s in ('{SECRET}', 'a1')",
        f"s starts with '{SECRET}'",
        f"s like '{SECRET}%'",
        f"s = '{SECRET}",
        f"k = '{SECRET}'",
        f"{SECRET} = 1",
        f"s = '{SECRET}' and nope = 1",
        f"s = '{SECRET * 10_000}'",
    ]
    broken = shutil.copytree(table, tmp_path / "broken")
    for segment in (broken / "_puffin_sidecar" / "index" / "segments").glob("*/*"):
        segment.write_bytes(b"")
    statuses = set()
    with httpx.Client(base_url=process.url, timeout=60) as client:
        for where in filters:
            for path in (table, broken, tmp_path / "nope"):
                statuses.add(client.post("/v1/plan", json={"table": str(path), "where": where}).status_code)
        metrics = client.get("/metrics").text
    assert process.stop() == 0
    logged = process.process.stdout.read() + process.logged()
    assert statuses == {200, 400, 404, 422}
    assert 'route="/v1/plan"' in metrics
    assert "index segment" in logged
    assert SECRET not in metrics + logged


def test_defect_is_logged_without_the_message_of_its_error(
    table: Path, client_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors of libraries quote what they cannot read."""

    def fail(*_: Any, **__: Any) -> None:
        int(SECRET)

    monkeypatch.setattr("puffin.planning.plan.Planner.plan", fail)
    with caplog.at_level(logging.DEBUG):
        answer = asked(client_of(table.parent), table, f"s = '{SECRET}'")
    assert answer.status_code == 500
    assert "ValueError" in caplog.text
    assert "in fail" in caplog.text
    assert SECRET not in caplog.text + answer.text
