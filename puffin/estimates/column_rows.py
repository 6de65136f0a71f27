"""
The rows of a column over its values, in the order of values, as its distribution tells.

Of a heavy value the rows are known, and of a value in the sample. The rows of the others are known together. The sample
tells which share of these is in a span of values. The rows of a single one of them are those that `OtherValues` tells.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from puffin.estimates.counted import Counted, Numbers
from puffin.estimates.interval import AT_95, NOTHING, Interval, Sums, count_of, share_of
from puffin.estimates.known_values import KnownValues
from puffin.estimates.others import OtherValues, hashes_by, together
from puffin.estimates.value_set import EVERYTHING, FIRST, LAST, Cut, Span, ValueSet, is_point
from puffin.estimates.zeros import nans_beyond_one, rarer_zero, rows_of_nans, zeros_of
from puffin.sketches.distribution import Distribution, is_among
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.value_bytes import to_comparables

HEAVY, SAMPLE, AVERAGE = "heavy hitter", "sample", "average of the rest"
EXACT, NULL_COUNT, UNKNOWN = "all values", "null count", "no statistics"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """
    What statistics say of a column.

    Attributes:
        rows: All rows of the table when its statistics were made.
        now: All rows of the table as it is asked for.
        added, removed: The rows that came and went since; None if unknown.
        nulls: None if unknown.
        nans: Of a float or double; 0 for other types, None if unknown.
        ndv: Distinct values with a hash, and their bounds; None if unknown.
        counts: The row counts beside the distribution.
        lower, upper: No value is below or above, as `puffin.values.column_bounds.comparable`; None if unknown.
    """

    type: str
    rows: int
    now: Interval
    added: int | None
    removed: int | None
    nulls: int | None
    nans: int | None
    ndv: Interval | None
    lower: Any = None
    upper: Any = None
    distribution: Distribution | None = None
    counts: RowCounts | None = None


Found: TypeAlias = tuple[Interval, str]
"""The rows of a set of values, and the way they were found."""


class ColumnRows:
    """
    The rows of a column, prepared for questions; any thread may ask.

    Attributes:
        values: The rows that are not null.
        is_complete: Whether every value is known.
        empty: The rows with an empty string; these have no hash.
        nan_rows: The rows with a NaN.
        rarer_zero: Of 0.0 and -0.0, the rows of the one that has fewer.
    """

    def __init__(self, facts: ColumnFacts) -> None:
        self.facts = facts
        found = facts.distribution
        self.is_complete = found is not None and found.theta == MAX_THETA
        hashed = 0 if found is None else found.rows
        nulls = facts.nulls
        if nulls is None and found is not None:
            nulls = max(0, facts.rows - hashed)
        self.nulls = Interval.between(0, facts.rows) if nulls is None else Interval.exactly(min(nulls, facts.rows))
        self._by_nulls = NULL_COUNT if self.nulls.is_exact else UNKNOWN
        self.values = Interval.exactly(facts.rows).minus(self.nulls)
        self.has_order = found is not None and found.values is not None
        self.empty = 0
        unknown = Interval(self.values.rows / 3, 0, self.values.upper)
        self.nan_rows = unknown if facts.nans is None else Interval.exactly(facts.nans)
        self.distinct = facts.ndv or Interval(math.sqrt(facts.rows), 0, facts.rows)  # as near to 1 as to all
        """The distinct values with a hash, among the rows of the statistics."""
        if found is not None:
            self._prepare(found)
        self.rarer_zero = self._rarer_zero()
        twice = _one_of(self.rarer_zero).plus(self._nans_beyond_one())
        self.distinct = self.distinct.minus(twice).within(0, self.distinct.upper)

    def find(self, wanted: ValueSet, z: float) -> Found:
        """The rows with these values; bounds of sampled parts hold as often as ``z`` standard deviations say."""
        left_out = wanted.points_left_out if wanted.nan else None
        if left_out is not None:
            without, method = self._find(left_out, z) if left_out.spans else (NOTHING, self._by_nulls)
            everything = self.values.plus(self.nulls) if wanted.null else self.values
            return self.as_now(everything.minus(without).within(0, self.facts.rows)), method
        found, method = self._find(wanted, z)
        return self.as_now(found), method

    def _find(self, wanted: ValueSet, z: float) -> Found:
        if not wanted.spans and not wanted.nan:
            return (self.nulls, self._by_nulls) if wanted.null else (NOTHING, EXACT)
        rows, method = self._in_order(wanted, z) if self.has_order else self._without_order(wanted, z)
        if wanted.null:
            rows, method = rows.plus(self.nulls), SAMPLE
        return rows.within(0, self.facts.rows), method

    def as_now(self, found: Interval) -> Interval:
        """An estimate of earlier rows, for those of the snapshot asked for."""
        facts = self.facts
        if facts.added == facts.removed == 0:
            return found
        scale = facts.now.rows / facts.rows if facts.rows else 1.0
        lower = 0 if facts.removed is None else found.lower - facts.removed
        upper = facts.now.upper if facts.added is None else found.upper + facts.added
        return Interval(found.rows * scale, lower, upper).within(max(0, lower), min(facts.now.upper, upper))

    def groups_as_now(self, found: Interval) -> Interval:
        """The distinct values among earlier rows, for the rows of the snapshot asked for."""
        facts = self.facts
        if facts.added == facts.removed == 0:
            return found
        lower = 0 if facts.removed is None else max(0.0, found.lower - facts.removed)
        upper = facts.now.upper if facts.added is None else found.upper + facts.added
        return Interval(found.rows, lower, upper).within(lower, max(lower, upper))

    # --- with values in order ---------------------------------------------------------------------------------------

    def _prepare(self, found: Distribution) -> None:
        facts = self.facts
        low, high = found.low.astype(np.float64), found.high.astype(np.float64)
        known = found.is_heavy | self.is_complete
        is_string = facts.type in ("string", "binary")
        if is_string and self.nulls.is_exact:
            self.empty = max(0, int(self.values.rows) - found.rows)
        rest = ~known
        counts = low[rest]
        self._share = found.theta / MAX_THETA
        self._every = Sums(float(len(counts)), float(counts.sum()), float((counts**2).sum()))
        unknown = found.rows - high[known].sum(), found.rows - low[known].sum()
        least, most = (max(0.0, float(each) - self._every.rows) for each in unknown)
        self._likely, likely = found.likely, low + found.likely * (high - low)
        middle = max(0.0, float(found.rows - likely[known].sum()) - self._every.rows)
        self.unsampled = NOTHING if self.is_complete else Interval(min(max(middle, least), most), least, most)
        """The rows of all values that are neither heavy nor in the sample."""
        self._known_rows, self._sampled_rows = likely[known], counts
        theta = found.theta
        if facts.counts is not None and facts.counts.theta > theta:  # these have more values
            theta = facts.counts.theta
            counts = facts.counts.rows[~is_among(facts.counts.hashes, found.hashes[known])].astype(np.float64)
        share, most = theta / MAX_THETA, min(float(found.missed), self.unsampled.upper)
        self._others = OtherValues(found, facts.counts, counts, share, most)
        self.distinct = Interval.exactly(float(known.sum())).plus(count_of(len(counts), share, AT_95))
        self.distinct = self.distinct.at_most(max(found.rows, len(found.hashes)))
        if found.values is None:
            return
        keys = to_comparables(found.values, facts.type)
        is_nan = keys != keys if keys.dtype.kind == "f" else np.zeros(len(keys), np.bool_)
        if facts.nans is None:
            self.nan_rows = Interval.between(float(low[is_nan].sum()), float(high[is_nan].sum()))
        rows, flags = (low[~is_nan], high[~is_nan]), (known[~is_nan], found.is_cut[~is_nan])
        keys, hashes = keys[~is_nan], found.hashes[~is_nan]
        if self.empty:
            rows = np.append(rows[0], self.empty), np.append(rows[1], self.empty)
            flags = np.append(flags[0], True), np.append(flags[1], False)
            keys, hashes = np.append(keys, np.array([b""], object)), np.append(hashes, np.uint64(0))
        is_bounded = not self.empty and facts.lower is not None and facts.upper is not None
        self._least: Cut | None = (0, facts.lower, 0) if is_bounded else None
        self._greatest: Cut | None = (0, facts.upper, 1) if is_bounded else None
        self._known = KnownValues(keys, hashes, rows, flags)
        self._hashes_of = hashes_by(facts.type)

    def _rarer_zero(self) -> Interval:
        """The rows of the one of 0.0 and -0.0 that has fewer: hashes tell these apart, and groups do not."""
        facts = self.facts
        if zeros_of(facts.type) is None or self.distinct.upper < 2:
            return NOTHING
        if facts.distribution is not None:
            low, high = rarer_zero(facts.type, facts.distribution, facts.counts)
            return Interval(low, low, high)
        is_apart = (facts.lower is not None and facts.lower > 0) or (facts.upper is not None and facts.upper < 0)
        return NOTHING if is_apart else Interval(0, 0, facts.rows // 2)

    def _nans_beyond_one(self) -> Interval:
        """The values that are NaN, beside one of them, which are all the same in groups."""
        facts = self.facts
        if zeros_of(facts.type) is None or self.nan_rows.upper < 2:
            return NOTHING
        if facts.distribution is None:
            return Interval(0, 0, 1)  # there are many, and hardly more than two in a column
        return nans_beyond_one(rows_of_nans(facts.type, facts.distribution, facts.counts), self.nan_rows)

    def _of_span(self, span: Span, z: float) -> Found:
        """As `_in_order`, but faster: for a single span, where no value is cut."""
        known, method = self._known, EXACT if self.is_complete else HEAVY
        clipped = self._clipped(span)
        if clipped is None:
            return NOTHING, method
        of_one = is_point(clipped)
        start, stop = at = known.find(clipped[0][1]) if of_one else known.between(clipped)
        low, high = known.rows_between(start, stop)
        found = Interval(low + self._likely * (high - low), low, high)
        if self.is_complete:
            return found, method
        if not of_one:
            return found.plus(self._sampled((at,), z)), SAMPLE
        if start < stop:
            return found, method if known.is_exact[start] else SAMPLE
        hashes = self._hashes_of(clipped[0][1])
        if not hashes:
            return NOTHING, method
        found = self.absent(hashes, z)
        return found, SAMPLE if found.is_exact else AVERAGE

    def _in_order(self, wanted: ValueSet, z: float) -> Found:
        if len(wanted.spans) == 1 and not self._known.has_cut and not (wanted.nan and self.nan_rows.upper):
            return self._of_span(wanted.spans[0], z)
        known, found = self._known, self.nan_rows if wanted.nan else NOTHING
        method = EXACT if self.is_complete else HEAVY
        certain: list[tuple[int, int]] = []  # the places of spans, of values that are surely there
        possible: list[tuple[int, int]] = []
        absent: list[int] = []  # hashes of values that are neither heavy nor in the sample
        before, reached = LAST, (0, 0)
        for span in map(self._clipped, wanted.spans):
            if span is None:
                continue
            if is_point(span):
                start, stop = known.find(span[0][1])
                if start == stop:
                    absent += self._hashes_of(span[0][1])
                    continue
                method = method if known.is_exact[start] else SAMPLE
                low, high = known.rows_between(start, stop)
            else:
                # One value left out between two spans does not count as missing in the sample.
                goes_on = is_point((before, span[0]))
                before = span[1]
                at = known.between(span)
                low, high = known.rows_between(*at)
                _append(certain, at, goes_on)
                if known.has_cut:
                    at = reached = known.between(span, possible=True, since=reached[1])
                    high = known.rows_between(*at)[1]
                    _append(possible, at, goes_on)
            found = found.plus(Interval(low + self._likely * (high - low), low, high))
        if self.is_complete:
            return found, method
        if certain:
            of_sample = self._sampled(certain, z)
            found = found.plus(of_sample.or_else(self._sampled(possible, z)) if possible else of_sample)
            method = SAMPLE
        if absent:
            of_absent = self.absent(absent, z)
            found = found.plus(of_absent)
            method = SAMPLE if certain or of_absent.is_exact else AVERAGE
        return found, method

    def absent(self, hashes: Sequence[int], z: float) -> Interval:
        """The rows of the values with these hashes, which are neither heavy nor in the sample."""
        if len(hashes) == 1:
            return self._others.rows_of(hashes[0], z)
        return together((self._others.rows_of(each, z) for each in hashes), z).within(0, self.unsampled.upper)

    def _sampled(self, places: Sequence[tuple[int, int]], z: float) -> Interval:
        """The rows of the values between these places that are neither heavy nor in the sample."""
        return share_of(self.unsampled, self._known.sampled(places), self._every, self._share, z)

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

    # --- distinct values ---------------------------------------------------------------------------------------------

    def groups(self, wanted: ValueSet) -> Interval:
        """The distinct values of a set that rows have, null and the empty string among them."""
        null = _one_of(self.nulls) if wanted.null else NOTHING
        left_out = wanted.points_left_out
        if left_out is not None:
            every = self.distinct.plus(_one_of(Interval.exactly(self.empty)))
            return every.minus(self._distinct_in(left_out)).within(0, every.upper).plus(null)
        nan = _one_of(self.nan_rows) if wanted.nan else NOTHING
        return self._distinct_in(wanted).plus(nan).plus(null)

    def groups_left(self, share: float) -> float:
        """The distinct values that are left, null among them, if such a share of rows is, independent of the value."""
        others = _kept_values(np.array([self.nulls.rows, self.empty]), share)
        if self.facts.distribution is None:
            each = self.values.rows / self.distinct.rows if self.distinct.rows else 0.0
            return others + _kept_values(np.array([each]), share) * self.distinct.rows
        return others + _kept_values(self._known_rows, share) + _kept_values(self._sampled_rows, share) / self._share

    def _distinct_in(self, wanted: ValueSet) -> Interval:
        if not self.has_order:
            if all(map(is_point, wanted.spans)):
                return Interval(len(wanted.spans), 0, len(wanted.spans)).within(0, self.distinct.upper)
            return Interval(self.distinct.rows / 3, 0, self.distinct.upper)
        known, found = self._known, NOTHING
        least = most = 0.0  # values of the sample
        has_range, reached = False, (0, 0)
        for span in map(self._clipped, wanted.spans):
            if span is None:
                continue
            if is_point(span):
                start, stop = known.find(span[0][1])
                if start < stop or not self.is_complete:
                    found = found.plus(Interval(1, float(start < stop), 1))
                continue
            has_range = True
            reached = known.between(span, possible=True, since=reached[1])
            certain, possible = (known.count_between(*each) for each in (known.between(span), reached))
            found = found.plus(Interval.between(certain[0], possible[0]))
            least, most = least + certain[1], most + possible[1]
        if has_range and not self.is_complete:
            found = found.plus(count_of(least, self._share, AT_95).or_else(count_of(most, self._share, AT_95)))
        return found.at_most(self.distinct.upper + bool(self.empty))

    # --- without ----------------------------------------------------------------------------------------------------

    def _without_order(self, wanted: ValueSet, z: float) -> Found:
        values, ndv = self.values, self.facts.ndv
        if self.facts.nans is not None and wanted.spans in ((), (EVERYTHING,)):
            rows = self.nan_rows if wanted.nan else values.minus(self.nan_rows).within(0, values.upper)
            return rows, NULL_COUNT if rows.is_exact else UNKNOWN
        points = [start[1] for start, _ in filter(is_point, wanted.spans)]
        if len(points) == len(wanted.spans) and not wanted.nan and self.facts.distribution is not None:
            return self._by_hash(points, self.facts.distribution, z)
        if len(points) == len(wanted.spans) and ndv is not None and ndv.rows > 0 and not wanted.nan:
            one = Interval(values.rows / ndv.rows, 0, max(0.0, values.upper - max(ndv.lower, 1) + 1))
            return together([one] * len(points), AT_95).within(0, values.upper), AVERAGE
        return Interval(values.rows / 3, 0, values.upper), UNKNOWN

    def _by_hash(self, values: Sequence[Any], known: Distribution, z: float) -> Found:
        """The rows of single values, of which only the hashes are known."""
        found, method = NOTHING, EXACT if self.is_complete else HEAVY
        absent: list[int] = []
        hashes_of = hashes_by(self.facts.type)
        for value in values:
            if self.empty and value == b"":
                found = found.plus(Interval.exactly(self.empty))
                continue
            for hashed in hashes_of(value):
                at = int(known.hashes.searchsorted(np.uint64(hashed)))
                if at == len(known.hashes) or known.hashes.item(at) != hashed:
                    absent.append(hashed)
                    continue
                low, high = float(known.low[at]), float(known.high[at])
                found = found.plus(Interval((low + high) / 2, low, high))
                method = method if self.is_complete or known.is_heavy[at] else SAMPLE
        if absent and not self.is_complete:
            of_absent = self.absent(absent, z)
            found, method = found.plus(of_absent), SAMPLE if of_absent.is_exact else AVERAGE
        return found, method

    # --- joins --------------------------------------------------------------------------------------------------------

    @property
    def known_values(self) -> KnownValues | None:
        """The values in order; None if these are not kept."""
        return self._known if self.has_order else None

    def counted(self, counts: RowCounts | None) -> Counted | None:
        """The rows by hash, with those that only row counts have; None if there is no distribution."""
        found = self.facts.distribution
        return None if found is None else Counted.of(found, counts, self.empty)


def _append(places: list[tuple[int, int]], at: tuple[int, int], goes_on: bool) -> None:
    """Add places; as one with the last ones if it goes on from these."""
    if goes_on:
        at = places.pop()[0], at[1]
    places.append(at)


def _kept_values(rows: Numbers, share: float) -> float:
    """How many of the values with so many rows are left if a share of all rows is."""
    return float(-np.expm1(rows * math.log1p(-min(share, 1 - 1e-12))).sum())


def _one_of(rows: Interval) -> Interval:
    """The number of groups, one at most, of so many rows."""
    return Interval(float(rows.rows > 0), float(rows.lower > 0), float(rows.upper > 0))
