"""
Asking an index: a table of 658 files with a random key, and made tables of 10,000 and of a million files.

Beside ours stand the plans of pyiceberg and of Iceberg's Java library, which have the bounds alone.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.indexed_tables import keyed_table, made_table
from benchmarks.processes import in_fresh_process, peak_mib
from benchmarks.reads import reads_counted
from benchmarks.results import HIGHER, LOWER, Bar, Results, Row, Sample
from benchmarks.run import Run, say

if TYPE_CHECKING:
    from pyiceberg.table import StaticTable

    from puffin import Lookup
    from puffin.planning.file_plan import FilePlan

NAMES = (_FILES, _SCAN, _PLAN, _BYTES, _MANY, _MEMORY) = (
    "index-files",
    "index-scan",
    "index-plan",
    "index-plan-bytes",
    "million-plan",
    "million-plan-memory",
)


def measure(run: Run, results: Results) -> None:
    """Make the tables that are wanted, and ask them."""
    if run.wants(_FILES) or run.wants(_SCAN):
        _keyed(run, results)
    if run.wants(_PLAN) or run.wants(_BYTES):
        _made(run, results)
    if run.wants(_MANY) or run.wants(_MEMORY):
        _million(run, results)


# --- a table of 658 files with a random key ------------------------------------------------------------------------


def _keyed(run: Run, results: Results) -> None:
    from pyiceberg.table import StaticTable

    from puffin import Lookup

    files = run.sizes.keyed_files
    directory, keys = keyed_table(files)
    if run.wants(_FILES):
        for fpp in (0.001, 0.01):
            _files_left(directory, keys, fpp, results)
    lookup = Lookup(ttl_seconds=3600)
    if not run.wants(_SCAN):
        return
    table = StaticTable.from_metadata(str(directory / "metadata" / "v1.metadata.json"))
    seconds: dict[str, list[float]] = {name: [] for name in ("DuckDB", "ours, DuckDB", "pyiceberg", "ours, pyiceberg")}
    for key in keys[: run.rounds + 1].tolist():
        where = f"uid = {key}"
        for name, read in _readers(lookup, directory, table, where).items():
            started = time.perf_counter()
            rows = read()
            seconds[name].append(time.perf_counter() - started)
            if rows != 1:
                raise SystemExit(f"{name}: expected 1 row with {where}, found {rows}")
    made = {name: Sample(name, "s", tuple(values[1:])) for name, values in seconds.items()}
    for name in ("DuckDB", "pyiceberg"):
        title = f"{name} reads the rows of a key from all files / from those that we plan; {files} files"
        results.rows.append(Row(_SCAN, title, made[f"ours, {name}"], made[name], Bar(HIGHER, 20)))


def _readers(lookup: Lookup, directory: Path, table: StaticTable, where: str) -> dict[str, Callable[[], int]]:
    """What counts the rows of a key, by name."""
    every_file = sorted(str(path) for path in (directory / "data").glob("*.parquet"))
    scan = table.scan(row_filter=where)

    def plan() -> FilePlan:
        return lookup.plan(str(directory), where=where)

    def of_duckdb(files: Sequence[str]) -> int:
        return len(duckdb.execute(f"SELECT * FROM read_parquet({files!r}) WHERE {where}").fetchall())

    return {
        "DuckDB": lambda: of_duckdb(every_file),
        "ours, DuckDB": lambda: of_duckdb([task.data_file.file_path.removeprefix("file://") for task in plan().files]),
        "pyiceberg": lambda: len(scan.to_arrow()),
        "ours, pyiceberg": lambda: len(plan().for_pyiceberg(scan).to_arrow()),
    }


def _files_left(directory: Path, keys: Any, fpp: float, results: Results) -> None:
    from puffin import Lookup
    from stats_jobs.index import index
    from stats_jobs.options import IndexOptions

    say(f"indexing {directory.name} at {fpp:g}")
    index(str(directory), IndexOptions(columns=("uid",), fpp=fpp, driver_bytes=1 << 62))
    lookup = Lookup(ttl_seconds=3600)
    present, absent = (
        [lookup.plan(str(directory), where=f"uid = {key}") for key in asked] for asked in (keys, keys + 1)
    )
    total = len(present[0].all_files)
    left = {
        "bounds leave": (statistics.mean(total - plan.pruned.bounds for plan in present), Bar(LOWER)),
        f"an index at {fpp:g} leaves": (_mean_left(present), Bar(LOWER, 2 if fpp < 0.01 else None)),
        f"an index at {fpp:g} leaves of an absent key": (_mean_left(absent), Bar(LOWER, total / 100)),
    }
    for what, (value, bar) in left.items():
        title = f"a key in one of {total} files: files that {what}, mean of {len(keys)} keys"
        results.rows.append(Row(_FILES, title, Sample("ours", "files", (value,)), None, bar))


def _mean_left(plans: Any) -> float:
    return statistics.mean(sum(1 for _ in plan.files) for plan in plans)


# --- tables of files that do not exist -----------------------------------------------------------------------------


def _made(run: Run, results: Results) -> None:
    directory = made_table(run.sizes.manifest_entries)
    milliseconds, again, size = in_fresh_process(_ask, str(directory), run.rounds)
    files = f"{run.sizes.manifest_entries:,} files"
    if run.wants(_PLAN):
        title = f"warm Lookup.plan of a key that was not asked before; {files}"
        results.rows.append(Row(_PLAN, title, Sample("ours", "ms", milliseconds), None, Bar(LOWER, 5, 1)))
        title = f"the same of a key that was asked before; {files}"
        results.rows.append(Row(_PLAN, title, Sample("ours", "µs", again), None, Bar(LOWER)))
        others = {"pyiceberg": _plan_pyiceberg(directory), "Iceberg's Java library": _plan_java(directory)}
        for name, seconds in others.items():
            title = f"{name} plans the same filter, which reads the manifests each time; {files}"
            results.rows.append(Row(_PLAN, title, Sample(name, "s", tuple(seconds)), None, Bar(LOWER)))
    if run.wants(_BYTES):
        title = f"bytes of the index that are read for a key; {files}"
        results.rows.append(Row(_BYTES, title, Sample("ours", "B", (size,)), None, Bar(LOWER, 1_000_000, 400_000)))


def _million(run: Run, results: Results) -> None:
    manifests = run.sizes.million_manifests
    directory = made_table(run.sizes.manifest_entries, manifests)
    milliseconds, _, _ = in_fresh_process(_ask, str(directory), run.rounds)
    files = f"{run.sizes.manifest_entries * manifests:,} files"
    peak = in_fresh_process(_peak, str(directory))
    if run.wants(_MANY):
        title = f"warm Lookup.plan of a key that was not asked before; {files}"
        results.rows.append(Row(_MANY, title, Sample("ours", "ms", milliseconds), None, Bar(LOWER, 2000, 200)))
    if run.wants(_MEMORY):
        title = f"peak memory of a warm planner; {files}"
        results.rows.append(Row(_MEMORY, title, Sample("ours", "MiB", (peak,)), None, Bar(LOWER, 4096, 1024)))


def _ask(directory: str, rounds: int) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Milliseconds of new keys and microseconds of the last one again, by round; bytes of the index for a key."""
    from puffin import Lookup

    lookup = Lookup(ttl_seconds=3600)
    plan = lookup.plan(directory, where="id = 1")
    if plan.warnings or plan.index.files_covered != len(plan.all_files):
        raise SystemExit(f"{directory}: expected an index of all files: {plan.index}, {plan.warnings}")
    new, again = [], []
    keys = itertools.count(1000)
    for _ in range(rounds):
        taken = []
        for key in itertools.islice(keys, 50):
            started = time.perf_counter()
            lookup.plan(directory, where=f"id = {key}")
            taken.append(time.perf_counter() - started)
        new.append(statistics.median(taken) * 1e3)
        started = time.perf_counter()
        for _ in range(1000):
            lookup.plan(directory, where=f"id = {key}")
        again.append((time.perf_counter() - started) * 1e3)
    lookup = Lookup(ttl_seconds=3600)
    lookup.plan(directory, where="id = 1")
    with reads_counted() as opened:
        lookup.plan(directory, where="id = 77777")
    return tuple(new), tuple(again), sum(source.bytes_read for source in opened)


def _peak(directory: str) -> float:
    from puffin import Lookup

    Lookup(ttl_seconds=3600).plan(directory, where="id = 1")
    return peak_mib()


def _plan_pyiceberg(directory: Path) -> list[float]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(directory / "metadata" / "v1.metadata.json"))
    return _timed(lambda: len(list(table.scan(row_filter="id = 1000").plan_files())))


def _plan_java(directory: Path) -> list[float]:
    from benchmarks.session import spark_session

    with spark_session(2) as spark:
        jvm: Any = spark._jvm
        table = jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration()).load(str(directory))
        filter_ = jvm.org.apache.iceberg.expressions.Expressions.equal("id", 1000)
        sized = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables
        return _timed(lambda: sized.size(table.newScan().filter(filter_).planFiles()))


def _timed(work: Any) -> list[float]:
    work()
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return seconds
