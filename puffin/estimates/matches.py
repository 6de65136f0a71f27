"""
Two columns side by side, value by value, and the sums over the values from which the rows of their joins follow.

The sums are prepared once for a pair of columns. If the values are known, they are prepared in their order, each over
all values before one: then those of a span of values are differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from puffin.estimates.counted import Counted, Flags, Numbers
from puffin.estimates.interval import Sums
from puffin.estimates.known_values import KnownValues, places_in
from puffin.estimates.value_set import ValueSet
from puffin.sketches.distribution import Counts, bucket_of, first_of_each
from puffin.sketches.row_tally import Hashes
from puffin.sketches.theta_image import MAX_THETA


class OneSided(NamedTuple):
    """
    Sums over values that are heavy on this side, and not on the other; *known* ones are known on the other side.

    *Light* values are in both samples, and heavy on neither side.

    Attributes:
        heavy, known, unknown, light: How many values; of the light ones, those with rows on this side.
        heavy_rows, known_rows, unknown_rows: Their rows on this side; ``unknown_squares`` the squares of these.
        guess, guessed: Of unknown values, the rows that the buckets of the other side tell, and the products of these
            with the rows on this side.
        room, rooms: The same of the most rows that the other side may have.
        products, partnered_rows, partnered: Of known values, the products of the rows of both sides, the rows on this
            side of those with rows on the other, and how many these are.
        known_partners, light_partners: The rows on the other side; ``squares`` the squares of both together.
        light_partnered: How many light values have rows on both sides.
    """

    heavy: float
    heavy_rows: float
    known: float
    known_rows: float
    unknown: float
    unknown_rows: float
    unknown_squares: float
    guess: float
    guessed: float
    room: float
    rooms: float
    products: float
    partnered_rows: float
    partnered: float
    known_partners: float
    light: float
    light_partners: float
    light_partnered: float
    squares: float


_OF_SIDE = len(OneSided._fields)


class Light(NamedTuple):
    """
    Sums over light values that either side has.

    Attributes:
        left, right: Their rows on a side; ``left_squares`` and ``right_squares`` the squares of these.
        left_left_right, left_right_right: The squares of one side times the rows of the other.
        left_total, right_total: The rows on a side of all values that are heavy on neither, sampled or not; None if
            unknown.
    """

    left: float
    right: float
    left_squares: float
    right_squares: float
    left_left_right: float
    left_right_right: float
    left_total: float | None = None
    right_total: float | None = None


class Matches(NamedTuple):
    """
    The sums over some values that both sides may have.

    Attributes:
        share: Of all values, those in both samples.
        is_complete: Whether every value of both sides is known.
        left_missed, right_missed: No value that is not heavy on a side, and not in both samples, has more rows there.
        left_spread, right_spread: The variance of what is left over in the buckets of a side; infinite if unknown.
        both_heavy: How many values are heavy on both sides.
        exact_rows: The fewest, the likely, and the most products of the rows of values whose rows are known on both
            sides; ``exact_left`` and ``exact_right`` the rows of one side of those with rows on the other.
        light_rows, light_left, light_right: The same of light values.
        light: What tells how the rows of light values go together.
        left, right: The sums over the values that are heavy on one side only.
    """

    share: float
    is_complete: bool
    left_missed: float
    right_missed: float
    left_spread: float
    right_spread: float
    both_heavy: float
    exact_rows: tuple[float, float, float]
    exact_left: tuple[float, float, float]
    exact_right: tuple[float, float, float]
    light_rows: Sums
    light_left: Sums
    light_right: Sums
    light: Light
    left: OneSided
    right: OneSided


class _Totals(NamedTuple):
    """What holds for all values of two columns, and is no sum: see `Matches`."""

    share: float
    is_complete: bool
    left_missed: float
    right_missed: float
    left_spread: float
    right_spread: float

    @classmethod
    def of(cls, left: Counted, right: Counted) -> _Totals:
        theta, is_complete = min(left.theta, right.theta), left.theta == right.theta == MAX_THETA
        missed = (_most_missed(each, theta) for each in (left, right))
        spreads = (math.inf if each.left is None else float(each.left.var()) for each in (left, right))
        return cls(theta / MAX_THETA, is_complete, *missed, *spreads)


def _most_missed(side: Counted, theta: int) -> float:
    """The most rows of a value that is not heavy and not in both samples, which are those below theta."""
    return max(side.missed, float(side.high[~side.is_heavy & (side.hashes >= np.uint64(theta))].max(initial=0)))


def matches_of(left: Counted, right: Counted) -> Matches:
    """The sums over all values of two columns."""
    terms = _terms(left, right, _united(left.hashes, right.hashes))
    found = _matches(_Totals.of(left, right), terms.sum(axis=1).tolist())
    left_total, right_total = _light_total(left, found.right), _light_total(right, found.left)
    return found._replace(light=found.light._replace(left_total=left_total, right_total=right_total))


def _light_total(side: Counted, heavy_on_other: OneSided) -> float | None:
    """The rows of a side of all values that are heavy on neither; None if those that are on the other are not known."""
    if side.rest is None or heavy_on_other.unknown:
        return None
    return side.rest - heavy_on_other.known_partners


@dataclass(frozen=True, slots=True, eq=False)
class OrderedMatches:
    """
    The values of two columns in ascending order, the sums over all values before each, and over the whole.

    The last sums are those after NaN, which is above all values and has no place among them.
    """

    totals: _Totals
    keys: list[Any]
    is_cut: list[bool] | None
    sums: Numbers
    whole: Matches

    @classmethod
    def of(
        cls, left: tuple[Counted, KnownValues], right: tuple[Counted, KnownValues], zeros: Hashes | None = None
    ) -> OrderedMatches:
        """From the rows of both columns by hash, with the zeros as one (`as_one`), and their values in order."""
        (left_rows, left_values), (right_rows, right_values) = left, right
        hashes = np.concatenate((left_values.hashes, right_values.hashes))
        if zeros is not None:
            hashes[hashes == zeros[0]] = zeros[1]
        hashes, at = np.unique(hashes, return_index=True)
        both = [*left_values.keys, *right_values.keys], [*left_values.is_cut, *right_values.is_cut]
        keys, is_cut = ([each[i] for i in at.tolist()] for each in both)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        every = _united(left_rows.hashes, right_rows.hashes)
        in_order = np.searchsorted(every, hashes[order])
        terms = _terms(left_rows, right_rows, every)[:, [*in_order, *np.delete(np.arange(len(every)), in_order)]]
        sums = np.zeros((len(every) + 1, len(terms)))
        np.cumsum(terms.T, axis=0, out=sums[1:])
        totals = _Totals.of(left_rows, right_rows)
        return cls(
            totals=totals,
            keys=[keys[i] for i in order],
            is_cut=[is_cut[i] for i in order] if any(is_cut) else None,
            sums=sums,
            whole=_matches(totals, sums[-1].tolist()),
        )

    def within(self, values: ValueSet, *, possible: bool = False) -> Matches:
        """The sums over the values that are certainly in a set, or over all that may be."""
        found, last = np.zeros(self.sums.shape[1]), 0
        for span in values.spans:
            first, last = places_in(self.keys, self.is_cut, span, possible=possible, since=last)
            found += self.sums[last] - self.sums[first]
        if values.nan:
            found += self.sums[-1] - self.sums[len(self.keys)]
        return _matches(self.totals, found.tolist())


def _matches(totals: _Totals, sums: Sequence[float]) -> Matches:
    (b, e0, e1, e2, l0, l1, l2, r0, r1, r2, n, p, pp, ln, lq, rn, rq, *light), rest = sums[:_COMMON], sums[_COMMON:]
    return Matches(
        **totals._asdict(),
        both_heavy=b,
        exact_rows=(e0, e1, e2),
        exact_left=(l0, l1, l2),
        exact_right=(r0, r1, r2),
        light_rows=Sums(n, p, pp),
        light_left=Sums(n, ln, lq),
        light_right=Sums(n, rn, rq),
        light=Light(*light),
        left=OneSided._make(rest[:_OF_SIDE]),
        right=OneSided._make(rest[_OF_SIDE:]),
    )


def _united(left: Hashes, right: Hashes) -> Hashes:
    return first_of_each(np.concatenate((left, right)))[0]


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows of some values on one side: the fewest, the likely and the most; and which of them are certain."""

    low: Numbers
    mid: Numbers
    high: Numbers
    is_heavy: Flags
    is_known: Flags

    @classmethod
    def of(cls, side: Counted, every: Hashes) -> _Side:
        low, high, is_heavy = np.zeros(len(every)), np.zeros(len(every)), np.zeros(len(every), np.bool_)
        is_below = every < np.uint64(side.theta)
        high[~is_below] = side.missed
        if side.left is not None:
            high = np.minimum(high, side.left[bucket_of(every, len(side.left))].astype(np.float64))
        at = np.searchsorted(every, side.hashes)
        low[at], high[at], is_heavy[at] = side.low, side.high, side.is_heavy
        mid = low + side.likely * (high - low)
        return cls(low, mid, high, is_heavy, is_heavy | is_below)


