"""``puffin index`` and ``puffin plan``: documents, lines for people, exit codes."""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from stats_jobs.run import Runner

Command = Callable[..., Any]

FILES, ROWS = 4, 100
PLAN_KEYS = [
    *("table", "format", "snapshot-id", "where", "files-total", "files-matched", "bytes-total", "bytes-matched"),
    *("pruned", "index", "warnings", "files"),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table partitioned by ``p``; all files have the same bounds of ``k``, and each key is in one of them."""
    path = tmp_path / "table"
    keys = np.random.default_rng(1).permutation(np.arange(1, FILES * ROWS + 1))
    for number in range(FILES):
        of_file = [0, 10**6, *(keys[number * ROWS : (number + 1) * ROWS] * 100).tolist()]
        rows = pa.table({"k": of_file, "p": [f"part {number % 2}"] * len(of_file), "b": [True] * len(of_file)})
        write_deltalake(path, rows, partition_by=["p"], mode="append")
    return path


def key_of(number: int) -> int:
    """A key of the file with this number."""
    return int(np.random.default_rng(1).permutation(np.arange(1, FILES * ROWS + 1))[number * ROWS] * 100)


def test_plan_has_the_document_of_the_contract(puffin: Command, table: Path) -> None:
    puffin("index", table, "--columns", "k")
    where = f"p = 'part 0' and k = {key_of(2)}"
    document = puffin("plan", table, "--where", where, "--json").document
    assert list(document) == PLAN_KEYS
    assert (document["format"], document["snapshot-id"], document["where"]) == ("delta", FILES - 1, where)
    assert (document["files-total"], document["files-matched"]) == (FILES, 1)
    assert document["pruned"] == {"partition": 2, "bounds": 0, "index": 1}
    assert document["index"] == {"columns": ["k"], "files-covered": FILES}
    assert document["bytes-matched"] < document["bytes-total"]
    (file,) = document["files"]
    assert list(file) == [
        *("path", "format", "record-count", "file-size-in-bytes", "spec-id", "partition", "delete-files"),
    ]
    assert (file["format"], file["record-count"], file["partition"]) == ("PARQUET", ROWS + 2, {"p": "part 0"})
    assert Path(file["path"].removeprefix("file://")).exists()


def test_plan_without_a_filter_has_all_files(puffin: Command, table: Path) -> None:
    document = puffin("plan", table, "--json").document
    assert (document["files-matched"], document["where"]) == (FILES, None)
    assert document["pruned"] == {"partition": 0, "bounds": 0, "index": 0}


def test_plan_explains_what_each_test_excludes(puffin: Command, table: Path) -> None:
    puffin("index", table, "--columns", "k")
    where = f"p = 'part 1' and k = {key_of(2)}"
    run = puffin("plan", table, "--where", where, "--explain", "--json")
    assert run.document["explain"] == [
        {"predicate": "p = 'part 1'", "excludes": {"partition": 2, "bounds": 2, "index": 0}},
        {"predicate": f"k = {key_of(2)}", "excludes": {"partition": 0, "bounds": 0, "index": FILES - 1}},
    ]
    text = puffin("plan", table, "--where", where, "--explain").text
    assert "0 of 4 files" in text
    assert "excluded by partition 2, by bounds 0, by index 2" in text


def test_plan_for_a_value_that_the_type_lacks_names_bounds_and_no_partition(puffin: Command, table: Path) -> None:
    for where in ("k = 1.5", f"k = 1.5 and p = 'part 0' and k = {key_of(2)}"):
        document = puffin("plan", table, "--where", where, "--json").document
        assert document["pruned"]["partition"] == (2 if "part" in where else 0)
        assert sum(document["pruned"].values()) == FILES
    text = puffin("plan", table, "--where", "k = 99999999999999999999", "--explain").text
    assert "excluded by partition 0, by bounds 4, by index 0\nno row can match this filter" in text
    assert "predicate" not in text


def test_plan_leaves_the_index_out_if_asked_to(puffin: Command, table: Path) -> None:
    puffin("index", table, "--columns", "k")
    where = f"k = {key_of(1)}"
    document = puffin("plan", table, "--where", where, "--no-index", "--json").document
    assert (document["files-matched"], document["index"]) == (FILES, {"columns": [], "files-covered": 0})


def test_plan_of_an_older_snapshot_uses_the_same_filters(puffin: Command, table: Path) -> None:
    puffin("index", table, "--columns", "k")
    where = f"k = {key_of(0)}"
    document = puffin("plan", table, "--where", where, "--snapshot-id", 1, "--json").document
    assert (document["files-total"], document["files-matched"], document["pruned"]["index"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--where", "nope = 1"), 1, "nope"),
        (("--where", "k = 'x'"), 2, "filter \"k = 'x'\""),
        (("--where", "k ="), 2, "expected tests such as"),
        (("--snapshot-id", "77"), 1, "77"),
    ],
)
def test_plan_says_in_one_line_what_is_wrong(
    puffin: Command, table: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    run = puffin("plan", table, *arguments)
    assert (run.code, run.stdout) == (code, b"")
    assert said in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "--advise"),
        (("--columns", "nope"), 1, "nope"),
        (("--columns", "b"), 1, "boolean"),
        (("--columns", "k", "--fpp", "0.9"), 2, "fpp"),
        (("--columns", "k,s", "--drop", "k"), 2, "columns and drop: expected different columns, found k in both"),
    ],
)
def test_index_says_in_one_line_what_is_wrong(
    puffin: Command, table: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    run = puffin("index", table, *arguments)
    assert (run.code, run.stdout) == (code, b"")
    assert said in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert not (table / "_puffin_sidecar").exists()


@pytest.mark.parametrize(("given", "bytes_"), [("0", 0), ("1000", 1000), ("256MiB", 2**28), ("1.5 GB", 1_500_000_000)])
def test_driver_bytes_are_a_number_or_as_in_a_policy(
    puffin: Command, table: Path, monkeypatch: pytest.MonkeyPatch, given: str, bytes_: int
) -> None:
    seen: list[int] = []
    job = importlib.import_module("stats_jobs.index")  # the name is the function's too
    monkeypatch.setattr(job, "Runner", lambda *args: seen.append(args[2]) or Runner(*args))
    assert puffin("index", table, "--columns", "p", "--driver-bytes", given).code == 0
    assert seen == [bytes_]


@pytest.mark.parametrize("given", ["-1", "much", "", "256 mib", "9" * 5000])
def test_other_driver_bytes_are_a_usage_error(puffin: Command, table: Path, given: str) -> None:
    run = puffin("index", table, "--driver-bytes", given)
    assert run.code == 2
    assert "expected a number of bytes, or a size such as 500 GiB or 20 MB" in " ".join(run.stderr.split())


def test_index_tells_what_it_did(puffin: Command, table: Path) -> None:
    lines = puffin("index", table, "--columns", "k").text.splitlines()
    assert lines[1].split() == ["column", "type", "fpp", "size"]
    assert "4 of 4 files are indexed, in 1 segment" in lines
    assert lines[-1] == "committed"
    assert puffin("index", table).text.splitlines()[-1] == "current"
    dry = puffin("index", table, "--columns", "p", "--dry-run")
    assert dry.text.splitlines()[-1] == "current"  # a partition column needs no filters
    assert [c["column"] for c in puffin("index", table, "--json").document["columns"]] == ["k"]


def test_index_of_a_namespace_skips_tables_that_are_up_to_date(puffin: Command, tmp_path: Path) -> None:
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("sales")
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    in_catalog = [
        *("--catalog", "prod"),
        *(part for key, value in properties.items() for part in ("--catalog-property", f"{key}={value}")),
    ]
    for name in ("orders", "users"):
        rows = pa.table({"id": pa.array(range(10), pa.int64())})
        catalog.create_table(f"sales.{name}", rows.schema).append(rows)
    catalog.create_table("sales.empty", pa.schema([("id", pa.int64())]))
    of_all = ("index", *in_catalog, "--namespace", "sales")
    run = puffin(*of_all, "--columns", "id", "--json")
    assert {t["table"]: t["files-indexed"] for t in run.document["tables"]} == {
        "sales.empty": 0, "sales.orders": 1, "sales.users": 1,
    }  # fmt: skip
    catalog.load_table("sales.users").append(pa.table({"id": pa.array([77], pa.int64())}))
    run = puffin(*of_all, "--only-stale", "--json")
    assert [(t["table"], t["files-read"]) for t in run.document["tables"]] == [("sales.users", 1)]
    document = puffin("plan", "sales.users", *in_catalog, "--where", "id = 77", "--json").document
    assert (document["table"], document["files-matched"]) == ("sales.users", 1)


def test_index_goes_on_after_a_table_that_fails(puffin: Command, table: Path, tmp_path: Path) -> None:
    run = puffin("index", tmp_path / "missing", table, "--columns", "k", "--json")
    assert run.code == 1
    missing, indexed = run.document["tables"]
    assert "no such file" in missing["error"]
    assert indexed["files-indexed"] == FILES


@pytest.mark.parametrize(
    "arguments", [("plan", "{table}", "--where", "k = 1"), ("ndv", "n.t", "--catalog", "c")], ids=["filter", "catalog"]
)
def test_configuration_that_pyiceberg_cannot_read_is_named(
    table: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """A process of its own, because pyiceberg reads it once, while its modules are imported."""
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  c: {uri: x}\n")
    command = [sys.executable, "-m", "puffin", *(argument.format(table=table) for argument in arguments)]
    environment = {**os.environ, "PYICEBERG_HOME": str(tmp_path)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (1, "")
    said = r"puffin: pyiceberg's configuration \(\.pyiceberg\.yaml, .*\) cannot be read: line 2: .* flow mapping .*\n"
    assert re.fullmatch(said, run.stderr)


def test_index_says_that_no_column_is_left(puffin: Command, table: Path) -> None:
    puffin("index", table, "--columns", "k")
    _, *said = puffin("index", table, "--drop", "k").stdout.decode().splitlines()
    assert said == ["no column is indexed", "committed"]


def test_index_says_that_a_column_to_drop_has_none(puffin: Command, table: Path) -> None:
    puffin("index", table, "--columns", "k")
    run = puffin("index", table, "--drop", "p")
    assert (run.code, run.stdout.decode().splitlines()[-2:]) == (0, ["nothing to drop: no index of p", "current"])
    assert b"nothing to drop" not in puffin("index", table, "--drop", "k", "--dry-run").stdout
