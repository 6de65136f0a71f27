"""
Questions about columns of several tables, answered from their sketches.

A sketch is a sample of its column's values by hash, so the hashes below the smaller theta tell the overlap of two
columns. This needs equal hashes of equal values. An int and a long are hashed differently, and hashes cannot be
converted, so such columns are refused. The rows of an equi-join are

    overlap x (left rows / left ndv) x (right rows / right ndv)

since each shared value occurs in that many rows of each side on average. Rows with a null do not count, if the number
is known. If one sketch has no hash below the other's theta, the overlap is unknown. The estimate then assumes that the
larger side contains the smaller, as planners do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from puffin.errors import CorruptError, NotFoundError, PuffinError, UnsupportedError, UnsupportedTypeError, UsageError
from puffin.estimates.filters import Methods
from puffin.estimates.interval import Interval
from puffin.estimates.joins import JoinRows, SideRows
from puffin.estimates.zeros import sketch_as_one, zeros_of
from puffin.lookup.partition_filter import PartitionFilter
from puffin.lookup.question import Question
from puffin.lookup.table_rows import RowsChanged
from puffin.sketches.sizes import DEFAULT_LG_K
from puffin.sketches.theta_sketch import ThetaSketch, merge
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.answer import Distinct
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
        changed: The rows that came and went since; None if none did.
    """

    table: str
    column: Column
    sketch: ThetaSketch
    hashed_type: str
    lg_k: int
    row_count: int | None
    value_count: int | None
    most_distinct: int | None = None
    changed: RowsChanged | None = None

    def __str__(self) -> str:
        return f"{self.table} {self.column.name}"

    @property
    def distinct(self) -> Distinct:
        return Distinct.of(self.sketch).at_most(self.most_distinct)