_COMMON = 23
_ENOUGH = 32  # known values, to take their mean for others


def _terms(left: Counted, right: Counted, every: Hashes) -> Numbers:
    """What each value adds to the sums: those of `Matches` in the order in which they are read, a row for each sum."""
    one, other = _Side.of(left, every), _Side.of(right, every)
    exact = one.is_known & other.is_known
    light = (every < np.uint64(min(left.theta, right.theta))) & ~one.is_heavy & ~other.is_heavy
    if left.theta == right.theta == MAX_THETA:
        light = np.zeros(len(every), np.bool_)
    else:
        exact &= one.is_heavy | other.is_heavy
    mids = one.mid, other.mid
    both = light & (one.mid > 0) & (other.mid > 0)
    pairs = ((one.low, other.low), mids, (one.high, other.high))
    product = np.where(both, one.mid * other.mid, 0)
    of_light = [np.where(both, each, 0) for each in mids]
    common = [
        one.is_heavy & other.is_heavy,
        *(np.where(exact, a * b, 0) for a, b in pairs),
        *(np.where(exact & (b > 0), a, 0) for a, b in pairs),
        *(np.where(exact & (a > 0), b, 0) for a, b in pairs),
        *(both, product, product**2),
        *(term for each in of_light for term in (each, each**2)),
        *(each * light for each in mids),
        *(each**2 * light for each in mids),
        *(product * each for each in mids),
    ]
    one_sided = [
        *_one_sided((one, other), light, every, (left.missed, right.left)),
        *_one_sided((other, one), light, every, (right.missed, left.left)),
    ]
    return np.array([*common, *one_sided], np.float64)


