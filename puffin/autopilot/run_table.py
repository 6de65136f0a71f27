"""Runs one due table: statistics, index or both, or cleans it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator

from puffin.autopilot.decide import Verdict
from puffin.autopilot.events import WorkDone
from puffin.autopilot.look import CoveredTable
from puffin.clean import clean
from puffin.lookup.health import TableStatus
from puffin.policy.model import CleaningSchedule
from puffin.policy.table_policy import TablePolicy
from stats_jobs import Options, Report, SparkStarter, analyze, index
from stats_jobs.options import IndexOptions

Progress = Callable[[int, int], None]


def run_table(verdict: Verdict, driver_bytes: int, spark: SparkStarter, progress: Progress) -> Iterator[WorkDone]:
    """
    Do what is due for a table, and yield what each job did, which stays done if the next one fails.

    Raises what `stats_jobs.analyze` and `stats_jobs.index` raise.
    """
    seen = verdict.seen
    policy, table = seen.policy, seen.covered.load()
    if policy is None:
        return
    if verdict.statistics:
        options = _options(_with_values_to_erase(policy, seen.status), driver_bytes)
        yield _of_report(analyze(table, options, spark, progress))
    new = not set(policy.index_columns) <= set(seen.status.indexed_columns)
    if verdict.index and (new or not verdict.statistics):  # statistics have caught up the columns that it had
        columns, fpp = policy.index_columns or None, policy.rule.index_fpp
        report = index(table, IndexOptions(columns=columns, fpp=fpp, driver_bytes=driver_bytes), spark, progress)
        yield WorkDone(report.snapshot_id, report.committed, report.files_read, report.rows_read, report.bytes_read)


def clean_table(table: CoveredTable, schedule: CleaningSchedule) -> int:
    """Remove what jobs left behind at a table; returns how many files. Raises what `puffin.clean.clean` raises."""
    older_than = datetime.timedelta(seconds=schedule.older_than)
    return len(clean(table.load(), older_than=older_than, remove=True).files)


def _with_values_to_erase(policy: TablePolicy, status: TableStatus) -> TablePolicy:
    """The policy, with columns that it does not name any more but whose values have to leave the statistics."""
    if policy.columns is None:
        return policy
    return dataclasses.replace(policy, columns=tuple(dict.fromkeys((*policy.columns, *status.columns_with_values))))


def _options(policy: TablePolicy, driver_bytes: int) -> Options:
    return Options(
        columns=policy.columns,
        partitions=policy.partitions,
        driver_bytes=driver_bytes,
        joint=policy.joint,
        no_values=policy.no_values,
        keep_entries=policy.rule.keep_entries,
    )


def _of_report(report: Report) -> WorkDone:
    index = report.index or report  # which counts what both have read
    return WorkDone(
        None if report.snapshot is None else report.snapshot.snapshot_id,
        report.committed or index.committed,
        max(report.files_read, index.files_read),
        max(report.rows_read, index.rows_read),
        max(report.bytes_read, index.bytes_read),
    )
