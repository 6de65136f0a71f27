"""
The statistics job: a snapshot in, a committed statistics file out.

Each step returns what it did and the next one uses that: each column is planned on what is known of it, what has
changed since is read, it adds up to sketches, the sketches become a file, the file becomes an entry of the table's
metadata.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from puffin.load import load_table
from puffin.tables.table import Table
from stats_jobs.basis import FULL
from stats_jobs.compute import Computation, compute
from stats_jobs.decide import Decision, decide
from stats_jobs.options import Options
from stats_jobs.publish import publish
from stats_jobs.report import Report, report
from stats_jobs.run import Runner
from stats_jobs.session import BringsSpark, Progress, SparkStarter
from stats_jobs.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def analyze(
    table: str | Table,
    options: Options | None = None,
    spark: SparkSession | SparkStarter | None = None,
    progress: Progress | None = None,
    *,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> Report:
    """
    Bring the statistics of a table's snapshot up to date and commit them.

    Args:
        table: A table at hand, or its name as for `puffin.load_table`, which takes the catalog too.
        options: By default all of those that `Options` has.
        spark: A session to use, which is left running, or a starter that several tables share; by default a session
            on every core of this machine, for this call, if there is enough to read; or the one that the table brings.
        progress: Called with the number of finished batches and of all of them.

    Raises:
        NotFoundError: There is no such table, snapshot or column.
        UnsupportedError: The table has something that cannot be honoured, or the mode is ``"incremental"`` and a
            column has nothing to build on; nothing was written.
        CorruptError: A data file, a delete file or metadata cannot be read.
        ConflictError, CommitUnknownError: As `puffin.tables.commit.commit_statistics`.
        StorageError: The storage, the catalog or Spark failed.
        SetupError: This machine lacks what Spark or the catalog needs.
    """
    if isinstance(table, str):
        table = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    session_seconds = 0.0
    if isinstance(table, BringsSpark):
        session_seconds = table.start()
        spark = table.spark if spark is None else spark
    with contextlib.ExitStack() as cleanup:
        starter = spark if isinstance(spark, SparkStarter) else cleanup.enter_context(SparkStarter(spark))
        report = _analyze(table, options or Options(), starter, progress)
    return dataclasses.replace(report, session_seconds=report.session_seconds + session_seconds)


def _analyze(table: Table, options: Options, spark: SparkStarter, progress: Progress | None) -> Report:
    started = time.monotonic()
    opened = table.open(options.selector)
    is_empty, columns = opened.is_empty, opened.state.select_columns(options.columns)
    target = Target.of(opened, columns, options)
    if is_empty or (not columns and target.entry is None):
        return Report.of_nothing(opened, columns)
    decision = decide(target)
    computation = _compute(target, decision, spark, progress)
    published = publish(table, target, decision, computation.columns)
    return report(target, decision, computation, published, time.monotonic() - started)


def _compute(target: Target, decision: Decision, spark: SparkStarter, progress: Progress | None) -> Computation:
    if decision.current is not None:
        return Computation()
    opened = target.opened
    runner = Runner(opened, spark, target.options.driver_bytes, progress)
    kinds, partitions = decision.kinds(target), decision.partitions.by_field
    computation = compute(decision.columns, runner, lambda: opened.tasks, kinds, partitions)
    for computed in computation.columns:
        if computed.basis == FULL:
            target.check_not_incremental(computed.column, computed.reason)
    return computation
