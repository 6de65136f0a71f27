"""
Rows whose values are equal though their hashes are not: 0.0 and -0.0, and NaNs of other bits.

A join by hashes never has too many rows, and it may lack pairs of such rows. Where the rows of a column can be added up
by value, they are (`zeros`). The hash of a tuple does not tell its values, and not every NaN is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.interval import NOTHING, Interval
from puffin.estimates.joins import JoinRows, times
from puffin.estimates.methods import INDEPENDENCE
from puffin.estimates.zeros import rows_of_nans, rows_of_zeros, zeros_of


class UnlikeRows(NamedTuple):
    """
    The rows of a column that may have such values.

    Attributes:
        zeros: Those with 0.0, and those with -0.0.
        nans: Those with a NaN of either sign that has no other bits; ``every_nan`` those with any.
    """

    zeros: tuple[Interval, Interval]
    nans: tuple[Interval, Interval]
    every_nan: Interval

    @classmethod
    def of(cls, column: ColumnRows) -> UnlikeRows:
        """As the statistics of the column found them."""
        facts, none = column.facts, (NOTHING, NOTHING)
        if zeros_of(facts.type) is None:
            return cls(none, none, NOTHING)
        if facts.distribution is None:
            any_rows = Interval(0, 0, column.values.upper)
            return cls((any_rows, any_rows), none, column.nan_rows)
        of_value = facts.type, facts.distribution, facts.counts
        return cls(rows_of_zeros(*of_value), rows_of_nans(*of_value), column.nan_rows)

    @classmethod
    def among(cls, column: ColumnRows, hashed: ColumnFacts) -> UnlikeRows:
        """Such rows among those whose hashes were counted; see `ColumnRows.among`."""
        found = cls.of(column)
        zero, negative, nan, opposite, every_nan = (
            column.among(each, hashed) for each in (*found.zeros, *found.nans, found.every_nan)
        )
        return cls((zero, negative), (nan, opposite), every_nan)

    @property
    def rarer_zero(self) -> float:
        """The most rows of the zero that has fewer."""
        return min(zero.upper for zero in self.zeros)

    @property
    def other_nans(self) -> float:
        """The most rows with a NaN that is not the one of the two with the most rows."""
        return self.every_nan.upper - max(nan.lower for nan in self.nans)


class JoinedPair(NamedTuple):
    """A column of each side of a join, and how many values the one with more of them has."""

    left: UnlikeRows
    right: UnlikeRows
    values: float


def most_of_equal(columns: Sequence[UnlikeRows], most: float) -> float:
    """The most rows of a side that are equal in all columns, if no hash has more rows than ``most``."""
    of_nan = sum(column.every_nan.upper for column in columns if column.other_nans)
    return max(most * 2.0 ** sum(column.rarer_zero > 0 for column in columns), of_nan)


def unlike_pairs(columns: Sequence[JoinedPair], most: tuple[float, float]) -> JoinRows | None:
    """The pairs that hashes do not tell, if none of these has more rows than ``most`` on a side; None without any."""
    rows = left = right = NOTHING
    chance = 1 / math.prod(max(column.values, 1.0) for column in columns)
    alike = _alike(columns)
    for column in columns:
        likely = chance * max(column.values, 1.0)
        for found in (*_opposite_zeros(column, most, alike), _other_nans(column)):
            of_rows, of_left, of_right = found
            of_rows = Interval(min(of_rows.rows * likely, of_rows.upper), 0, of_rows.upper)
            rows = rows.plus(of_rows)
            left = left.plus(_up_to(of_rows.rows, of_left))
            right = right.plus(_up_to(of_rows.rows, of_right))
    return JoinRows(rows, left, right, INDEPENDENCE) if rows.upper else None


_Found = tuple[Interval, float, float]
"""Pairs of rows, and the most rows of each side that are in them."""


def _alike(columns: Sequence[JoinedPair]) -> float:
    """How many tuples are equal to one, and unlike in a certain column."""
    if any(side.other_nans for column in columns for side in column[:2]):
        return math.inf
    return float(2 ** max(0, sum(map(_has_zeros, columns)) - 1))


def _has_zeros(column: JoinedPair) -> bool:
    return any(zero.upper for zero in (*column.left.zeros, *column.right.zeros))


def _opposite_zeros(column: JoinedPair, most: tuple[float, float], alike: float) -> list[_Found]:
    found = []
    for one, other in zip(column.left.zeros, reversed(column.right.zeros), strict=True):
        by_tuples = min(times(one.upper, most[1]), times(other.upper, most[0]))
        pairs = min(one.upper * other.upper, times(alike, by_tuples))
        rows = Interval(min(one.rows * other.rows, pairs), 0, pairs)
        found.append((rows, one.upper if other.upper else 0.0, other.upper if one.upper else 0.0))
    return found


def _other_nans(column: JoinedPair) -> _Found:
    left, right, _ = column
    every, same = left.every_nan.upper * right.every_nan.upper, 0.0
    for one, other in zip(left.nans, right.nans, strict=True):
        same += one.lower * other.lower
    if every <= same:
        return NOTHING, 0.0, 0.0
    pairs = every - same
    likely = max(0.0, left.every_nan.rows * right.every_nan.rows - same)
    return Interval(min(likely, pairs), 0, pairs), left.every_nan.upper, right.every_nan.upper


def _up_to(rows: float, most: float) -> Interval:
    return Interval(min(rows, most), 0, most)
