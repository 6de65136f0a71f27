"""
The rows of a join of two tables, from their estimators.

The part of a filter that is on the joined column chooses among the values of a side. The rest leaves a share of each
value's rows, as if it did not depend on the value.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeAlias

from puffin.errors import UnsupportedTableError, UsageError
from puffin.estimates.filters import Joined, OfColumn, Part, rows_of
from puffin.estimates.groups import groups_of
from puffin.estimates.interval import AT_95, Interval
from puffin.estimates.joins import (
    INDEPENDENCE,
    THETA,
    FilteredSide,
    JoinRows,
    RowChange,
    SideRows,
    join_of_values,
    join_rows,
    join_within,
)
from puffin.estimates.matches import OrderedMatches, matches_of
from puffin.estimates.value_set import ValueSet
from puffin.estimates.zeros import as_one, zeros_of
from puffin.lookup.column_sketches import check_alike, column_sketch
from puffin.lookup.estimates import Estimator
from puffin.lookup.join_estimate import JoinEstimate, JoinSide, join_estimate
from puffin.lookup.joined_tuples import OneSide, beyond_hashes, counted_values, joined_tuples
from puffin.lookup.question import Question
from puffin.sketches.row_tally import Hashes
from puffin.tables.base import Column
from puffin.tables.expression import Constant, Op

_ALL = Constant(True)
_MOST_POINTS = 64  # values that are looked up one by one


@dataclasses.dataclass(frozen=True, slots=True)
class JoinQuestion:
    """One side of a join: the question about its columns, and a filter of its rows in pyiceberg's grammar."""

    question: Question
    where: str | None = None


_Asked: TypeAlias = tuple[JoinQuestion, Estimator]


class JoinPairs:
    """
    What was prepared for joins, by the two columns or sets of columns; the least recently used is dropped.

    A pair of tables that have changed replaces that of their earlier snapshots, so that these do not stay in memory.
    Only ``with_values`` of the pairs keep the sums over their values, which take a few megabytes each.
    """

    def __init__(self, most: int = 256, with_values: int = 32) -> None:
        self._most, self._with_values = most, with_values
        self._pairs: OrderedDict[Hashable, _Pair] = OrderedDict()
        self._lock = threading.Lock()

    def estimate(self, left: _Asked, right: _Asked) -> JoinEstimate:
        """Estimate overlap and rows of a join; raises as `puffin.lookup.Lookup.estimate_join`."""
        if left[0].question.is_of_partitions or right[0].question.is_of_partitions:
            one, other = (column_sketch(estimator.opened, asked.question) for asked, estimator in (left, right))
            return join_estimate(one, other)
        key = left[0].question, right[0].question
        with self._lock:
            pair = self._pairs.get(key)
            if pair is not None:
                self._pairs.move_to_end(key)
        if pair is None or not pair.is_of(left[1], right[1]):
            pair = _Pair(left, right)
            with self._lock:
                self._pairs[key] = pair
                if len(self._pairs) > self._most:
                    self._pairs.popitem(last=False)
        with self._lock:  # each pair gets to this place before it is the least recently used
            older = next(itertools.islice(reversed(self._pairs.values()), self._with_values, None), None)
        if older is not None:
            older.forget_values()
        return pair.estimate(left[0].where, right[0].where)


class _Pair:
    """The columns of both sides of joins, with what does not depend on filters."""

    def __init__(self, left: _Asked, right: _Asked) -> None:
        one, other = (_columns(asked, estimator) for asked, estimator in (left, right))
        if len(one) != len(other):
            said = " and ".join("+".join(column.name for column in columns) for columns in (one, other))
            raise UsageError(f"expected as many columns on both sides of a join, found {said}")
        self._sides = (left[1], one), (right[1], other)
        if len(one) == 1:
            sketches = (column_sketch(estimator.opened, asked.question) for asked, estimator in (left, right))
            self._by_sketches = join_estimate(*sketches)
        else:
            for of_left, of_right in zip(one, other, strict=True):
                check_alike(
                    (f"{left[1].opened.name} {of_left.name}", of_left.type),
                    (f"{right[1].opened.name} {of_right.name}", of_right.type),
                )
            self._by_sketches = JoinEstimate(left=_described(left[1], one), right=_described(right[1], other))
        self._rows = RowsOfJoins(*self._sides, self._by_sketches.join_rows)

    def is_of(self, left: Estimator, right: Estimator) -> bool:
        """Whether the sides have these estimators."""
        return self._sides[0][0] is left and self._sides[1][0] is right

    @functools.cached_property
    def _has_rows(self) -> bool:
        """Whether the rows of both sides are known without reading manifests, which a mere join does not."""
        for estimator, _ in self._sides:
            if estimator.counted_rows is None:
                if estimator.opened.state.format != "delta":
                    return False
                try:
                    estimator.table  # noqa: B018
                except UnsupportedTableError:
                    return False
        return True

    def forget_values(self) -> None:
        """Drop the sums over the values; they are made again if a filter needs them."""
        vars(self._rows).pop("_ordered", None)

    def estimate(self, left_where: str | None, right_where: str | None) -> JoinEstimate:
        found = self._by_sketches
        if len(self._sides[0][1]) == 1 and left_where is None and right_where is None and not self._has_rows:
            return found
        left, right = Side(*self._sides[0], left_where), Side(*self._sides[1], right_where)
        rows = self._rows.of(left, right)
        if rows.method == THETA:
            rows = rows._replace(
                left_semi=_contained(left, found.left.containment, rows.left_semi),
                right_semi=_contained(right, found.right.containment, rows.right_semi),
            )
        return dataclasses.replace(
            found,
            left=_with_rows(found.left, left, rows.left_semi, rows.rows),
            right=_with_rows(found.right, right, rows.right_semi, rows.rows),
            join_rows=rows.rows.rounded()[0],
            rows=rows,
        )


