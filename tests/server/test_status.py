"""``GET /v1/status`` is what ``puffin status`` prints of the tables that are served."""

from __future__ import annotations

import functools
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from puffin.errors import StorageError
from puffin.load import Tables
from puffin.lookup import Lookup
from puffin.lookup.places import Place
from puffin.lookup.status import status, table_status
from stats_jobs import analyze
from stats_jobs.index import index
from stats_jobs.options import IndexOptions


def test_status_is_that_of_the_command(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    """It follows commits to tables and new filters, which change no metadata."""
    for name in ("root/bare", "root/current", "outside"):
        write_deltalake(str(tmp_path / name), pa.table({"k": [1, 2, 3]}))
    analyze(str(tmp_path / "root/current"))
    (tmp_path / "root/broken/_delta_log").mkdir(parents=True)
    client = client_of(tmp_path / "root", ttl_seconds=0)

    def tables() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.get("/v1/status").json()["tables"]
        return found

    first = tables()
    beside = {"state": None, "state-reason": None}
    of_command = status(Place(roots=(str(tmp_path / "root"),)))
    assert [{**each, "stats-timestamp": None} for each in first] == [
        {**each.to_json(), "stats-timestamp": None, **beside} for each in of_command
    ]
    assert [each["stats-timestamp"] is None for each in first] == [True, True, False]
    assert [(Path(each["table"]).name, each["health"]) for each in first] == [
        ("bare", 0),
        ("broken", 0),
        ("current", 100),
    ]
    index(str(tmp_path / "root/current"), IndexOptions(columns=("k",)))
    assert tables()[-1]["indexed-columns"] == ["k"]
    shutil.rmtree(tmp_path / "root/broken")
    analyze(str(tmp_path / "root/bare"))
    assert [each["health"] for each in tables()] == [100, 100]


def test_what_cannot_be_listed_is_told_beside_the_tables(
    tmp_path: Path, client_of: Callable[..., Any], locked: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory below a root, a whole root, and a namespace."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/wh"}
    load_catalog("prod", **properties).create_namespace("db")
    write_deltalake(str(tmp_path / "one/z"), pa.table({"k": [1, 2, 3]}))
    analyze(str(tmp_path / "one/z"))
    directory, root = locked(tmp_path / "one/lost+found"), locked(tmp_path / "two")
    client = client_of(tmp_path / "one", root, catalog="prod", catalog_properties=properties)

    def refuse(*_: object) -> list[str]:
        raise StorageError("not for you")

    monkeypatch.setattr(Tables, "of_namespace", refuse)
    first, *errors, last = client.get("/v1/status").json()["tables"]
    assert [(each["table"], each["error"]) for each in (first, *errors)] == [
        (str(directory), f"{directory}: Permission denied"),
        (str(root), f"{root}: Permission denied"),
        ("db", "not for you"),
    ]
    assert (last["table"], last["health"]) == (str(tmp_path / "one/z"), 100)
    listed = client.get("/v1/tables").json()
    assert [each["table"] for each in listed["tables"]] == [str(tmp_path / "one/z")]
    assert listed["unreadable"] == [str(directory), str(root), "db"]


def test_root_that_is_gone_does_not_look_empty(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path]
) -> None:
    roots = [tmp_path / name for name in ("gone", "lake")]
    for root in roots:
        write_table(root / "t", snapshots=(), ndv={})
    client = client_of(*roots, ttl_seconds=0)
    roots[0].rename(tmp_path / "elsewhere")
    first, last = client.get("/v1/status").json()["tables"]
    assert (first["table"], first["error"]) == (str(roots[0]), f"{roots[0]}: no such directory")
    assert (last["table"], last["error"]) == (f"{roots[1]}/t", None)
    assert client.get("/v1/tables").json()["unreadable"] == [str(roots[0])]


def test_status_has_the_tables_of_the_catalog(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/wh"}
    catalog, rows = load_catalog("prod", **properties), pa.table({"k": [1, 2, 3]})
    catalog.create_namespace("db")
    catalog.create_table("db.t", rows.schema).append(rows)
    (tmp_path / "empty").mkdir()
    client = client_of(tmp_path / "empty", catalog="prod", catalog_properties=properties)
    (found,) = client.get("/v1/status").json()["tables"]
    assert (found["table"], found["health"], found["columns-missing"]) == ("db.t", 0, ["k"])


def test_tables_that_there_is_no_time_for_are_left_out_and_come_first_in_the_next_list(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not called broken. What earlier lists found stands in later ones, for a while."""
    for name in "abc":
        write_table(tmp_path / name, snapshots=(), ndv={})
    client = client_of(tmp_path)

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.15)
        return table_status(*arguments)

    for name, value in (("table_status", slowly), ("_STATUS_AT_ONCE", 1), ("_LEAST_SHARE", 0.998)):
        monkeypatch.setattr(f"puffin.server.table_lists.{name}", value)
    for names, told in (("a", True), ("ab", True), ("abc", None)):
        answer = client.get("/v1/status").json()
        assert [(Path(each["table"]).name, each["error"]) for each in answer["tables"]] == [(n, None) for n in names]
        assert answer.get("truncated") is told
    monkeypatch.setattr("puffin.server.table_lists._KEPT_SECONDS", 0)
    assert len(client.get("/v1/status").json()["tables"]) == 1


def test_status_evicts_no_table_that_planners_ask_for(
    tmp_path: Path, client_of: Callable[..., Any], write_table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puffin.server.service.Lookup", functools.partial(Lookup, max_tables=1))
    asked, _ = (write_table(tmp_path / name, snapshots=(), ndv={}) for name in ("z", "a"))
    client = client_of(tmp_path, ttl_seconds=60)
    assert client.stats(asked).status_code == 200
    assert [each["error"] for each in client.get("/v1/status").json()["tables"]] == [None, None]
    assert "puffin_lookup_evictions_total 0" in client.get("/metrics").text
