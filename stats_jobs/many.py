"""
Many tables, one session: analyzed side by side, told in the order asked.

Of a small table, most of the time is waiting for storage and catalog, to plan it and to commit it. A few threads, each
with a table at a time, spend it on one another; how many of them compute at once is the session's to say.

A table that cannot be analyzed stops no other: its error is its answer. An error that is not one of ours is a fault of
the program, and no table's answer: it is raised as it is, once every other table is done. Whoever stops asking stops
the work, be it by an interrupt or because there is nobody left to tell: tables that wait do not begin, Spark jobs are
cancelled, and what plans or commits comes to its end first, so that each table clears up after itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from puffin.errors import PuffinError
from puffin.load import load_table
from puffin.tables.table import Table
from stats_jobs.analyze import analyze
from stats_jobs.current import is_stale
from stats_jobs.options import Options
from stats_jobs.report import Report
from stats_jobs.session import Progress, SparkStarter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES_AT_ONCE = 4
_PATIENCE = 0.5  # seconds until what is to end is told so again

_T = TypeVar("_T")
_R = TypeVar("_R")


def analyze_many(
    tables: Iterable[str | Table],
    options: Options | None = None,
    spark: SparkSession | SparkStarter | None = None,
    *,
    only_stale: bool = False,
    watch: Callable[[str], AbstractContextManager[Progress | None]] | None = None,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> Generator[tuple[str, Report | PuffinError], None, None]:
    """
    Compute and commit the statistics of several tables, as `analyze` does of one.

    Args:
        tables: Tables at hand, or their names as for `puffin.load_table`, which takes the catalog too.
        spark: A session to use, or a starter that others share too; none of them is stopped. By default a session of
            this call's, started only if a table needs it.
        only_stale: Leave out every table that is not stale, as `stats_jobs.current.is_stale` has it.
        watch: Entered with a table's name around its analysis; gives what is called as `analyze` calls ``progress``.

    Returns:
        The name of each table with its report or with what `analyze` raised, in the order asked, as soon as it is
        there. Closing the iterator ends what still runs, and a starter that was passed starts nothing after that.
    """
    options = options or Options()
    with contextlib.ExitStack() as cleanup:
        starter = spark if isinstance(spark, SparkStarter) else cleanup.enter_context(SparkStarter(spark))

        def analyze_one(table: str | Table) -> Report | None:
            if isinstance(table, str):
                table = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
            if only_stale and not is_stale(table, options):
                return None
            with contextlib.nullcontext() if watch is None else watch(table.name) as progress:
                return analyze(table, options, starter, progress)

        setup = starter.thread_setup(TABLES_AT_ONCE)
        outcomes = in_order(analyze_one, tables, thread_setup=setup, cancel=starter.cancel)
        cleanup.enter_context(contextlib.closing(outcomes))
        for table, outcome in outcomes:
            if outcome is not None:
                yield table if isinstance(table, str) else table.name, outcome


def in_order(
    analyze_one: Callable[[_T], _R],
    tables: Iterable[_T],
    *,
    at_once: int = TABLES_AT_ONCE,
    thread_setup: Callable[[], None] | None = None,
    cancel: Callable[[], None] | None = None,
) -> Generator[tuple[_T, _R | PuffinError], None, None]:
    """
    Each table with what came of it, in the order given.

    Args:
        analyze_one: Called in as many threads as there are tables at once.
        thread_setup: Called first in each thread.
        cancel: Makes the calls that are under way end soon; called again and again until they have ended.

    Raises:
        Exception: What a call raised that is no PuffinError, after everything else.
    """
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="puffin-table", initializer=thread_setup)
    runs: list[tuple[_T, Future[_R]]] = []
    fault: Exception | None = None
    try:
        for table in tables:
            runs.append((table, pool.submit(analyze_one, table)))
        for table, run in runs:
            outcome: _R | PuffinError
            try:
                outcome = run.result()
            except PuffinError as exc:
                outcome = exc
            except Exception as exc:  # noqa: BLE001 - raised below
                fault = fault or exc
                continue
            yield table, outcome
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        while under_way := [run for _, run in runs if not run.done()]:
            if cancel is not None:
                cancel()
            wait(under_way, timeout=_PATIENCE)
    if fault is not None:
        raise fault