def _columns(asked: JoinQuestion, estimator: Estimator) -> tuple[Column, ...]:
    """The columns of a side; a name with ``+`` in it is matched whole before it is taken as several."""
    state = estimator.opened.state
    names = [
        name
        for each in asked.question.columns or ()
        for name in ([each] if "+" not in each or state.has_column(each) else each.split("+"))
    ]
    columns = state.select_columns(names)
    if len(columns) != len(names):  # without the second one, the pairs after it would be other pairs
        found = "+".join(names)
        raise UsageError(f"{estimator.opened.name}: expected each column once on a side of a join, found {found}")
    return columns


class _Unfiltered(NamedTuple):
    """
    The rows of a join without filters, as they were counted.

    ``unlike`` are those of equal values that hashes do not tell, None if there are none; ``changes`` is what came and
    went since on both sides, None if nothing did.
    """

    rows: JoinRows
    unlike: JoinRows | None
    changes: tuple[RowChange, RowChange] | None


class RowsOfJoins:
    """
    The rows of the equi-joins of two columns, or of two sets of them, with filters.

    ``by_sketches`` is what sketches alone say of the join without filters, for sides without row counts.
    """

    def __init__(self, left: OneSide, right: OneSide, by_sketches: float | None = None) -> None:
        self._left, self._right = left, right
        self._by_sketches = by_sketches
        self._is_of_one = len(left[1]) == 1

    def of(self, left: Side, right: Side) -> JoinRows:
        """Estimate a join with 95 % bounds."""
        counted = self._unfiltered
        if counted is None:
            return self._apart(left, right) if not self._is_of_one else self._by_theta(left, right)
        found, unlike, changes = counted
        values = _both(left.own, right.own) if self._is_of_one else None
        of_values = None if values is None else self._of_values(found, values, has_changed=changes is not None)
        found = of_values or found
        if unlike is not None and (of_values is None or values is None or values.nan):
            found = found.plus(unlike)
        if changes is not None:
            found = found.after(*changes)
        rests = [side.rest(of_values is not None) for side in (left, right)]
        if not all(rest is _ALL for rest in rests):
            found = found.filtered(left.of_join(*rests), right.of_join(*reversed(rests)))
        return found.within_sides(left.rows.upper, right.rows.upper)

    def _of_values(self, found: JoinRows, values: ValueSet, *, has_changed: bool) -> JoinRows | None:
        """The rows of some values, of all rows that were found; None if a side keeps no values."""
        columns = [estimator.column(column.field_id) for estimator, (column,) in (self._left, self._right)]
        if any(column.known_values is None for column in columns):
            return None
        left_out = values.points_left_out
        points = (values if left_out is None else left_out).single_values(_MOST_POINTS)
        if points is None or has_changed:  # a column tells the rows of a value as they are now
            ordered = self._ordered
            return None if ordered is None else join_within(ordered, values)
        sets = [ValueSet.of(Op.EQ, (point,)) for point in points if point is not None]
        rows = ((columns[0].find(each, AT_95)[0], columns[1].find(each, AT_95)[0]) for each in sets)
        some = join_of_values(rows, columns[0].is_complete and columns[1].is_complete)
        return some if left_out is None else found.minus(some)

    @functools.cached_property
    def _unfiltered(self) -> _Unfiltered | None:
        """The rows without filters; None if statistics do not have them by value on both sides."""
        if self._is_of_one:
            left, right = (counted_values(estimator, column) for estimator, (column,) in (self._left, self._right))
            if left is None or right is None:
                return None
            sides, nulls = (as_one(left, self._zeros), as_one(right, self._zeros)), 0.0
        else:
            tuples = joined_tuples(self._left, self._right)
            if tuples is None:
                return None
            sides, nulls = tuples.sides, tuples.null_share
        found = join_rows(matches_of(*sides))
        found = found if nulls == 0 else found.without_nulls(nulls)
        unlike, changes = beyond_hashes(self._left, self._right, sides)
        return _Unfiltered(found, unlike, changes if any(each.added or each.removed for each in changes) else None)

    @functools.cached_property
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
        estimator, (column,) = self._left
        return zeros_of(estimator.column(column.field_id).facts.type)

    @functools.cached_property
    def _columns(self) -> list[RowsOfJoins]:
        """The joins of the pairs of columns."""
        (left, ones), (right, others) = self._left, self._right
        return [RowsOfJoins((left, (one,)), (right, (other,))) for one, other in zip(ones, others, strict=True)]

    def _apart(self, left: Side, right: Side) -> JoinRows:
        pairs = zip(self._columns, left.apart(), right.apart(), strict=True)
        return _independent([each.of(one, other) for each, one, other in pairs], left, right)

    def _by_theta(self, left: Side, right: Side) -> JoinRows:
        by_sketches = self._by_sketches
        if by_sketches is None:
            by_sketches = left.estimator.row_count * right.estimator.row_count / max(left.ndv, right.ndv, 1.0)
        rows, most = by_sketches * left.kept * right.kept, left.rows.upper * right.rows.upper
        return JoinRows(Interval(rows, 0, most).within(0, most), _at_most(rows, left), _at_most(rows, right), THETA)


