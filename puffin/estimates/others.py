"""
The rows of single values that are neither heavy nor in the sample, as row counts and buckets tell.

Row counts have more values than the sample, with their exact rows. The bucket of any other value has its rows and those
of a few others. How many rows such values have is known from the row counts, so that Bayes' rule tells how many of the
bucket's rows are those of the value, if a row drawn at random chose it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from puffin.cached import cached_property
from puffin.estimates.counted import Numbers
from puffin.estimates.interval import ALWAYS, NOTHING, Interval
from puffin.sketches.distribution import Distribution
from puffin.sketches.hash_arrays import BUCKET_SHIFT, Counts, place_of
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.single_hash import hash_one
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.value_bytes import serializer

_LEVELS = 256  # numbers of rows that are told apart in a bucket
_MOST_OF_ONE = 0.95  # of rows are of values with at most so many rows as the upper bound of a single value says
_MOST_IN_BUCKET = 0.85, 0.88, 0.91, 0.93, 0.95, 0.97  # likewise in each bucket, where whole numbers leave more below
_NEAR = 3  # a guess is near within this factor
_FAR = 0.05  # what a unit of logarithmic distance costs, in chances of being near
_SHIFT = int(BUCKET_SHIFT)


class OtherValues:
    """
    The values that are neither heavy nor in the sample of a column.

    Args:
        found: The distribution, with the exact rows of row counts.
        counts: These row counts.
        sampled: The rows of each value of the sample, and of the row counts, that is not heavy.
        theta: Of the values that are not heavy, ``sampled`` has those whose hashes are below it.
        most: The most rows of any of them.
    """

    def __init__(
        self, found: Distribution, counts: RowCounts | None, sampled: Numbers, theta: int, most: float
    ) -> None:
        self._counts = counts
        self._theta = theta
        self._left = None if counts is None else found.left_over(counts)
        self._sampled = np.sort(sampled)
        self._most = most
        self._by_bucket = None if self._left is None else _ByBucket.of(self._left, self._sampled, theta / MAX_THETA)

    def rows_of(self, hashed: int, z: float) -> Interval:
        """The rows of the value with this hash; the upper bound holds for 95 of 100 rows, or always, as ``z`` says."""
        if hashed < self._theta:
            return Interval.exactly(self._counted(hashed))
        if self._left is None or self._by_bucket is None:
            return self._any if z < ALWAYS else Interval(self._any.rows, 0, self._most)
        left = self._left.item(hashed >> _SHIFT & len(self._left) - 1)
        most = min(float(left), self._most)
        if most <= 0:
            return NOTHING
        unit, likely, upper, _ = self._by_bucket
        level = min(round(left / unit), _LEVELS - 1)
        rows = min(likely[level], most)
        return Interval(rows, 0, most if z >= ALWAYS else min(max(upper[level], rows), most))

    def rows_of_all(self, hashes: Sequence[int], z: float) -> Interval:
        """The rows of several values, which are independent of each other; the upper bound holds as for one."""
        each = [self.rows_of(hashed, z) for hashed in hashes]
        rows, lower, upper = (sum(ends) for ends in zip(*each, strict=True))
        if z >= ALWAYS or len(each) == 1:
            return Interval(rows, lower, upper)
        # A few values may have many rows: most have fewer than the mean, which is what a sum of them comes to.
        mean = variance = most = 0.0
        for hashed, found in zip(hashes, each, strict=True):
            of_one = _Moments(found.rows, 0.0) if found.is_exact else self._moments(hashed)
            mean, variance = mean + of_one.mean, variance + of_one.variance
            most += found.rows if found.is_exact else self.rows_of(hashed, ALWAYS).upper
        return Interval(rows, lower, min(max(rows, mean + z * math.sqrt(variance)), max(rows, most)))

    def _moments(self, hashed: int) -> _Moments:
        """The mean of the rows of a value that a row drawn at random chose, and how much they vary."""
        if self._left is None or self._by_bucket is None:
            return self._moments_of_any
        left = self._left.item(hashed >> _SHIFT & len(self._left) - 1)
        return self._by_bucket.moments[min(round(left / self._by_bucket.unit), _LEVELS - 1)]

    @cached_property
    def _moments_of_any(self) -> _Moments:
        if not len(self._sampled):
            return _Moments(self._any.rows, (self._most - self._any.rows) ** 2)
        weights = self._sampled / self._sampled.sum()
        mean = float(weights @ self._sampled)
        return _Moments(mean, float(weights @ (self._sampled - mean) ** 2))

    def _counted(self, hashed: int) -> int:
        """The rows of a value below theta that is not in the sample; none if row counts do not have it either."""
        if self._counts is None:
            return 0
        at = place_of(hashed, self._counts.hashes)
        return 0 if at is None else self._counts.rows.item(at)

    @cached_property
    def _any(self) -> Interval:
        """The rows of any value, whatever its bucket."""
        if self._most <= 0:
            return NOTHING
        if not len(self._sampled):
            return Interval(math.sqrt(self._most), 0, self._most)
        weights = np.cumsum(self._sampled)
        typical = math.exp(float((np.log(self._sampled) * self._sampled).sum() / weights[-1]))
        at = min(int(np.searchsorted(weights, _MOST_OF_ONE * weights[-1])), len(weights) - 1)
        upper = float(self._sampled[at])
        return Interval(min(typical, self._most), 0, min(max(upper, typical), self._most))


def hashes_by(type_: str) -> Callable[[Any], tuple[int, ...]]:
    """A function from a value as filters compare it to its hashes: 0.0 has two, one that the type lacks has none."""
    to_bytes = serializer(type_)

    def found(value: Any) -> tuple[int, ...]:
        try:
            data = to_bytes(value)
        except (struct.error, OverflowError):
            return ()
        if isinstance(value, float):
            if value == 0:
                return hash_one(to_bytes(0.0)), hash_one(to_bytes(-0.0))
            if type_ == "float" and struct.unpack("<f", data)[0] != value:
                return ()
        return (hash_one(data),)

    return found


class _Moments(NamedTuple):
    """The mean of a number of rows, and its variance."""

    mean: float
    variance: float


class _ByBucket(NamedTuple):
    """
    The rows of a value by the rows that are left over in its bucket.

    Attributes:
        unit: The rows of a bucket are counted in it.
        likely: The rows of a value, by the units of its bucket: those that are off by a factor of at most `_NEAR` most
            often; of numbers that are about as good, the one next to the geometric mean.
        upper: The rows that a value has at most, for 95 of 100 rows.
        moments: What the rows of a value are on average.
    """

    unit: float
    likely: list[float]
    upper: list[float]
    moments: list[_Moments]

    @classmethod
    def of(cls, left: Counts, sampled: Numbers, share: float) -> _ByBucket:
        """From the rows left in all buckets, and the rows of sampled values."""
        unit = max(1.0, int(left.max()) / (_LEVELS - 1))
        # A value with as many rows as any is possible, also where the sample has none.
        guessed = np.arange(1, _LEVELS) * unit
        weights = np.append(np.ones(len(sampled)), 0.5 * guessed**-2.0 / (guessed**-2.0).sum())
        values = np.append(np.minimum(sampled, guessed[-1]), guessed)
        each_bucket = len(sampled) / share * (1 - share) / len(left)
        others = _sums(each_bucket, _spread(values / unit, weights) / weights.sum())
        of_one = _spread(values / unit, weights * values)
        logs = _spread(values / unit, weights * values * np.log(values))
        # Each row of the matrix is a number of rows in the bucket, each column one of the value itself.
        rest = sliding_window_view(np.append(others[::-1], np.zeros(_LEVELS - 1)), _LEVELS)[::-1]
        chances = rest * of_one
        total = np.maximum(chances.sum(axis=1), 1e-300)
        below = np.cumsum(chances, axis=1) / total[:, None]
        for most in _MOST_IN_BUCKET:
            upper = (below < most).sum(axis=1)
            if total @ below[np.arange(_LEVELS), np.minimum(upper, _LEVELS - 1)] >= _MOST_OF_ONE * total.sum():
                break
        if unit > 1:
            upper += 1  # a level then stands for values with up to as many rows as the next one, too
        mean = np.maximum(rest @ logs / total, 0.0)
        tried = np.maximum(np.arange(_LEVELS), 1)
        near = below[:, np.minimum(_NEAR * tried, _LEVELS - 1)] - below[:, np.maximum(-(-tried // _NEAR) - 1, 0)]
        far = np.abs(np.log(tried * unit) - mean[:, None])
        likely = tried[np.argmax(near - _FAR * far, axis=1)] * unit
        likely = np.where(likely > unit, likely, np.minimum(likely, np.exp(mean)))  # fewer rows than can be told apart
        of_level = np.arange(_LEVELS) * unit
        average = chances @ of_level / total
        variance = np.maximum(chances @ of_level**2 / total - average**2, 0.0)
        moments = list(map(_Moments, average.tolist(), variance.tolist()))
        return cls(unit, likely.tolist(), np.maximum(upper * unit, likely).tolist(), moments)


def _spread(places: Numbers, weights: Numbers) -> Numbers:
    """The sum of the weights at each whole place; one between two places is divided among these, so that means stay."""
    below = places.astype(np.int64)
    part = places - below
    found = np.bincount(below, weights * (1 - part), _LEVELS + 1)
    found += np.bincount(below + 1, weights * part, _LEVELS + 1)
    return np.asarray(found[:_LEVELS], np.float64)


def _sums(mean: float, of_one: Numbers) -> Numbers:
    """How likely each sum of a random number of values is: Poisson's, of this mean, of values of this law."""
    chances = np.fft.irfft(np.exp(mean * (np.fft.rfft(of_one, 2 * _LEVELS) - 1)), 2 * _LEVELS)[:_LEVELS]
    return np.asarray(np.maximum(chances, 0.0), np.float64)
