"""
Ours on tables that are drawn at random, beside the floors of reading them: nobody can tune for these.

Each table has a line of its own below the measures. What is held against the bars is the geometric mean over the
tables, and the worst of them. A table without compression is left out of what is compared with decompressing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import duckdb

from benchmarks.data import Dataset
from benchmarks.engines import CORES, DECODE, DUCKDB_APPROX, OURS, DuckDbQuery, Engine, Ours
from benchmarks.processes import PROGRAM, processor_seconds, warm_processes
from benchmarks.race import Times, timed
from benchmarks.random_tables.drawing import DrawnTable
from benchmarks.random_tables.floors import DECOMPRESS, Floor, decompress
from benchmarks.random_tables.tables import random_table
from benchmarks.report import markdown_table
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say
from stats_jobs import Options
from stats_jobs.options import DRIVER_BYTES

NAMES = (_RANDOM,) = ("random",)

_WITHOUT = "ours, without row counts"
_TOLERANCE = 5 / 64  # five standard deviations: of hundreds of columns one is often beyond three
_IMPORTS = 'python -c "import pyarrow, sqlalchemy"'
_HEADER = (
    *("seed", "table", "ours", "/ decompress", "/ decode", "/ without row counts", "/ DuckDB"),
    *("without row counts / decode", "start / imports", "/ decompress, processor time"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Outcome:
    """What a table took: by engine, and two commands in seconds of processor time."""

    drawn: DrawnTable
    times: Mapping[str, Times]
    cold: float
    imports: float

    def ratio(self, other: str, ours: str = OURS, *, of_processor: bool = False) -> float:
        """Ours, with everything unless it says otherwise, beside another engine."""
        one, two = (self.times[name] for name in (ours, other))
        return one.processor.median / two.processor.median if of_processor else one.elapsed.median / two.elapsed.median

    @property
    def start(self) -> float:
        """A cold process less its work, beside the imports."""
        return (self.cold - self.times[OURS].processor.median) / self.imports


def measure(run: Run, results: Results) -> None:
    """Make the tables of the seeds, and time all engines on each of them."""
    if not run.wants(_RANDOM):
        return
    outcomes = []
    with contextlib.ExitStack() as cleanup:
        workers = [cleanup.enter_context(warm_processes(1)) for _ in range(CORES)]
        connection = cleanup.enter_context(duckdb.connect(config={"threads": CORES}))
        for seed in run.seeds:
            drawn, table = random_table(HOME / "random", seed, run.sizes.random_bytes)
            if sum(Path(file).stat().st_size for file in table.files) > DRIVER_BYTES:
                raise SystemExit(f"{table.name}: expected files of {DRIVER_BYTES} bytes at most, or Spark would start")
            times = timed(_engines(table, workers, connection), run.rounds, results)
            outcomes.append(_Outcome(drawn, times, *_cold(table, run.rounds)))
            say(" | ".join(_line(outcomes[-1])))
    _report(outcomes, results)


def _engines(
    table: Dataset, workers: Sequence[ProcessPoolExecutor], connection: duckdb.DuckDBPyConnection
) -> list[Engine]:
    return [
        _Job(OURS, table),
        _Job(_WITHOUT, table),
        Floor(DECODE, table, workers),
        Floor(DECOMPRESS, table, workers, decompress),
        DuckDbQuery(DUCKDB_APPROX, table, tuple(table.exact), connection),
    ]


class _Job(Ours):
    """The job in this process, from the plan to the statistics file, as `puffin analyze` does it with `--no-commit`."""

    tolerance = _TOLERANCE

    def __init__(self, name: str, table: Dataset) -> None:
        home = str(Path(table.directory, "state"))
        options = Options(mode="full", commit=False, row_counts=name == OURS, home=home)
        super().__init__(name, table, tuple(table.exact), options)

    def prepare(self) -> None:
        _remove_statistics(self.table)


def _remove_statistics(table: Dataset) -> None:
    for file in Path(table.directory, "metadata").glob("*.stats"):
        file.unlink()
    shutil.rmtree(Path(table.directory, "state"), ignore_errors=True)


def _cold(table: Dataset, rounds: int) -> tuple[float, float]:
    """The processor time of the whole command, and of the imports that it cannot do without."""
    home = f"--home={table.directory}/state"
    ours = [PROGRAM, "analyze", table.directory, "--mode", "full", "--no-commit", home]
    theirs = [sys.executable, "-c", "import pyarrow, sqlalchemy"]
    taken = []
    for _ in range(rounds + 1):
        _remove_statistics(table)
        taken.append((processor_seconds(ours), processor_seconds(theirs)))
    one, two = zip(*taken[1:], strict=True)
    return statistics.median(one), statistics.median(two)


def _report(outcomes: Sequence[_Outcome], results: Results) -> None:
    for title, figure, *bars in _FIGURES:
        figures = [figure(outcome) for outcome in outcomes if figure is not _to_decompress or outcome.drawn.compresses]
        if not figures:
            continue
        taken = {"geometric mean": statistics.geometric_mean(figures), "worst": max(figures)}
        for (what, value), bar in zip(taken.items(), bars, strict=True):
            said = f"{title}; {len(figures)} random tables, {what}"
            results.rows.append(Row(_RANDOM, said, Sample(said, "times", (value,)), None, bar))
    results.sections.append(markdown_table(_HEADER, map(_line, outcomes)))


def _line(outcome: _Outcome) -> Sequence[str]:
    ratios = [*(figure(outcome) for _, figure, *_ in _FIGURES), outcome.ratio(DECOMPRESS, of_processor=True)]
    return (
        str(outcome.drawn.seed),
        outcome.drawn.said,
        f"{outcome.times[OURS].elapsed.median:.2f} s",
        *(f"{ratio:.2f}" for ratio in ratios),
    )


def _to_decompress(outcome: _Outcome) -> float:
    return outcome.ratio(DECOMPRESS)


_FIGURES: tuple[tuple[str, Callable[[_Outcome], float], Bar, Bar], ...] = (
    (f"{OURS} / {DECOMPRESS}", _to_decompress, Bar(LOWER, 1.5, 1.15), Bar(LOWER, 2.5, 1.6)),
    (f"{OURS} / {DECODE}", lambda outcome: outcome.ratio(DECODE), Bar(LOWER, 1, 0.8), Bar(LOWER)),
    ("ours, row counts on / off", lambda outcome: outcome.ratio(_WITHOUT), Bar(LOWER, 1.15, 1.05), Bar(LOWER)),
    (f"{OURS} / {DUCKDB_APPROX}", lambda outcome: outcome.ratio(DUCKDB_APPROX), Bar(LOWER), Bar(LOWER)),
    (f"{_WITHOUT} / {DECODE}", lambda outcome: outcome.ratio(DECODE, _WITHOUT), Bar(LOWER), Bar(LOWER)),
    (f"puffin analyze, less its work when warm / {_IMPORTS}", lambda o: o.start, Bar(LOWER, 2.5, 1.5), Bar(LOWER)),
)
