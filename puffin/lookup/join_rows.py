"""
The rows of a join of two tables, from their estimators.

The part of a filter that is on the joined column chooses among the values of a side. The rest leaves a share of each
value's rows, as if it did not depend on the value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from puffin.cached import cached_property
from puffin.estimates.counted import Counted
from puffin.estimates.filters import FilterPart, Joined, OfColumn, rows_of
from puffin.estimates.interval import AT_95, Interval
from puffin.estimates.joins import (
    FilteredSide,
    JoinRows,
    RowChange,
    join_of_values,
    join_rows,
    join_within,
)
from puffin.estimates.matches import OrderedMatches, matches_of
from puffin.estimates.methods import INDEPENDENCE, THETA
from puffin.estimates.value_set import ValueSet
from puffin.estimates.zeros import as_one, zeros_of
from puffin.lookup.estimates import Estimator
from puffin.lookup.join_estimate import JoinEstimate
from puffin.lookup.joined_tuples import OneSide, beyond_hashes, counted_values, joined_tuples
from puffin.sketches.hash_arrays import Hashes, is_among
from puffin.tables.base import Column
from puffin.tables.expression import Constant, Op

_ALL = Constant(True)
_MOST_POINTS = 64  # values that are looked up one by one


class RowsOfJoins:
    """
    The rows of the equi-joins of two columns, or of two sets of them, with filters.

    ``by_sketches`` is what sketches alone say of the join without filters, for sides without row counts.
    """

    def __init__(self, left: OneSide, right: OneSide, by_sketches: JoinEstimate | None = None) -> None:
        self._left, self._right = left, right
        self._by_sketches = by_sketches
        self._is_of_one = len(left[1]) == 1

    def of(self, left: Side, right: Side) -> JoinRows:
        """Estimate a join with 95 % bounds."""
        counted = self._unfiltered
        if counted is None:
            return self._apart(left, right) if not self._is_of_one else self._by_theta(left, right)
        found, unlike, changes, most, _ = counted
        values = _both(left.own, right.own) if self._is_of_one else None
        of_values = None if values is None else self._of_values(found, values)
        found = of_values or found
        if unlike is not None and (of_values is None or values is None or values.nan):
            found = found.plus(unlike)
        if changes is not None:
            found = found.after(*changes)
        rests = [side.rest(of_values is not None) for side in (left, right)]
        if not all(rest is _ALL for rest in rests):
            found = found.filtered(left.of_join(*rests), right.of_join(*reversed(rests)))
        return found.within_sides(left.rows.upper, right.rows.upper, most)

    @property
    def most(self) -> tuple[float, float]:
        """The most rows of a value on each side; infinite if unknown."""
        return (math.inf, math.inf) if self._unfiltered is None else self._unfiltered.most

    @property
    def most_shared(self) -> float:
        """The most distinct values that both sides had when they were counted: each has a row on both."""
        found = None if self._unfiltered is None else self._unfiltered.rows
        return math.inf if found is None else min(found.left_semi.upper, found.right_semi.upper)

    @property
    def shared(self) -> SharedValues | None:
        """The distinct values of the sides, as they were counted; None if statistics do not have all."""
        return None if self._unfiltered is None else self._unfiltered.shared

    def forget_values(self) -> None:
        """Drop the sums over the values; they are made again if a filter needs them."""
        vars(self).pop("_ordered", None)

    def _of_values(self, found: JoinRows, values: ValueSet) -> JoinRows | None:
        """The rows of some values, of all rows that were counted; None if a side keeps no values."""
        columns = [estimator.column(column.field_id) for estimator, (column,) in (self._left, self._right)]
        if any(column.known_values is None for column in columns):
            return None
        left_out = values.points_left_out
        points = (values if left_out is None else left_out).single_values(_MOST_POINTS)
        if points is None:
            ordered = self._ordered
            return None if ordered is None else join_within(ordered, values)
        sets = [ValueSet.of(Op.EQ, (point,)) for point in points if point is not None]
        rows = ((columns[0].find_counted(each, AT_95)[0], columns[1].find_counted(each, AT_95)[0]) for each in sets)
        some = join_of_values(rows, columns[0].is_complete and columns[1].is_complete)
        return some if left_out is None else found.minus(some)

    @cached_property
    def _unfiltered(self) -> _Unfiltered | None:
        """The rows without filters; None if statistics do not have them by value on both sides."""
        if self._is_of_one:
            one, other = (counted_values(estimator, column) for estimator, (column,) in (self._left, self._right))
            if one is None or other is None:
                return None
            sides, nulls = (as_one(one, self._zeros), as_one(other, self._zeros)), None
        else:
            tuples = joined_tuples(self._left, self._right)
            if tuples is None:
                return None
            sides, nulls = tuples.sides, tuples.null_share
        matches = matches_of(*sides)
        found = join_rows(matches)
        found = found if nulls is None else found.without_nulls(nulls)
        unlike, changes = beyond_hashes(self._left, self._right, sides)
        has_changed = any(each.added or each.removed for each in changes)
        hashes = 1 if self._zeros is None else 2  # of zeros that are neither heavy nor in the sample
        left, right = (hashes * each.most + each.added for each in changes)
        shared = _shared(*sides) if matches.totals.is_complete else None
        return _Unfiltered(found, unlike, changes if has_changed else None, (left, right), shared)

    @cached_property
    def _ordered(self) -> OrderedMatches | None:
        """The values of both sides in order, for filters on the joined column; None if a side keeps no values."""
        sides = []
        for estimator, (column,) in (self._left, self._right):
            rows = estimator.column(column.field_id)
            counted = rows.counted(None)
            if rows.known_values is None or counted is None:
                return None
            sides.append((as_one(counted, self._zeros), rows.known_values))
        left, right = sides
        return OrderedMatches.of(left, right, self._zeros)

    @property
    def _zeros(self) -> Hashes | None:
        """The hashes of 0.0 and -0.0, which are one value in a join, if the columns may have these."""
        estimator, (column, *_) = self._left
        return zeros_of(estimator.column(column.field_id).facts.type)

    @cached_property
    def _columns(self) -> list[RowsOfJoins]:
        """The joins of the pairs of columns."""
        (left, ones), (right, others) = self._left, self._right
        return [RowsOfJoins((left, (one,)), (right, (other,))) for one, other in zip(ones, others, strict=True)]

    def _apart(self, left: Side, right: Side) -> JoinRows:
        pairs = zip(self._columns, left.apart(), right.apart(), strict=True)
        return _independent([each.of(one, other) for each, one, other in pairs], left, right)

    def _by_theta(self, left: Side, right: Side) -> JoinRows:
        found = self._by_sketches
        shares = (None, None) if found is None else (found.left.containment, found.right.containment)
        unfiltered: float | None = None if found is None else found.join_rows
        if unfiltered is None:
            unfiltered = left.estimator.row_count * right.estimator.row_count / max(left.ndv, right.ndv, 1.0)
        rows, most = unfiltered * left.kept * right.kept, left.rows.upper * right.rows.upper
        left_semi, right_semi = (
            _at_most(rows if share is None else side.rows.rows * share, [side.rows])
            for side, share in zip((left, right), shares, strict=True)
        )
        return JoinRows(Interval(rows, 0, most).within(0, most), left_semi, right_semi, THETA)


class Side:
    """A side of a join: the joined columns of a table, and a filter."""

    def __init__(self, estimator: Estimator, columns: Sequence[Column], where: str | None) -> None:
        self.columns = tuple(columns)
        self.estimator = estimator
        self._where = where
        self._part: FilterPart = _ALL
        self.rows, self.how = estimator.table.rows, None
        if where is not None:
            self._part, self.rows, self.how = estimator.filtered(where)
        self.own, self._rest = _divided(self._part, self.columns[0].field_id)

    @property
    def kept(self) -> float:
        """The share of rows that the filter leaves."""
        return self.rows.rows / max(self.estimator.row_count, 1)

    @property
    def ndv(self) -> float:
        """The distinct values of the first column; 0 if unknown."""
        return self.estimator.ndv(self.columns[0].field_id)

    def apart(self) -> list[Side]:
        """A side for each of the columns."""
        return [Side(self.estimator, [column], self._where) for column in self.columns]

    def rest(self, has_values: bool) -> FilterPart:
        """The filter; if ``has_values``, without the part on the joined column."""
        return self._rest if has_values else self._part

    def of_join(self, rest: FilterPart, of_other: FilterPart) -> FilteredSide:
        """What the rest of the filter leaves; ``of_other`` is that of the other side."""
        table, whole = self.estimator.table, Interval.exactly(1)
        # Which rows of a value are left is not known, whatever the estimate says.
        share = whole if rest is _ALL else Interval(rows_of(table, rest).rows / max(table.rows.rows, 1), 0, 1)
        chosen = table.rows
        if of_other is _ALL and rest is self._rest and self.own is not None:
            chosen = self.rows if rest is _ALL else rows_of(table, OfColumn(self.columns[0].field_id, self.own))
        return FilteredSide(self.rows, chosen, share)


class SharedValues(NamedTuple):
    """The distinct values of each side of a join and of both, without null and the empty string, as sketches count."""

    left: int
    right: int
    both: int


class _Unfiltered(NamedTuple):
    """
    The rows of a join without filters, as they were counted.

    ``unlike`` are those of equal values that hashes do not tell, None if there are none; ``changes`` is what came and
    went since on both sides, None if nothing did. By now, no value of a side has more than ``most`` rows.
    """

    rows: JoinRows
    unlike: JoinRows | None
    changes: tuple[RowChange, RowChange] | None
    most: tuple[float, float]
    shared: SharedValues | None


def _shared(left: Counted, right: Counted) -> SharedValues:
    one, other = (side.hashes[(side.high > 0) & (side.hashes > 0)] for side in (left, right))
    return SharedValues(len(one), len(other), int(is_among(one, other).sum()))


def _both(left: ValueSet | None, right: ValueSet | None) -> ValueSet | None:
    """The values that the filters of both sides let pass: values are equal in a join."""
    if left is None or right is None:
        return left or right
    return left.intersection(right)


def _divided(part: FilterPart, field_id: int) -> tuple[ValueSet | None, FilterPart]:
    """The values of a column that a filter lets pass, and the rest of the filter."""
    if isinstance(part, OfColumn) and part.field_id == field_id:
        return part.values, _ALL
    if isinstance(part, Joined) and part.is_and:
        own = [each for each in part.parts if isinstance(each, OfColumn) and each.field_id == field_id]
        rest = tuple(each for each in part.parts if each not in own)
        if own:
            return own[0].values, rest[0] if len(rest) == 1 else Joined(rest, True) if rest else _ALL
    return None, part


def _independent(each: Sequence[JoinRows], left: Side, right: Side) -> JoinRows:
    """A join on several columns, none of which tells anything of the others."""
    pairs = left.rows.rows * right.rows.rows
    rows = pairs * math.prod(found.rows.rows / pairs for found in each) if pairs else 0.0
    joined, left_semi, right_semi = (_at_most(rows, bounds) for bounds in zip(*(one[:3] for one in each), strict=True))
    return JoinRows(joined, left_semi, right_semi, INDEPENDENCE).within_sides(left.rows.upper, right.rows.upper)


def _at_most(rows: float, others: Iterable[Interval]) -> Interval:
    """An estimate without a lower bound, and at most the fewest of the others, which all include these rows."""
    most = min(others, key=lambda each: each.upper)
    return Interval(min(rows, most.rows), 0, most.upper)
