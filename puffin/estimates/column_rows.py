"""
The rows of a column over its values, as far as statistics tell.

A distribution tells the rows of values by hash, and in the order of values if it has these. What it does not tell comes
from the counts of rows, nulls and distinct values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from puffin.cached import cached_property
from puffin.estimates.counted import Counted, Numbers
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.hashed_rows import Found, HashedRows, values_left
from puffin.estimates.interval import NOTHING, Interval
from puffin.estimates.known_values import KnownValues
from puffin.estimates.methods import AVERAGE, BOUNDS, COUNTED, EXACT, NULL_COUNT, SAMPLE, UNKNOWN
from puffin.estimates.ordered_rows import OrderedRows
from puffin.estimates.spread import Spread
from puffin.estimates.value_range import most_values, share_of_range, within_bounds
from puffin.estimates.value_set import EVERYTHING, NULLS, VALUES, ValueSet, is_point, value_of
from puffin.estimates.zeros import nans_beyond_one, rarer_zero, rows_of_nans, zeros_of
from puffin.sketches.row_counts import RowCounts


class ColumnRows:
    """
    The rows of a column, prepared for questions; any thread may ask.

    Attributes:
        values: The rows that are not null.
        distinct: The distinct values with a hash, among the rows of the statistics.
        is_complete: Whether every value is known.
        empty: The rows with an empty string; these have no hash.
        nan_rows: The rows with a NaN.
        rarer_zero: Of 0.0 and -0.0, the rows of the one that has fewer.
    """

    def __init__(self, facts: ColumnFacts) -> None:
        self.facts = facts
        found = facts.distribution
        self.nulls = _nulls_of(facts)
        self._by_nulls = NULL_COUNT if self.nulls.is_exact else UNKNOWN
        self.values = Interval.exactly(facts.rows).minus(self.nulls)
        self._hashed: HashedRows | None = None
        self._ordered: OrderedRows | None = None
        self.is_complete, self.empty = False, 0
        unknown = Interval(self.values.rows / 3, 0, self.values.upper)
        self.nan_rows = unknown if facts.nans is None else Interval.exactly(facts.nans)
        distinct = facts.ndv or Interval(math.sqrt(facts.rows), 0, facts.rows)  # as near to 1 as to all
        if found is not None:
            self._hashed = hashed = HashedRows(facts, found, self.values)
            self.is_complete, self.empty, distinct = hashed.is_complete, hashed.empty, hashed.distinct
            if found.values is not None:
                self._ordered = OrderedRows(facts, hashed)
                self.nan_rows = self._ordered.nan_rows
        distinct = distinct.at_most(most_values(facts))
        self.rarer_zero = self._rarer_zero(distinct)
        twice = _one_of(self.rarer_zero).plus(self._nans_beyond_one())
        self.distinct = distinct.minus(twice).within(0, distinct.upper)

    def find(self, wanted: ValueSet, z: float) -> Found:
        """The rows with these values; bounds of sampled parts hold as often as ``z`` standard deviations say."""
        if self.facts.is_required and wanted in (NULLS, VALUES):
            return (NOTHING if wanted.null else self.facts.now), NULL_COUNT
        found, method = self.find_counted(wanted, z)
        return self.as_now(found), method

    def find_counted(self, wanted: ValueSet, z: float) -> Found:
        """As `find`, among the rows that statistics counted."""
        left_out = wanted.points_left_out if wanted.nan else None
        if left_out is None:
            return self._find(wanted, z)
        without, method = self._find(left_out, z) if left_out.spans else (NOTHING, self._by_nulls)
        everything = self.values.plus(self.nulls) if wanted.null else self.values
        return everything.minus(without).within(0, self.facts.rows), method

    def as_now(self, found: Interval) -> Interval:
        """An estimate of earlier rows, for those of the snapshot asked for."""
        facts = self.facts
        if facts.added == facts.removed == 0:
            return found
        scale = facts.now.rows / facts.rows if facts.rows else 1.0
        return self.widened_by_changes(found._replace(rows=found.rows * scale)).within(0, facts.now.upper)

    def among(self, found: Interval, counted: ColumnFacts) -> Interval:
        """
        Rows of a kind, such as nulls, among those that other statistics counted and that are left by now.

        ``found`` is how many the statistics of this column found, perhaps at another time than ``counted``.
        """
        facts = self.facts
        if _is_at_most(facts.added, counted.added) and _is_at_most(facts.removed, counted.removed):
            return found  # whatever is left was there when the column was counted later
        return self.as_now(found)

    def widened_by_changes(self, found: Interval) -> Interval:
        """What was counted in earlier rows, rows or values, with bounds for those of the snapshot asked for."""
        facts = self.facts
        if facts.added == facts.removed == 0:
            return found
        lower = 0 if facts.removed is None else max(0.0, found.lower - facts.removed)
        upper = facts.now.upper if facts.added is None else found.upper + facts.added
        return Interval.clamped(found.rows, lower, max(lower, upper))

    def groups(self, wanted: ValueSet) -> Interval:
        """The distinct values of a set that rows have, null and the empty string among them."""
        null = _one_of(self.nulls) if wanted.null else NOTHING
        left_out = wanted.points_left_out
        if left_out is not None:
            every = self.distinct.plus(self._group_of_empty)
            return every.minus(self._distinct_in(left_out)).within(0, every.upper).plus(null)
        nan = _one_of(self.nan_rows) if wanted.nan else NOTHING
        return self._distinct_in(wanted).plus(nan).plus(null)

    def groups_left(self, share: float) -> float:
        """The distinct values that are left, null among them, if such a share of rows is, independent of the value."""
        others = values_left(np.array([self.nulls.rows, self.empty]), share)
        if self._hashed is not None:
            return others + self._hashed.values_left(share)
        each = self.values.rows / self.distinct.rows if self.distinct.rows else 0.0
        return others + values_left(np.array([each]), share) * self.distinct.rows

    def most_combinations(self, others: float) -> float:
        """The most groups of it and others that make so many: a value is in no more groups than it has rows."""
        hashed, added = self._hashed, self.facts.added
        if hashed is None or added is None:
            return math.inf
        known = float(np.minimum(hashed.found.high, others).sum())
        rest = min(hashed.unsampled.upper, max(0.0, hashed.distinct.upper - len(hashed.found.high)) * others)
        return known + rest + min(self.nulls.upper, others) + min(self.empty, others) + added

    @cached_property
    def spread(self) -> Spread:
        """How rows are spread over the values, null among them."""
        rows, values = self._each
        nulls = self.nulls.lower  # a guess at nulls would be one large group
        return Spread.of_rows(np.append(rows, nulls), np.append(values, 1))

    @property
    def spread_of_values(self) -> Spread:
        """How the rows that have a value are spread over the values."""
        return Spread.of_rows(*self._each)

    @property
    def _each(self) -> tuple[Numbers, Numbers]:
        """The rows of values, and for how many values each of them stands."""
        distinct, nulls = self.distinct.rows, self.nulls.lower
        one = np.array([(self.facts.rows - nulls) / distinct if distinct else 0.0]), np.array([distinct])
        rows, values = one if self._hashed is None else self._hashed.each
        return np.append(rows, self.empty), np.append(values, 1)

    @property
    def known_values(self) -> KnownValues | None:
        """The values in order; None if these are not kept."""
        return None if self._ordered is None else self._ordered.known

    def absent(self, hashes: Sequence[int], z: float) -> Interval:
        """The rows of the values with these hashes, of which the distribution says nothing; none without one."""
        return NOTHING if self._hashed is None else self._hashed.absent(hashes, z)

    def counted(self, counts: RowCounts | None) -> Counted | None:
        """The rows by hash, with those that only row counts have; None if there is no distribution."""
        found = self.facts.distribution
        return None if found is None else Counted.of(found, counts, self.empty)

    def _find(self, wanted: ValueSet, z: float) -> Found:
        if not wanted.spans and not wanted.nan:
            return (self.nulls, self._by_nulls) if wanted.null else (NOTHING, EXACT)
        rows, method = self._without_order(wanted, z) if self._ordered is None else self._ordered.find(wanted, z)
        if method == SAMPLE and rows.is_exact:
            method = COUNTED  # the sample or the row counts have each of the values, or prove that no row has it
        if wanted.null:
            rows = rows.plus(self.nulls)
        return rows.within(0, self.facts.rows), method

    def _without_order(self, wanted: ValueSet, z: float) -> Found:
        values, ndv = self.values, self.facts.ndv
        spans = within_bounds(wanted.spans, self.facts)
        if spans in ((), (EVERYTHING,)) and (self.facts.nans is not None or bool(spans) == wanted.nan):
            if spans and not wanted.nan:
                rows = values.minus(self.nan_rows).within(0, values.upper)
            else:
                rows = values if spans else self.nan_rows if wanted.nan else NOTHING
            return rows, (NULL_COUNT if spans == wanted.spans else BOUNDS) if rows.is_exact else UNKNOWN
        if values.upper == 0:
            return NOTHING, NULL_COUNT
        points = [value_of(span) for span in spans if is_point(span)]
        if len(points) == len(spans) and not wanted.nan and self._hashed is not None:
            return self._hashed.find(points, z)
        if len(points) == len(spans) and ndv is not None and ndv.rows > 0 and not wanted.nan:
            of_others = max(0.0, self.distinct.lower - len(points))  # rows, since each value has one at least
            average = len(points) * values.rows / ndv.rows
            return Interval.clamped(average, 0, max(0.0, values.upper - of_others)), AVERAGE
        share = share_of_range(spans, self.facts)
        if share is None:
            return Interval(values.rows / 3, 0, values.upper), UNKNOWN
        of_numbers = share * (values.rows - self.nan_rows.rows)
        method = BOUNDS if spans or not wanted.nan else UNKNOWN
        return Interval.clamped(of_numbers + wanted.nan * self.nan_rows.rows, 0, values.upper), method

    def _distinct_in(self, wanted: ValueSet) -> Interval:
        most = self.distinct.upper + self._group_of_empty.upper
        if self._ordered is not None:
            return self._ordered.distinct_in(wanted).at_most(most)
        spans = within_bounds(wanted.spans, self.facts)
        if spans == (EVERYTHING,):
            return self.distinct.minus(_one_of(self.nan_rows)).plus(self._group_of_empty).within(0, most)
        if all(map(is_point, spans)):
            return Interval(len(spans), 0, len(spans)).within(0, most)
        share = share_of_range(spans, self.facts)
        return Interval(self.distinct.rows * (1 / 3 if share is None else share), 0, most)

    @property
    def _group_of_empty(self) -> Interval:
        """The group of the empty string, which sketches do not count; only a distribution tells whether it is there."""
        facts = self.facts
        if facts.distribution is not None or facts.type not in ("string", "binary") or facts.lower:
            return _one_of(Interval.exactly(self.empty))
        return Interval(float(facts.lower is not None), 0, 1).within(0, self.values.upper)

    def _rarer_zero(self, distinct: Interval) -> Interval:
        """The rows of the one of 0.0 and -0.0 that has fewer: hashes tell these apart, and groups do not."""
        facts = self.facts
        if zeros_of(facts.type) is None or distinct.upper < 2:
            return NOTHING
        if facts.distribution is not None:
            return rarer_zero(facts.type, facts.distribution, facts.counts)
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


def _nulls_of(facts: ColumnFacts) -> Interval:
    """The nulls of a column; most likely none if nobody counted them, since most columns have none."""
    if facts.nulls is not None:
        return Interval.exactly(min(facts.nulls, facts.rows))
    # A distinct value takes a row at least. They may have been counted in other rows if any came or went.
    values = facts.ndv.lower if facts.ndv is not None and facts.added == facts.removed == 0 else 0
    return Interval(0, 0, facts.rows).within(0, max(facts.rows - values, 1))


def _one_of(rows: Interval) -> Interval:
    """The number of groups, one at most, of so many rows."""
    return Interval(float(rows.rows > 0), float(rows.lower > 0), float(rows.upper > 0))


def _is_at_most(rows: int | None, others: int | None) -> bool:
    """Whether no more rows changed since some statistics than since others."""
    return others is None or (rows is not None and rows <= others)
