"""
Building an index: beside the statistics of the same column, in one pass with them, and after a hundredth of the files.

The table ``events`` is read as pyarrow wrote it, in this process. The one that grows has many files that are hard links
to a few, so that it takes no room on disk.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, convert_to_deltalake

from benchmarks.events import stage
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from puffin.index.bloom import BloomFilterBuilder
from puffin.index.home import IndexHome
from puffin.index.manifest import IndexManifest, commit
from puffin.load import load_table
from stats_jobs import Options, analyze
from stats_jobs.index import index
from stats_jobs.options import IndexOptions

NAMES = (_BUILD, _BESIDE, _APPEND, _COMPACTION, _SIZE) = (
    "index-build",
    "index-beside",
    "index-append",
    "index-compaction",
    "index-size",
)

_COLUMN = "id"
_HERE = 1 << 62  # bytes that are read without Spark
_FILES, _DISTINCT_FILES = 1_000, 10
_SIZES = 300  # counts of distinct values that are drawn


def measure(run: Run, results: Results) -> None:
    """Build indexes."""
    if run.wants(_BUILD) or run.wants(_BESIDE):
        _builds(run, results)
    if run.wants(_APPEND) or run.wants(_COMPACTION):
        _catches_up(run, results)
    if run.wants(_SIZE):
        _sizes(results)


def _builds(run: Run, results: Results) -> None:
    directory = HOME / "data" / f"index-events-{run.sizes.rows}"
    if not (directory / "_delta_log").exists():
        shutil.rmtree(directory, ignore_errors=True)
        list(stage(directory, run.sizes.rows))
        convert_to_deltalake(directory)
    table = str(directory)
    alone = Options(columns=(_COLUMN,), mode="full", index=False, driver_bytes=_HERE)
    every = dataclasses.replace(alone, columns=None)
    seconds: dict[str, list[float]] = {"index": [], "theta": [], "both": [], "all columns": [], "all with index": []}
    for number in range(run.rounds + 1):
        _reset(table)
        taken = {
            "index": _timed(lambda: index(table, IndexOptions(columns=(_COLUMN,), driver_bytes=_HERE))),
            "theta": _timed(lambda: analyze(table, alone)),
        }
        _reset(table, _COLUMN)
        taken["both"] = _timed(lambda: analyze(table, dataclasses.replace(alone, index=True)))
        _reset(table)
        taken["all columns"] = _timed(lambda: analyze(table, every))
        _reset(table, _COLUMN)
        taken["all with index"] = _timed(lambda: analyze(table, dataclasses.replace(every, index=True)))
        say(f"{_COLUMN}: " + ", ".join(f"{what} {value:.2f} s" for what, value in taken.items()))
        if number:
            for what, value in taken.items():
                seconds[what].append(value)
    made = {what: Sample(what, "s", tuple(values)) for what, values in seconds.items()}
    rows = f"{_COLUMN} of events_{run.sizes.rows}"
    if run.wants(_BUILD):
        title = f"index / theta sketch, each with its commit; {rows}"
        results.rows.append(Row(_BUILD, title, made["index"], made["theta"], Bar(LOWER, 2, 1.2)))
    if run.wants(_BESIDE):
        title = f"statistics of every column and an index of {_COLUMN} in one pass / statistics alone; {rows}"
        results.rows.append(Row(_BESIDE, title, made["all with index"], made["all columns"], Bar(LOWER, 1.5, 1.2)))
        title = f"theta sketch and index in one pass / theta sketch alone; {rows}"
        results.rows.append(Row(_BESIDE, title, made["both"], made["theta"], Bar(LOWER)))


def _catches_up(run: Run, results: Results) -> None:
    directory = HOME / "data" / "index-grows"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rows = max(run.sizes.rows // 100, 1000)
    random = np.random.default_rng(1)
    files = _FILES if run.sizes.full else _FILES // 10
    for number in range(files):
        path = directory / f"{number:05}.parquet"
        if number < _DISTINCT_FILES:
            pq.write_table(pa.table({_COLUMN: random.integers(-(2**62), 2**62, rows)}), path)
        else:
            os.link(directory / f"{number % _DISTINCT_FILES:05}.parquet", path)
    convert_to_deltalake(directory)
    options = IndexOptions(columns=(_COLUMN,), driver_bytes=_HERE)
    index(str(directory), options)  # warms up
    _reset(str(directory))
    full, appended = [], []
    for _ in range(run.rounds):
        _reset(str(directory))
        full.append(_timed(lambda: index(str(directory), options)))
        added = [_add(directory, f"more-{i}.parquet") for i in range(files // 100)]
        appended.append(_timed(lambda: index(str(directory), options)))
        _remove(directory, added)
        say(f"{files} files: full build {full[-1]:.2f} s, a hundredth more {appended[-1]:.3f} s")
    if run.wants(_APPEND):
        what = f"{files:,} files of {rows:,} rows"
        ours, other = Sample("the next run", "s", tuple(appended)), Sample("full build", "s", tuple(full))
        title = f"index after 1 % of the files was appended / full build; {what}"
        results.rows.append(Row(_APPEND, title, ours, other, Bar(LOWER, 0.03)))
    if run.wants(_COMPACTION):
        index(str(directory), options)
        before = set(DeltaTable(directory).file_uris())
        _compact(directory, files // 100)
        report = index(str(directory), options)
        rewritten = len(set(DeltaTable(directory).file_uris()) - before)
        ours, other = (Sample(what, "files", (n,)) for what, n in (("read", report.files_read), ("new", rewritten)))
        title = "index after a compaction of 1 % of the files: files that it read / files that the compaction wrote"
        results.rows.append(Row(_COMPACTION, title, ours, other, Bar(LOWER, 1)))


def _sizes(results: Results) -> None:
    """Filters of files whose numbers of distinct values are drawn log-uniformly."""
    random = np.random.default_rng(2)
    per_value = []
    for count in np.exp(random.uniform(np.log(1_000), np.log(4_000_000), _SIZES)).astype(int).tolist():
        builder = BloomFilterBuilder(count, 0.01)
        builder.update([random.integers(0, 2**64, count, np.uint64)])
        per_value.append(builder.compact().folded(0.01).blocks.nbytes / count)
    for what, value, bar in (
        ("mean", float(np.mean(per_value)), Bar(LOWER, 1.95, 1.5)),
        ("worst", max(per_value), Bar(LOWER, 2.7)),
    ):
        title = f"bytes of a filter for each distinct value at 1 %, {what} of {_SIZES} files"
        results.rows.append(Row(_SIZE, title, Sample("ours", "B a value", (value,)), None, bar))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _reset(table: str, *columns: str) -> None:
    """Remove the index; with columns, leave an empty one of these."""
    opened = load_table(table).open()
    home = IndexHome.of(opened)
    shutil.rmtree(home.directory.removeprefix("file://"), ignore_errors=True)
    if columns:
        keys = {opened.state.key_of(column): 0.01 for column in opened.state.select_columns(columns)}
        commit(IndexManifest(table_uuid=opened.state.uuid, columns=keys), home.directory, home.store)


def _add(directory: Path, name: str) -> str:
    path = directory / name
    path.unlink(missing_ok=True)
    os.link(directory / "00000.parquet", path)
    _log(directory, _added(path, changes_data=True))
    return name


def _added(path: Path, *, changes_data: bool) -> dict[str, object]:
    size = path.stat().st_size
    add = {"path": path.name, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": changes_data}
    return {"add": add}


def _remove(directory: Path, names: list[str]) -> None:
    for name in names:
        _log(directory, {"remove": {"path": name, "deletionTimestamp": 1, "dataChange": True}})


def _compact(directory: Path, files: int) -> None:
    """Put one file in the place of several, as a compaction does."""
    names = [f"{number:05}.parquet" for number in range(_DISTINCT_FILES, _DISTINCT_FILES + files)]
    pq.write_table(pa.concat_tables(pq.read_table(directory / name) for name in names), directory / "compacted.parquet")
    add = _added(directory / "compacted.parquet", changes_data=False)
    removes: Iterator[dict[str, object]] = (
        {"remove": {"path": name, "deletionTimestamp": 1, "dataChange": False}} for name in names
    )
    _log(directory, add, *removes)


def _log(directory: Path, *actions: dict[str, object]) -> None:
    log = directory / "_delta_log"
    version = max(int(file.stem) for file in log.glob("*.json")) + 1
    (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
