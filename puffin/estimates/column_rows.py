"""
The rows of a column over its values, in the order of values, as its distribution tells.

Of a heavy value the rows are known, and of a value in the sample. The rows of the others are known together. The sample
tells which share of these is in a span of values; a single one of them has as many rows as a value of the sample that a
random row has.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from puffin.estimates.counted import Counted
from puffin.estimates.interval import NOTHING, Interval, Sums, share_of, sum_of
from puffin.estimates.known_values import KnownValues
from puffin.estimates.value_set import EVERYTHING, FIRST, LAST, Cut, Span, ValueSet, is_point
from puffin.sketches.distribution import Distribution
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.value_bytes import to_comparables

HEAVY, SAMPLE, AVERAGE = "heavy hitter", "sample", "average of the rest"
EXACT, NULL_COUNT, UNKNOWN = "all values", "null count", "no statistics"

_MOST_OF_ONE = 0.96  # of rows are of values with at most so many rows as the upper bound of a single value says


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
        ndv: Distinct values with a hash, and their bounds.
        lower, upper: No value is below or above, as `puffin.values.column_bounds.comparable`; None if unknown.
    """

    type: str
    rows: int
    now: int
    added: int | None
    removed: int | None
    nulls: int | None
    nans: int | None
    ndv: Interval
    lower: Any = None
    upper: Any = None
    distribution: Distribution | None = None


Found: TypeAlias = tuple[Interval, str]
"""The rows of a set of values, and the way they were found."""


