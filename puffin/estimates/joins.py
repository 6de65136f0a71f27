"""
The rows of an equi-join of two columns, or of two sets of columns.

A value gives as many rows as the product of its rows on both sides. Where a value is heavy on a side, its rows are
known there. Both sides sample by hash, so that they have the same values in their samples, with the rows of each: these
tell the products of the values that are heavy on neither side, and of those that are heavy on one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from puffin.estimates.interval import AT_95, NOTHING, Interval, Sums, sum_of
from puffin.estimates.match_terms import OneSided
from puffin.estimates.matches import Matches, OrderedMatches
from puffin.estimates.methods import EXACT, HEAVY_AND_SAMPLE, INDEPENDENCE, SAMPLE
from puffin.estimates.value_set import ValueSet

_FEW = 3  # the mean of all values weighs as much as this many known ones
_ENOUGH = 32  # sampled values, to tell how sums go along with each other
_ALIKE = 1e-9  # rcond of the regression: below it, the rows of both sides go along with each other
_UNSEEN_ALIKE = 2.5  # as many unseen values may hide this many unlike all that were seen
_UNSEEN = 4  # with skewed rows, a few values underestimate the variance by about this factor


@dataclass(frozen=True, slots=True)
class RowChange:
    """
    How a side changed since its values were counted.

    Attributes:
        added, removed: The rows that came and went, at most; infinite if unknown.
        growth: How many rows there are now for each one that was counted.
        most: No value had more rows.
    """

    added: float
    removed: float
    growth: float
    most: float


@dataclass(frozen=True, slots=True)
class FilteredSide:
    """
    What the filter of one side of a join leaves.

    Attributes:
        rows: The rows that are left, those with a null among them.
        chosen: Those that are left after the part of the filter that is on the joined column.
        share: Of the rows of each value, those that are left after the rest of the filter.
    """

    rows: Interval
    chosen: Interval
    share: Interval


class JoinRows(NamedTuple):
    """The rows of an inner join, and of the semi-joins of both sides."""

    rows: Interval
    left_semi: Interval
    right_semi: Interval
    method: str

    def without_nulls(self, share: float) -> JoinRows:
        """The same if up to this share of the rows was counted although a null keeps them from joining."""
        rows, left, right = (
            Interval(each.rows * (1 - share), 0, each.upper) for each in (self.rows, self.left_semi, self.right_semi)
        )
        return JoinRows(rows, left, right, self.method)

    def minus(self, other: JoinRows) -> JoinRows:
        """The same without the rows of some values."""
        rows, left, right = (
            of_all.minus(gone).within(0, of_all.upper)
            for of_all, gone in (
                (self.rows, other.rows),
                (self.left_semi, other.left_semi),
                (self.right_semi, other.right_semi),
            )
        )
        return JoinRows(rows, left, right, self.method)

    def plus(self, other: JoinRows) -> JoinRows:
        """The same with other pairs of rows; a row that is in both semi-joins counts twice."""
        rows, left, right = (one.plus(more) for one, more in zip(self[:3], other[:3], strict=True))
        return JoinRows(rows, left, right, other.method)

    def after(self, left: RowChange, right: RowChange) -> JoinRows:
        """The same after rows came and went on both sides, nobody knows of which values."""
        gone = times(left.removed, right.most) + times(right.removed, left.most)
        came = times(left.added, right.most + right.added) + times(right.added, left.most)
        return JoinRows(
            _changed(self.rows, left.growth * right.growth, gone, came),
            _after(self.left_semi, left, right),
            _after(self.right_semi, right, left),
            self.method,
        )

    def within_sides(self, left: float, right: float, most: tuple[float, float] = (math.inf, math.inf)) -> JoinRows:
        """The same if the sides have at most these rows, and at most as many as ``most`` of each value."""
        pairs = min(left * right, times(left, most[1]), times(right, most[0]))
        return JoinRows(
            self.rows.at_most(pairs),
            self.left_semi.within(0, left if pairs else 0),
            self.right_semi.within(0, right if pairs else 0),
            self.method,
        )

    def filtered(self, left: FilteredSide, right: FilteredSide) -> JoinRows:
        """The same after the filters of both sides, as far as these are not on the joined columns."""
        kept = Interval(*(rows * a * b for rows, a, b in zip(self.rows, left.share, right.share, strict=True)))
        left_semi = _of_side(self.left_semi, left, right, self.rows)
        right_semi = _of_side(self.right_semi, right, left, self.rows)
        # A row with a partner is in the join at least once.
        most = max(left.rows.upper * right.rows.upper, 0.0)
        least = min(max(kept.lower, left_semi.lower, right_semi.lower), most)
        rows = Interval(kept.rows, least, max(kept.upper, least)).within(least, max(most, least))
        return JoinRows(rows, left_semi, right_semi, INDEPENDENCE)


class SideRows(NamedTuple):
    """
    The rows of one side of a join.

    Attributes:
        rows: Those that are left after its filter.
        semi, anti: Of these, those with a partner and those without one.
        outer: Of the outer join that keeps all of the side.
    """

    rows: Interval
    semi: Interval
    anti: Interval
    outer: Interval

    @classmethod
    def of(cls, rows: Interval, semi: Interval, joined: Interval, partners: float = math.inf) -> SideRows:
        """From the rows of the side, those with a partner, those of the inner join, and the most that a row joins."""
        # Samples of both sides tell of partners, that of one side of its rows: the first may be the larger number.
        semi = Interval(min(semi.rows, rows.rows), min(semi.lower, rows.rows), semi.upper)
        anti = rows.minus(semi).within(0, rows.upper)
        outer = joined.plus(anti)
        most = min(outer.upper, times(rows.upper, max(partners, 1.0)))
        return cls(rows, semi, anti, outer.within(min(rows.lower, most), most))


def join_rows(found: Matches, whole: Matches | None = None) -> JoinRows:
    """
    Estimate a join without filters from values of both sides, with 95 % bounds.

    If these are not all values, ``whole`` has all: they tell what values may have of which the sample has none.
    """
    whole = whole or found
    some, every = found.common, whole.common
    if found.totals.is_complete:
        method = EXACT
    else:
        method = HEAVY_AND_SAMPLE if found.left.heavy or found.right.heavy or some.both_heavy else SAMPLE
    rows = _summed(found, whole, _Sum(some.exact_rows, some.light_rows, every.light_rows, True, True))
    left_semi = _summed(found, whole, _Sum(some.exact_left, some.light_left, every.light_left, True, False))
    right_semi = _summed(found, whole, _Sum(some.exact_right, some.light_right, every.light_right, False, True))
    return JoinRows(rows, left_semi, right_semi, method)


def join_within(found: OrderedMatches, values: ValueSet) -> JoinRows:
    """Estimate a join of the values in a set, with 95 % bounds."""
    certain = join_rows(found.within(values), found.whole)
    if found.keys.is_cut is None:
        return certain
    possible = join_rows(found.within(values, possible=True), found.whole)
    rows, left, right = (low.or_else(high) for low, high in zip(certain[:3], possible[:3], strict=True))
    return JoinRows(rows, left, right, certain.method)


def join_of_values(rows: Iterable[tuple[Interval, Interval]], is_complete: bool) -> JoinRows:
    """Estimate a join of single values from the rows of each on both sides; ``is_complete`` as in `Totals`."""
    joined = left_semi = right_semi = NOTHING
    for left, right in rows:
        joined = joined.plus(Interval(*(a * b for a, b in zip(left, right, strict=True))))
        left_semi, right_semi = left_semi.plus(_with_partner(left, right)), right_semi.plus(_with_partner(right, left))
    return JoinRows(joined, left_semi, right_semi, EXACT if is_complete else HEAVY_AND_SAMPLE)


def times(one: float, other: float) -> float:
    """Nothing times anything is nothing, even if that is unknown."""
    return one * other if one and other else 0.0


class _Sum(NamedTuple):
    """What is summed over the values: the product of rows, or the rows of one side that have a partner."""

    exact: Interval
    light: Sums
    whole_light: Sums
    left_rows: bool
    right_rows: bool


def _with_partner(rows: Interval, partners: Interval) -> Interval:
    """The rows of a value, if it has partners."""
    upper = rows.upper if partners.upper > 0 else 0.0
    return Interval(min(rows.rows * min(1.0, partners.rows), upper), rows.lower if partners.lower >= 1 else 0.0, upper)


def _summed(found: Matches, whole: Matches, sum_: _Sum) -> Interval:
    totals = found.totals
    if totals.is_complete:
        return sum_.exact
    light = _of_light(found, whole, sum_)
    left = _unknown(found.left, (totals.right_missed, totals.right_spread), sum_.left_rows, sum_.right_rows)
    right = _unknown(found.right, (totals.left_missed, totals.left_spread), sum_.right_rows, sum_.left_rows)
    return sum_.exact.plus(_together((light, left, right)))


def _of_light(found: Matches, whole: Matches, sum_: _Sum) -> Interval:
    """The sum over all light values, from that over the sampled ones."""
    if sum_.whole_light.values == 0:
        return _of_unseen(whole, sum_)
    common, share = found.common, found.totals.share
    sides = [(common.left_light, found.left_total), (common.right_light, found.right_total)]
    known = [at for at, (_, total) in enumerate(sides) if total is not None]
    if not known or sum_.light.values < _ENOUGH:
        return sum_of(sum_.light, sum_.whole_light, share, AT_95)
    # The rows of all light values on a side are known, apart from the sample. If the sum goes along with these, as it
    # does where each row has one partner, only what it differs from them is uncertain: a regression estimate.
    both = common.products
    if sum_.left_rows and sum_.right_rows:
        products = [common.left_left_right, common.left_right_right]
    else:
        products = [common.left_partnered_squares, both] if sum_.left_rows else [both, common.right_partnered_squares]
    along = np.array(products)[known]
    squares = np.array([[common.left_light_squares, both], [both, common.right_light_squares]])[np.ix_(known, known)]
    factors = np.linalg.lstsq(squares, along, rcond=_ALIKE)[0]
    beyond = [(total or 0.0) - sampled / share for sampled, total in sides]
    rows = max(0.0, sum_.light.rows / share + float(factors @ np.array(beyond)[known]))
    residual = max(0.0, sum_.light.squares - float(factors @ along))
    variance = (1 - share) * (residual + _UNSEEN_ALIKE * sum_.light.squares / sum_.light.values)
    reach = AT_95 * math.sqrt(variance) / share
    of_side = sides[0 if sum_.left_rows else 1][1]
    most = math.inf if (sum_.left_rows and sum_.right_rows) or of_side is None else of_side
    return Interval(rows, max(0.0, rows - reach), rows + reach).within(0, most)


def _of_unseen(whole: Matches, sum_: _Sum) -> Interval:
    """The sum over light values of which both samples have none: up to what chance may leave out of samples."""
    light, totals = whole.common, whole.totals
    most = AT_95**2 * (1 - totals.share) / totals.share
    sides = (
        (sum_.left_rows, light.left_light, light.left_light_squares, whole.left_total, totals.left_missed),
        (sum_.right_rows, light.right_light, light.right_light_squares, whole.right_total, totals.right_missed),
    )
    for counts, rows, squares, total, missed in sides:
        of_value = 0.0 if total == 0 else squares / rows if rows else missed
        most *= of_value if counts else min(of_value, 1.0)
    return Interval(0, 0, most)


def _together(each: Sequence[Interval]) -> Interval:
    """A sum of numbers that are independent of each other: it is off by less than all of them would be at once."""
    rows = sum(found.rows for found in each)
    below = math.hypot(*(found.rows - found.lower for found in each))
    above = math.hypot(*(found.upper - found.rows for found in each))
    return Interval(rows, rows - below, rows + above)


def _unknown(found: OneSided, others: tuple[float, float], of_rows: bool, other_rows: bool) -> Interval:
    """
    The sum over the values that are heavy on one side, and not known on the other.

    ``of_rows`` tells whether rows of the heavy side count, or values; ``other_rows`` the same of the other side, of
    which ``others`` has the most rows of a value that is not known, and how much its buckets vary. Values that are
    known on both sides tell a mean. The buckets tell the rows of each value, and those of others that share its bucket.
    The more certain one of both counts more.
    """
    if found.unknown == 0:
        return NOTHING
    missed, spread = others
    if of_rows:
        heavy, alike, weight, squares = found.heavy_rows, found.known_rows, found.unknown_rows, found.unknown_squares
    else:
        heavy, alike, weight, squares = found.heavy, found.known, found.unknown, found.unknown
    if other_rows:
        product = found.products if of_rows else found.known_partners
        of_known, of_light, seen_squares, most = found.known_partners, found.light_partners, found.squares, missed
    else:
        product = found.partnered_rows if of_rows else found.partnered
        of_known, of_light, most = found.partnered, found.light_partnered, min(missed, 1.0)
        seen_squares = of_known + of_light
    few = _FEW * heavy / found.heavy
    seen = found.known + found.light
    mean_of_all = (of_known + of_light) / seen if seen else 0.0
    mean = (product + few * mean_of_all) / (alike + few)
    variance = most**2
    if seen:
        differing = max(0.0, seen_squares - 2 * mean * (of_known + of_light) + seen * mean**2)
        # If none that was seen has rows on the other side, others may have as many as any.
        variance = (differing + _UNSEEN_ALIKE * (mean or most) ** 2) / seen
    by_mean = _UNSEEN * variance * (squares + weight**2 / (found.known + _FEW))
    rows, upper = weight * mean, weight * most
    if other_rows:
        guess, room = (found.guessed, found.rooms) if of_rows else (found.guess, found.room)
        by_buckets, upper = spread * squares, min(upper, room)
        if by_buckets < math.inf and by_mean + by_buckets > 0:
            rows = (rows * by_buckets + guess * by_mean) / (by_mean + by_buckets)
            by_mean = by_mean * by_buckets / (by_mean + by_buckets)
    reach = AT_95 * math.sqrt(by_mean)
    rows = min(max(rows, 0.0), upper)
    return Interval(rows, max(0.0, rows - reach), min(upper, rows + reach))


def _after(found: Interval, side: RowChange, other: RowChange) -> Interval:
    """The rows of a semi-join; as many as a value has may get or lose their partner with one row of the other side."""
    gone, came = (
        mine + times(its, side.most) for mine, its in ((side.removed, other.removed), (side.added, other.added))
    )
    return _changed(found, side.growth, gone, came)


def _changed(found: Interval, growth: float, gone: float, came: float) -> Interval:
    return Interval.clamped(found.rows * growth, max(0.0, found.lower - gone), found.upper + came)


def _of_side(found: Interval, side: FilteredSide, other: FilteredSide, joined: Interval) -> Interval:
    """The rows of a semi-join, if both sides have filters on other columns."""
    # A row has as many partners as the join has rows for each: with several, one of them is likely to pass.
    partners = joined.rows / found.rows if found.rows else 0.0
    passes = 1.0 if other.share.rows >= 1 else 1 - (1 - other.share.rows) ** max(partners, 1)
    lower = 0.0
    if other.share.lower >= 1:
        # Whatever rows the filter leaves, no more of them lack a partner than did before.
        lower = max(found.lower * side.share.lower, side.rows.lower - (side.chosen.upper - found.lower), 0.0)
    rows = Interval(found.rows * side.share.rows * passes, lower, max(lower, found.upper * side.share.upper))
    return rows.within(0, side.rows.upper)
