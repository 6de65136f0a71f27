"""
The rows of a column over its values by their hashes, as its distribution tells.

Of a heavy value the rows are known, and of a value in the sample. The rows of the others are known together; those of a
single one of them are those that `OtherValues` tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from puffin.estimates.counted import Numbers
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.interval import AT_95, NOTHING, Interval, Sums, count_of
from puffin.estimates.methods import AVERAGE, EXACT, HEAVY, SAMPLE
from puffin.estimates.others import OtherValues, hashes_by
from puffin.sketches.distribution import Distribution
from puffin.sketches.hash_arrays import is_among, place_of
from puffin.sketches.theta_image import MAX_THETA

Found: TypeAlias = tuple[Interval, str]
"""The rows of a set of values, and the way they were found."""


class HashedRows:
    """
    The rows of values by their hashes, prepared for questions.

    Args:
        found: The distribution of the facts.
        values: The rows that are not null.

    Attributes:
        is_complete: Whether every value is known.
        is_known: Of each value of the distribution, whether its rows are known whatever the sample says.
        likely: Where the rows of a value are, from the fewest to the most.
        empty: The rows with an empty string; these have no hash.
        sampled: The values that are in the sample only, and their ``share`` of all values that are not heavy.
        unsampled: The rows of all values that are neither heavy nor in the sample.
        most: The most rows of any of these.
        distinct: The distinct values with a hash.
    """

    def __init__(self, facts: ColumnFacts, found: Distribution, values: Interval) -> None:
        self.type, self.found = facts.type, found
        self.is_complete = found.theta == MAX_THETA
        self.is_known = known = found.is_heavy | self.is_complete
        self.likely, self.share = found.likely, found.theta / MAX_THETA
        may_be_empty = facts.type in ("string", "binary") and values.is_exact
        self.empty = max(0, int(values.rows) - found.rows) if may_be_empty else 0
        low, high = found.low.astype(np.float64), found.high.astype(np.float64)
        counts = low[~known]
        self.sampled = Sums.of(counts)
        unknown = found.rows - high[known].sum(), found.rows - low[known].sum()
        least, most = (max(0.0, float(each) - self.sampled.rows) for each in unknown)
        likely = (low + found.likely * (high - low))[known]
        middle = max(0.0, float(found.rows - likely.sum()) - self.sampled.rows)
        self.unsampled = NOTHING if self.is_complete else Interval.clamped(middle, least, most)
        self._known_rows, self._sampled_rows = likely, counts
        theta = found.theta
        if facts.counts is not None and facts.counts.theta > theta:  # these have more values
            theta = facts.counts.theta
            counts = facts.counts.rows[~is_among(facts.counts.hashes, found.hashes[known])].astype(np.float64)
        self.most = min(float(found.missed), self.unsampled.upper)
        self._others = OtherValues(found, facts.counts, counts, theta, self.most)
        distinct = Interval.exactly(float(known.sum())).plus(count_of(len(counts), theta / MAX_THETA, AT_95))
        self.distinct = distinct.at_most(max(found.rows, len(found.hashes)))

    def find(self, values: Sequence[Any], z: float) -> Found:
        """The rows of single values; bounds hold as often as ``z`` standard deviations say."""
        known, found, method = self.found, NOTHING, EXACT if self.is_complete else HEAVY
        absent: list[int] = []
        hashes_of = hashes_by(self.type)
        for value in values:
            if self.empty and value == b"":
                found = found.plus(Interval.exactly(self.empty))
                continue
            for hashed in hashes_of(value):
                at = place_of(hashed, known.hashes)
                if at is None:
                    absent.append(hashed)
                    continue
                found = found.plus(Interval.between(known.low.item(at), known.high.item(at), self.likely))
                method = method if self.is_known[at] else SAMPLE
        if absent and not self.is_complete:
            of_absent = self.absent(absent, z)
            found, method = found.plus(of_absent), SAMPLE if of_absent.is_exact else AVERAGE
        return found, method

    def absent(self, hashes: Sequence[int], z: float) -> Interval:
        """The rows of the values with these hashes, which are neither heavy nor in the sample."""
        found = self._others.rows_of_all(hashes, z)
        return found if len(hashes) == 1 else found.within(0, self.unsampled.upper)

    @property
    def each(self) -> tuple[Numbers, Numbers]:
        """The rows of values, and for how many values each of them stands."""
        known, sampled = self._known_rows, self._sampled_rows
        stands_for = np.repeat((1.0, 1 / self.share), (len(known), len(sampled)))
        return np.concatenate((known, sampled)), stands_for

    def values_left(self, share: float) -> float:
        """The distinct values that are left if such a share of rows is, independent of the value."""
        return values_left(self._known_rows, share) + values_left(self._sampled_rows, share) / self.share


def values_left(rows: Numbers, share: float) -> float:
    """How many of the values with so many rows are left if a share of all rows is."""
    return float(np.abs(np.expm1(rows * math.log1p(-min(share, 1 - 1e-12)))).sum())  # the opposite of 0 is -0.0
