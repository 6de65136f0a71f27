"""``puffin status``: the document of the contract, the table for people, and which tables it finds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from puffin.autopilot.ledger import Ledger
from puffin.policy.model import Retry
from stats_jobs import analyze

KEYS = [
    *("table", "format", "snapshot-id", "stats-snapshot-id", "snapshots-behind", "rows-changed-share"),
    *("columns-missing", "indexed-columns", "index-files-missing", "bytes-to-read", "health", "reason", "error"),
]


def write(table: Path, rows: int) -> None:
    write_deltalake(str(table), pa.table({"k": list(range(rows))}), mode="append")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a table without statistics, one that has changed since, and a current one."""
    for name in ("db/bare", "db/behind", "current"):
        write(tmp_path / "root" / name, 100)
    analyze(str(tmp_path / "root/db/behind"))
    analyze(str(tmp_path / "root/current"))
    write(tmp_path / "root/db/behind", 25)
    return tmp_path / "root"


def test_document_has_the_keys_of_the_contract(puffin: Callable[..., Any], root: Path) -> None:
    run = puffin("status", "--root", root, "--json")
    assert (run.code, run.stderr) == (0, "")
    assert list(run.document) == ["tables"]
    assert [list(each) for each in run.document["tables"]] == [KEYS] * 3
    bare, behind, current = run.document["tables"]
    new = max((root / "db/behind").glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    assert behind == {
        "table": str(root / "db/behind"),
        "format": "delta",
        "snapshot-id": 2,
        "stats-snapshot-id": 0,
        "snapshots-behind": 1,
        "rows-changed-share": 0.2,
        "columns-missing": [],
        "indexed-columns": [],
        "index-files-missing": 0,
        "bytes-to-read": new.stat().st_size,
        "health": 90,
        "reason": "20 % of the rows are in files that came or went since the statistics",
        "error": None,
    }
    assert (bare["health"], bare["columns-missing"], current["health"]) == (0, ["k"], 100)


def test_people_see_a_table_with_the_worst_first(puffin: Callable[..., Any], root: Path) -> None:
    head, *lines = puffin("status", "--root", root).text.splitlines()
    assert head.split() == ["health", "table", "behind", "age", "changed", "without", "index", "lacks", "to", "read"]
    assert [line.split()[:2] for line in lines] == [
        ["0", str(root / "db/bare")],
        ["90", str(root / "db/behind")],
        ["100", str(root / "current")],
    ]
    assert lines[1].endswith("20 % of the rows are in files that came or went since the statistics")


def test_table_that_cannot_be_read_does_not_stop_the_others(puffin: Callable[..., Any], root: Path) -> None:
    (root / "broken" / "metadata").mkdir(parents=True)
    (root / "broken" / "metadata" / "v1.metadata.json").write_text("{")
    run = puffin("status", "--root", root, "--json")
    failed = [each for each in run.document["tables"] if each["error"] is not None]
    assert [(each["table"], each["health"], each["format"]) for each in failed] == [(str(root / "broken"), 0, None)]
    assert "v1.metadata.json" in failed[0]["error"]
    said = f"puffin: 1 of 4 tables failed: {root / 'broken'}: {failed[0]['error']}\n"
    assert (run.code, run.stderr) == (1, said)
    text = puffin("status", "--root", root)
    assert (text.code, failed[0]["error"] in text.text) == (1, True)


def test_table_that_hangs_does_not_keep_the_process_from_ending(root: Path) -> None:
    """Nobody writes to a pipe. The command waits for a second here, which is a minute otherwise."""
    (root / "hangs/metadata").mkdir(parents=True)
    (root / "hangs/metadata/v1.metadata.json").write_text("{}")
    os.mkfifo(root / "hangs/metadata/version-hint.text")
    short = "from puffin.lookup import status; status.status.__defaults__ = (1,); from puffin.cli import main; main()"
    command = [sys.executable, "-c", short, "status", "--root", str(root), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = f"{root}/hangs: the storage has not answered for 1 seconds"
    assert (ran.returncode, ran.stderr) == (1, f"puffin: 1 of 4 tables failed: {said}\n")
    errors = {Path(each["table"]).name: each["error"] for each in json.loads(ran.stdout)["tables"]}
    assert errors == {"bare": None, "behind": None, "current": None, "hangs": said}


def test_directory_that_cannot_be_listed_does_not_hide_the_tables(
    puffin: Callable[..., Any], root: Path, locked: Callable[[Path], Path], tmp_path: Path
) -> None:
    """It counts as a table, whatever names are included, unless its own name is excluded or a rule leaves it alone."""
    name = str(locked(root / "lost+found"))
    policy = tmp_path / "policy.yaml"
    policy.write_text("roots: [root]\n")
    for place in (("--root", root), ("--policy", policy)):
        run = puffin("status", *place, "--include", "current", "--json")
        assert (run.code, run.stderr) == (1, f"puffin: 1 of 2 tables failed: {name}: Permission denied\n")
        assert [(each["table"], each["error"]) for each in run.document["tables"]] == [
            (name, f"{name}: Permission denied"),
            (str(root / "current"), None),
        ]
        assert len(puffin("status", *place).text.splitlines()) == 5
        assert puffin("status", *place, "--exclude", "lost*").code == 0
    policy.write_text("roots: [root]\nrules: [{tables: [lost+found], due: never}, {tables: ['*']}]\n")
    assert puffin("status", "--policy", policy).code == 0


def test_tables_of_a_policy_stand_behind_their_catalogs(puffin: Callable[..., Any], tmp_path: Path) -> None:
    catalogs: list[dict[str, Any]] = [
        {
            "name": name,
            "properties": {"type": "sql", "uri": f"sqlite:///{tmp_path}/{name}.db", "warehouse": str(tmp_path)},
        }
        for name in ("prod", "test")
    ]
    for each in catalogs:
        catalog = load_catalog(each["name"], **each["properties"])
        catalog.create_namespace("n")
        catalog.create_table("n.t", pa.schema([("k", pa.int64())]))
    policy = tmp_path / "policy.yaml"
    policy.write_text(json.dumps({"catalogs": [*catalogs, {"name": "broken", "properties": {"type": "none"}}]}))
    _, *lines = puffin("status", "--policy", policy).text.splitlines()
    assert [re.split("  +", line.strip())[1] for line in lines] == ["broken", "prod: n.t", "test: n.t"]


def test_table_of_a_policy_that_failed_is_held(puffin: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("roots: [root]\nstate: state\n")
    of_bare = ("status", "--policy", policy, "--include", "bare", "--json")
    assert puffin(*of_bare).document["tables"][0]["state"] == "due"
    assert not (tmp_path / "state").exists()
    Ledger(str(tmp_path / "state")).failed(str(root / "db/bare"), "too hot", Retry(first=3600), time.time())
    (found,) = puffin(*of_bare).document["tables"]
    assert (found["state"], found["state-reason"].rpartition(": ")[2]) == ("held", "too hot")
    Ledger(str(tmp_path / "state")).succeeded(str(root / "db/bare"), time.time(), 900)
    assert puffin(*of_bare).document["tables"][0]["state"] == "waiting"


def test_namespace_chooses_tables_of_a_catalog(puffin: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/wh"}
    catalog = load_catalog("prod", **properties)
    rows = pa.table({"k": [1, 2, 3]})
    for namespace in ("one", "two"):
        catalog.create_namespace(namespace)
        catalog.create_table(f"{namespace}.t", rows.schema).append(rows)
    catalog.create_table("two.empty", rows.schema)
    named = [option for pair in properties.items() for option in ("--catalog-property", "=".join(pair))]

    def found(*options: object) -> list[tuple[str, int]]:
        document = puffin("status", "--catalog", "prod", *named, *options, "--json").document
        return [(each["table"], each["health"]) for each in document["tables"]]

    assert found() == [("one.t", 0), ("two.t", 0), ("two.empty", 100)]
    analyze("two.t", catalog="prod", catalog_properties=properties)
    assert found("--namespace", "two") == [("two.empty", 100), ("two.t", 100)]
    assert found("--namespace", "one", "--root", root / "current") == [("one.t", 0), (str(root / "current"), 100)]
    absent = puffin("status", "--catalog", "prod", *named, "--namespace", "absent")
    assert (absent.code, absent.stderr) == (2, "puffin: catalog 'prod': no namespace 'absent'\n")


def test_named_tables_are_shown_alone(puffin: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    """By path, each once however it is spelled, or by the name in a catalog; one that is not there is told."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = load_catalog("prod", **properties)
    catalog.create_namespace("db")
    for name in ("a", "b"):
        catalog.create_table(f"db.{name}", pa.schema([("k", pa.int64())]))
    options = [word for key, value in properties.items() for word in ("--catalog-property", f"{key}={value}")]

    def found(*arguments: object) -> list[str]:
        return [each["table"] for each in puffin("status", *arguments, "--json").document["tables"]]

    assert found(root / "current", f"{root}/current/", "--root", root / "db") == [
        *(str(root / "db" / name) for name in ("bare", "behind")),
        str(root / "current"),
    ]
    assert found("db.b", "--catalog", "prod", *options) == ["db.b"]
    assert found("", "file:here/there", root / "current") == ["", "file:here/there", str(root / "current")]
    run = puffin("status", "db.nosuch", "db.a", "--catalog", "prod", *options)
    assert (run.code, [line.split()[1] for line in run.text.splitlines()[1:]]) == (1, ["db.nosuch", "db.a"])
    assert "1 of 2 tables failed: db.nosuch: " in run.stderr


def test_patterns_choose_tables_by_their_own_names(puffin: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    """Below a root and of a policy; a table that is left out is not read."""
    (root / "broken/_delta_log").mkdir(parents=True)
    (tmp_path / "policy.yaml").write_text("roots: [root]\n")

    def found(*options: object) -> list[str]:
        return [Path(each["table"]).name for each in puffin("status", *options, "--json").document["tables"]]

    for place in (("--root", root), ("--policy", tmp_path / "policy.yaml")):
        assert found(*place, "--include", "b*", "--include", "current", "--exclude", "broken") == [
            "bare",
            "behind",
            "current",
        ]
        assert found(*place, "--include", "B*") == []
        assert found(*place, "--exclude", "b*") == ["current"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "expected TABLE..., --catalog, --root or --policy"),
        (("db.t", "--policy", "p.yaml"), "--policy excludes TABLE..., --catalog"),
        (("db.t", "--catalog", "c", "--namespace", "n"), "expected either TABLE... or --namespace"),
        (("--root", "/", "--namespace", "n"), "--namespace needs --catalog"),
        (("--root", "/", "--catalog-property", "a=b"), "--catalog-property needs --catalog"),
    ],
)
def test_wrong_usage_is_refused(puffin: Callable[..., Any], options: tuple[str, ...], said: str) -> None:
    run = puffin("status", *options)
    assert (run.code, run.stdout) == (2, b"")
    assert said in run.stderr


def test_root_that_does_not_exist_is_an_error(puffin: Callable[..., Any], tmp_path: Path) -> None:
    run = puffin("status", "--root", tmp_path / "absent")
    assert (run.code, run.stderr) == (1, f"puffin: {tmp_path}/absent: no such directory\n")
    (tmp_path / "file").touch()
    run = puffin("status", "--root", tmp_path / "file")
    assert (run.code, run.stderr) == (1, f"puffin: {tmp_path}/file: expected a directory, found a file\n")
    assert puffin("status", "--root", tmp_path).text == "no tables\n"
    assert puffin("status", "--root", tmp_path, "--json").document == {"tables": []}


def test_root_that_does_not_exist_hides_no_other_table(puffin: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    places = ("--root", tmp_path / "absent", "--root", root / "current")
    said = f"puffin: 1 of 2 tables failed: {tmp_path}/absent: no such directory\n"
    run = puffin("status", *places)
    assert (run.code, run.stderr) == (1, said)
    assert [line.split()[:2] for line in run.text.splitlines()[1:]] == [
        ["0", str(tmp_path / "absent")],
        ["100", str(root / "current")],
    ]
    run = puffin("status", root / "current", *places[:2], "--json")
    assert (run.code, run.stderr) == (1, said)
    assert [each["error"] is None for each in run.document["tables"]] == [False, True]
    assert puffin("status", *places, "--root", "file:here/there").code == 2
    run = puffin("status", "--root", "none://x", "--root", root / "current", "--json")
    assert (run.code, [each["error"] is None for each in run.document["tables"]]) == (1, [False, True])
