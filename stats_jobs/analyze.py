"""
The statistics job: from a snapshot to a committed statistics file.

Each step passes its result on: the job plans each column, reads what changed, computes sketches, writes them to a file
and commits that to the table's metadata.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from puffin.load import load_table
from puffin.tables.arguments import NameOrPath
from puffin.tables.snapshot import Table
from stats_jobs.cluster import Progress
from stats_jobs.compute import Computation, compute
from stats_jobs.decide import Current, decide
from stats_jobs.index_upkeep import IndexUpkeep
from stats_jobs.joint import columns_of
from stats_jobs.options import Options
from stats_jobs.outrun import ATTEMPTS, Outrun
from stats_jobs.packed import SnapshotFiles
from stats_jobs.publish import publish, repair
from stats_jobs.report import Report, report
from stats_jobs.run import Runner
from stats_jobs.session import SparkStarter, Turns, turns_for
from stats_jobs.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def analyze(
    table: NameOrPath | Table,
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
        table: A table, or its name as for `puffin.load_table`, which also takes the catalog.
        spark: A session, which is left running, or a starter that several tables share. By default the one that the
            table brings, or a session on all cores of this machine, started if there is enough to read.
        progress: Called with the number of finished batches and of all batches.

    Raises:
        NotFoundError: The table, snapshot or column does not exist.
        UnsupportedError: The table uses an unsupported feature, or the mode is ``"incremental"`` and a column has no
            base; nothing was written.
        CorruptError: A data file, a delete file or metadata cannot be read.
        ConflictError, CommitUnknownError: As `puffin.tables.commit.commit_statistics`.
        StorageError: The storage, the catalog or Spark failed.
        SetupError: This machine lacks what Spark or the catalog needs.
    """
    if isinstance(table, str | os.PathLike):
        table = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    options = options or Options()
    with turns_for(table, spark) as turns:
        for _ in range(1, ATTEMPTS):
            try:
                return _analyze(table, options, turns, progress)
            except Outrun as exc:
                _log.info("%s: begins again", exc)
        return _analyze(table, options, turns, progress)


def _analyze(table: Table, options: Options, turns: Turns, progress: Progress | None) -> Report:
    opened = table.open(options.selector)
    is_empty, columns = opened.is_empty, columns_of(opened, options)
    target = None if is_empty else Target.of(opened, columns, options)
    if target is None or not (columns or target.entry is not None):
        return Report.of_nothing(opened, columns, turns.spent())
    decision = decide(target)
    kept = target.kept_steps()
    upkeep = IndexUpkeep.of(opened, options)
    runner = Runner(opened, turns, options.driver_bytes, progress, kept, upkeep.after_step)
    try:
        if isinstance(decision, Current):
            computation, published = Computation(), repair(table, target)
        else:
            files = SnapshotFiles(opened, turns, options.driver_bytes, columns)
            computation = compute(decision.plans, runner, files.all, decision.kinds, upkeep.with_filters)
            target.check_not_incremental((each.plan.column, each.plan.reason) for each in computation.columns)
            published = publish(table, target, decision, computation.columns)
    except Outrun:
        if kept is not None:
            kept.discard()  # they may hold values that nobody wants any more
        raise
    if kept is not None:
        kept.discard()
    index = upkeep.catch_up(runner, computation.read)
    return report(target, decision, computation, published, index, turns.spent())