class ColumnRows:
    """
    The rows of a column, prepared for questions; any thread may ask.

    Attributes:
        values: The rows that are not null.
        is_complete: Whether every value is known.
        empty: The rows with an empty string; these have no hash.
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
        self.values = Interval.exactly(facts.rows).minus(self.nulls)
        self.has_order = found is not None and found.values is not None
        self.empty = 0
        if found is not None:
            self._prepare(found)

    def find(self, wanted: ValueSet, z: float) -> Found:
        """The rows with these values; bounds of sampled parts hold as often as ``z`` standard deviations say."""
        facts = self.facts
        left_out = wanted.points_left_out
        if left_out is not None:
            without, method = self._find(left_out, z) if left_out.spans else (NOTHING, NULL_COUNT)
            everything = self.values.plus(self.nulls) if wanted.null else self.values
            return self.as_now(everything.minus(without).within(0, facts.rows)), method
        found, method = self._find(wanted, z)
        return self.as_now(found), method

    def _find(self, wanted: ValueSet, z: float) -> Found:
        if not wanted.spans and not wanted.nan:
            return (self.nulls, NULL_COUNT) if wanted.null else (NOTHING, EXACT)
        rows, method = self._in_order(wanted, z) if self.has_order else self._without_order(wanted)
        if wanted.null:
            rows, method = rows.plus(self.nulls), SAMPLE
        return rows.within(0, self.facts.rows), method

    def as_now(self, found: Interval) -> Interval:
        """An estimate of earlier rows, for those of the snapshot asked for."""
        facts = self.facts
        if facts.added == facts.removed == 0:
            return found
        scale = facts.now / facts.rows if facts.rows else 1.0
        lower = 0 if facts.removed is None else found.lower - facts.removed
        upper = facts.now if facts.added is None else found.upper + facts.added
        return Interval(found.rows * scale, lower, upper).within(max(0, lower), min(facts.now, upper))

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
        middle = max(0.0, float(found.rows - (low[known] + high[known]).sum() / 2) - self._every.rows)
        self.unsampled = NOTHING if self.is_complete else Interval(min(max(middle, least), most), least, most)
        """The rows of all values that are neither heavy nor in the sample."""
        self.single = _rows_of_one(counts, min(float(found.missed), most), self.unsampled)
        if found.values is None:
            return
        keys = to_comparables(found.values, facts.type)
        is_nan = keys != keys if keys.dtype.kind == "f" else np.zeros(len(keys), np.bool_)
        self._nan_rows = self._nans(facts, low, high, is_nan)
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

    def _nans(self, facts: ColumnFacts, low: Any, high: Any, is_nan: Any) -> Interval:
        if facts.nans is not None:
            return Interval.exactly(facts.nans)
        return Interval.between(float(low[is_nan].sum()), float(high[is_nan].sum()))

    def _in_order(self, wanted: ValueSet, z: float) -> Found:
        known, found = self._known, self._nan_rows if wanted.nan else NOTHING
        method = EXACT if self.is_complete else HEAVY
        ranges: list[Span] = []
        absent = 0
        for span in map(self._clipped, wanted.spans):
            if span is None:
                continue
            if is_point(span):
                start, stop = known.find(span[0][1])
                if start == stop:
                    absent += 1
                    continue
                method = method if known.is_exact[start] else SAMPLE
                doubt = 0.0
            else:
                ranges.append(span)
                start, stop = known.place(span[0]), known.place(span[1])
                doubt = known.doubt(span) if known.has_cut else 0.0
            low, high = known.rows_between(start, stop)
            found = found.plus(Interval((low + high) / 2, max(0.0, low - doubt), high + doubt))
        if self.is_complete:
            return found, method
        if ranges:
            found = found.plus(share_of(self.unsampled, known.sampled(ranges), self._every, self._share, z))
            method = SAMPLE
        if absent:
            found = found.plus(several(self.single, absent).within(0, self.unsampled.upper))
            method = SAMPLE if ranges else AVERAGE
        return found, method

    def _clipped(self, span: Span) -> Span | None:
        """The span without its ends beyond the least and the greatest value; None if nothing is left."""
        start, stop = span
        if self._least is None or self._greatest is None:
            return span if start < stop else None
        if stop <= self._least or start >= self._greatest:
            return None
        if is_point(span):
            return span
        return FIRST if start <= self._least else start, LAST if stop >= self._greatest else stop

    # --- distinct values ---------------------------------------------------------------------------------------------

    def groups(self, wanted: ValueSet, share: Interval, z: float) -> Interval:
        """
        The distinct values of a set, null and the empty string among them, that rows have which pass another filter.

        ``share`` is that of the rows which pass it; whether one does is taken as independent of its value.
        """
        null = self.nulls if wanted.null else NOTHING
        extra = _kept_values([null.rows, *([self.empty] if self._has_empty(wanted) else [])], share)
        if self.facts.distribution is None or not self.has_order:
            ndv = self.facts.ndv.times(1 if wanted.spans == (EVERYTHING,) else 1 / 3)
            ndv = Interval(ndv.rows, 0 if wanted.spans != (EVERYTHING,) else ndv.lower, self.facts.ndv.upper)
            found = _kept_values([self.values.rows / ndv.rows] if ndv.rows else [], share).times(ndv.rows)
            return Interval(found.rows, min(ndv.lower, found.rows) if share.lower >= 1 else 0, ndv.upper).plus(extra)
        if share.lower >= 1 and wanted.spans == (EVERYTHING,):
            return self.facts.ndv.plus(extra)
        known = self._known
        places = [(known.place(start), known.place(stop)) for start, stop in wanted.spans]
        chosen = [i for start, stop in places for i in range(start, stop) if known.hashes[i]]
        of_known = _kept_values([(known.low[i] + known.high[i]) / 2 for i in chosen if known.is_exact[i]], share)
        rest = [known.low[i] for i in chosen if not known.is_exact[i]]
        of_rest = _kept_values(rest, share)
        passing = Sums(of_rest.rows, of_rest.rows, of_rest.rows)
        every = Sums(self._every.count, self._every.count, self._every.count)
        found = of_known.plus(sum_of(passing, every, self._share, z)).plus(extra)
        if share.lower < 1:  # which of the values have a row that passes is uncertain too
            found = Interval(found.rows, min(1.0, share.lower * self.values.rows), found.upper * 1.5 + 3)
        nan = 1 if wanted.nan and self._nan_rows.rows else 0
        return found.plus(Interval.exactly(nan)).within(0, self.facts.ndv.upper + extra.upper + nan)

    def _has_empty(self, wanted: ValueSet) -> bool:
        return bool(self.empty) and any(start <= (0, b"", 0) and stop >= (0, b"", 1) for start, stop in wanted.spans)

    # --- without ----------------------------------------------------------------------------------------------------

    def _without_order(self, wanted: ValueSet) -> Found:
        values, ndv = self.values, self.facts.ndv
        points = [span for span in wanted.spans if is_point(span)]
        if len(points) == len(wanted.spans) and ndv.rows > 0 and not wanted.nan:
            one = Interval(values.rows / ndv.rows, 0, max(0.0, values.upper - max(ndv.lower, 1) + 1))
            return several(one, len(points)).within(0, values.upper), AVERAGE
        return Interval(values.rows / 3, 0, values.upper), UNKNOWN

    # --- joins --------------------------------------------------------------------------------------------------------

    @property
    def known_values(self) -> KnownValues | None:
        """The values in order; None if these are not kept."""
        return self._known if self.has_order else None

    def counted(self, counts: RowCounts | None) -> Counted | None:
        """The rows by hash, also those that row counts tell; None if there is no distribution."""
        found = self.facts.distribution
        return None if found is None else Counted.of(found, counts, self.empty)


def _kept_values(rows: Sequence[float], share: Interval) -> Interval:
    """How many of the values with so many rows are left if a share of all rows is."""
    counts = np.asarray([each for each in rows if each > 0], np.float64)
    if share.lower >= 1:
        return Interval.exactly(len(counts))
    kept = -np.expm1(counts * math.log1p(-min(share.rows, 1 - 1e-12))) if len(counts) else counts
    return Interval(float(kept.sum()), 0, float(len(counts)))


def _rows_of_one(counts: Any, missed: float, unsampled: Interval) -> Interval:
    """The rows of a value that is neither heavy nor in the sample, if a random row chooses it."""
    most = min(missed, unsampled.upper)
    if most <= 0:
        return NOTHING
    if not len(counts):
        return Interval(math.sqrt(most), 0, most)
    ascending = np.sort(counts)
    weights = np.cumsum(ascending)
    typical = math.exp(float((np.log(ascending) * ascending).sum() / weights[-1]))
    upper = float(ascending[min(int(np.searchsorted(weights, _MOST_OF_ONE * weights[-1])), len(ascending) - 1)])
    return Interval(min(typical, most), 0, min(max(upper, typical), most))


def several(one: Interval, count: int) -> Interval:
    reach = (one.upper - one.rows) * math.sqrt(count)
    return Interval(one.rows * count, one.lower * count, one.rows * count + reach)
