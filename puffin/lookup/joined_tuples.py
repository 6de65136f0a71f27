"""The rows of two sides of a join by the hashes of their values, or of tuples of these; and what these do not tell."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from puffin.estimates.counted import Counted, Numbers
from puffin.estimates.interval import NOTHING, Interval
from puffin.estimates.joins import JoinRows, RowChange
from puffin.estimates.tuple_rows import tuples_with_null
from puffin.estimates.unlike_hashes import JoinedPair, UnlikeRows, most_of_equal, unlike_pairs
from puffin.lookup.estimates import Estimator
from puffin.sketches.hash_arrays import Hashes, first_of_each, places
from puffin.tables.base import Column

OneSide: TypeAlias = tuple[Estimator, tuple[Column, ...]]


class JoinedTuples(NamedTuple):
    """
    The rows of tuples on both sides, without those that are known to have a null: these join nothing.

    ``null_share`` is about the share of the rows that are of other tuples with a null, on the side where it is smaller;
    None if there are none.
    """

    sides: tuple[Counted, Counted]
    null_share: float | None


def counted_values(estimator: Estimator, column: Column) -> Counted | None:
    """The rows of a column by hash; None if statistics do not have them."""
    rows = estimator.column(column.field_id)
    return rows.counted(rows.facts.counts)


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
    nulls = [_nulls(*side) for side in sides]
    if not any(of_side.upper for of_side in nulls):
        return JoinedTuples((one, other), None)
    hashes, times = (np.concatenate(each) for each in zip(*(_with_null(*side) for side in sides), strict=True))
    hashes, first = first_of_each(hashes)
    left_over = [
        of_side.minus(_nulls_of(each, hashes, times[first])).within(0, math.inf)
        for each, of_side in zip((one, other), nulls, strict=True)
    ]
    shares = [
        of_side.rows / max(estimator.table.rows.rows, 1)
        for (estimator, _), of_side in zip(sides, left_over, strict=True)
    ]
    share = min(1.0, *shares) if all(of_side.upper for of_side in left_over) else None
    return JoinedTuples((one.without(hashes), other.without(hashes)), share)


def beyond_hashes(
    left: OneSide, right: OneSide, counted: tuple[Counted, Counted]
) -> tuple[JoinRows | None, tuple[RowChange, RowChange]]:
    """What hashes do not tell of a join, if anything, and how both sides changed since their rows were counted."""
    one, other = _unlike(left), _unlike(right)
    changes = _change(left, counted[0], one), _change(right, counted[1], other)
    distinct = [[estimator.ndv(each.field_id) for each in of] for estimator, of in (left, right)]
    columns = list(map(JoinedPair, one, other, map(max, *distinct)))
    return unlike_pairs(columns, (changes[0].most, changes[1].most)), changes


def _unlike(side: OneSide) -> list[UnlikeRows]:
    """For each column of a side the rows whose values may have several hashes; those of one column have one zero."""
    estimator, columns = side
    hashed = estimator.facts(columns)
    found = [UnlikeRows.among(estimator.column(column.field_id), hashed) for column in columns]
    return [each._replace(zeros=(NOTHING, NOTHING)) for each in found] if len(found) == 1 else found


def _change(side: OneSide, counted: Counted, unlike: Sequence[UnlikeRows]) -> RowChange:
    facts = side[0].facts(side[1])
    added, removed = (math.inf if each is None else float(each) for each in (facts.added, facts.removed))
    most = max(float(counted.high.max(initial=0)), counted.missed)
    return RowChange(added, removed, facts.now.rows / facts.rows if facts.rows else 1.0, most_of_equal(unlike, most))


def _counted(estimator: Estimator, columns: Sequence[Column]) -> Counted | None:
    found = estimator.joint(columns)
    return None if found is None else Counted.of(found.distribution.with_exact(found.counts), found.counts, 0)


def _with_null(estimator: Estimator, columns: Sequence[Column]) -> tuple[Hashes, Numbers]:
    """The tuples of the columns' known values that have a null, and how many nulls each has."""
    known = (counted_values(estimator, column) for column in columns)
    return tuples_with_null([np.zeros(0, np.uint64) if each is None else each.hashes for each in known])


def _nulls(estimator: Estimator, columns: Sequence[Column]) -> Interval:
    """The nulls in all tuples that were counted."""
    of_tuples = estimator.facts(columns)
    of_columns = (estimator.column(each.field_id) for each in columns)
    return functools.reduce(Interval.plus, (column.among(column.nulls, of_tuples) for column in of_columns))


def _nulls_of(side: Counted, hashes: Hashes, times: Numbers) -> Interval:
    """The nulls in tuples of a side that have so many each, at least."""
    at, has = places(hashes, side.hashes)
    return Interval.exactly(float((side.low[at[has]] * times[has]).sum()))
