"""
Asking an index: a table of 658 files with a random key, and made tables of 10,000 and of a million files.

The files of the made tables do not exist: their manifests and the filters of their index are written directly. Beside
ours stand the plans of pyiceberg and of Iceberg's Java library, which have the bounds alone.
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from benchmarks.handmade import HandmadeTable, schema_of
from benchmarks.processes import in_fresh_process, peak_mib
from benchmarks.reads import reads_counted
from benchmarks.results import HIGHER, LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say

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

_KEYED_FILES, _KEYED_ROWS = 658, 20_000
_ENTRIES = 10_000  # files in a manifest
_VALUES, _FEW_VALUES = 20_000, 500  # of each file that does not exist; few of a million files
_ASKED = 200  # keys


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

    files = _KEYED_FILES if run.sizes.full else 50
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


def keyed_table(files: int) -> tuple[Path, Any]:
    """An indexed table whose key is random, and some keys that it has; all keys are even."""
    from stats_jobs.index import index
    from stats_jobs.options import IndexOptions

    directory = HOME / "data" / f"index-keyed-{files}"
    keys = np.random.default_rng(3).permutation(files * _KEYED_ROWS).astype(np.int64) * 2
    if not (directory / "metadata" / "version-hint.text").exists():
        shutil.rmtree(directory, ignore_errors=True)
        table = HandmadeTable(directory, schema_of({"uid": "long", "amount": "long"}))
        made = []
        for number in range(files):
            uid = keys[number * _KEYED_ROWS : (number + 1) * _KEYED_ROWS]
            bounds = {"lower_bounds": {1: _bytes(uid.min())}, "upper_bounds": {1: _bytes(uid.max())}}
            made.append(table.write(f"{number:05}.parquet", [uid, uid // 3], **bounds))
        table.snapshot(1, [table.manifest(1, made)])
        table.finish()
    say(f"indexing {files} files")
    index(str(directory), IndexOptions(columns=("uid",), driver_bytes=1 << 62))
    return directory, np.random.default_rng(4).choice(keys, _ASKED)


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
    manifests = 100 if run.sizes.full else 2
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


def made_table(entries: int, manifests: int = 1) -> Path:
    """An indexed table whose files' bounds all span every key."""
    directory = HOME / "data" / f"index-made-{entries}-{manifests}"
    done = directory / "done"
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        table = HandmadeTable(directory, schema_of({"id": "long"}))
        written, paths = [], []
        for number in range(manifests):
            say(f"making manifest {number + 1} of {manifests}, of {entries} files")
            made = [f"file://{table.data}/{number:05}-{entry:05}-0f2c9a4be17d.parquet" for entry in range(entries)]
            bounds: dict[str, Any] = {"lower_bounds": {1: _bytes(0)}, "upper_bounds": {1: _bytes(2**62)}}
            rows, size = 1_000_000, 1 << 26
            counts: dict[str, Any] = {"value_counts": {1: rows}, "null_value_counts": {1: 0}}
            files = [
                table.content_file(path, record_count=rows, file_size_in_bytes=size, **counts, **bounds)
                for path in made
            ]
            written.append(table.manifest(1, files))
            paths += made
        table.snapshot(1, written)
        table.finish()
        _index_of(directory, paths, _VALUES if manifests == 1 else _FEW_VALUES)
        done.write_text(json.dumps({"files": len(paths)}))
    return directory


def _index_of(directory: Path, paths: list[str], values: int) -> None:
    """Publish an index with a filter of so many random values for each path."""
    from puffin.index.bloom import BloomFilterBuilder
    from puffin.index.manifest import IndexManifest, commit
    from puffin.index.segment import NewFilters, SegmentPlan, write_segment
    from puffin.index.upkeep import IndexHome
    from puffin.load import load_table

    opened = load_table(str(directory)).open()
    home = IndexHome.of(opened)
    (column,) = opened.state.columns
    key = opened.state.key_of(column)
    plan = SegmentPlan(column.field_id, key, column.type, None, 0.01)
    random = np.random.default_rng(5)
    filters = {}
    for number, path in enumerate(paths):
        if number % _ENTRIES == 0:
            say(f"making filters of {number:,} of {len(paths):,} files")
        builder = BloomFilterBuilder(values, 0.01)
        builder.update([random.integers(0, 2**64, values, np.uint64)])
        filters[path] = builder.compact().folded(0.01)
    segment = write_segment(plan, NewFilters.by_size(filters), home.uri_of, home.store)
    commit(IndexManifest(0, opened.state.uuid, {key: 0.01}, (segment,)), home.directory, home.store)


def _bytes(value: Any) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)
