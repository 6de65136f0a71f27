"""
The overlap of two columns and the rows of their equi-join, from their sketches; and the answer to any join.

The hashes below the smaller theta tell the overlap of two columns. The rows of an equi-join are

    overlap x (left rows / left ndv) x (right rows / right ndv)

since each shared value occurs in that many rows of each side on average. Rows with a null do not count, if the number
is known. If one sketch has no hash below the other's theta, the overlap is unknown. The estimate then assumes that the
larger side contains the smaller, as planners do.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from puffin.estimates.filters import Methods
from puffin.estimates.joins import JoinRows, SideRows
from puffin.estimates.zeros import sketch_as_one, zeros_of
from puffin.lookup.column_sketches import ColumnSketch, check_alike
from puffin.lookup.table_rows import RowsChanged
from puffin.statistics.answer import UNKNOWN_FRESHNESS, Distinct, Freshness


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """
    One side of an equi-join.

    Attributes:
        row_count: The rows of the table; None if unknown.
        containment: The share of the distinct values that the other side has; None if unknown.
        rows: After the filter, with and without a partner; None if those of the `JoinEstimate` are.
        how: How the rows of the filter were found; None without a filter.
        freshness: What changed since the oldest statistics of the columns of the side and of its filter.
        changed: What changed since the statistics were made; None if nothing did.
    """

    table: str
    column: str
    ndv: int
    row_count: int | None
    containment: float | None = None
    rows: SideRows | None = None
    freshness: Freshness = UNKNOWN_FRESHNESS
    how: Methods | None = dataclasses.field(default=None, compare=False, repr=False)
    changed: RowsChanged | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def methods(self) -> tuple[tuple[str, str], ...]:
        """How the rows of each predicate of the filter were found; as `TableEstimate.methods`."""
        return () if self.how is None else self.how.named()

    def to_json(self) -> dict[str, Any]:
        return {"table": self.table, "column": self.column, "ndv": self.ndv, "row-count": self.row_count}

    def freshness_to_json(self, which: str) -> dict[str, int | None]:
        """What changed since its statistics, with keys that begin with the side."""
        return {f"{which}-{key}": number for key, number in self.freshness.to_json().items()}

    def rows_to_json(self, which: str) -> dict[str, int | None]:
        """The rows, with keys that begin with the side."""
        document: dict[str, int | None] = {}
        for at, kind in enumerate(("", "-semi", "-anti", "-outer")):
            numbers = (None,) * 3 if self.rows is None else self.rows[at].rounded()
            document |= zip((f"{which}{kind}-{end}" for end in ("rows", "lower", "upper")), numbers, strict=True)
        return document


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JoinEstimate:
    """
    The overlap of two columns, and the rows of their equi-join.

    Attributes:
        overlap: The distinct values that both columns have; None if unknown.
        jaccard: The distinct values of both over those of either; None if unknown.
        join_rows: None if the rows of a side are unknown.
        rows: The rows with their bounds and the method. None for a question about partitions, or if only manifests
            tell how many rows a table has, which a join without filters does not read.
        is_provisional: Whether storage failed for statistics of a side, so that a retry may give another estimate.
    """

    left: JoinSide
    right: JoinSide
    overlap: Distinct | None = None
    jaccard: float | None = None
    join_rows: int | None = None
    rows: JoinRows | None = None
    is_provisional: bool = False

    @property
    def selectivity(self) -> float | None:
        """The rows of the join, of all pairs of rows of both tables; None if unknown."""
        pairs = (self.left.row_count or 0) * (self.right.row_count or 0)
        return None if self.join_rows is None else self.join_rows / pairs if pairs else 0.0

    def with_values(self, left: int, right: int, both: int) -> JoinEstimate:
        """The same with the distinct values that were counted: on each side, and those that both have."""
        sides = (
            dataclasses.replace(side, ndv=ndv, containment=both / ndv if ndv else None)
            for side, ndv in ((self.left, left), (self.right, right))
        )
        every = left + right - both
        return dataclasses.replace(
            self,
            left=next(sides),
            right=next(sides),
            overlap=Distinct(both, both, both, exact=True),
            jaccard=both / every if every else None,
        )

    def to_json(self) -> dict[str, Any]:
        _, lower, upper = (None,) * 3 if self.rows is None else self.rows.rows.rounded()
        return {
            "left": self.left.to_json(),
            "right": self.right.to_json(),
            "overlap-ndv": None if self.overlap is None else self.overlap.ndv,
            "overlap-lower": None if self.overlap is None else self.overlap.lower,
            "overlap-upper": None if self.overlap is None else self.overlap.upper,
            "containment-left": self.left.containment,
            "containment-right": self.right.containment,
            "jaccard": self.jaccard,
            "join-rows": self.join_rows,
            "join-lower": lower,
            "join-upper": upper,
            "selectivity": self.selectivity,
            "method": None if self.rows is None else self.rows.method,
            **self.left.rows_to_json("left"),
            **self.right.rows_to_json("right"),
            "left-methods": [] if self.left.how is None else self.left.how.to_json(),
            "right-methods": [] if self.right.how is None else self.right.how.to_json(),
            **self.left.freshness_to_json("left"),
            **self.right.freshness_to_json("right"),
        }


def join_estimate(left: ColumnSketch, right: ColumnSketch) -> JoinEstimate:
    """Estimate overlap and join of two columns, with 95 % bounds; UnsupportedTypeError if hashed differently."""
    check_alike((str(left), left.hashed_type), (str(right), right.hashed_type))
    zeros = zeros_of(left.hashed_type)
    one, other = (dataclasses.replace(each, sketch=sketch_as_one(each.sketch, zeros)) for each in (left, right))
    both = one.sketch.intersect(other.sketch)
    sampled = [int(np.searchsorted(each.sketch.hashes, np.uint64(both.theta))) for each in (one, other)]
    sampled_any = sum(sampled) - both.retained
    overlap = Distinct.of(both, is_foreign=left.is_foreign or right.is_foreign)
    least = min(one.sketch.estimate, other.sketch.estimate)
    can_tell = all(some or each.sketch.empty for some, each in zip(sampled, (one, other), strict=True))
    return JoinEstimate(
        left=_side(left, both.retained, sampled[0]),
        right=_side(right, both.retained, sampled[1]),
        overlap=overlap.at_most(min(one.distinct.upper, other.distinct.upper)),
        jaccard=both.retained / sampled_any if sampled_any else None,
        join_rows=_join_rows(min(both.estimate, least) if can_tell else least, one, other),
    )


def _side(column: ColumnSketch, shared: int, sampled: int) -> JoinSide:
    return JoinSide(
        table=column.table,
        column=column.column.name,
        ndv=column.distinct.ndv,
        row_count=column.row_count,
        containment=shared / sampled if sampled else None,
        freshness=column.freshness,
        changed=column.changed,
    )


def _join_rows(overlap: float, left: ColumnSketch, right: ColumnSketch) -> int | None:
    rows = overlap
    for side in (left, right):
        if side.value_count is None:
            return None
        rows *= side.value_count / side.sketch.estimate if side.sketch.estimate else 0
    return round(rows)
