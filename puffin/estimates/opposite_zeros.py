"""
Pairs of rows whose tuples are equal but for the sign of a zero: a join has them, and the hashes of tuples do not tell.

0.0 and -0.0 are one value in a join, and tuples with one or the other have hashes of their own. So a join by hashes
never has too many rows, and it lacks no more than the pairs of 0.0 on one side with -0.0 on the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from puffin.estimates.interval import NOTHING, Interval
from puffin.estimates.joins import INDEPENDENCE, JoinRows, product

Zeros: TypeAlias = tuple[Interval, Interval]
"""The rows with 0.0 and with -0.0."""


class JoinedPair(NamedTuple):
    """A column of each side of a join: the rows of their zeros, and how many values the one with more of them has."""

    left: Zeros
    right: Zeros
    values: float


def opposite_zeros(columns: Sequence[JoinedPair], most: tuple[float, float]) -> JoinRows | None:
    """The pairs that hashes of tuples do not tell, if none has more rows than ``most`` on a side; None without any."""
    has_zeros = [column for column in columns if _upper(column.left) and _upper(column.right)]
    tuples = 2 ** max(0, len(has_zeros) - 1)  # of the other side, that differ in one column at least
    chance = 1 / math.prod(max(column.values, 1.0) for column in columns)
    rows = left_semi = right_semi = NOTHING
    for column in has_zeros:
        for left, right in zip(column.left, reversed(column.right), strict=True):
            by_tuples = tuples * min(product(left.upper, most[1]), product(right.upper, most[0]))
            pairs = min(left.upper * right.upper, by_tuples)
            likely = min(left.rows * right.rows * chance * max(column.values, 1.0), pairs)
            rows = rows.plus(Interval(likely, 0, pairs))
            left_semi = left_semi.plus(_up_to(likely, left.upper if right.upper else 0))
            right_semi = right_semi.plus(_up_to(likely, right.upper if left.upper else 0))
    return JoinRows(rows, left_semi, right_semi, INDEPENDENCE) if rows.upper else None


def _upper(zeros: Zeros) -> float:
    return zeros[0].upper + zeros[1].upper


def _up_to(rows: float, most: float) -> Interval:
    return Interval(min(rows, most), 0, most)
