"""
The tuples of a joint sketch by the values of their columns, for filters with a range in several columns.

A joint sketch has hashes alone. If statistics have every value of each column, and these are few, all tuples that there
can be are hashed once: that tells the values of each tuple in the sketch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from puffin.estimates.counted import Counted, Numbers
from puffin.estimates.interval import Interval, Sums, share_of
from puffin.estimates.known_values import KnownValues
from puffin.estimates.value_set import ValueSet
from puffin.sketches.hash_arrays import Flags, Hashes, places
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.tuple_hashes import EMPTY, NULL, hashes_of

_MOST_TUPLES = 1 << 18


class TupleGrid(NamedTuple):
    """
    Tuples whose values are known.

    Attributes:
        columns: The values of each column.
        at: For each column the place of the value of each tuple; null is after the last value.
        low, high: The fewest and the most rows of each tuple.
        is_light: Whether each is in the sketch because it is in the sample.
        sampled: The share of all tuples that is in the sample.
        unknown: The rows of all other tuples.
        likely: As `Counted.likely`.
    """

    columns: tuple[KnownValues, ...]
    at: tuple[npt.NDArray[np.intp], ...]
    low: Numbers
    high: Numbers
    is_light: Flags
    sampled: float
    unknown: Interval
    likely: float

    @classmethod
    def of(cls, columns: Sequence[KnownValues], counted: Counted, rows: int) -> TupleGrid | None:
        """The tuples of columns with these values, of so many rows; None if there may be too many."""
        ends = [with_null(column.hashes) for column in columns]
        sizes = tuple(map(len, ends))
        if math.prod(sizes) > _MOST_TUPLES:
            return None
        made = [each.reshape(-1) for each in np.meshgrid(*ends, indexing="ij")]
        place, has = places(hashes_of(made), counted.hashes)
        low, high = counted.low[place[has]], counted.high[place[has]]
        most, least = rows - float(low.sum()), rows - float(high.sum())
        unknown = Interval.between(max(0.0, least), max(0.0, most))
        return cls(
            columns=tuple(columns),
            at=tuple(np.unravel_index(np.flatnonzero(has), sizes)),
            low=low,
            high=high,
            is_light=~counted.is_heavy[place[has]],
            sampled=counted.theta / MAX_THETA,
            unknown=unknown,
            likely=counted.likely,
        )

    def find(self, wanted: Iterable[ValueSet], z: float | None) -> Interval | None:
        """
        The rows whose values are in these sets, one for each column.

        None if nobody knows whether a value that is cut is in its set. Bounds of what the sample tells hold as often as
        ``z`` standard deviations say; None if tuples may have values that the columns did not have when counted.
        """
        matches = np.ones(len(self.low), np.bool_)
        for column, at, values in zip(self.columns, self.at, wanted, strict=True):
            if any(map(column.keys.is_doubtful, values.spans)):
                return None
            passes = np.zeros(len(column.keys.values) + 1, np.bool_)
            for start, stop in values.spans:
                passes[column.keys.place(start) : column.keys.place(stop)] = True
            passes[-1] = values.null
            matches &= passes[at]
        low, high = float(self.low[matches].sum()), float(self.high[matches].sum())
        found = Interval.between(low, high, self.likely)
        if z is None or self.sampled >= 1:  # all others have values that came when the columns had been counted
            return found.plus(Interval.between(0, self.unknown.upper))
        matched, every = Sums.of(self.low[matches & self.is_light]), Sums.of(self.low[self.is_light])
        return found.plus(share_of(self.unknown, matched, every, self.sampled, z))


def with_null(hashes: Hashes) -> Hashes:
    """What tuples hash for these values of a column, and last for null; 0 stands for the empty string."""
    return np.append(np.where(hashes == 0, np.uint64(EMPTY), hashes), np.uint64(NULL))
