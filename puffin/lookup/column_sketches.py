"""
The sketch that answers for a column, and the distinct values of several columns together.

A sketch is a sample of its column's values by hash, so sketches of several columns, of several tables too, can be
combined. This needs equal hashes of equal values. An int and a long are hashed differently, and hashes cannot be
converted, so such columns are refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from puffin.errors import CorruptError, NotFoundError, PuffinError, UnsupportedError, UnsupportedTypeError, UsageError
from puffin.lookup.partition_filter import PartitionFilter
from puffin.lookup.question import Question
from puffin.lookup.table_rows import RowsChanged
from puffin.sketches.sizes import DEFAULT_LG_K
from puffin.sketches.theta_sketch import ThetaSketch, merge
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.answer import Distinct, Freshness
from puffin.statistics.kinds import THETA
from puffin.statistics.resolve import NOT_BY_PARTITION, nearest_partition_sketches
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.statistics.trust import Trust
from puffin.tables.base import Column
from puffin.tables.snapshot import TableSnapshot
from puffin.values.value_type import hashes_alike


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSketch:
    """
    The sketch that answers for a column.

    Attributes:
        hashed_type: The type that its values were hashed as.
        lg_k: Base-2 logarithm of the most hashes it can have.
        row_count: The rows it describes, with nulls; None if unknown.
        value_count: The rows whose value is not null; if nulls were not counted, all rows.
        most_distinct: The most distinct values that it can describe; None if its maker did not count rows.
        freshness: What changed since its rows were counted.
        changed: The rows that came and went since; None if none did.
        is_foreign: Whether another engine made it.
    """

    table: str
    column: Column
    sketch: ThetaSketch
    hashed_type: str
    lg_k: int
    row_count: int | None
    value_count: int | None
    freshness: Freshness
    most_distinct: int | None = None
    changed: RowsChanged | None = None
    is_foreign: bool = False

    def __str__(self) -> str:
        return f"{self.table} {self.column.name}"

    @property
    def distinct(self) -> Distinct:
        return Distinct.of(self.sketch, is_foreign=self.is_foreign).at_most(self.most_distinct)


@dataclasses.dataclass(frozen=True, slots=True)
class UnionEstimate:
    """The distinct values in several columns together."""

    columns: tuple[Question, ...]
    distinct: Distinct

    def to_json(self) -> dict[str, Any]:
        named = [(each.table, column) for each in self.columns for column in each.columns or ()]
        return {
            "columns": [{"table": table, "column": column} for table, column in named],
            **dataclasses.asdict(self.distinct),
        }


def column_sketch(opened: TableSnapshot, question: Question) -> ColumnSketch:
    """
    The sketch of the nearest rows for a question's column, in a table opened with the question's selector.

    Raises:
        NotFoundError: There is no such column or partition, or it has no statistics.
        UsageError: The question is not about one column; a partition or the filter cannot be parsed.
        UnsupportedTypeError: The column cannot be hashed, or the type of its hashes is unknown.
        CorruptError, StorageError: There are statistics, but none that can be read.
    """
    if question.columns is None or len(question.columns) != 1:
        raise UsageError(f"{question.table}: expected one column, found {question.columns}")
    (column,) = opened.state.select_columns(question.columns)
    if opened.is_empty:
        raise _error_about(opened, column, NotFoundError("no statistics: the table has no snapshot yet"))
    nearest = known_sketches(opened, [column.field_id])[column.field_id]
    if question.is_of_partitions:
        is_selected = PartitionFilter(opened, question.partitions, question.where)
        found, errors = nearest_partition_sketches(nearest, StoredBlobs(opened, [column.field_id]))
        if found is None:
            raise _error_about(opened, column, errors[0] if errors else NotFoundError(NOT_BY_PARTITION))
        known, sketches = found
        return _described(opened, known, sketches.union(is_selected), of_all_rows=False)
    known, sketch = _nearest(opened, nearest, column)
    return _described(opened, known, sketch, of_all_rows=True)


def union_estimate(columns: Sequence[Question], sketches: Sequence[ColumnSketch]) -> UnionEstimate:
    """The distinct values of columns together; UnsupportedTypeError if they are hashed differently."""
    for sketch in sketches[1:]:
        check_alike((str(sketches[0]), sketches[0].hashed_type), (str(sketch), sketch.hashed_type))
    lg_k = max((sketch.lg_k for sketch in sketches), default=DEFAULT_LG_K)
    limits = [sketch.most_distinct for sketch in sketches]
    most = None if None in limits else sum(each or 0 for each in limits)
    merged = merge((sketch.sketch for sketch in sketches), lg_k)
    distinct = Distinct.of(merged, is_foreign=any(sketch.is_foreign for sketch in sketches))
    return UnionEstimate(tuple(columns), distinct.at_most(most))


def check_alike(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Raise UnsupportedTypeError if equal values of two columns, each a name and a type, have different hashes."""
    (name, type_), (other_name, other_type) = one, other
    if not hashes_alike(type_, other_type):
        raise UnsupportedTypeError(
            f"{name} was hashed as {type_} and {other_name} as {other_type}: these hashes cannot be compared; "
            "bring both columns to one type and analyze them again"
        )


def _nearest(opened: TableSnapshot, sketches: Iterable[KnownSketch], column: Column) -> tuple[KnownSketch, ThetaSketch]:
    stored = StoredBlobs(opened, (column.field_id,))
    trust = Trust(opened, stored, (column,))
    errors: list[PuffinError] = []
    for known in sketches:
        try:
            sketch = stored.require(known, THETA)
            objection = trust.objection(known, sketch) or known.mapping_changed
            if objection is not None:
                raise UnsupportedTypeError(f"{objection}: run puffin analyze")
            return known, sketch
        except (CorruptError, UnsupportedError, NotFoundError) as exc:
            errors.append(exc)
    raise _error_about(opened, column, errors[0] if errors else NotFoundError("no statistics: run puffin analyze"))


def _error_about(opened: TableSnapshot, column: Column, error: PuffinError) -> PuffinError:
    message = f"{opened.name}: column {column.name}: {error}"
    if isinstance(error, UnsupportedTypeError):
        return UnsupportedTypeError(message)
    if isinstance(error, CorruptError | UnsupportedError):
        return CorruptError(message)
    return NotFoundError(message) if type(error) is NotFoundError else error


def _described(opened: TableSnapshot, known: KnownSketch, sketch: ThetaSketch, *, of_all_rows: bool) -> ColumnSketch:
    summary = known.properties.summary if of_all_rows else None
    rows = known.snapshot.total_records if of_all_rows and known.snapshot is not None else None
    if summary is not None and summary.row_count is not None:
        rows = summary.row_count
    values = None if summary is None else summary.value_count
    if known.type is None:
        raise _error_about(opened, known.column, UnsupportedTypeError("the statistics do not record its type"))
    since = known.freshness
    return ColumnSketch(
        table=opened.name,
        column=known.column,
        sketch=sketch,
        hashed_type=known.type,
        lg_k=known.properties.lg_k,
        row_count=rows,
        value_count=rows if values is None else values,
        freshness=since,
        most_distinct=None if summary is None else summary.most_distinct,
        changed=RowsChanged.of_any([(0, 0) if known.age == 0 else (since.records_added, since.most_deleted)]),
        is_foreign=not known.properties.is_ours,
    )
