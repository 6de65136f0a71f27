"""
Runs a job on many tables with one session, side by side, and reports them in the order given.

A small table mostly waits for storage and the catalog, in planning and in committing. A few threads, each with one
table at a time, use that time for each other; the session limits how many of them compute at once.

A table on which it fails does not stop the others: its error is its result. Any error but a PuffinError is a bug
and is raised once all other tables are done. If the caller stops, by an interrupt or by closing the iterator, waiting
tables do not start and Spark jobs are cancelled; planning and commits run to their end, so that they clean up.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from puffin.errors import PuffinError
from puffin.load import Tables
from puffin.tables.arguments import NameOrPath, check_list
from puffin.tables.snapshot import Table
from stats_jobs.analyze import analyze
from stats_jobs.cluster import Progress
from stats_jobs.decide import is_stale
from stats_jobs.index import index, is_index_stale
from stats_jobs.index_report import IndexReport
from stats_jobs.options import IndexOptions, Options
from stats_jobs.report import Report
from stats_jobs.session import SparkStarter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES_AT_ONCE = 4
_PATIENCE = 0.5  # seconds between calls of cancel
_AHEAD = 512  # tables that are done or wait while one before them is worked on; some 30 kB each once they are done

_T = TypeVar("_T")
_R = TypeVar("_R")
_Options = TypeVar("_Options", Options, IndexOptions)


Watch: TypeAlias = Callable[[str], AbstractContextManager[Progress | None]]
"""Entered with a table's name around the work on it; gives the ``progress`` of the job."""


def analyze_many(
    tables: Iterable[NameOrPath | Table],
    options: Options | None = None,
    spark: SparkSession | SparkStarter | None = None,
    *,
    only_stale: bool = False,
    watch: Watch | None = None,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> Generator[tuple[str, Report | PuffinError], None, None]:
    """
    Compute and commit the statistics of several tables, as `analyze` does for one.

    Args:
        tables: Tables, or their names as for `puffin.load_table`, which also takes the catalog.
        spark: A session, or a starter that others share; neither is stopped. By default a session for this call,
            started only if a table needs it.
        only_stale: Skip tables whose statistics are up to date (`stats_jobs.decide.is_stale`).

    Returns:
        The name of each table with its report or the error of `analyze`, in the order given, as soon as it is done.
        Closing the iterator ends what still runs, and a starter that was passed starts nothing after that.
    """
    check_list(tables, "tables")
    run = _with_options(analyze, options or Options(), is_stale if only_stale else None, watch)
    return _on_each(tables, run, spark, catalog, catalog_properties)


def index_many(
    tables: Iterable[NameOrPath | Table],
    options: IndexOptions | None = None,
    spark: SparkSession | SparkStarter | None = None,
    *,
    only_stale: bool = False,
    watch: Watch | None = None,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> Generator[tuple[str, IndexReport | PuffinError], None, None]:
    """
    Bring the indexes of several tables up to date, as `index` does for one; arguments and result as `analyze_many`.

    ``only_stale`` skips tables whose index has every file of the current snapshot.
    """
    check_list(tables, "tables")
    run = _with_options(index, options or IndexOptions(), is_index_stale if only_stale else None, watch)
    return _on_each(tables, run, spark, catalog, catalog_properties)


def _with_options(
    job: Callable[[Table, _Options, SparkStarter, Progress | None], _R],
    options: _Options,
    is_stale: Callable[[Table, _Options], bool] | None,
    watch: Watch | None,
) -> Callable[[Table, SparkStarter], _R | None]:
    """Run a job with these options on a table; None if ``is_stale`` says that it need not run."""

    def run(table: Table, starter: SparkStarter) -> _R | None:
        if is_stale is not None and not is_stale(table, options):
            return None
        with contextlib.nullcontext() if watch is None else watch(table.name) as progress:
            return job(table, options, starter, progress)

    return run


def _on_each(
    tables: Iterable[NameOrPath | Table],
    run: Callable[[Table, SparkStarter], _R | None],
    spark: SparkSession | SparkStarter | None,
    catalog: str | None,
    catalog_properties: Mapping[str, str] | None,
) -> Generator[tuple[str, _R | PuffinError], None, None]:
    """Run a job on each table; tables for which it returns None are left out of the result."""
    asked = (os.fspath(table) if isinstance(table, os.PathLike) else table for table in tables)
    named = Tables(catalog, catalog_properties)  # one client of the catalog for all
    with contextlib.ExitStack() as cleanup:
        starter = spark if isinstance(spark, SparkStarter) else cleanup.enter_context(SparkStarter(spark))

        def run_on(table: str | Table) -> _R | None:
            return run(named.load(table) if isinstance(table, str) else table, starter)

        setup = starter.thread_setup(TABLES_AT_ONCE)
        outcomes = in_order(run_on, asked, thread_setup=setup, cancel=starter.cancel)
        cleanup.enter_context(contextlib.closing(outcomes))
        for table, outcome in outcomes:
            if outcome is not None:
                yield table if isinstance(table, str) else table.name, outcome


def in_order(
    run_one: Callable[[_T], _R],
    tables: Iterable[_T],
    *,
    at_once: int = TABLES_AT_ONCE,
    thread_setup: Callable[[], None] | None = None,
    cancel: Callable[[], None] | None = None,
) -> Generator[tuple[_T, _R | PuffinError], None, None]:
    """
    Yield each table with its result, in the order given; raise the first error that is no PuffinError at the end.

    ``run_one`` is called in ``at_once`` threads, each of which calls ``thread_setup`` first. ``cancel`` makes
    running calls end soon; it is called repeatedly until they have ended.
    """
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="puffin-table", initializer=thread_setup)
    runs: deque[tuple[_T, Future[_R]]] = deque()
    fault: Exception | None = None
    left = iter(tables)
    try:
        while True:
            more = itertools.islice(left, _AHEAD - len(runs))
            runs.extend((table, pool.submit(run_one, table)) for table in more)
            if not runs:
                break
            wait([runs[0][1]])
            table, run = runs.popleft()  # its result is the caller's, and may be gone before the next one comes
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
