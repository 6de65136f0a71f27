"""``puffin serve --policy``: the server and the autopilot in one process."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.autopilot.events import Event
from puffin.autopilot.pilot import Autopilot
from puffin.cli import main
from stats_jobs import analyze

PATIENCE = 60


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    write_deltalake(str(tmp_path / "lake/t"), pa.table({"k": [1, 2, 3]}))
    (tmp_path / "policy.yaml").write_text("roots: [lake]\nlook-every: 1s\n")
    return tmp_path / "policy.yaml"


def test_server_answers_with_what_its_autopilot_computed(process_of: Callable[..., Any], policy: Path) -> None:
    table = str(policy.parent / "lake/t")
    process = process_of(policy.parent / "lake", "--policy", policy, "--ttl", "0")
    until, found = time.monotonic() + PATIENCE, None
    while found is None and time.monotonic() < until:
        answer = httpx.get(f"{process.url}/v1/stats", params={"table": table}, timeout=PATIENCE).json()
        found = answer["columns"][0]["ndv"]
        time.sleep(0.1)
    assert found == 3
    (seen,) = httpx.get(f"{process.url}/v1/status", timeout=PATIENCE).json()["tables"]
    assert (seen["health"], seen["state"] in ("due", "fresh"), bool(seen["state-reason"])) == (100, True, True)
    metrics = httpx.get(f"{process.url}/metrics", timeout=PATIENCE).text
    assert 'puffin_autopilot_runs_total{action="statistics",outcome="done"} 1' in metrics
    assert "puffin_http_requests_total" in metrics
    began = time.monotonic()
    assert process.stop() == 0
    assert time.monotonic() - began < PATIENCE / 2
    assert process.logged().startswith(f"{table}: statistics done (there are no statistics), ")


def test_server_serves_what_the_policy_covers(
    policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[Any] = []
    monkeypatch.setattr("puffin.server.process.create_app", lambda settings, _: served.append(settings))
    monkeypatch.setattr("puffin.server.process.run", lambda *_: None)
    policy.write_text("roots: [lake]\ncatalogs: [{name: p, properties: {type: sql, uri: 'sqlite://'}}]\n")
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--port", "0", "--policy", str(policy)])
    assert (ended.value.code or 0, served[0].roots, served[0].catalog) == (0, (str(policy.parent / "lake"),), "p")
    assert served[0].catalog_properties == {"type": "sql", "uri": "sqlite://"}
    policy.write_text(
        "catalogs: [{name: a, properties: {type: in-memory}}, {name: b, properties: {type: sql, uri: 'sqlite://'}}]\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--port", "0", "--policy", str(policy)])
    assert (served[1].catalog, served[1].warehouses) == ("a", {"b": {"type": "sql", "uri": "sqlite://"}})


def test_root_of_a_policy_that_is_missing_ends_the_server_by_its_name(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text("roots: [lake, gone]\n")
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--port", "0", "--policy", str(policy)])
    missing = f"{policy.parent / 'gone'}: expected an absolute path or URI of a directory to serve, found nothing there"
    assert (ended.value.code, capsys.readouterr().err) == (2, f"puffin: {missing}\n")


def test_errors_of_the_autopilot_are_shown(
    policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(*_: object) -> None:
        logging.getLogger("puffin.autopilot.pilot").error("lake/t: statistics failed: why")

    monkeypatch.setattr("puffin.server.process.serve", serve)
    with pytest.raises(SystemExit):
        main(["serve", "--policy", str(policy)])
    assert capsys.readouterr().err == "puffin: lake/t: statistics failed: why\n"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_every_run_has_one_line_on_stderr(
    log_format: str, policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Event(seconds=0.0, table="t", catalog="prod", action="statistics", outcome="done", reason="why")
    failed = dataclasses.replace(ran, outcome="failed", error="too hot")

    def serve(_: object, host: str, port: int, on_start: Callable[[str, int], None]) -> None:
        on_start(host, port)
        for thread in threading.enumerate():
            if thread.name == "puffin-autopilot":
                thread.join(PATIENCE)

    monkeypatch.setattr("puffin.server.process.serve", serve)
    monkeypatch.setattr(Autopilot, "run", lambda pilot: [pilot._tell(ran), pilot._tell(failed)])
    with pytest.raises(SystemExit):
        main(["serve", "--policy", str(policy), "--log-format", log_format])
    _, *lines = capsys.readouterr().err.splitlines()
    if log_format == "text":
        assert lines == ["prod: t: statistics done (why)", "prod: t: statistics failed: too hot"]
    else:
        told = [json.loads(line) for line in lines]
        assert [(each["table"], each["level"]) for each in told] == [("t", "INFO"), ("t", "ERROR")]
        assert "too hot" in told[1]["message"]


def test_every_answer_about_a_table_is_told(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    """Also one from memory; not what was refused, nor the lists that people look at."""
    table, told = str(tmp_path / "t"), list[str]()
    write_deltalake(table, pa.table({"a": [1, 2], "b": [2, 3]}))
    analyze(table)
    client = client_of(tmp_path, asked=told.append, ttl_seconds=60)

    def tells(answer: httpx.Response, status: int = 200) -> list[str]:
        assert answer.status_code == status, answer.text
        now = list(told)
        told.clear()
        return now

    for _ in range(2):
        assert tells(client.stats(table)) == [table]
    asked = [{"table": table, "columns": ["a"]}, {"table": str(tmp_path / "absent")}]
    assert tells(client.post("/v1/stats", json={"requests": asked})) == [table]
    assert tells(client.post("/v1/plan", json={"table": table, "where": "a = 1"})) == [table]
    assert tells(client.post("/v1/estimate/filter", json={"table": table, "where": "a = 1"})) == [table]
    sides = {"left": {"table": table, "column": "a"}, "right": {"table": table, "column": "b"}}
    assert tells(client.post("/v1/estimate/join", json=sides)) == [table] * 2
    for path in ("/v1/status", "/v1/tables", "/v1/plans"):
        assert tells(client.get(path)) == []
    assert tells(client.stats("/elsewhere"), 403) == []
