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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from puffin.errors import UnsupportedError
from puffin.format import PARTITION_SKETCHES_V1, ROW_COUNTS_V1
from puffin.load import load_table
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.statistics.answer import SNAPSHOT, ColumnAnswer
from puffin.statistics.assemble import ColumnStatistics
from puffin.statistics.blob_properties import Distinct, Provenance, is_ours
from puffin.statistics.draft import FileOptions, StatisticsDraft, damaged_entries
from puffin.statistics.private_state.upkeep import remove_lost_state
from puffin.statistics.stored_partitions import StoredPartitionSketches
from puffin.tables.base import Column, Snapshot, SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.commit import commit_statistics
from puffin.tables.document import mapping_digest
from puffin.tables.snapshot import PartitionStatistics, PartitionStatisticsWriter, TableSnapshot
from puffin.tables.table import Table
from stats_jobs import basis
from stats_jobs.basis import ColumnPlan, Wanted, plan_columns
from stats_jobs.compute import Computation, Computed, compute
from stats_jobs.current import current_answers
from stats_jobs.execute import Measure
from stats_jobs.options import FULL, INCREMENTAL, Options
from stats_jobs.partitions import (
    CarriedPartitions,
    PartitionPlans,
    carry_partitions,
    partitions_kept,
    plan_partitions,
)
from stats_jobs.report import PartitionReport, Report
from stats_jobs.run import Runner
from stats_jobs.session import BringsSpark, Progress, SparkStarter
from stats_jobs.stored import StoredSketches

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
    state, is_empty = opened.state, opened.is_empty
    columns = state.select_columns(options.columns)
    if is_empty:
        missing = tuple(ColumnAnswer.missing(column) for column in columns)
        return Report(table=table.name, format=state.format, snapshot=None, columns=missing, mode=FULL)
    snapshot = opened.snapshot
    if not columns and state.settled(snapshot).snapshot_id not in state.statistics:
        return Report(table=table.name, format=state.format, snapshot=snapshot, columns=())
    current = None if options.mode == FULL else current_answers(opened, columns, options)
    partition_plans = _plan_partitions(opened, columns, options, is_current=current is not None)
    writes = options.commit and not options.dry_run
    if current is not None and not partition_plans.by_field:
        report = Report(
            table=table.name,
            format=state.format,
            snapshot=snapshot,
            columns=current,
            entry=state.statistics[state.settled(snapshot).snapshot_id],
            current=True,
            partitions=_partition_report(options, partition_plans.kept, partition_plans.reason),
        )
        if writes and damaged_entries(state):
            report = _repaired(table, opened, options, report)
        return dataclasses.replace(report, elapsed_seconds=time.monotonic() - started)

    if writes:
        opened.check_committable()
    plans = _plan(opened, columns, options, partition_plans)
    computation = _compute(opened, plans, options, partition_plans, spark, progress)
    made = _made(computation, plans, snapshot)
    carried = _carried(opened, made, options)
    statistics = [_statistics(computed, state, computation.partitions, carried) for computed in made]
    if not options.row_counts:
        statistics = [dataclasses.replace(each, row_counts=None) for each in statistics]
    elif options.mode == INCREMENTAL:  # which builds on statistics that lack something, and leaves it to a later run
        statistics = [dataclasses.replace(each, has_lost_row_counts=each.row_counts is None) for each in statistics]
    entry, attempts = _publish(table, opened, statistics, options)
    counts = [len(sketches.keys) for sketches in computation.partitions.values()]
    return Report(
        table=table.name,
        format=state.format,
        snapshot=snapshot,
        columns=tuple(_answer(computed, snapshot) for computed in computation.columns),
        mode=FULL if any(computed.basis == basis.FULL for computed in computation.columns) else INCREMENTAL,
        entry=entry,
        committed=attempts > 0,
        files_read=computation.files_read,
        rows_read=computation.rows_read,
        bytes_read=computation.bytes_read,
        elapsed_seconds=time.monotonic() - started - computation.session_seconds - computation.waited_seconds,
        session_seconds=computation.session_seconds,
        attempts=attempts,
        entries_repaired=_count_of_repaired(state, snapshot, entry if attempts > 0 else None),
        partitions=_partition_report(options, max(counts, default=None), partition_plans.reason or carried.reason),
    )


