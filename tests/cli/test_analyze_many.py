"""``puffin analyze`` of several tables: which it takes, what it reports for each, and its exit code."""

import contextlib
import os
import subprocess
import sys
from functools import partial

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import stats_jobs.many
from puffin.format import ROW_COUNTS_V1
from puffin.statistics.private_state.manifest import BlobKey, Manifest, encode
from tests.table_directory import publish

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": pa.array([1, 1, 2], pa.int64())})
SOUND = ["orders", "orders_old", "users"]


@pytest.fixture
def current_table(tmp_path, table_document):
    """Make a table whose statistics are current, so that nothing needs computing, and return its path."""

    def make(name):
        root = tmp_path / name
        blobs = [
            {
                "type": "apache-datasketches-theta-v1",
                "snapshot-id": 10,
                "sequence-number": 1,
                "fields": [field_id],
                "properties": {"ndv": "3", "puffin-sidecar.type": "long", "puffin-sidecar.reading": "1"},
            }
            for field_id in (1, 2, 3)
        ]
        entry = {
            "snapshot-id": 10,
            "statistics-path": str(tmp_path / f"{name}.stats"),
            "file-size-in-bytes": 200,
            "file-footer-size-in-bytes": 100,
            "blob-metadata": blobs,
        }
        (tmp_path / f"{name}.stats").write_bytes(bytes(200))  # of which nothing but the size is looked at
        document = table_document(root, statistics=[entry])
        publish(root, document)
        (root / "_puffin_sidecar").mkdir()
        omitted = frozenset(BlobKey(ROW_COUNTS_V1, field_id, 10) for field_id in (1, 2, 3))
        manifest = Manifest(document["table-uuid"], f"{name}.stats", 200, {}, omitted)
        (root / "_puffin_sidecar" / f"{name}.stats").write_bytes(encode(manifest))
        return str(root)

    return make


@pytest.fixture
def tables(current_table):
    """The paths of three tables, as a shell expands them."""
    return [f"{current_table(name)}/" for name in SOUND]


@pytest.fixture
def catalog(tmp_path):
    """A catalog of tables whose snapshots hold no files, so that analyzing them needs no Spark."""
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    for name in SOUND:
        catalog.create_table(f"db.{name}", ROWS.schema)
        touch(catalog, name)
    return catalog


@pytest.fixture
def analyze(puffin, catalog):
    """Run ``puffin analyze`` with the catalog."""
    properties = ("--catalog-property", f"uri={catalog.properties['uri']}", "--catalog-property", "type=sql")
    return partial(puffin, "analyze", "--catalog", "prod", *properties)


def touch(catalog, name):
    """Give a table another snapshot."""
    table = catalog.load_table(f"db.{name}")
    table.append(ROWS)
    table.delete()


def names(run):
    assert run.code == 0, run.stderr
    return [table["table"].rstrip("/").rpartition("/")[2].removeprefix("db.") for table in run.document["tables"]]


