"""
The rows of a column over its values in their order, as its distribution tells.

The sample tells which share of the rows that are known together is in a span of values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from puffin.estimates.facts import ColumnFacts
from puffin.estimates.hashed_rows import Found, HashedRows
from puffin.estimates.interval import AT_95, NOTHING, Interval, count_of, share_of
from puffin.estimates.known_values import KnownValues
from puffin.estimates.methods import AVERAGE, EXACT, HEAVY, SAMPLE
from puffin.estimates.others import hashes_by
from puffin.estimates.value_set import FIRST, LAST, Cut, Span, ValueSet, is_point, value_of
from puffin.values.value_bytes import to_comparables


class OrderedRows:
    """
    The rows of values in their order, prepared for questions.

    Args:
        hashed: The same by hash; its distribution has values.

    Attributes:
        known: The known values, apart from NaN.
        nan_rows: The rows with a NaN.
    """

    def __init__(self, facts: ColumnFacts, hashed: HashedRows) -> None:
        self._hashed = hashed
        found = hashed.found
        low, high = found.low.astype(np.float64), found.high.astype(np.float64)
        keys = to_comparables(found.values, facts.type)
        is_nan = keys != keys if keys.dtype.kind == "f" else np.zeros(len(keys), np.bool_)
        if facts.nans is None:
            self.nan_rows = Interval.between(float(low[is_nan].sum()), float(high[is_nan].sum()))
        else:
            self.nan_rows = Interval.exactly(facts.nans)
        known = [each[~is_nan] for each in (keys, found.hashes, low, high, hashed.is_known, found.is_cut)]
        if hashed.empty:
            of_empty: Sequence[Any] = b"", np.uint64(0), hashed.empty, hashed.empty, True, False
            known = [np.append(each, value) for each, value in zip(known, of_empty, strict=True)]
        is_bounded = not hashed.empty and facts.lower is not None and facts.upper is not None
        self._least: Cut | None = (0, facts.lower, 0) if is_bounded else None
        self._greatest: Cut | None = (0, facts.upper, 1) if is_bounded else None
        self.known = KnownValues(*known)
        self._ends = self._least, self._greatest
        self._is_whole = keys.dtype.kind == "i"  # dates and times too: between two values there are a known number
        sampled = hashed.sampled
        self._average = sampled.rows / sampled.values if sampled.values else hashed.most
        self._hashes_of = hashes_by(facts.type)

    def find(self, wanted: ValueSet, z: float) -> Found:
        """The rows with these values, null aside; bounds hold as often as ``z`` standard deviations say."""
        if len(wanted.spans) == 1 and self.known.keys.is_cut is None and not (wanted.nan and self.nan_rows.upper):
            return self._of_span(wanted.spans[0], z)
        known, found = self.known, self.nan_rows if wanted.nan else NOTHING
        method = EXACT if self._hashed.is_complete else HEAVY
        certain: list[tuple[int, int]] = []  # the places of spans, of values that are surely there
        possible: list[tuple[int, int]] = []
        absent: list[int] = []  # hashes of values that are neither heavy nor in the sample
        before, reached, others = LAST, (0, 0), 0.0
        for span in map(self._clipped, wanted.spans):
            if span is None:
                continue
            if is_point(span):
                start, stop = known.find(value_of(span))
                absent += self._unknown_hashes(value_of(span), start, stop)
                if start == stop:
                    continue
                method = method if all(known.is_exact[start:stop]) else SAMPLE
                low, high = known.rows_between(start, stop)
            else:
                # Two spans with one value left out between them are one for the sample.
                goes_on = is_point((before, span[0]))
                before = span[1]
                at = known.keys.between(span)
                others += self._others_in(span, at)
                low, high = known.rows_between(*at)
                _append(certain, at, goes_on)
                if known.keys.is_cut is not None:
                    at = reached = known.keys.between(span, possible=True, since=reached[1])
                    high = known.rows_between(*at)[1]
                    _append(possible, at, goes_on)
            found = found.plus(Interval.between(low, high, self._hashed.likely))
        if self._hashed.is_complete:
            return found, method
        if certain:
            of_sample = self._sampled(certain, others, z)
            found = found.plus(of_sample.or_else(self._sampled(possible, others, z)) if possible else of_sample)
            method = SAMPLE
        if absent:
            of_absent = self._hashed.absent(absent, z)
            found = found.plus(of_absent)
            method = SAMPLE if certain or of_absent.is_exact else AVERAGE
        return found, method

    def distinct_in(self, wanted: ValueSet) -> Interval:
        """The distinct values of a set, null and NaN aside, the empty string among them."""
        known, found = self.known, NOTHING
        least = most = 0.0  # values of the sample
        has_range, reached, others = False, (0, 0), 0.0
        for span in map(self._clipped, wanted.spans):
            if span is None:
                continue
            if is_point(span):
                start, stop = known.find(value_of(span))
                if start < stop or not self._hashed.is_complete:
                    found = found.plus(Interval(1, float(start < stop), 1))
                continue
            has_range = True
            reached = known.keys.between(span, possible=True, since=reached[1])
            others += self._others_in(span, reached)
            certain, possible = (known.count_between(*each) for each in (known.keys.between(span), reached))
            found = found.plus(Interval.between(certain[0], possible[0]))
            least, most = least + certain[1], most + possible[1]
        if has_range and not self._hashed.is_complete:
            counts = (count_of(sampled, self._hashed.share, AT_95) for sampled in (least, most))
            found = found.plus(next(counts).or_else(next(counts)).at_most(most + others))
        return found

    def _of_span(self, span: Span, z: float) -> Found:
        """As `find`, but faster: for a single span, where no value is cut."""
        known, method = self.known, EXACT if self._hashed.is_complete else HEAVY
        clipped = self._clipped(span)
        if clipped is None:
            return NOTHING, method
        of_one = is_point(clipped)
        start, stop = at = known.find(value_of(clipped)) if of_one else known.keys.between(clipped)
        found = Interval.between(*known.rows_between(start, stop), self._hashed.likely)
        if self._hashed.is_complete:
            return found, method
        if of_one:
            method = method if all(known.is_exact[start:stop]) else SAMPLE
            absent = self._unknown_hashes(value_of(clipped), start, stop)
            if not absent:
                return found, method
            of_absent = self._hashed.absent(absent, z)
            return found.plus(of_absent), SAMPLE if of_absent.is_exact else AVERAGE
        return found.plus(self._sampled((at,), self._others_in(clipped, at), z)), SAMPLE

    def _unknown_hashes(self, value: Any, start: int, stop: int) -> list[int]:
        """The hashes of a value that no known value at these places has; of 0.0 and -0.0 one may be known alone."""
        if start < stop and value != 0:
            return []
        known = self.known.hashes[start:stop]
        return [each for each in self._hashes_of(value) if each not in known]

    def _sampled(self, places: Sequence[tuple[int, int]], others: float, z: float) -> Interval:
        """The rows of the values between these places that are neither heavy nor in the sample, ``others`` at most."""
        hashed, matched = self._hashed, self.known.sampled(places)
        if min(hashed.most, hashed.unsampled.upper) <= 0:
            return NOTHING
        found = share_of(hashed.unsampled, matched, hashed.sampled, hashed.share, z)
        if others * hashed.most >= found.upper and others * self._average >= found.rows:
            return found
        average = max(self._average, matched.rows / matched.values) if matched.values else self._average
        upper = min(others * hashed.most, found.upper)
        rows = min(others * average, found.rows, upper)
        return Interval(rows, min(found.lower, rows), upper)

    def _others_in(self, span: Span, at: tuple[int, int]) -> float:
        """How many values may be in a span beside the known ones, which are at these places."""
        start, stop = (each if len(each) == 3 else end for each, end in zip(span, self._ends, strict=True))
        if not self._is_whole or start is None or stop is None:
            return math.inf
        return float(max(0, stop[1] + stop[2] - start[1] - start[2] - (at[1] - at[0])))

    def _clipped(self, span: Span) -> Span | None:
        """The span without its ends beyond the least and the greatest value; None if nothing is left."""
        start, stop = span
        if self._least is None or self._greatest is None:
            return span if start < stop else None
        if stop <= self._least or start >= self._greatest:
            return None
        is_first, is_last = start <= self._least, stop >= self._greatest
        if not (is_first or is_last) or is_point(span):
            return span
        return FIRST if is_first else start, LAST if is_last else stop


def _append(places: list[tuple[int, int]], at: tuple[int, int], goes_on: bool) -> None:
    """Add places; as one with the last ones if it goes on from these."""
    if goes_on:
        at = places.pop()[0], at[1]
    places.append(at)