class Side:
    """A side of a join: the joined columns of a table, and a filter."""

    def __init__(self, estimator: Estimator, columns: Sequence[Column], where: str | None) -> None:
        self.columns = tuple(columns)
        self.estimator = estimator
        self._where = where
        self._part: Part = _ALL
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

    def rest(self, has_values: bool) -> Part:
        """The filter; if ``has_values``, without the part on the joined column."""
        return self._rest if has_values else self._part

    def of_join(self, rest: Part, of_other: Part) -> FilteredSide:
        """What the rest of the filter leaves; ``of_other`` is that of the other side."""
        table, whole = self.estimator.table, Interval.exactly(1)
        # Which rows of a value are left is not known, whatever the estimate says.
        share = whole if rest is _ALL else Interval(rows_of(table, rest).rows / max(table.rows.rows, 1), 0, 1)
        chosen = table.rows
        if of_other is _ALL and rest is self._rest and self.own is not None:
            chosen = self.rows if rest is _ALL else rows_of(table, OfColumn(self.columns[0].field_id, self.own))
        return FilteredSide(self.rows, chosen, share)


def _described(estimator: Estimator, columns: Sequence[Column]) -> JoinSide:
    """The side of several columns, as answers describe it."""
    groups = groups_of(estimator.table, [column.field_id for column in columns], _ALL)
    name = "+".join(column.name for column in columns)
    return JoinSide(table=estimator.opened.name, column=name, ndv=groups.rounded()[0], row_count=estimator.row_count)


def _with_rows(described: JoinSide, side: Side, semi: Interval, joined: Interval) -> JoinSide:
    """The same with the rows of the side, of which so many have a partner, in a join of so many rows."""
    # Whole rows, so that those with a partner and those without add up.
    rows = SideRows.of(*(Interval(*each.rounded()) for each in (side.rows, semi, joined)))
    return dataclasses.replace(described, rows=rows, how=side.how, changed=side.estimator.rows_changed)


def _both(left: ValueSet | None, right: ValueSet | None) -> ValueSet | None:
    """The values that the filters of both sides let pass: values are equal in a join."""
    if left is None or right is None:
        return left or right
    return left.intersection(right)


def _divided(part: Part, field_id: int) -> tuple[ValueSet | None, Part]:
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
    upper = min(found.rows.upper for found in each)
    return JoinRows(Interval(min(rows, upper), 0, upper), _at_most(rows, left), _at_most(rows, right), INDEPENDENCE)


def _contained(side: Side, share: float | None, otherwise: Interval) -> Interval:
    """The rows whose value the other side has, if it has this share of the values."""
    return otherwise if share is None else Interval(side.rows.rows * share, 0, side.rows.upper)


def _at_most(rows: float, side: Side) -> Interval:
    return Interval(min(rows, side.rows.rows), 0, side.rows.upper)