@dataclasses.dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of an equi-join; ``row_count`` is None if unknown."""

    table: str
    column: str
    ndv: int
    row_count: int | None

    def to_json(self) -> dict[str, Any]:
        return {"table": self.table, "column": self.column, "ndv": self.ndv, "row-count": self.row_count}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JoinEstimate:
    """
    The overlap of two columns, and the rows of their equi-join.

    Attributes:
        overlap: The distinct values that both columns have.
        containment_left: The share of the left side's distinct values that the right side has; None if unknown.
        containment_right: The share of the right side's distinct values that the left side has; None if unknown.
        jaccard: The distinct values of both over those of either; None if unknown.
        join_rows: None if the rows of a side are unknown.
        rows: What row counts and distributions tell of the join; None if the estimate is from sketches alone.
        left_rows, right_rows: The rows of each side after its filter.
        left_how, right_how: How the rows of each filter were found; None without a filter.
        left_changed, right_changed: What changed since the statistics of each side; None if nothing did.
    """

    left: JoinSide
    right: JoinSide
    overlap: Distinct | None
    containment_left: float | None
    containment_right: float | None
    jaccard: float | None
    join_rows: int | None
    rows: JoinRows | None = None
    left_rows: Interval | None = None
    right_rows: Interval | None = None
    left_how: Methods | None = dataclasses.field(default=None, compare=False, repr=False)
    right_how: Methods | None = dataclasses.field(default=None, compare=False, repr=False)
    left_changed: RowsChanged | None = dataclasses.field(default=None, compare=False, repr=False)
    right_changed: RowsChanged | None = dataclasses.field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "overlap-ndv": None if self.overlap is None else self.overlap.ndv,
            "overlap-lower": None if self.overlap is None else self.overlap.lower,
            "overlap-upper": None if self.overlap is None else self.overlap.upper,
            "containment-left": self.containment_left,
            "containment-right": self.containment_right,
            "jaccard": self.jaccard,
            "join-rows": self.join_rows,
            **self._rows_to_json(),
        }

    @property
    def selectivity(self) -> float | None:
        """The rows of the join, of all pairs of rows of both tables; None if unknown."""
        pairs = (self.left.row_count or 0) * (self.right.row_count or 0)
        return None if self.join_rows is None else self.join_rows / pairs if pairs else 0.0

    @property
    def left_side(self) -> SideRows | None:
        """The rows of the left side, with and without a partner; None if the estimate is from sketches alone."""
        return _side_rows(self.left_rows, self.rows, lambda rows: rows.left_semi)

    @property
    def right_side(self) -> SideRows | None:
        """The same of the right side."""
        return _side_rows(self.right_rows, self.rows, lambda rows: rows.right_semi)

    @property
    def left_methods(self) -> tuple[tuple[str, str], ...]:
        """How the rows of each predicate of the left filter were found; as `TableEstimate.methods`."""
        return () if self.left_how is None else self.left_how.said()

    @property
    def right_methods(self) -> tuple[tuple[str, str], ...]:
        """The same of the right filter."""
        return () if self.right_how is None else self.right_how.said()

    def _rows_to_json(self) -> dict[str, Any]:
        _, lower, upper = (None,) * 3 if self.rows is None else self.rows.rows.rounded()
        return {
            "join-lower": lower,
            "join-upper": upper,
            "selectivity": self.selectivity,
            "method": None if self.rows is None else self.rows.method,
            **_side_to_json("left", self.left_side),
            **_side_to_json("right", self.right_side),
            "left-methods": [] if self.left_how is None else self.left_how.to_json(),
            "right-methods": [] if self.right_how is None else self.right_how.to_json(),
        }


def _side_rows(side: Interval | None, rows: JoinRows | None, semi: Callable[[JoinRows], Interval]) -> SideRows | None:
    if side is None or rows is None:
        return None
    # Whole rows, so that those with a partner and those without add up.
    return SideRows.of(*(Interval(*each.rounded()) for each in (side, semi(rows), rows.rows)))


def _side_to_json(which: str, found: SideRows | None) -> dict[str, int | None]:
    document: dict[str, int | None] = {}
    for at, kind in enumerate(("", "-semi", "-anti", "-outer")):
        numbers = (None,) * 3 if found is None else found[at].rounded()
        document |= zip((f"{which}{kind}-{end}" for end in ("rows", "lower", "upper")), numbers, strict=True)
    return document


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
        is_selected = PartitionFilter(opened.state, question.partitions, question.where)
        stored = StoredBlobs(opened, [column.field_id])
        errors: list[PuffinError] = []
        found = nearest_partition_sketches(nearest, stored, errors)
        if found is None:
            raise _error_about(opened, column, errors[0] if errors else NotFoundError(NOT_BY_PARTITION))
        known, sketches = found
        return _described(opened, known, sketches.union(is_selected), of_all_rows=False)
    known, sketch = _nearest(opened, nearest, column)
    return _described(opened, known, sketch, of_all_rows=True)


def join_estimate(left: ColumnSketch, right: ColumnSketch) -> JoinEstimate:
    """Estimate overlap and join of two columns, with 95 % bounds; UnsupportedTypeError if hashed differently."""
    check_alike((str(left), left.hashed_type), (str(right), right.hashed_type))
    left_side, right_side = (JoinSide(s.table, s.column.name, s.distinct.ndv, s.row_count) for s in (left, right))
    zeros = zeros_of(left.hashed_type)
    left, right = (dataclasses.replace(each, sketch=sketch_as_one(each.sketch, zeros)) for each in (left, right))
    one, other = left.sketch, right.sketch
    both = one.intersect(other)
    sampled_left, sampled_right = (int(np.searchsorted(s.hashes, np.uint64(both.theta))) for s in (one, other))
    sampled_any = sampled_left + sampled_right - both.retained
    least = min(one.estimate, other.estimate)
    can_tell = all(sampled or sketch.empty for sampled, sketch in ((sampled_left, one), (sampled_right, other)))
    return JoinEstimate(
        left=left_side,
        right=right_side,
        overlap=Distinct.of(both).at_most(min(left.distinct.upper, right.distinct.upper)),
        containment_left=both.retained / sampled_left if sampled_left else None,
        containment_right=both.retained / sampled_right if sampled_right else None,
        jaccard=both.retained / sampled_any if sampled_any else None,
        join_rows=_join_rows(min(both.estimate, least) if can_tell else least, left, right),
        left_changed=left.changed,
        right_changed=right.changed,
    )


def union_estimate(columns: Sequence[Question], sketches: Sequence[ColumnSketch]) -> UnionEstimate:
    """The distinct values of columns together; UnsupportedTypeError if they are hashed differently."""
    for sketch in sketches[1:]:
        check_alike((str(sketches[0]), sketches[0].hashed_type), (str(sketch), sketch.hashed_type))
    lg_k = max((sketch.lg_k for sketch in sketches), default=DEFAULT_LG_K)
    limits = [sketch.most_distinct for sketch in sketches]
    most = None if None in limits else sum(each or 0 for each in limits)
    return UnionEstimate(tuple(columns), Distinct.of(merge((sketch.sketch for sketch in sketches), lg_k)).at_most(most))


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
            objection = trust.objection(known, sketch) or known.misreading
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
    summary = known.said.summary if of_all_rows else None
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
        lg_k=known.said.lg_k,
        row_count=rows,
        value_count=rows if values is None else values,
        most_distinct=None if summary is None else summary.most_distinct,
        changed=RowsChanged.of_any([(0, 0) if known.age == 0 else (since.records_added, since.most_deleted)]),
    )


def _join_rows(overlap: float, left: ColumnSketch, right: ColumnSketch) -> int | None:
    rows = overlap
    for side in (left, right):
        if side.value_count is None:
            return None
        rows *= side.value_count / side.sketch.estimate if side.sketch.estimate else 0
    return round(rows)
