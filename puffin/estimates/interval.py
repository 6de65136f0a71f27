"""A number of rows with its bounds, and what a sample tells of one."""

from __future__ import annotations

import math
from typing import NamedTuple

from puffin.estimates.counted import Numbers

AT_95, ALWAYS = 1.96, 4.5
"""Standard deviations on each side: bounds that hold 95 times in 100, and bounds that practically always hold."""

_TINY = 1e-6  # of a row, as sums of shares have it


class Interval(NamedTuple):
    """An estimate and its bounds: ``lower`` <= ``rows`` <= ``upper``. A tuple, which is made in half the time."""

    rows: float
    lower: float
    upper: float

    @classmethod
    def exactly(cls, rows: float) -> Interval:
        return cls(rows, rows, rows)

    @classmethod
    def between(cls, lower: float, upper: float, share: float = 0.5) -> Interval:
        """Anything from ``lower`` to ``upper``, most likely at this share of the way."""
        return cls(lower + share * (upper - lower), lower, upper)

    @classmethod
    def clamped(cls, rows: float, lower: float, upper: float) -> Interval:
        """An estimate, moved to the nearer of its bounds if it is outside of them."""
        return cls(min(max(rows, lower), upper), lower, upper)

    @property
    def is_exact(self) -> bool:
        return self.lower == self.upper

    def rounded(self) -> tuple[int, int, int]:
        """Whole rows: the estimate, the lower and the upper bound."""
        lower, upper = math.floor(self.lower + _TINY), math.ceil(self.upper - _TINY)
        return min(max(round(self.rows), lower), upper), lower, upper

    def plus(self, other: Interval) -> Interval:
        return Interval(self.rows + other.rows, self.lower + other.lower, self.upper + other.upper)

    def minus(self, other: Interval) -> Interval:
        return Interval(self.rows - other.rows, self.lower - other.upper, self.upper - other.lower)

    def or_else(self, other: Interval) -> Interval:
        """An estimate for when one of the two is right, and it is not known which."""
        return Interval((self.rows + other.rows) / 2, min(self.lower, other.lower), max(self.upper, other.upper))

    def within(self, lower: float, upper: float) -> Interval:
        """The same, for a number that is known to be within these bounds."""
        if lower <= self.lower <= self.rows <= self.upper <= upper:
            return self
        return Interval(
            min(max(self.rows, lower), upper), min(max(self.lower, lower), upper), min(max(self.upper, lower), upper)
        )

    def at_most(self, most: float) -> Interval:
        """
        The same, if ``most`` is known too, so that an estimate above it must be too high.

        The lower bound is that of the likelihood ratio, compared with the most likely number that is possible: bounds
        stay apart, and hold as often as before, also where the lower one was above what is possible.
        """
        if self.upper <= most:
            return self
        lower = self.rows - math.hypot(max(0.0, self.rows - most), self.rows - self.lower)
        return Interval(min(self.rows, most), min(max(lower, 0.0), most), most)


NOTHING = Interval.exactly(0)


class Sums(NamedTuple):
    """How many values of a sample there are, their rows, and the sum of the squares of these."""

    values: float
    rows: float
    squares: float

    @classmethod
    def of(cls, rows: Numbers) -> Sums:
        """Of values with these rows."""
        return cls(float(len(rows)), float(rows.sum()), float((rows**2).sum()))


def share_of(rows: Interval, matched: Sums, every: Sums, sampled: float, z: float) -> Interval:
    """
    The rows of the values outside a sample that match, if ``rows`` are those of all of them.

    ``sampled`` is the share of all values that are in the sample: the fewer values are outside, the more chance can
    make them differ from the sample. The estimate is a ratio, so that nothing is uncertain when all values match or
    none can. The bounds are Wilson's, for as many values as would vary as much; the lower one is less if these are few.
    """
    if every.values == 0:
        return Interval(rows.rows / 2, 0, rows.upper)
    unit = every.squares / every.rows / every.rows / (1 - sampled)  # the share of one value, as rows see it
    if matched.values == 0:
        # Half of the times, a match of so many values has none in the sample.
        guess = math.sqrt(min(1.0, math.log(2) * unit) * min(1.0, 1 / max(rows.rows, 1)))
        return Interval(min(guess, 1) * rows.rows, 0, min(1, z * z * unit) * rows.upper)
    share = matched.rows / every.rows
    if matched.values == every.values:
        return Interval(rows.rows, max(0.0, 1 - z * z * unit) * rows.lower, rows.upper)
    spread = ((1 - share) ** 2 * matched.squares + share**2 * (every.squares - matched.squares)) / every.rows**2
    effective = share * (1 - share) / spread * (1 - sampled)  # values of equal rows that would vary as much
    middle = (share + z * z / (2 * effective)) / (1 + z * z / effective)
    reach = z / (1 + z * z / effective) * math.sqrt(share * (1 - share) / effective + (z / (2 * effective)) ** 2)
    lower, upper = max(0.0, middle - reach) * _of_few(share * effective, z), min(1.0, middle + reach)
    return Interval(share * rows.rows, lower * rows.lower, upper * rows.upper)


def count_of(sampled: float, share: float, z: float) -> Interval:
    """How many values there are, if a sample of this share of them has so many."""
    return sum_of(Sums(sampled, sampled, sampled), Sums(1, 1, 1), share, z)


def sum_of(matched: Sums, every: Sums, sampled: float, z: float) -> Interval:
    """
    A sum over all values, if the sample, of the share ``sampled`` of them, has these sums.

    ``every`` tells how much one value may add, for the bounds of a sum of which the sample has nothing.
    """
    if sampled >= 1:
        return Interval.exactly(matched.rows)
    of = matched if matched.values else every
    if of.values == 0 or of.rows == 0:
        return NOTHING
    unit = of.squares / of.rows
    effective = matched.rows / unit
    reach = z * math.sqrt((1 - sampled) * (effective + z * z * (1 - sampled) / 4))
    middle = effective + z * z * (1 - sampled) / 2
    lower = max(0.0, middle - reach) * _of_few(effective / (1 - sampled), z)
    return Interval(
        matched.rows / sampled, max(lower * unit / sampled, matched.rows), (middle + reach) * unit / sampled
    )


def _of_few(count: float, z: float) -> float:
    """
    By which factor a lower bound that takes a count as normal is lowered, so that it holds for small counts.

    Chance draws a value from a short range more often than that: of a Poisson distribution, the tail is wider above
    its mean. Wilson and Hilferty's formula knows it.
    """
    if count <= 0:
        return 0.0
    normal = count + z * z / 2 - z * math.sqrt(count + z * z / 4)
    return count * max(0.0, 1 - 1 / (9 * count) - z / (3 * math.sqrt(count))) ** 3 / normal