def _repaired(table: Table, opened: TableSnapshot, options: Options, report: Report) -> Report:
    """The report of a run that has nothing to compute, and makes entries good that other engines choke on."""
    opened.check_committable()
    settled = opened.state.settled(opened.snapshot)
    entry, attempts = _publish(table, opened.of(SnapshotSelector(snapshot_id=settled.snapshot_id)), [], options)
    return dataclasses.replace(
        report,
        entry=entry,
        current=False,
        committed=True,
        attempts=attempts,
        entries_repaired=_count_of_repaired(opened.state, settled, entry),
    )


def _count_of_repaired(state: TableState, snapshot: Snapshot, committed: StatisticsEntry | None) -> int:
    """How many damaged entries a commit has replaced, that of its own snapshot included."""
    if committed is None:
        return 0
    return len(committed.repairs) + any(each.snapshot_id == snapshot.snapshot_id for each in damaged_entries(state))


def _plan_partitions(
    opened: TableSnapshot, columns: Sequence[Column], options: Options, *, is_current: bool
) -> PartitionPlans:
    """The plans of sketches by partition; none if they are not asked for, or there already for all of the columns."""
    if not options.partitions:
        return PartitionPlans({})
    kept = partitions_kept(opened, columns) if is_current else None
    if kept is not None:
        return PartitionPlans({}, kept=kept)
    stored = StoredPartitionSketches(opened, [column.field_id for column in columns])
    plans = plan_partitions(opened, columns, None if options.mode == FULL else stored)
    for column in columns:
        if options.mode == INCREMENTAL and plans.by_field and plans.by_field[column.field_id].base is None:
            raise _not_incremental(opened, column, "there are no sketches by partition that fit")
    return plans


def _plan(
    opened: TableSnapshot, columns: Sequence[Column], options: Options, partition_plans: PartitionPlans
) -> list[ColumnPlan]:
    if options.mode == FULL:
        return [ColumnPlan.in_full(column, "asked for") for column in columns]
    wanted = Wanted(options.lg_k, complete=options.mode != INCREMENTAL)
    plans = plan_columns(opened, columns, wanted, StoredSketches(opened, columns))
    if partition_plans.by_field:
        plans = [_beside_partitions(plan, opened) for plan in plans]
    for plan in plans:
        if options.mode == INCREMENTAL and plan.basis == basis.FULL:
            raise _not_incremental(opened, plan.column, plan.reason)
    return plans


def _beside_partitions(plan: ColumnPlan, opened: TableSnapshot) -> ColumnPlan:
    """The plan of a column whose sketch tells of sketches by partition, which another engine's does not."""
    snapshot_id = opened.snapshot.snapshot_id
    entry = opened.state.statistics.get(snapshot_id)
    blob = None if entry is None else entry.sketch_of(plan.column.field_id)
    if plan.base_id == snapshot_id and blob is not None and not is_ours(blob.properties):
        return ColumnPlan.in_full(plan.column, "another engine made its sketch, which cannot tell of partitions")
    return plan


def _compute(
    opened: TableSnapshot,
    plans: Sequence[ColumnPlan],
    options: Options,
    partition_plans: PartitionPlans,
    spark: SparkStarter,
    progress: Progress | None,
) -> Computation:
    runner = Runner(opened, spark, options.driver_bytes, progress)
    keeps_counts = options.row_counts and not options.dry_run
    measure = Measure(
        options.lg_k,
        row_counts=keeps_counts or any(plan.basis == basis.CHANGED for plan in plans),
        summaries=not options.dry_run,
        partition_lg_k=max((plan.lg_k for plan in partition_plans.by_field.values()), default=None),
    )
    computation = compute(plans, runner, lambda: opened.tasks, measure, partition_plans.by_field)
    for computed in computation.columns:
        if options.mode == INCREMENTAL and computed.basis == basis.FULL:
            raise _not_incremental(opened, computed.column, computed.reason)
    return computation


