"""
Whether statistics are current: of the snapshot, of its columns as they are now, and as large as they were asked for.

A run leaves a table as it is if everything that was asked for is current; who wants stale tables alone skips it. Both
ask here, from table metadata and the names and sizes of private state, as long as this version made the statistics.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from puffin.statistics.answer import ColumnAnswer
from puffin.statistics.blob_properties import is_by_an_earlier_version, is_ours
from puffin.statistics.draft import damaged_entries
from puffin.statistics.stored_estimates import answer_columns
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.snapshot import PartitionStatistics, TableSnapshot
from puffin.tables.table import Table
from stats_jobs.basis import CARRIED, Wanted, misfit, plan_columns
from stats_jobs.options import INCREMENTAL, Options
from stats_jobs.partitions import is_partitioned, partitions_kept
from stats_jobs.target import Target


def is_stale(table: Table, options: Options) -> bool:
    """
    Whether something that is asked for is not current, sketches by partition too, if they are.

    A table without a snapshot is stale, and one without a column to analyze is not. One with an entry that has to be
    made good is. One that has more partitions than sketches are kept of stays stale by partition: how many it has, its
    files alone tell.

    Raises:
        PuffinError: The table cannot be loaded; it has no such snapshot or column.
    """
    opened = table.open(options.selector)
    state, is_empty = opened.state, opened.is_empty
    columns = state.select_columns(options.columns)
    if damaged_entries(state):
        return True
    if not columns:
        return False
    if is_empty or current_answers(Target.of(opened, columns, options)) is None:
        return True
    return options.partitions and is_partitioned(state) and partitions_kept(opened, columns) is None


def current_answers(target: Target) -> tuple[ColumnAnswer, ...] | None:
    """The answers that stand already, if every column asked for has one of this snapshot, type and size."""
    opened, options = target.opened, target.options
    state, snapshot, entry = opened.state, opened.snapshot, target.entry
    if entry is None:
        return None
    if not all(state.field_ids.issuperset(blob.fields) for blob in entry.blobs):
        return None  # a blob for a field that is gone makes Spark's planner fail: only a new entry takes it out
    has_partition_file = entry.snapshot_id in state.partition_statistics
    if options.partitions and keeps_partition_statistics(opened) and not has_partition_file:
        return None
    answers = answer_columns(opened, target.columns, target.blobs)
    for answer in answers:
        blob = entry.sketch_of(answer.column.field_id)
        if answer.stats_snapshot_id != entry.snapshot_id or blob is None:
            return None
        if misfit(state, snapshot, answer.column, blob, options.lg_k) is not None:
            return None
    if not _are_whole(target, entry):
        return None
    return tuple(dataclasses.replace(answer, basis=CARRIED) for answer in answers)


def _are_whole(target: Target, entry: StatisticsEntry) -> bool:
    """
    Whether the sketches of an entry, which fit, can be trusted, and nothing that is kept beside them is missing.

    Those that this version wrote say so themselves, and only the files of their private state are looked up. Others
    are planned with as if they were to be built on.
    """
    blobs = {column.field_id: entry.sketch_of(column.field_id) for column in target.columns}
    noted = {field_id: blob for field_id, blob in blobs.items() if blob is not None and _is_noted(blob)}
    wanted = Wanted(target.options.lg_k, complete=target.options.mode != INCREMENTAL)
    if noted and wanted.complete and target.blobs.has_lost_state(entry):
        return False
    if wanted.complete and any(target.blobs.misses(entry, blob) for blob in noted.values()):
        return False
    doubtful = [column for column in target.columns if column.field_id not in noted]
    plans = plan_columns(target.opened, doubtful, wanted, target.bases)
    return all(plan.basis == CARRIED and plan.base_id == entry.snapshot_id for plan in plans)


def keeps_partition_statistics(opened: TableSnapshot) -> TypeGuard[PartitionStatistics]:
    """Whether partition statistics files are kept of the table."""
    return isinstance(opened, PartitionStatistics) and opened.keeps_partition_statistics()


def _is_noted(blob: BlobEntry) -> bool:
    return is_ours(blob.properties) and not is_by_an_earlier_version(blob.properties)
