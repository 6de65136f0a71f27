"""Advice on which columns of a table to index, from its metadata and statistics; no data file is opened."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Hashable, Sequence
from typing import Any

from puffin.errors import PuffinError
from puffin.index.coverage import indexed_columns, lacking_files
from puffin.index.file_filters import expected_rows
from puffin.index.home import index_of
from puffin.lookup.estimates import Estimator
from puffin.lookup.planner import answer_from
from puffin.lookup.question import Question
from puffin.planning.advice import ColumnAdvice, IndexFacts, advise_column, chosen_rate
from puffin.tables.base import Column
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import Table, TableSnapshot
from puffin.tables.state import TableState

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class IndexAdvice:
    """The advice on each column of a table; ``snapshot_id`` is None if it has no snapshot yet."""

    table: str
    format: str
    snapshot_id: int | None
    files_total: int
    columns: tuple[ColumnAdvice, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": self.snapshot_id,
            "files-total": self.files_total,
            "columns": [column.to_json() for column in self.columns],
        }


def advise(table: Table, columns: Sequence[str] | None = None, fpp: float | None = None) -> IndexAdvice:
    """
    Judge an index of each of these columns, of all if None, for the current snapshot; ``fpp`` is 0.01 by default.

    Raises ColumnNotFound, UnsupportedTypeError for a column that cannot be hashed, UsageError for a rate of false
    positives that an index cannot have, CorruptMetadataError, UnsupportedTableError and StorageError.
    """
    rate = chosen_rate(fpp)
    opened = table.open()
    state = opened.state
    chosen = state.select_columns(columns)
    answers = answer_from(opened, Question(opened.name, columns)).columns
    tasks = () if opened.is_empty else opened.tasks
    metrics = opened.file_metrics(chosen) if tasks else {}
    rows = [expected_rows(task.data_file) for task in tasks]
    indexed = _files_indexed(opened, len(tasks))
    estimator, found = Estimator(opened), []
    for column, answer in zip(chosen, answers, strict=True):
        distinct = answer.distinct
        facts = IndexFacts(
            column=column,
            ndv=None if distinct is None else distinct.ndv,
            most=None if distinct is None else distinct.upper,
            frequencies=None if distinct is None else estimator.column(column.field_id).spread_of_values,
            metrics=metrics.get(column.field_id, ()),
            rows=rows,
            is_constant=_constant(state, column, tasks),
            buckets=_buckets(state, column, tasks),
        )
        of_index = None if indexed is None else indexed.get(column, 0)
        found.append(dataclasses.replace(advise_column(facts, rate), files_indexed=of_index))
    return IndexAdvice(opened.name, state.format, opened.snapshot_id, len(tasks), tuple(found))


def _files_indexed(opened: TableSnapshot, total: int) -> dict[Column, int] | None:
    """How many of the table's files each indexed column has filters for; None if the index cannot be read."""
    try:
        index = index_of(opened)
    except PuffinError as exc:
        _log.warning("%s: the index is not known: %s", opened.name, exc)
        return None
    rates = indexed_columns(opened.state, index.manifest)
    return {column: total - len(lacking_files(opened, index, column, rate)) for column, rate in rates.items()}


def _constant(state: TableState, column: Column, tasks: Sequence[FileScanTask]) -> list[bool]:
    specs = state.specs_with(column, "identity")
    return [task.data_file.spec_id in specs for task in tasks]


def _buckets(state: TableState, column: Column, tasks: Sequence[FileScanTask]) -> list[Hashable]:
    """
    What the partition of each file says of the column's values: those of its buckets, and those that they begin with.

    Bounds of text are cut after 16 characters, so a partition by more of them tells files apart that bounds do not.
    """
    specs = {task.data_file.spec_id for task in tasks}
    buckets, beginnings = state.specs_with(column, "bucket"), state.specs_with(column, "truncate")
    if len({tuple(beginnings.get(spec_id, ())) for spec_id in specs}) > 1:
        beginnings = {}  # a file of another spec may have any of them
    fields = {spec_id: (*buckets.get(spec_id, ()), *beginnings.get(spec_id, ())) for spec_id in specs}
    return [
        tuple((field, task.data_file.partition.get(field)) for field in fields[task.data_file.spec_id])
        for task in tasks
    ]
