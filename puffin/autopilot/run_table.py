"""Runs one due table: statistics, index or both, or cleans it."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator

from puffin.autopilot.decide import Verdict
from puffin.autopilot.look import CoveredTable
from puffin.clean import clean
from puffin.lookup.health import TableStatus
from puffin.policy.model import CleaningSchedule
from puffin.policy.table_policy import TablePolicy
from puffin.tables.snapshot import Table
from stats_jobs import Options, SparkStarter, analyze, index
from stats_jobs.options import IndexOptions

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """What a run did, as `puffin.autopilot.events.Event` has it."""

    snapshot_id: int | None = None
    committed: bool = False
    files_read: int = 0
    rows_read: int = 0
    bytes_read: int = 0

    def plus(self, other: Done) -> Done:
        return Done(
            self.snapshot_id if other.snapshot_id is None else other.snapshot_id,
            self.committed or other.committed,
            self.files_read + other.files_read,
            self.rows_read + other.rows_read,
            self.bytes_read + other.bytes_read,
        )


def run_table(verdict: Verdict, driver_bytes: int, spark: SparkStarter, progress: Progress) -> Iterator[Done]:
    """
    Do what is due for a table, and yield what each job did, which stays done if the next one fails.

    Raises what `stats_jobs.analyze` and `stats_jobs.index` raise.
    """
    seen = verdict.seen
    policy, table = seen.policy, seen.covered.load()
    if policy is None:
        return
    if verdict.statistics:
        yield _statistics(table, _with_values_to_erase(policy, seen.status), driver_bytes, spark, progress)
    new = not set(policy.index_columns) <= set(seen.status.indexed_columns)
    if verdict.index and (new or not verdict.statistics):  # statistics have caught up the columns that it had
        yield _index(table, policy, driver_bytes, spark, progress)


def clean_table(table: CoveredTable, schedule: CleaningSchedule) -> int:
    """Remove what jobs left behind at a table; returns how many files. Raises what `puffin.clean.clean` raises."""
    older_than = datetime.timedelta(seconds=schedule.older_than)
    return len(clean(table.load(), older_than=older_than, remove=True).files)


def _with_values_to_erase(policy: TablePolicy, status: TableStatus) -> TablePolicy:
    """The policy, with columns that it does not name any more but whose values have to leave the statistics."""
    if policy.columns is None:
        return policy
    return dataclasses.replace(policy, columns=tuple(dict.fromkeys((*policy.columns, *status.columns_with_values))))


def _statistics(table: Table, policy: TablePolicy, driver_bytes: int, spark: SparkStarter, progress: Progress) -> Done:
    options = Options(
        columns=policy.columns,
        partitions=policy.partitions,
        driver_bytes=driver_bytes,
        joint=policy.joint,
        no_values=policy.no_values,
        keep_entries=policy.rule.keep_entries,
    )
    report = analyze(table, options, spark, progress)
    snapshot = None if report.snapshot is None else report.snapshot.snapshot_id
    done = Done(snapshot, report.committed, report.files_read, report.rows_read, report.bytes_read)
    if report.index is None:
        return done
    return dataclasses.replace(  # the report of the index counts what both have read
        done,
        committed=done.committed or report.index.committed,
        files_read=max(done.files_read, report.index.files_read),
        rows_read=max(done.rows_read, report.index.rows_read),
        bytes_read=max(done.bytes_read, report.index.bytes_read),
    )


def _index(table: Table, policy: TablePolicy, driver_bytes: int, spark: SparkStarter, progress: Progress) -> Done:
    columns = policy.index_columns or None
    report = index(
        table, IndexOptions(columns=columns, fpp=policy.rule.index_fpp, driver_bytes=driver_bytes), spark, progress
    )
    return Done(report.snapshot_id, report.committed, report.files_read, report.rows_read, report.bytes_read)
