"""
Many small tables that have changed a little: one call of ``puffin analyze`` for all, beside a call for each.

Each call is a process of its own, as a schedule would run it. All of them write statistics files and commit none, so
that every round finds the same tables. So little is there to read that nobody starts Spark.

Beside that, many tables that have not changed: how long a call takes for each, and whether its memory grows with them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from benchmarks.handmade import HandmadeTable, schema_of
from benchmarks.processes import in_fresh_process, peak_mib
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from puffin.errors import PuffinError
from puffin.tables.base import SnapshotSelector
from stats_jobs import Options, analyze
from stats_jobs.many import analyze_many

NAMES = (_TABLES, _CURRENT, _MEMORY) = ("incremental-tables", "incremental-current", "incremental-current-memory")

_FILES, _ROWS = 3, 1_000  # of a table's first snapshot; another file of so many rows is appended
_BAR, _CURRENT_BAR, _MEMORY_BAR = Bar(LOWER, 0.1), Bar(LOWER, 10), Bar(LOWER, 1.1)
_TIMES = 4  # so many times as many tables must not take more memory
_SNAPSHOTS, _COLUMNS, _PER_DIRECTORY = 5, 20, 200  # of the tables whose statistics are current


def measure(run: Run, results: Results) -> None:
    """Make the tables, and bring their statistics up to date."""
    if run.wants(_TABLES):
        _changed(run, results)
    if run.wants(_CURRENT) or run.wants(_MEMORY):
        _current(run, results)


def _changed(run: Run, results: Results) -> None:
    """Tables with statistics of their first snapshots: one call and many, in turn."""
    count = run.sizes.small_tables
    tables = _made(HOME / "data" / "small-tables", count)
    calls = {"one call": [tables], f"{count} calls": [[table] for table in tables]}
    seconds: dict[str, list[float]] = {what: [] for what in calls}
    for number in range(run.rounds + 1):
        for what, groups in calls.items():
            started = time.perf_counter()
            for group in groups:
                _analyze(group)
            taken = time.perf_counter() - started
            said = "to warm up" if number == 0 else f"round {number} of {run.rounds}"
            say(f"{_TABLES}: {what}: {taken:.2f} s ({said})")
            if number > 0:
                seconds[what].append(taken)
    one, each = (Sample(what, "s", tuple(values)) for what, values in seconds.items())
    results.rows.append(
        Row(_TABLES, f"{one.what} / {each.what}; {count} small tables, of which each was appended to", one, each, _BAR)
    )


def _current(run: Run, results: Results) -> None:
    """Tables whose statistics are current: a call for some, and one for all."""
    count = run.sizes.current_tables
    say(f"making {count} tables whose statistics are current")
    directory = HOME / "data" / "current-tables"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    _make_current_tables(directory, count)
    tables = sorted(str(table) for table in (directory / "lake").glob("*/*"))
    milliseconds, some, all_ = [], [], []
    for number in range(run.rounds):
        some.append(in_fresh_process(_call, tables[: count // _TIMES])[1])
        seconds, peak = in_fresh_process(_call, tables)
        all_.append(peak)
        milliseconds.append(seconds * 1000 / count)
        say(f"{_CURRENT}: {seconds:.2f} s, {peak:.0f} MiB (round {number + 1} of {run.rounds})")
    each = Sample("a table", "ms", tuple(milliseconds))
    results.rows.append(Row(_CURRENT, f"a call for {count} current tables: each", each, None, _CURRENT_BAR))
    one, other = Sample("all", "MiB", tuple(all_)), Sample("some", "MiB", tuple(some))
    results.rows.append(Row(_MEMORY, f"{count} current tables / {count // _TIMES}", one, other, _MEMORY_BAR))


def _make_current_tables(root: Path, count: int) -> None:
    """
    Make so many tables below ``root/lake``, half of them Delta tables and half Iceberg tables, with current statistics.

    They are copies of two tables with the same files, made of hard links.
    """
    rows = pa.table({f"c{number}": list(range(100)) for number in range(_COLUMNS)})
    delta, iceberg = root / "delta", root / "iceberg"
    catalog = load_catalog("made", type="sql", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/made")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", rows.schema)
    for _ in range(_SNAPSHOTS):
        write_deltalake(str(delta), rows, mode="append")
        table.append(rows)
    newest = Path(table.metadata_location.removeprefix("file://"))
    shutil.copytree(newest.parent.parent, iceberg, ignore=shutil.ignore_patterns("*.metadata.json"))
    text = newest.read_text().replace(str(newest.parent.parent), str(iceberg))
    (iceberg / "metadata" / "v1.metadata.json").write_text(text)
    for seed in (delta, iceberg):
        analyze(str(seed))
    for number in range(count):
        seed = delta if number % 2 else iceberg
        target = root / "lake" / f"n{number // _PER_DIRECTORY}" / f"{seed.name}{number}"
        shutil.copytree(seed, target, copy_function=os.link)


def _call(tables: Sequence[str]) -> tuple[float, float]:
    """The seconds that a call takes, and the most memory that its process has had, in MiB."""
    started = time.perf_counter()
    for table, outcome in analyze_many(tables):
        if isinstance(outcome, PuffinError) or not outcome.current:
            raise SystemExit(f"{table}: expected current statistics, found {outcome}")
    return time.perf_counter() - started, peak_mib()


def small_table(directory: Path, seed: int) -> Path:
    """Make a table of random rows, of two snapshots; returns its directory."""
    table = HandmadeTable(directory, schema_of({"id": "long", "name": "string", "value": "double"}))
    random = np.random.default_rng(seed)
    files = []
    for number in range(_FILES + 1):
        ids = random.integers(0, 1 << 40, _ROWS)
        columns = [ids, pa.array(ids % 100).cast(pa.string()), random.random(_ROWS)]
        files.append(table.write(f"{number}.parquet", columns))
    *first, last = files
    manifest = table.manifest(1, first)
    table.snapshot(1, [manifest])
    table.snapshot(2, [manifest, table.manifest(2, [last])], parent_id=1)
    table.finish()
    return directory


def _analyze(tables: Sequence[str]) -> None:
    command = [sys.executable, "-m", "puffin", "analyze", *tables, "--no-commit", "--json"]
    document = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    for report in document.get("tables", [document]):
        if (report["mode"], report["files-read"], report["session-seconds"]) != ("incremental", 1, 0):
            raise SystemExit(f"{report['table']}: expected one file to be read and no Spark, found {report}")


def _made(directory: Path, count: int) -> list[str]:
    say(f"making {count} small tables")
    shutil.rmtree(directory, ignore_errors=True)
    tables = [str(small_table(directory / f"table-{number:02}", number)) for number in range(count)]
    first = Options(mode="full", selector=SnapshotSelector(snapshot_id=1))
    for table, outcome in analyze_many(tables, first):
        if isinstance(outcome, PuffinError):
            raise SystemExit(f"{table}: {outcome}")
    return tables
