"""How rows are spread over values, and how many combinations of the values of several columns have any rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from puffin.estimates.counted import Numbers

_STEPS = 4  # for each doubling of rows; values between two steps count as equally frequent


class Spread(NamedTuple):
    """
    How many values there are of each frequency.

    Attributes:
        shares: Of all rows, those that a value of each frequency has.
        values: How many values have it.
    """

    shares: Numbers
    values: Numbers

    @classmethod
    def of(cls, shares: Numbers, values: Numbers) -> Spread:
        """From the shares of values, and how often each is there; similar shares become one."""
        has_rows = (shares > 0) & (values > 0)
        shares, values = shares[has_rows], values[has_rows]
        step = np.floor(np.log2(shares) * _STEPS).astype(np.int64)
        step -= step.min(initial=0)
        count, share = (np.asarray(np.bincount(step, each), np.float64) for each in (values, values * shares))
        is_there = count > 0
        return cls(share[is_there] / count[is_there], count[is_there])

    @classmethod
    def of_rows(cls, rows: Numbers, values: Numbers) -> Spread:
        """From the rows of values, and for how many values each of them stands."""
        return cls.of(rows / max(float(rows @ values), 1), values)

    @classmethod
    def even(cls, values: float) -> Spread:
        """Of so many values that all have the same share."""
        return cls(np.array([1 / max(values, 1)]), np.array([values], np.float64))

    def times(self, other: Spread) -> Spread:
        """All combinations of values of two columns that do not depend on each other."""
        shares, values = (np.multiply.outer(*each).ravel() for each in zip(self, other, strict=True))
        return Spread.of(shares, values)

    def among(self, rows: float) -> float:
        """How many values are among so many rows that are drawn at random."""
        return float(self.values @ -np.expm1(-rows * self.shares))
