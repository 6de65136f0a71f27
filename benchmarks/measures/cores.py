"""
How much a second core helps: ours in a process of one core and in one of two, and the decode floor likewise.

Each process stays warm while the other one works, and is pinned to its cores, of which it starts as many threads. What
the machine itself can gain is the floor's ratio.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from benchmarks.data import EVENTS, Dataset, dataset
from benchmarks.engines import CORES, DECODE, OURS, DecodeFloor, Engine, Ours, WarmEngines
from benchmarks.processes import warm_processes
from benchmarks.race import race
from benchmarks.results import HIGHER, Bar, Results, Row
from benchmarks.run import Run, say
from benchmarks.session import spark_session

NAMES = _OURS, _DECODE = "cores", "cores-decode"

_COUNTS = (1, CORES)


def measure(run: Run, results: Results) -> None:
    """Time ours and the floor on ``events``, with one core and with two in turn."""
    wanted = [name for name in NAMES if run.wants(name)]
    if not wanted:
        return
    say("starting one Spark for each number of cores")
    with contextlib.ExitStack() as cleanup:
        sessions: list[Engine] = [cleanup.enter_context(_OwnSession(cores, run)) for cores in _COUNTS]
        table, columns = sessions[0].table, sessions[0].columns
        if _OURS in wanted:
            results.rows.append(_raced(_OURS, sessions, Bar(HIGHER, 1.7, 1.95), run, results))
        if _DECODE in wanted:
            floors: list[Engine] = [
                DecodeFloor(
                    f"{DECODE}, {_said(cores)}", table, columns, cleanup.enter_context(warm_processes(cores)), cores
                )
                for cores in _COUNTS
            ]
            results.rows.append(_raced(_DECODE, floors, Bar(HIGHER), run, results))


def _raced(name: str, engines: list[Engine], bar: Bar, run: Run, results: Results) -> Row:
    seconds = race(engines, run.rounds, results)
    one, all_ = engines
    return Row(name, f"{one.name} / {all_.name}; {one.table.name}", seconds[all_.name], seconds[one.name], bar)


def _said(cores: int) -> str:
    return "1 core" if cores == 1 else f"{cores} cores"


class _OwnSession(Engine):
    """Ours, in a process of so many cores, with a Spark session."""

    tolerance, exact_up_to = Ours.tolerance, Ours.exact_up_to

    def __init__(self, cores: int, run: Run) -> None:
        self._process = warm_processes(1)
        table = self._process.submit(_start, cores, run).result()
        super().__init__(f"{OURS}, {_said(cores)}", table, tuple(table.exact))
        self._counts: Mapping[str, int] = {}

    def __enter__(self) -> _OwnSession:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.submit(_stop).result()
        self._process.shutdown()

    def prepare(self) -> None:
        self._process.submit(_prepare).result()

    def run(self) -> None:
        self._counts = self._process.submit(_run).result()

    def counts(self) -> Mapping[str, int]:
        return self._counts


# --- in the process of a session ----------------------------------------------------------------------------------

_started = contextlib.ExitStack()
_engines: list[Engine] = []


def _start(cores: int, run: Run) -> Dataset:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    spark = _started.enter_context(spark_session(cores))
    warm = _started.enter_context(WarmEngines(spark))
    table = dataset(spark, run, EVENTS)
    _engines.append(warm.engine(OURS, table, tuple(table.exact)))
    return table


def _prepare() -> None:
    (engine,) = _engines
    engine.prepare()


def _run() -> Mapping[str, int]:
    (engine,) = _engines
    engine.run()
    return engine.counts()


def _stop() -> None:
    _started.close()
