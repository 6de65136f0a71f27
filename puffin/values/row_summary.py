"""
Summaries of rows that can be added and subtracted.

Removed rows reduce the counts but not the bounds: the bounds still hold for the remaining rows, and may be too wide. A
total is unknown if one of its parts is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from puffin.errors import CorruptError, said_by
from puffin.values.column_bounds import NO_VALUES, UNKNOWN, Bound, Bounds, Missing
from puffin.values.column_summary import ColumnSummary, known_sum
from puffin.values.value_type import ValueType

_WITH_NAN = frozenset(("float", "double"))
_COUNTS = ("rows", "nulls", "nans", "total_bytes")


def has_nan(column: ValueType) -> bool:
    return column.name in _WITH_NAN


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSummary:
    """
    Counts of rows, and the bounds of their values; None is unknown.

    A count is negative if more rows were removed than added. ``nans`` is 0 for types without NaN. Bounds are loose if
    a row that had one of them was removed.
    """

    rows: int | None = 0
    nulls: int | None = 0
    nans: int | None = 0
    total_bytes: int | None = 0
    bounds: Bounds = NO_VALUES
    is_loose: bool = False

    @classmethod
    def of(cls, summary: ColumnSummary, type_: str) -> RowSummary:
        """Convert a stored summary of a column that has this type now."""
        nans = summary.nan_count if has_nan(ValueType.parse(type_)) else 0
        is_empty = _left(summary.row_count, summary.null_count, nans) == 0
        return cls(
            rows=summary.row_count,
            nulls=summary.null_count,
            nans=nans,
            total_bytes=summary.total_bytes,
            bounds=NO_VALUES if is_empty else Bounds.from_json(type_, summary.min, summary.max),
        )

    @classmethod
    def from_bytes(cls, payload: bytes) -> RowSummary:
        """Parse what `to_bytes` wrote; CorruptError if it is something else."""
        try:
            *counts, lower, upper, is_loose = json.loads(payload)
            bounds = Bounds(_bound_from_json(*lower), _bound_from_json(*upper))
            if type(is_loose) is not bool or not all(count is None or type(count) is int for count in counts):
                raise TypeError("expected counts, bounds and whether these are loose, found something else")
            return cls(**dict(zip(_COUNTS, counts, strict=True)), bounds=bounds, is_loose=is_loose)
        except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as exc:
            raise CorruptError(f"not a summary: {said_by(exc)}") from exc

    def to_bytes(self) -> bytes:
        """All of it as JSON, for another run; `to_column` is for the properties of a sketch."""
        counts = [getattr(self, name) for name in _COUNTS]
        bounds = [_bound_to_json(bound) for bound in (self.bounds.lower, self.bounds.upper)]
        return json.dumps([*counts, *bounds, self.is_loose], separators=(",", ":")).encode()

    @property
    def most_distinct(self) -> int | None:
        """The most distinct values possible; None if the number of rows is unknown too."""
        rows, nulls = _sound(self.rows), _sound(self.nulls)
        return rows if rows is None or nulls is None else rows - nulls

    def to_column(self, type_: str) -> ColumnSummary:
        """The summary to store for a column of this type; a negative count is wrong, and becomes None."""
        rows, nulls, nans, total_bytes = map(_sound, (self.rows, self.nulls, self.nans, self.total_bytes))
        bounds = NO_VALUES if _left(rows, nulls, nans) == 0 else self.bounds
        low, high = bounds.to_json(type_)
        return ColumnSummary(rows, nulls, nans if has_nan(ValueType.parse(type_)) else None, low, high, total_bytes)

    def plus(self, other: RowSummary) -> RowSummary:
        return RowSummary(
            rows=known_sum((self.rows, other.rows)),
            nulls=known_sum((self.nulls, other.nulls)),
            nans=known_sum((self.nans, other.nans)),
            total_bytes=known_sum((self.total_bytes, other.total_bytes)),
            bounds=self.bounds.union(other.bounds),
            is_loose=self.is_loose or other.is_loose,
        )

    def minus(self, removed: RowSummary) -> RowSummary:
        """The summary of the rows that are left when some are removed."""
        gone = RowSummary(
            rows=_negative(removed.rows),
            nulls=_negative(removed.nulls),
            nans=_negative(removed.nans),
            total_bytes=_negative(removed.total_bytes),
            is_loose=not removed.bounds.is_inside(self.bounds),
        )
        return self.plus(gone)

    def without_bounds(self) -> RowSummary:
        """The same counts, of values with unknown bounds."""
        return replace(self, bounds=UNKNOWN, is_loose=False)

    def within(self, bounds: Bounds, *, is_loose: bool) -> RowSummary:
        """The same rows, of which these bounds are known too; ``is_loose`` if they may be those of removed rows."""
        return replace(self, bounds=self.bounds.intersection(bounds), is_loose=is_loose)


def _negative(count: int | None) -> int | None:
    return None if count is None else -count


def _sound(count: int | None) -> int | None:
    return None if count is None or count < 0 else count


def _left(rows: int | None, nulls: int | None, nans: int | None) -> int | None:
    """The number of values that have a place in the order."""
    return None if rows is None or nulls is None or nans is None else rows - nulls - nans


def _bound_to_json(bound: Bound) -> list[Any]:
    """The type of a bound, and its value: exactly, infinities too, which the properties of a sketch cannot hold."""
    if isinstance(bound, Missing):
        return ["missing", bound.name]
    if isinstance(bound, float):
        return ["float", bound.hex()]
    return ["bytes", bound.hex()] if isinstance(bound, bytes) else ["same", bound]


def _bound_from_json(form: str, value: Any) -> Bound:
    if form == "missing":
        return Missing[value]
    if form == "float":
        return float.fromhex(value)
    if form == "bytes":
        return bytes.fromhex(value)
    if not isinstance(value, bool | int | str):
        raise TypeError(f"expected a bound, found {value!r}")
    return value
