"""
How long a process takes that does little: a person or a schedule waits for what it imports.

Each command is beside what importing the libraries alone takes that it cannot do without, as processes in turn. What
counts is processor time: the commands hardly wait, and what else the machine does is no part of it.
"""

from __future__ import annotations

import io
import shutil
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from benchmarks.handmade import analyzed_table
from benchmarks.measures.many import small_table
from benchmarks.processes import PROGRAM, processor_seconds
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from puffin.format import THETA_V1, Blob, PuffinWriter
from puffin.sketches.theta_sketch import ThetaSketch
from stats_jobs import Options, analyze

NAMES = (_DUMP, _NDV, _CURRENT, _COLD) = ("dump", "start-ndv", "start-analyze-current", "start-analyze")

_RUNS = 15  # each is short, and the machine's noise is not
_DISTINCT = 100  # in the one sketch of the file
_COLUMNS = 16
_DUMP_BAR, _NDV_BAR, _ANALYZE_BAR = Bar(LOWER, 1.5, 1.1), Bar(LOWER, 2), Bar(LOWER, 2.5)
_FULL = Options(mode="full", commit=False)


def measure(run: Run, results: Results) -> None:
    """Run both commands of each measure in turn."""
    if run.wants(_DUMP):
        path = _small_file(HOME / "data" / "small.puffin")
        ours = {f"puffin dump of {path.stat().st_size} bytes": ["dump", str(path)]}
        _add(results, _DUMP, ours, "click, rich", _DUMP_BAR)
    directory = HOME / "data" / "start"
    if any(map(run.wants, NAMES[1:])):
        shutil.rmtree(directory, ignore_errors=True)
    if run.wants(_NDV):
        analyzed_table(directory / "t", _COLUMNS)
        ours = {"puffin ndv of a directory": ["ndv", str(directory / "t")]}
        _add(results, _NDV, ours, "click, rich", _NDV_BAR)
    if run.wants(_CURRENT):
        ours = {"puffin analyze, current in SQLite": ["analyze", "db.t", *_catalog(directory)]}
        _add(results, _CURRENT, ours, "pyarrow, sqlalchemy", _ANALYZE_BAR)
    if run.wants(_COLD):
        table = str(small_table(directory / "random", 1))
        ours = {"puffin analyze, less its work when warm": ["analyze", table, "--mode", "full", "--no-commit"]}
        _add(results, _COLD, ours, "pyarrow, sqlalchemy", _ANALYZE_BAR, less=_warm(table))


def _add(
    results: Results, name: str, ours: Mapping[str, Sequence[str]], imports: str, bar: Bar, *, less: float = 0
) -> None:
    """Add a row: one of our commands, less these seconds, beside a process that imports libraries."""
    ((what, arguments),) = ours.items()
    other = f'python -c "import {imports}"'
    commands = {what: [PROGRAM, *arguments], other: [sys.executable, "-c", f"import {imports}"]}
    seconds: dict[str, list[float]] = {each: [] for each in commands}
    for number in range(_RUNS + 1):
        for each, command in commands.items():
            taken = processor_seconds(command)
            if number > 0:  # the first run finds nothing in the page cache
                seconds[each].append(taken)
    one = Sample(what, "s", tuple(taken - less for taken in seconds[what]))
    two = Sample(other, "s", tuple(seconds[other]))
    say(f"{name}: {one.median:.3f} s / {two.median:.3f} s")
    results.rows.append(Row(name, f"{what} / {other}", one, two, bar))


def _warm(table: str) -> float:
    """The seconds that the same run takes in a process that has done it before."""
    taken = []
    for _ in range(_RUNS + 1):
        started = time.process_time()
        analyze(table, _FULL)
        taken.append(time.process_time() - started)
    return statistics.median(taken[1:])


def _catalog(directory: Path) -> list[str]:
    """The options that name a SQL catalog, in which the statistics of table ``db.t`` are current."""
    from pyiceberg.catalog import load_catalog

    directory.mkdir(parents=True, exist_ok=True)
    properties = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}"}
    catalog = load_catalog("bench", **properties)
    catalog.create_namespace("db")
    rows = pa.table({"id": range(_DISTINCT)})
    catalog.create_table("db.t", schema=rows.schema).append(rows)
    analyze("db.t", catalog="bench", catalog_properties=properties)
    given = (f"--catalog-property={key}={value}" for key, value in properties.items())
    return ["--catalog", "bench", *given]


def _small_file(path: Path) -> Path:
    sketch = ThetaSketch.from_arrow(pa.array(range(_DISTINCT)), "long")
    blob = Blob(
        type=THETA_V1,
        fields=(1,),
        snapshot_id=1,
        sequence_number=1,
        payload=sketch.to_bytes(),
        properties={"ndv": str(sketch.ndv)},
    )
    sink = io.BytesIO()
    with PuffinWriter(sink) as writer:
        writer.add(blob)
        writer.finish()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sink.getvalue())
    return path
