"""
Two columns side by side, value by value, and the sums over the values from which the rows of their joins follow.

The sums are prepared once for a pair of columns. If the values are known, they are prepared in their order, each over
all values before one: then those of a span of values are differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from puffin.estimates.counted import Counted, Numbers
from puffin.estimates.known_values import KnownValues, OrderedKeys
from puffin.estimates.match_terms import CommonSums, OneSided, terms_of
from puffin.estimates.value_set import Span, ValueSet, is_point, value_of
from puffin.sketches.hash_arrays import Hashes, first_of_each
from puffin.sketches.single_hash import hash_one
from puffin.sketches.theta_image import MAX_THETA

_COMMON, _OF_SIDE = len(CommonSums._fields), len(OneSided._fields)


class Totals(NamedTuple):
    """
    What holds for all values of two columns, and is no sum.

    Attributes:
        share: Of all values, those in both samples.
        is_complete: Whether every value of both sides is known.
        left_missed, right_missed: No value that is not heavy on a side, and not in both samples, has more rows there.
        left_spread, right_spread: The variance of what is left over in the buckets of a side; infinite if unknown.
    """

    share: float
    is_complete: bool
    left_missed: float
    right_missed: float
    left_spread: float
    right_spread: float

    @classmethod
    def of(cls, left: Counted, right: Counted) -> Totals:
        theta, is_complete = min(left.theta, right.theta), left.theta == right.theta == MAX_THETA
        missed = (_most_missed(each, theta) for each in (left, right))
        spreads = (math.inf if each.left is None else float(each.left.var()) for each in (left, right))
        return cls(theta / MAX_THETA, is_complete, *missed, *spreads)


class Matches(NamedTuple):
    """
    The sums over some values that both sides may have.

    Attributes:
        left, right: The sums over the values that are heavy on one side only.
        left_total, right_total: The rows on a side of all values that are heavy on neither, sampled or not; None if
            unknown.
    """

    totals: Totals
    common: CommonSums
    left: OneSided
    right: OneSided
    left_total: float | None = None
    right_total: float | None = None

    @classmethod
    def of(cls, totals: Totals, sums: Sequence[float]) -> Matches:
        """From the sums of `terms_of`."""
        of_left = _COMMON + _OF_SIDE
        left, right = OneSided._make(sums[_COMMON:of_left]), OneSided._make(sums[of_left:])
        return cls(totals, CommonSums._make(sums[:_COMMON]), left, right)


def matches_of(left: Counted, right: Counted) -> Matches:
    """The sums over all values of two columns."""
    terms = terms_of(left, right, _united(left.hashes, right.hashes))
    found = Matches.of(Totals.of(left, right), terms.sum(axis=1).tolist())
    return found._replace(left_total=_light_total(left, found.right), right_total=_light_total(right, found.left))


@dataclass(frozen=True, slots=True, eq=False)
class OrderedMatches:
    """
    The values of two columns in ascending order, the sums over all values before each, and over the whole.

    The last sums are those after NaN, which is above all values and has no place among them. If a value is cut,
    ``places`` has the place of each by its hash, 0 for the empty string; else it is empty.
    """

    totals: Totals
    keys: OrderedKeys
    places: dict[int, int]
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
        both = left_values.keys, right_values.keys
        keys = [key for side in both for key in side.values]
        is_cut = [cut for side in both for cut in side.is_cut or [False] * len(side.values)]
        # Each side may know more of a value than the other.
        kept = np.array([len(key) if cut else math.inf for key, cut in zip(keys, is_cut, strict=True)])
        by_length = np.argsort(-kept, kind="stable")
        at = by_length[np.unique(hashes[by_length], return_index=True)[1]]
        order = sorted(at.tolist(), key=keys.__getitem__)
        is_cut = [is_cut[i] for i in order]
        every = _united(left_rows.hashes, right_rows.hashes)
        in_order = np.searchsorted(every, hashes[order])
        terms = terms_of(left_rows, right_rows, every)[:, [*in_order, *np.delete(np.arange(len(every)), in_order)]]
        sums = np.zeros((len(every) + 1, len(terms)))
        np.cumsum(terms.T, axis=0, out=sums[1:])
        totals = Totals.of(left_rows, right_rows)
        return cls(
            totals=totals,
            keys=OrderedKeys([keys[i] for i in order], is_cut if any(is_cut) else None),
            places={hashed: place for place, hashed in enumerate(hashes[order].tolist())} if any(is_cut) else {},
            sums=sums,
            whole=Matches.of(totals, sums[-1].tolist()),
        )

    def within(self, values: ValueSet, *, possible: bool = False) -> Matches:
        """The sums over the values that are certainly in a set, or over all that may be."""
        found, last = np.zeros(self.sums.shape[1]), 0
        for span in values.spans:
            if self.places and is_point(span):  # the hash tells which of those that begin alike it is
                first, stop = self._places_of(span)
            else:
                first, stop = self.keys.between(span, possible=possible, since=last)
                last = stop
            found += self.sums[stop] - self.sums[first]
        if values.nan:
            found += self.sums[-1] - self.sums[len(self.keys.values)]
        return Matches.of(self.totals, found.tolist())

    def _places_of(self, point: Span) -> tuple[int, int]:
        value = value_of(point)
        place = self.places.get(hash_one(value) if value else 0)
        return (0, 0) if place is None else (place, place + 1)


def _most_missed(side: Counted, theta: int) -> float:
    """The most rows of a value that is not heavy and not in both samples, which are those below theta."""
    return max(side.missed, float(side.high[~side.is_heavy & (side.hashes >= np.uint64(theta))].max(initial=0)))


def _light_total(side: Counted, heavy_on_other: OneSided) -> float | None:
    """The rows of a side of all values that are heavy on neither; None if those that are on the other are not known."""
    if side.rest is None or heavy_on_other.unknown:
        return None
    return side.rest - heavy_on_other.known_partners


def _united(left: Hashes, right: Hashes) -> Hashes:
    return first_of_each(np.concatenate((left, right)))[0]
