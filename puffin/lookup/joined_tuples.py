"""The rows of two sides of a join by the hashes of their values, or of tuples of these; and what these do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.counted import Counted, Numbers
from puffin.estimates.interval import NOTHING, Interval
from puffin.estimates.joins import JoinRows, RowChange
from puffin.estimates.opposite_zeros import JoinedPair, Zeros, opposite_zeros
from puffin.estimates.tuple_rows import tuples_with_null
from puffin.estimates.zeros import rows_of_zeros, zeros_of
from puffin.lookup.estimates import Estimator
from puffin.sketches.distribution import first_of_each, places
from puffin.sketches.row_tally import Hashes
from puffin.tables.base import Column

OneSide: TypeAlias = tuple[Estimator, tuple[Column, ...]]


class JoinedTuples(NamedTuple):
    """
    The rows of tuples on both sides, without those that are known to have a null: these join nothing.

    ``null_share`` is the share of the rows that may be of other tuples with a null, on the side that has less of them.
    """

    sides: tuple[Counted, Counted]
    null_share: float


def counted_values(estimator: Estimator, column: Column) -> Counted | None:
    """The rows of a column by hash; None if statistics do not have them."""
    return estimator.column(column.field_id).counted(estimator.row_counts(column.field_id))


def joined_tuples(left: OneSide, right: OneSide) -> JoinedTuples | None:
    """
    The rows of tuples on both sides; None without a joint sketch.

    Joint sketches hash tuples in the order of field ids: that has to pair the same columns on both sides.
    """
    pairs = {(one.field_id, other.field_id) for one, other in zip(left[1], right[1], strict=True)}
    others = [other for _, other in sorted(pairs)]
    if len(pairs) < len(left[1]) or others != sorted(set(others)):
        return None
    sides = [(estimator, sorted(columns, key=lambda column: column.field_id)) for estimator, columns in (left, right)]
    found = [_counted(*side) for side in sides]
    one, other = found
    if one is None or other is None:
        return None
    nulls = [sum(estimator.column(each.field_id).nulls.upper for each in columns) for estimator, columns in sides]
    if not any(nulls):
        return JoinedTuples((one, other), 0.0)
    hashes, times = (np.concatenate(each) for each in zip(*(_with_null(*side) for side in sides), strict=True))
    hashes, first = first_of_each(hashes)
    left_over = (
        _nulls_left(each, hashes, times[first], of_side) / max(estimator.table.rows.rows, 1)
        for (estimator, _), each, of_side in zip(sides, (one, other), nulls, strict=True)
    )
    return JoinedTuples((one.without(hashes), other.without(hashes)), min(1.0, *left_over))


def opposite_rows(left: OneSide, right: OneSide, changes: tuple[RowChange, RowChange]) -> JoinRows | None:
    """The rows of a join of tuples that differ in the sign of a zero, as rows are now; None if there are none."""
    pairs = []
    for one, other in zip(left[1], right[1], strict=True):
        columns = left[0].column(one.field_id), right[0].column(other.field_id)
        values = max(column.facts.ndv.rows for column in columns)
        pairs.append(JoinedPair(_zeros(columns[0]), _zeros(columns[1]), values))
    one_most, other_most = (change.most + change.added for change in changes)
    return opposite_zeros(pairs, (one_most, other_most))


def _zeros(column: ColumnRows) -> Zeros:
    facts = column.facts
    if zeros_of(facts.type) is None:
        return NOTHING, NOTHING
    if facts.distribution is None:
        of_one = column.as_now(Interval(0, 0, column.values.upper))
        return of_one, of_one
    positive, negative = rows_of_zeros(facts.type, facts.distribution, facts.counts)
    return column.as_now(positive), column.as_now(negative)


def _counted(estimator: Estimator, columns: Sequence[Column]) -> Counted | None:
    found = estimator.joint(columns)
    return None if found is None else Counted.of(found.distribution.with_exact(found.counts), found.counts, 0)


def _with_null(estimator: Estimator, columns: Sequence[Column]) -> tuple[Hashes, Numbers]:
    """The tuples of the columns' known values that have a null, and how many nulls each has."""
    known = (counted_values(estimator, column) for column in columns)
    return tuples_with_null([np.zeros(0, np.uint64) if each is None else each.hashes for each in known])


def _nulls_left(side: Counted, hashes: Hashes, times: Numbers, nulls: float) -> float:
    """Of so many nulls on a side, those in other tuples than these."""
    at, has = places(hashes, side.hashes)
    return max(0.0, nulls - float((side.low[at[has]] * times[has]).sum()))
