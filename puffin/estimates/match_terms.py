"""What each value of two columns adds to the sums from which the rows of their joins follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from puffin.estimates.counted import Counted, Numbers
from puffin.estimates.interval import Interval, Sums
from puffin.sketches.hash_arrays import Counts, Flags, Hashes, bucket_of
from puffin.sketches.theta_image import MAX_THETA

_ENOUGH = 32  # known values, to take their mean for others


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


class CommonSums(NamedTuple):
    """
    Sums over the values of both sides.

    Attributes:
        both_heavy: How many values are heavy on both sides.
        least_rows, likely_rows, most_rows: The products of the rows of values whose rows are known on both sides, as
            ``exact_rows`` together; ``left`` and ``right`` the rows on one side of those with rows on the other.
        partnered: How many light values have rows on both sides.
        products, left_partnered, right_partnered: Of these, the products of the rows of both sides, and the rows on
            one side; ``squares`` the squares of these. As ``light_rows``, ``light_left`` and ``light_right`` together.
        left_light, right_light: The rows on one side of all light values; ``squares`` the squares of these.
        left_left_right, left_right_right: The squares of one side times the rows of the other.
    """

    both_heavy: float
    least_rows: float
    likely_rows: float
    most_rows: float
    least_left: float
    likely_left: float
    most_left: float
    least_right: float
    likely_right: float
    most_right: float
    partnered: float
    products: float
    products_squares: float
    left_partnered: float
    left_partnered_squares: float
    right_partnered: float
    right_partnered_squares: float
    left_light: float
    right_light: float
    left_light_squares: float
    right_light_squares: float
    left_left_right: float
    left_right_right: float

    @property
    def exact_rows(self) -> Interval:
        return Interval(self.likely_rows, self.least_rows, self.most_rows)

    @property
    def exact_left(self) -> Interval:
        return Interval(self.likely_left, self.least_left, self.most_left)

    @property
    def exact_right(self) -> Interval:
        return Interval(self.likely_right, self.least_right, self.most_right)

    @property
    def light_rows(self) -> Sums:
        return Sums(self.partnered, self.products, self.products_squares)

    @property
    def light_left(self) -> Sums:
        return Sums(self.partnered, self.left_partnered, self.left_partnered_squares)

    @property
    def light_right(self) -> Sums:
        return Sums(self.partnered, self.right_partnered, self.right_partnered_squares)


def terms_of(left: Counted, right: Counted, every: Hashes) -> Numbers:
    """What each value adds: a row for each of the `CommonSums`, then for each of the `OneSided` of both sides."""
    one, other = _Side.of(left, every), _Side.of(right, every)
    exact = one.is_known & other.is_known
    light = (every < np.uint64(min(left.theta, right.theta))) & ~one.is_heavy & ~other.is_heavy
    if left.theta == right.theta == MAX_THETA:
        light = np.zeros(len(every), np.bool_)
    else:
        exact &= one.is_heavy | other.is_heavy
    both = light & (one.mid > 0) & (other.mid > 0)
    product, of_left, of_right = (np.where(both, each, 0) for each in (one.mid * other.mid, one.mid, other.mid))
    common: dict[str, Any] = {
        "both_heavy": one.is_heavy & other.is_heavy,
        "least_rows": np.where(exact, one.low * other.low, 0),
        "likely_rows": np.where(exact, one.mid * other.mid, 0),
        "most_rows": np.where(exact, one.high * other.high, 0),
        "least_left": np.where(exact & (other.low > 0), one.low, 0),
        "likely_left": np.where(exact & (other.mid > 0), one.mid, 0),
        "most_left": np.where(exact & (other.high > 0), one.high, 0),
        "least_right": np.where(exact & (one.low > 0), other.low, 0),
        "likely_right": np.where(exact & (one.mid > 0), other.mid, 0),
        "most_right": np.where(exact & (one.high > 0), other.high, 0),
        "partnered": both,
        "products": product,
        "products_squares": product**2,
        "left_partnered": of_left,
        "left_partnered_squares": of_left**2,
        "right_partnered": of_right,
        "right_partnered_squares": of_right**2,
        "left_light": one.mid * light,
        "right_light": other.mid * light,
        "left_light_squares": one.mid**2 * light,
        "right_light_squares": other.mid**2 * light,
        "left_left_right": product * one.mid,
        "left_right_right": product * other.mid,
    }
    one_sided = [
        *_one_sided((one, other), light, every, (left.missed, right.left)),
        *_one_sided((other, one), light, every, (right.missed, left.left)),
    ]
    return np.array([*CommonSums(**common), *one_sided], np.float64)


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
