"""
Whether statistics are current: of the snapshot, of its columns as they are now, and as large as they were asked for.

A table of which everything asked for is current is left as it is by a run, and left out before one by who wants stale
tables alone. Both ask here, from metadata alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from puffin.lookup.answer import ColumnAnswer
from puffin.lookup.planner import answer_columns
from puffin.tables.base import Column, Snapshot, TableState
from puffin.tables.table import Table
from stats_jobs import basis
from stats_jobs.options import Options
from stats_jobs.partitions import is_partitioned, partitions_kept


def is_stale(table: Table, options: Options) -> bool:
    """
    Whether something that is asked for is not current, sketches by partition too, if they are.

    A table without a snapshot is stale, and one without a column to analyze is not. One that has more partitions than
    sketches are kept of stays stale by partition: how many it has, its files alone tell.

    Raises:
        PuffinError: The table cannot be loaded; it has no such snapshot or column.
    """
    state = table.load(options.selector)
    snapshot = state.select_snapshot(options.selector)
    columns = state.select_columns(options.columns)
    if not columns:
        return False
    if snapshot is None or current_answers(table, state, snapshot, columns, options) is None:
        return True
    return options.partitions and is_partitioned(state) and partitions_kept(state, snapshot, columns) is None


def current_answers(
    table: Table, state: TableState, snapshot: Snapshot, columns: Sequence[Column], options: Options
) -> tuple[ColumnAnswer, ...] | None:
    """The answers that stand already, if every column asked for has one of this snapshot, type and size."""
    settled = state.settled(snapshot).snapshot_id
    entry = state.statistics.get(settled)
    if entry is None:
        return None
    if not all(state.field_ids.issuperset(blob.fields) for blob in entry.blobs):
        return None  # a blob for a field that is gone makes Spark's planner fail: only a new entry takes it out
    if options.partitions and table.keeps_partition_statistics(state) and settled not in state.partition_statistics:
        return None
    answers = answer_columns(table, state, snapshot, columns)
    for answer in answers:
        blob = entry.sketch_of(answer.column.field_id)
        if answer.stats_snapshot_id != settled or blob is None:
            return None
        if basis.misfit(state, snapshot, answer.column, blob, options.lg_k) is not None:
            return None
    return tuple(dataclasses.replace(answer, basis=basis.CARRIED) for answer in answers)