def _made(computation: Computation, plans: Sequence[ColumnPlan], snapshot: Snapshot) -> list[Computed]:
    """Of the columns, those to write: what is of this snapshot already stays as it is stored, asked for or not."""
    stored = {plan.column.field_id for plan in plans if plan.base_id == snapshot.snapshot_id}
    stored -= computation.partitions.keys()
    return [c for c in computation.columns if c.column.field_id not in stored or c.basis == basis.FULL]


def _carried(opened: TableSnapshot, made: Sequence[Computed], options: Options) -> CarriedPartitions:
    """Earlier sketches by partition that stay beside what is written, in a run that makes none."""
    if options.partitions or options.dry_run:
        return CarriedPartitions({})
    columns = [computed.column for computed in made]
    stored = StoredPartitionSketches(opened, [column.field_id for column in columns])
    return carry_partitions(opened, columns, stored)


def _statistics(
    computed: Computed, state: TableState, sketches: Mapping[int, PartitionSketches], carried: CarriedPartitions
) -> ColumnStatistics:
    """What is written of a column."""
    field_id = computed.column.field_id
    mapping = mapping_digest(state, computed.column) if computed.is_mapped else computed.base.mapping
    kept = {ROW_COUNTS_V1: computed.kept_counts, PARTITION_SKETCHES_V1: carried.kept.get(field_id)}
    return ColumnStatistics(
        computed.column,
        computed.sketch,
        computed.summary,
        Provenance(mapping, computed.base.writer),
        computed.counts,
        sketches.get(field_id, carried.by_field.get(field_id)),
        {type_: blob for type_, blob in kept.items() if blob is not None},
    )


def _publish(
    table: Table, opened: TableSnapshot, statistics: Sequence[ColumnStatistics], options: Options
) -> tuple[StatisticsEntry | None, int]:
    """The entry of the file written and the number of commit attempts, none for a file without a commit."""
    if options.dry_run:
        return None, 0
    codec = None if options.codec == "none" else options.codec
    draft = StatisticsDraft(
        opened,
        statistics,
        FileOptions(options.lg_k, codec, options.home, repairs=options.commit),
        _partition_statistics(opened) if options.partitions else None,
    )
    if options.commit:
        committed = commit_statistics(table, draft)
        remove_lost_state(committed.opened, options.home)
        return committed.entry, committed.attempts
    existing = opened.state.statistics.get(opened.snapshot.snapshot_id)
    return draft.write(opened, [] if existing is None else [existing]), 0


def _partition_statistics(opened: TableSnapshot) -> PartitionStatisticsWriter | None:
    if isinstance(opened, PartitionStatistics) and opened.keeps_partition_statistics():
        return opened.partition_statistics_writer()
    return None


def _partition_report(options: Options, count: int | None, reason: str | None) -> PartitionReport | None:
    return PartitionReport(count, reason) if options.partitions or reason is not None else None


def _answer(computed: Computed, snapshot: Snapshot) -> ColumnAnswer:
    distinct = Distinct.of(computed.sketch)
    if computed.summary is not None:
        distinct = distinct.at_most(computed.summary.most_distinct)
    return ColumnAnswer(
        computed.column, distinct, snapshot.snapshot_id, SNAPSHOT, basis=computed.basis, reason=computed.reason
    )


def _not_incremental(opened: TableSnapshot, column: Column, reason: str | None) -> UnsupportedError:
    return UnsupportedError(f"{opened.name}: column {column.name}: expected earlier statistics to build on: {reason}")
