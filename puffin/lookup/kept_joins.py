"""Joins of a `Lookup`: what does not depend on filters is prepared once for each pair of columns, and kept."""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from puffin.cached import cached_property
from puffin.errors import UsageError
from puffin.estimates.groups import groups_of
from puffin.estimates.interval import Interval
from puffin.estimates.joins import SideRows
from puffin.lookup.column_sketches import check_alike, column_sketch
from puffin.lookup.estimates import Estimator
from puffin.lookup.join_estimate import JoinEstimate, JoinSide, join_estimate
from puffin.lookup.join_rows import RowsOfJoins, Side
from puffin.lookup.question import Question
from puffin.tables.base import Column
from puffin.tables.expression import Constant


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
            both = " and ".join("+".join(column.name for column in columns) for columns in (one, other))
            raise UsageError(f"expected as many columns on both sides of a join, found {both}")
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
        self._rows = RowsOfJoins(*self._sides, self._by_sketches)

    def is_of(self, left: Estimator, right: Estimator) -> bool:
        """Whether the sides have these estimators."""
        return self._sides[0][0] is left and self._sides[1][0] is right

    def forget_values(self) -> None:
        """As `RowsOfJoins.forget_values`."""
        self._rows.forget_values()

    def estimate(self, left_where: str | None, right_where: str | None) -> JoinEstimate:
        has_no_filter = len(self._sides[0][1]) == 1 and left_where is None and right_where is None
        if has_no_filter and not all(estimator.has_cheap_rows for estimator, _ in self._sides):  # it reads no manifests
            return self._by_sketches
        left, right = Side(*self._sides[0], left_where), Side(*self._sides[1], right_where)
        rows, found = self._rows.of(left, right), self._described
        return dataclasses.replace(
            found,
            left=_with_rows(found.left, left, rows.left_semi, rows.rows, self._rows.most[1]),
            right=_with_rows(found.right, right, rows.right_semi, rows.rows, self._rows.most[0]),
            join_rows=rows.rows.rounded()[0],
            rows=rows,
            is_provisional=any(estimator.is_provisional for estimator, _ in self._sides),
        )

    @cached_property
    def _described(self) -> JoinEstimate:
        """The overlap as the values tell that were counted, if they do; else that of sketches, within what they say."""
        found, values, most = self._by_sketches, self._rows.shared, self._rows.most_shared
        overlap = found.overlap
        if overlap is None:
            return found
        if values is not None:
            return found.with_values(*values)
        return found if most == math.inf else dataclasses.replace(found, overlap=overlap.at_most(math.floor(most)))


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


def _described(estimator: Estimator, columns: Sequence[Column]) -> JoinSide:
    """The side of several columns, as answers describe it."""
    groups = groups_of(estimator.table, [column.field_id for column in columns], Constant(True)).number
    name = "+".join(column.name for column in columns)
    return JoinSide(table=estimator.opened.name, column=name, ndv=groups.rounded()[0], row_count=estimator.row_count)


def _with_rows(described: JoinSide, side: Side, semi: Interval, joined: Interval, partners: float) -> JoinSide:
    """The same with the rows of the side, of which so many have a partner, in such a join; see `SideRows`."""
    # Whole rows, so that those with a partner and those without add up.
    every, semi, joined = (Interval(*each.rounded()) for each in (side.rows, semi, joined))
    rows = SideRows.of(every, semi, joined, partners)
    of = side.columns, side.how
    since, changed = side.estimator.freshness(*of), side.estimator.rows_changed(*of)
    return dataclasses.replace(described, rows=rows, how=side.how, freshness=since, changed=changed)
