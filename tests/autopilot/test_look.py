"""The look at the tables of a policy: which are covered, and what becomes of those that do not answer."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.autopilot.decide import judge
from puffin.autopilot.look import CoveredTable, SeenTable, Watcher, look_at
from puffin.load import FoundTable, Tables
from puffin.policy.document import parse_policy, read_policy
from puffin.policy.model import Policy
from puffin.storage import LocalStore
from stats_jobs import analyze
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.delta_appends import append


def lookers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("puffin-look")]


def test_first_rule_covers_a_table_by_its_path_below_the_root(lake: Path) -> None:
    text = f"roots: [{lake}]\nrules: [{{tables: [db.*], due: never}}, {{tables: [a]}}]\n"
    found = {Path(each.found.name).name: each.rule for each in Watcher(parse_policy(text, "p")).tables()}
    assert {name: rule and rule.due.never for name, rule in found.items()} == {"a": False, "c": True}


def test_first_rule_covers_a_table_by_its_whole_name_in_a_catalog(tmp_path: Path) -> None:
    """Also where the namespace begins with the name of the catalog."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    catalog = SqlCatalog("shop", **properties)
    for name in ("shop.a", "shopping.b"):
        catalog.create_namespace(name.split(".")[0])
        catalog.create_table(name, pa.schema([("k", pa.int64())]))
    rules = [{"tables": ["shop.*"], "due": "never"}, {"tables": ["shopping.b"]}]
    text = json.dumps({"catalogs": [{"name": "shop", "properties": properties}], "rules": rules})
    found = {each.found.name: each.rule for each in Watcher(parse_policy(text, "p")).tables()}
    assert {name: rule and rule.due.never for name, rule in found.items()} == {"shop.a": True, "shopping.b": False}


def test_table_below_several_roots_is_covered_once_by_the_first_rule_for_one_of_its_names(lake: Path) -> None:
    (lake.parent / "link").symlink_to(lake)
    rules = [{"tables": ["c"], "in": [f"{lake}/db"], "due": "never"}, {}]
    text = json.dumps({"roots": [str(lake), f"{lake}/db", f"{lake.parent}/link"], "rules": rules})
    found = {each.found.name: each.rule for each in Watcher(parse_policy(text, "p")).tables()}
    assert {name: rule and rule.due.never for name, rule in found.items()} == {
        f"{lake}/a": False,
        f"{lake}/b": False,
        f"{lake}/db/c": True,
    }


