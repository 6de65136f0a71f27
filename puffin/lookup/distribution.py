"""The distribution of a column as people look at it, from the statistics of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from puffin.errors import in_one_line
from puffin.estimates.interval import Interval
from puffin.estimates.shape import ColumnShape, shape_of
from puffin.lookup.estimates import Estimator
from puffin.tables.base import Column
from puffin.values.column_bounds import comparable_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDistribution:
    """
    The most frequent values of a column and its histogram.

    Attributes:
        snapshot_id: The snapshot asked for; None if the table has none.
        row_count: The rows of the table.
        shape: None if statistics do not have the column's values, with the reason in ``reason``.
    """

    table: str
    format: str
    snapshot_id: int | None
    column: Column
    type: str
    row_count: int
    shape: ColumnShape | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        shape = self.shape
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": self.snapshot_id,
            "column": self.column.name,
            "type": self.type,
            "row-count": self.row_count,
            "complete": shape is not None and shape.is_complete,
            "reason": self.reason,
            "heavy": [
                {"value": self._text(each.value), "cut": each.is_cut, **_rows(each.rows)}
                for each in (shape.heavy if shape else ())
            ],
            "histogram": [
                {"first": self._text(each.first), "last": self._text(each.last), **_rows(each.rows)}
                for each in (shape.buckets if shape else ())
            ],
        }

    def _text(self, value: Any) -> Any:
        if self.type == "string":
            return value.decode(errors="ignore")  # a cut one may end inside a character
        if isinstance(value, float) and value != value:
            return "NaN"
        found = comparable_to_json(self.type, value)
        return str(value) if found is None else found


def column_distribution(estimator: Estimator, name: str) -> ColumnDistribution:
    """The distribution of a column; raises ColumnNotFound, and PuffinError if metadata cannot be read."""
    opened = estimator.opened
    (column,) = opened.state.select_columns((name,))
    rows = estimator.column(column.field_id)
    shape = shape_of(rows)
    return ColumnDistribution(
        table=opened.name,
        format=opened.state.format,
        snapshot_id=opened.snapshot_id,
        column=column,
        type=rows.facts.type,
        row_count=estimator.row_count,
        shape=shape,
        reason=_reason(estimator, column) if shape is None else None,
    )


def _reason(estimator: Estimator, column: Column) -> str:
    """Why statistics do not have the values of a column."""
    if estimator.opened.is_empty:
        return "no snapshot yet"
    if (failure := estimator.failure(column.field_id)) is not None:
        return f"its distribution cannot be read: {in_one_line(failure)}"
    if estimator.column(column.field_id).facts.distribution is None:
        return "no distribution is stored: puffin analyze --mode full (in Python mode='full') makes one"
    return "its values are not kept (--no-values, in Python no_values)"


def _rows(rows: Interval) -> dict[str, int]:
    return dict(zip(("rows", "lower", "upper"), rows.rounded(), strict=True))
