"""
An append of a few rows to a table of many columns: the bytes that a run reads and writes, and those of its entry.

All values are distinct, nearly, so that row counts and distributions are as large as they get with so many rows.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.handmade import HandmadeTable, schema_of
from benchmarks.reads import reads_counted
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from puffin.tables.base import SnapshotSelector
from puffin.tables.statistics_json import entry_to_json
from stats_jobs import Options, Report, analyze

_ROWS, _APPENDED = 10_000, 100
_PRIVATE, _STATISTICS, _OTHER = "private state", "statistics files", "other files"
NAMES = (_STATE, _FILE, _ENTRY) = ("incremental-wide-state", "incremental-wide-file", "incremental-wide-entry")
_BARS = {_STATE: 5_000_000, _FILE: 1.1, _ENTRY: 320_000}


def measure(run: Run, results: Results) -> None:
    """Make the table, analyze its first snapshot, and count what the run for the second one reads and writes."""
    wanted = [name for name in NAMES if run.wants(name)]
    if not wanted:
        return
    columns = run.sizes.wide_columns
    say(f"making a table of {columns} columns")
    directory = HOME / "data" / "wide"
    shutil.rmtree(directory, ignore_errors=True)
    table = str(_wide_table(directory, columns))
    whole = Options(mode="full", selector=SnapshotSelector(snapshot_id=1), driver_bytes=1 << 40)
    analyze(table, whole)
    before = _bytes_below(directory)
    with reads_counted() as opened:
        report = analyze(table, Options(driver_bytes=1 << 40))
    read: Counter[str] = Counter()
    for source in opened:
        read[_what(source.uri) or _OTHER] += source.bytes_read
    wrote = _bytes_below(directory) - before
    rows = _rows(report, read, wrote, f"{columns} columns of {_ROWS:,} rows, {_APPENDED} more")
    results.rows.extend(row for row in rows if row.name in wanted)


def _rows(report: Report, read: Counter[str], wrote: Counter[str], said: str) -> Iterator[Row]:
    entry = report.entry
    if entry is None or report.files_read != 1:
        raise SystemExit(f"{report.table}: expected one file to be read and one written, found {report}")
    sketches = Sample("sketches", "B", (entry.file_size_in_bytes - entry.file_footer_size_in_bytes,))
    for way, of in (("read", read), ("written", wrote)):
        private = Sample(f"private state {way}", "B", (of[_PRIVATE],))
        yield Row(_STATE, f"{private.what}; {said}", private, None, Bar(LOWER, _BARS[_STATE]))
        files = Sample(f"statistics file {way}", "B", (of[_STATISTICS],))
        yield Row(_FILE, f"{files.what} / {sketches.what}; {said}", files, sketches, Bar(LOWER, _BARS[_FILE]))
    document = json.dumps(entry_to_json(entry), separators=(",", ":"))
    metadata = Sample("its entry", "B", (len(document.encode()),))
    yield Row(_ENTRY, f"an entry in table metadata; {said}", metadata, None, Bar(LOWER, _BARS[_ENTRY]))


def _wide_table(directory: Path, columns: int) -> Path:
    table = HandmadeTable(directory, schema_of({f"column_{at}": "long" for at in range(1, columns + 1)}))
    random = np.random.default_rng(1)
    first, appended = (
        table.write(f"{number}.parquet", [random.integers(0, 1 << 40, count) for _ in range(columns)])
        for number, count in enumerate((_ROWS, _APPENDED))
    )
    manifest = table.manifest(1, [first])
    table.snapshot(1, [manifest])
    table.snapshot(2, [manifest, table.manifest(2, [appended])], parent_id=1)
    table.finish()
    return directory


def _what(path: str) -> str | None:
    return _PRIVATE if "/_puffin_sidecar/" in path else _STATISTICS if path.endswith(".stats") else None


def _bytes_below(directory: Path) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for path in directory.rglob("*"):
        if path.is_file() and (what := _what(str(path))) is not None:
            sizes[what] += path.stat().st_size
    return sizes