def _one_sided(sides: tuple[_Side, _Side], light: Flags, every: Hashes, rests: tuple[float, Counts | None]) -> OneSided:
    """
    The terms of `OneSided`, an array for each.

    ``rests`` are the most rows of another value on this side, and what is left over in the buckets of the other one.
    """
    side, other = sides
    missed, left = rests
    heavy = side.is_heavy & ~other.is_heavy
    known, unknown, alike = heavy & other.is_known, heavy & ~other.is_known, light & (side.mid > 0)
    rows, partners = side.mid, other.mid
    has_partner = partners > 0
    guess = np.zeros(len(every))
    if left is not None:
        buckets = bucket_of(every, len(left))
        sharing = np.bincount(buckets[unknown], minlength=len(left))  # values that make up an excess together
        guess = ((left - left.mean()) / np.maximum(sharing, 1))[buckets]
        # Some have no more rows than others, and were found since others are in their bucket, on both sides.
        is_found = side.low <= missed
        if np.count_nonzero(alike_known := known & is_found) >= _ENOUGH:
            guess[is_found] = partners[alike_known].mean()
    terms: dict[str, Any] = {
        "heavy": heavy,
        "heavy_rows": rows * heavy,
        "known": known,
        "known_rows": rows * known,
        "unknown": unknown,
        "unknown_rows": rows * unknown,
        "unknown_squares": rows**2 * unknown,
        "guess": guess * unknown,
        "guessed": rows * guess * unknown,
        "room": other.high * unknown,
        "rooms": rows * other.high * unknown,
        "products": rows * partners * known,
        "partnered_rows": rows * (known & has_partner),
        "partnered": known & has_partner,
        "known_partners": partners * known,
        "light": alike,
        "light_partners": partners * alike,
        "light_partnered": alike & has_partner,
        "squares": partners**2 * (known | alike),
    }
    return OneSided(**terms)
