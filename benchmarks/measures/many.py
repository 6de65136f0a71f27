"""
Many small tables that have changed a little: one call of ``puffin analyze`` for all, beside a call for each.

Each call is a process of its own, as a schedule would run it. All of them write statistics files and commit none, so
that every round finds the same tables. So little is there to read that nobody starts Spark.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.handmade import HandmadeTable
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from puffin.errors import PuffinError
from puffin.tables.base import SnapshotSelector
from stats_jobs import Options
from stats_jobs.many import analyze_many

NAMES = (_TABLES,) = ("incremental-tables",)

_FILES, _ROWS = 3, 1_000  # of a table's first snapshot; another file of so many rows is appended
_BAR = Bar(LOWER, 0.1)
_FIELDS = (("id", "long", pa.int64()), ("name", "string", pa.string()), ("value", "double", pa.float64()))
_SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": field_id, "name": name, "required": False, "type": type_}
        for field_id, (name, type_, _) in enumerate(_FIELDS, start=1)
    ],
}
_ARROW_SCHEMA = pa.schema(
    [
        pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})
        for field_id, (name, _, type_) in enumerate(_FIELDS, start=1)
    ]
)


def measure(run: Run, results: Results) -> None:
    """Make the tables with statistics of their first snapshots, and bring them up to date in both ways in turn."""
    if not run.wants(_TABLES, heavy=True):
        return
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


def small_table(directory: Path, seed: int) -> Path:
    """Make a table of random rows, of two snapshots; returns its directory."""
    table = HandmadeTable(directory, _SCHEMA)
    random = np.random.default_rng(seed)
    files = []
    for number in range(_FILES + 1):
        path = table.data / f"{number}.parquet"
        ids = random.integers(0, 1 << 40, _ROWS)
        columns = [pa.array(ids), pa.array(ids % 100).cast(pa.string()), pa.array(random.random(_ROWS))]
        pq.write_table(pa.table(columns, schema=_ARROW_SCHEMA), path)
        files.append(table.parquet_file(path))
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