# --- which tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "taken"),
    [
        ((), SOUND),
        (("--include", "orders*"), ["orders", "orders_old"]),
        (("--include", "orders", "--include", "u?ers"), ["orders", "users"]),
        (("--exclude", "*_old"), ["orders", "users"]),
        (("--include", "orders*", "--exclude", "*[!s]"), ["orders"]),
        (("--include", "ORDERS"), []),
        (("--include", "db.*"), []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_patterns_match_table_names_without_namespace_or_directory(puffin, analyze, tables, args, taken):
    assert names(puffin("analyze", *tables, *args, "--json")) == taken
    assert names(analyze("--namespace", "db", *args, "--json")) == taken


def test_only_stale_takes_tables_whose_statistics_are_not_current(analyze, catalog):
    """A table is stale until it is analyzed, and again after another snapshot."""
    stale = partial(analyze, "--namespace", "db", "--only-stale", "--json")
    first = analyze("db.orders", "--json").document
    assert first["committed"]
    assert names(stale()) == ["orders_old", "users"]
    assert names(stale()) == []
    touch(catalog, "users")
    again = stale()
    assert names(again) == ["users"]
    assert again.document["tables"][0]["committed"]


def test_only_stale_checks_the_requested_columns(analyze):
    analyze("db.orders", "--columns", "a")
    stale = partial(analyze, "db.orders", "--only-stale", "--dry-run", "--json")
    assert names(stale("--columns", "a")) == []
    assert names(stale("--columns", "a,b")) == ["orders"]
    assert names(stale()) == ["orders"]


def test_table_named_twice_is_analyzed_once(puffin, tables):
    assert names(puffin("analyze", tables[0], tables[1], tables[0], "--json")) == ["orders", "orders_old"]


# --- what is said -------------------------------------------------------------------------------------------------


def test_one_named_table_gives_an_object_and_a_selection_gives_a_list(puffin, tables):
    """A selection gives a list even when it selects one table or none."""
    assert puffin("analyze", tables[0], "--json").document["table"] == tables[0]
    assert names(puffin("analyze", tables[0], "--include", "*", "--json")) == ["orders"]
    assert puffin("analyze", tables[0], "--only-stale", "--json").document == {"tables": []}


def test_failed_tables_keep_their_place_and_fail_the_command(puffin, tables, tmp_path):
    absent = str(tmp_path / "absent")
    run = puffin("analyze", tables[2], absent, tables[0], "--json")
    assert run.code == 1
    assert [t["table"] for t in run.document["tables"]] == [tables[2], absent, tables[0]]
    assert run.document["tables"][1] == {"table": absent, "error": f"{absent}: no such file or directory"}
    assert all(run.document["tables"][done]["statistics-file"] for done in (0, 2))
    assert run.stderr == f"puffin: 1 of 3 tables failed: {absent}: no such file or directory\n"


def test_text_has_a_block_for_each_table_and_a_summary_line(puffin, tables, tmp_path):
    run = puffin("analyze", tables[0], str(tmp_path / "absent"), tables[1])
    lines = run.text.splitlines()
    heads = [n for n, line in enumerate(lines) if line.startswith(str(tmp_path))]
    assert [lines[n].split(" ")[0].rstrip(":") for n in heads] == [tables[0], str(tmp_path / "absent"), tables[1]]
    assert lines[heads[1] - 1].startswith("statistics are current, nothing was read")
    assert lines[-1].startswith("3 tables in ")
    assert lines[-1].endswith(" s: 2 current, 1 failed")
    said = f"puffin: 1 of 3 tables failed: {tmp_path / 'absent'}: no such file or directory\n"
    assert (run.code, run.stderr) == (1, said)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "3 committed"),
        (("--dry-run",), "3 computed only"),
        (("--no-commit",), "3 written only"),
        (("--only-stale", "--include", "orders"), "1 committed"),
        (("--include", "nothing"), "nothing to do"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_summary_line_counts_how_tables_ended(analyze, args, says):
    assert analyze("--namespace", "db", *args).text.splitlines()[-1].endswith(f" s: {says}")


def test_summary_counts_skipped_tables_and_tables_without_a_snapshot(analyze, catalog):
    analyze("db.orders")
    catalog.create_table("db.new", ROWS.schema)
    last = analyze("db.orders", "db.new", "--only-stale").text.splitlines()[-1]
    assert last.startswith("2 tables in ")
    assert last.endswith(" s: 1 without a snapshot, 1 skipped as up to date")


# --- how it ends --------------------------------------------------------------------------------------------------


def test_internal_error_is_reported_after_the_other_tables(puffin, tables, monkeypatch):
    """The error belongs to no table, and must not hide the reports of others."""
    real = stats_jobs.many.analyze

    def analyze(table, *args):
        if table.name == tables[0]:
            raise ZeroDivisionError("oops")
        return real(table, *args)

    monkeypatch.setattr(stats_jobs.many, "analyze", analyze)
    run = puffin("analyze", *tables)
    assert run.code == 1
    assert [line.split(" ")[0] for line in run.text.splitlines() if " (iceberg" in line] == tables[1:]
    (line,) = run.stderr.splitlines()
    assert "internal error" in line
    assert "oops" in line


def test_debug_adds_the_traceback_of_each_failure(puffin, tables, tmp_path):
    run = puffin("analyze", *tables, str(tmp_path / "absent"), "--debug")
    assert "Traceback" in run.stderr
    assert "\npuffin: 1 of 4 tables failed: " in run.stderr


def test_progress_bars_appear_only_on_a_terminal(tables):
    """Bars go to stderr; redirected output has none."""
    text, drawn = on_a_terminal("analyze", *tables, stdout=subprocess.PIPE)
    assert "━" in drawn
    assert " (iceberg, snapshot 10)" not in drawn
    assert "\x1b" not in text
    assert text.count(" (iceberg, snapshot 10)\n") == len(tables)


def test_text_and_progress_bars_do_not_mix_on_a_terminal(tables):
    """Every line of text begins where a bar was erased, or in the first column."""
    _, drawn = on_a_terminal("analyze", *tables, stdout=None)
    assert drawn.count(" (iceberg, snapshot 10)\r\n") == len(tables)
    for line in drawn.split("\r\n"):
        if " (iceberg, snapshot 10)" in line:
            assert line.split("\x1b[2K")[-1].startswith(tables[0][0]), line


def on_a_terminal(*args, stdout):
    """
    Return what a command writes to its stdout when that is not the terminal, and to the terminal that is its stderr.
    """
    terminal, stderr = os.openpty()
    command = [sys.executable, "-m", "puffin", *args]
    with subprocess.Popen(
        command,
        stdout=stderr if stdout is None else stdout,
        stderr=stderr,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
    ) as process:
        os.close(stderr)
        drawn = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while chunk := os.read(terminal, 65536):
                drawn += chunk
        os.close(terminal)
        text = b"" if process.stdout is None else process.stdout.read()
    assert process.returncode == 0, drawn
    return text.decode(), drawn.decode()
