"""
Tells whether statistics are current: made from this snapshot, for its columns as they are now, in the wanted size.

A run skips its work if everything it was asked for is current; ``only_stale`` skips the table. Both use table metadata
and the names and sizes of private state only, if this version made the statistics.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from puffin.statistics.answer import ColumnAnswer
from puffin.statistics.blob_properties import has_provenance
from puffin.statistics.draft import damaged_entries
from puffin.statistics.resolve import answer_columns
from puffin.tables.base import StatisticsEntry
from puffin.tables.snapshot import PartitionStatistics, TableSnapshot
from puffin.tables.table import Table
from stats_jobs.basis import CARRIED, Wanted, misfit, plan_columns
from stats_jobs.options import INCREMENTAL, Options
from stats_jobs.partitions import is_partitioned, partitions_kept
from stats_jobs.target import Target


def is_stale(table: Table, options: Options) -> bool:
    """
    Whether something that the options ask for is not current, sketches by partition included.

    A table is stale without a snapshot or with a damaged entry, and current without a column to analyze. With too many
    partitions for sketches it stays stale: only its files tell how many partitions it has. Raises PuffinError if the
    table cannot be loaded, or has no such snapshot or column.
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
    """The stored answers, if every column has one of this snapshot, type and size."""
    opened, options = target.opened, target.options
    state, snapshot, entry = opened.state, opened.snapshot, target.entry
    if entry is None:
        return None
    if not all(state.field_ids.issuperset(blob.fields) for blob in entry.blobs):
        return None  # a blob for a dropped field makes Spark's planner fail, so a new entry has to replace it
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
    Whether sketches that fit can be trusted and nothing beside them is missing.

    Those of this version say so themselves; only their private state is looked up. Others must pass as a base.
    """
    blobs = {column.field_id: entry.sketch_of(column.field_id) for column in target.columns}
    noted = {field_id: blob for field_id, blob in blobs.items() if blob is not None and has_provenance(blob.properties)}
    wanted = Wanted(target.options.lg_k, complete=target.options.mode != INCREMENTAL)
    if noted and wanted.complete and target.blobs.has_lost_state(entry):
        return False
    if wanted.complete and any(target.blobs.misses(entry, blob) for blob in noted.values()):
        return False
    doubtful = [column for column in target.columns if column.field_id not in noted]
    plans = plan_columns(target.opened, doubtful, wanted, target.bases)
    return all(plan.basis == CARRIED and plan.base_id == entry.snapshot_id for plan in plans)


def keeps_partition_statistics(opened: TableSnapshot) -> TypeGuard[PartitionStatistics]:
    return isinstance(opened, PartitionStatistics) and opened.keeps_partition_statistics()