def test_key_of_a_table_does_not_depend_on_the_working_directory(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is remembered under it."""
    (lake.parent / "policy.yaml").write_text("roots: [lake, lake/a]\n")
    keys = []
    for directory, file in (("/", str(lake.parent / "policy.yaml")), (str(lake.parent), "policy.yaml")):
        monkeypatch.chdir(directory)
        keys.append([each.key for each in Watcher(read_policy(file)).tables()])
    assert keys == [[f"{lake}/{name}" for name in ("a", "b", "db/c")]] * 2


def test_table_of_a_catalog_that_is_below_a_root_too_counts_in_the_catalog(lake: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{lake.parent}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    catalog = SqlCatalog("prod", **properties)
    catalog.create_namespace("shop")
    catalog.create_table("shop.a", pa.schema([("k", pa.int64())]))
    text = json.dumps({"catalogs": [{"name": "prod", "properties": properties}], "roots": [str(lake)]})
    found = {(each.catalog, each.name) for each in Watcher(parse_policy(text, "p")).look()}
    assert found == {("prod", "shop.a"), *((None, f"{lake}/{name}") for name in ("a", "b", "db/c"))}


def test_table_that_hangs_does_not_keep_the_others(lake: Path) -> None:
    """It is not asked again before it has answered, so that threads do not grow in number."""
    (lake / "hangs/metadata").mkdir(parents=True)
    (lake / "hangs/metadata/v1.metadata.json").write_text("{}")
    pipe = lake / "hangs/metadata/version-hint.text"
    os.mkfifo(pipe)
    watcher = Watcher(parse_policy(f"roots: [{lake}]\n", "p"))
    try:
        for _ in range(3):
            errors = {Path(each.status.table).name: each.status.error for each in watcher.look(patience=0.5)}
            said = f"{lake}/hangs: the storage has not answered for 0.5 seconds"
            assert errors == {"a": None, "b": None, "c": None, "hangs": said}
        until = time.monotonic() + 60
        while len(lookers()) > 1 and time.monotonic() < until:
            time.sleep(0.01)
        assert len(lookers()) == 1
    finally:
        writer = os.open(pipe, os.O_WRONLY)
        pipe.unlink()
        pipe.write_text("1")
        os.close(writer)  # the reader goes on
    until = time.monotonic() + 60
    while time.monotonic() < until:  # it has to answer before it is asked again
        (error,) = [each.status.error for each in watcher.look() if each.status.error is not None]
        if "not answered" not in error:
            break
    assert "not answered" not in error


def test_root_that_hangs_while_it_is_listed_does_not_keep_the_others(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lake.parent / "hangs").mkdir()
    answer, tables_below = threading.Event(), Tables.tables_below
    asked = []

    def listed(tables: Tables, root: str, most: int) -> Iterator[FoundTable]:
        if root.endswith("hangs"):
            asked.append(root)
            answer.wait(60)
        return tables_below(tables, root, most)

    monkeypatch.setattr(Tables, "tables_below", listed)
    watcher = Watcher(parse_policy(f"roots: [{lake.parent}/hangs, {lake}]\n", "p"))
    try:
        for _ in range(2):
            errors = {Path(each.status.table).name: each.status.error for each in watcher.look(patience=0.5)}
            said = f"{lake.parent}/hangs: the storage has not answered for 0.5 seconds"
            assert errors == {"a": None, "b": None, "c": None, "hangs": said}
        assert len(asked) == 1
    finally:
        answer.set()
    until = time.monotonic() + 60
    while any(each.status.error for each in watcher.look(patience=0.5)) and time.monotonic() < until:
        time.sleep(0.01)
    assert len(watcher.look()) == 3


def test_answer_that_comes_after_a_look_counts_in_the_next_one(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that always takes longer than a look waits would never be seen."""
    answer, tables_below = threading.Event(), Tables.tables_below
    asked = []

    def listed(tables: Tables, root: str, most: int) -> Iterator[FoundTable]:
        asked.append(root)
        answer.wait(60)
        return tables_below(tables, root, most)

    monkeypatch.setattr(Tables, "tables_below", listed)
    watcher = Watcher(parse_policy(f"roots: [{lake}]\n", "p"))
    assert [each.status.error is None for each in watcher.look(patience=0.1)] == [False]
    answer.set()
    until = time.monotonic() + 60
    while lookers() and time.monotonic() < until:
        time.sleep(0.01)
    assert [each.status.error for each in watcher.look()] == [None] * 3
    assert len(asked) == 1


def test_place_that_is_large_takes_longer_than_one_answer_may(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing hangs while one directory after the other is listed, none of which is a table."""
    for number in range(20):
        (lake / "no tables" / str(number)).mkdir(parents=True)
    directories = LocalStore.directories

    def slow(store: LocalStore, uri: str) -> list[str]:
        time.sleep(0.1)
        return directories(store, uri)

    monkeypatch.setattr(LocalStore, "directories", slow)
    seen = Watcher(parse_policy(f"roots: [{lake}]\n", "p")).look(patience=1)
    assert [each.status.error for each in seen] == [None] * 3


def test_table_with_an_unexpected_error_does_not_keep_the_others(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_for_b(table: CoveredTable, *given: Any) -> SeenTable:
        if table.found.name.endswith("/b"):
            raise ValueError("a fault of ours")
        return look_at(table, *given)

    monkeypatch.setattr("puffin.autopilot.look.look_at", fails_for_b)
    seen = Watcher(parse_policy(f"roots: [{lake}]\n", "p")).look()
    errors = {Path(each.status.table).name: each.status.error for each in seen}
    assert errors == {"a": None, "b": "internal error: ValueError('a fault of ours')", "c": None}


def test_table_whose_metadata_is_the_same_is_not_looked_at_again(lake: Path, opened: list[str]) -> None:
    """A commit, new statistics of a Delta table and a run of the autopilot make it look anew."""
    watcher = Watcher(parse_policy(f"roots: [{lake}]\n", "p"))

    def healths() -> dict[str, int]:
        return {Path(each.status.table).name: each.status.health for each in watcher.look()}

    assert healths() == {"a": 0, "b": 0, "c": 0}
    analyze(str(lake / "a"))
    assert healths()["a"] == 100
    first = watcher.look()
    opened.clear()
    assert watcher.look() == first
    assert all("_puffin_sidecar" not in name or "_delta_log" in name for name in opened)
    append(lake / "a", 100, 1000)
    assert healths()["a"] == 75
    index(str(lake / "b"), IndexOptions(columns=("k",)))
    (seen,) = [each for each in watcher.look() if each.key.endswith("/b")]
    assert seen.status.indexed_columns == ()
    watcher.forget(seen.key)
    (seen,) = [each for each in watcher.look() if each.key.endswith("/b")]
    assert seen.status.indexed_columns == ("k",)


@pytest.mark.parametrize("due", ["{}", "never"])
def test_table_that_only_an_unnamed_catalog_can_commit_to_is_broken(tmp_path: Path, due: str) -> None:
    """Otherwise each run would fail. A policy that leaves it alone hears nothing of it."""
    catalog = SqlCatalog("shop", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "w"))
    catalog.create_namespace("db")
    rows = pa.table({"k": [1, 2, 3]})
    catalog.create_table("db.t", rows.schema).append(rows)
    policy = parse_policy(f"roots: [{tmp_path}/w]\nrules: [{{due: {due}}}]\n", "p")
    (seen,) = Watcher(policy).look()
    why = "the policy says never" if due == "never" else "name the table in that catalog"
    assert why in judge(seen, time.time()).why
    analyze("db.t", catalog="shop", catalog_properties=catalog.properties)
    (seen,) = Watcher(policy).look()
    assert judge(seen, time.time()).state == ("never" if due == "never" else "fresh")  # whoever keeps it so


def test_first_look_reads_each_file_of_a_table_once(lake: Path, opened: list[str]) -> None:
    for name in ("a", "b"):
        analyze(str(lake / name))
    opened.clear()
    assert all(each.status.error is None for each in Watcher(parse_policy(f"roots: [{lake}]\n", "p")).look())
    assert opened
    assert {name: count for name, count in Counter(opened).items() if count > 1} == {}


def test_runs_end_while_a_look_drops_tables_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their threads have the look forget the tables."""
    watcher = Watcher(Policy(file="p"))
    monkeypatch.setattr(watcher, "_kept", dict.fromkeys(map(str, range(100_000))))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        runs = threading.Thread(target=lambda: [watcher.forget(str(number)) for number in range(50_000)])
        runs.start()
        assert watcher.look() == []
        runs.join()
    finally:
        sys.setswitchinterval(interval)
    assert watcher._kept == {}
