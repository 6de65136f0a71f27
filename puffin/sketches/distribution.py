"""
Distributions: how the rows of a column are spread over its values.

A distribution holds two sets of values. *Heavy* values are those with the most rows. The *sample* has the values with
the smallest hashes: the same values in every table that has them, and each value of a column as likely as any other.
The sample stands for all values that are not heavy.

Counting in bounded memory may miss rows, so each value has a range: at least ``low`` rows, at most ``high``. Any other
value has at most ``missed`` rows. *Buckets* count exactly the rows of all values whose hashes share some bits, so a
value has at most what the known values leave of its bucket. All this holds for any order of the rows, and after parts
are added or subtracted. Heavy values are chosen without regard to their hashes, so the rest of the sample represents
all values that are not heavy. The exact rows of sampled values are in the column's row counts.

`pruned_by` drops a value as soon as it may have no rows left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin.sketches.distribution_image import BUCKETS, FEWER_BUCKETS, parse_image, write_image
from puffin.sketches.hash_arrays import Counts, Flags, Hashes, bucket_of, in_buckets, is_among, is_first_of_run, places
from puffin.sketches.parcel import ByImage
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.value_bytes import MOST_BYTES, contents, cut_to

SAMPLE, HEAVY = 6144, 3072
"""The most values in the sample, and the most heavy values."""
PARTS = 2
"""Distributions of parts of the rows keep this many times the heavy values, since parts may disagree on them."""
MOST_VALUE_BYTES = 96 * 1024
"""If all values together have more bytes, those of more than `WHOLE_BYTES` are cut shorter."""
CUTS = (MOST_BYTES, 32, 24, 16, 12, 8)
"""The lengths to which values are cut."""
WHOLE_BYTES = 16
"""Values of up to so many bytes stay whole. A decimal has no more, and a part of it would be another number."""
_ENOUGH = 32  # heavy values whose rows are exact, to tell something of the others
_MANY_ROWS = 1 << 24
"""A distribution of this many rows or more has `FEWER_BUCKETS`, since each takes more bytes."""


@dataclass(frozen=True, eq=False)
class Distribution(ByImage):
    """
    The values of some rows. Immutable; equal distributions have equal bytes.

    Attributes:
        rows: The rows that have a hash: neither null nor an empty string.
        missed: The most rows that any other value can have.
        theta: The sample has every value whose hash is below it; 2^63 - 1 if that is every value.
        hashes: Of the heavy values and of the sample, ascending, distinct.
        low, high: The fewest and the most rows of each, before `with_exact` applies row counts.
        is_heavy: Whether each is a heavy value; others are in the sample only.
        values: The bytes of each (table spec, appendix D), perhaps cut; None if values are not kept.
        is_cut: Whether each is only the beginning of its value.
        buckets: The rows of the values in each bucket (`bucket_of`), `BUCKETS` or `FEWER_BUCKETS`; None if not
            needed, since the values here or the row counts have every row, or if an earlier version wrote it.
        likely: Where between ``low`` (0) and ``high`` (1) the rows of a heavy value probably lie.
    """

    rows: int
    missed: int
    theta: int
    hashes: Hashes
    low: Counts
    high: Counts
    is_heavy: Flags
    values: pa.LargeBinaryArray | None
    is_cut: Flags
    buckets: Counts | None = None
    likely: float = 0.5

    @classmethod
    def from_bytes(cls, image: bytes | bytearray | memoryview) -> Distribution:
        """Read the payload of a distribution blob; raise CorruptSketchError if it is invalid."""
        return parse_image(image, cls)

    def to_bytes(self) -> bytes:
        """The payload of a ``puffin-sidecar-distribution-v1`` blob."""
        return write_image(self)

    def without_values(self) -> Distribution:
        """The same without values; hashes and rows stay."""
        return replace(self, values=None, is_cut=np.zeros(len(self.hashes), np.bool_))

    @property
    def in_sample(self) -> Flags:
        """Whether each value is in the sample."""
        return self.hashes < np.uint64(self.theta)

    def rows_of(self, hashes: Hashes) -> tuple[Counts, Counts]:
        """The fewest and the most rows of the values with these hashes, whether they are in the distribution or not."""
        low, high = np.zeros(len(hashes), np.uint64), np.zeros(len(hashes), np.uint64)
        high[hashes >= np.uint64(self.theta)] = self.missed
        at, has = places(hashes, self.hashes)
        low[has], high[has] = self.low[at[has]], self.high[at[has]]
        return low, high

    def plus(self, other: Distribution) -> Distribution:
        """The distribution of the rows of both, of any size."""
        both = np.concatenate((self.hashes, other.hashes))
        order = both.argsort(kind="stable")  # which merges runs
        is_first = is_first_of_run(both[order])
        first = order[is_first]
        hashes = both[first]
        at, is_ours = is_first.cumsum() - 1, order < len(self.hashes)
        low, high, heavy = self._part_of(hashes, at[is_ours])
        more_low, more_high, more_heavy = other._part_of(hashes, at[~is_ours])
        values = None
        if self.values is not None and other.values is not None:
            values = pa.concat_arrays([self.values, other.values]).take(pa.array(first))
        return Distribution(
            rows=self.rows + other.rows,
            missed=self.missed + other.missed,
            theta=min(self.theta, other.theta),
            hashes=hashes,
            low=low + more_low,
            high=high + more_high,
            is_heavy=heavy | more_heavy,
            values=values,
            is_cut=np.concatenate((self.is_cut, other.is_cut))[first],
            buckets=_combined(self._every_bucket(), other._every_bucket(), np.add),
        )

    def minus(self, removed: Distribution) -> Distribution:
        """The distribution after these rows were removed; a value may have no rows left until `pruned_by` drops it."""
        (least, _), (_, most) = removed.rows_of(self.hashes), removed._chosen.rows_of(self.hashes)
        rows = max(0, self.rows - removed.rows)
        low, high = self.low - np.minimum(self.low, most), self.high - np.minimum(self.high, least)
        buckets = _combined(self._every_bucket(), removed._every_bucket(), np.subtract)
        if buckets is not None and int(buckets.max()) > self.rows:  # below 0: these are other rows
            buckets = None
        # Removed rows may include values that ``removed`` does not list: no value has more than all rows left.
        low, high = (np.minimum(each, np.uint64(rows)) for each in (low, high))
        return replace(self, rows=rows, low=low, high=high, buckets=buckets)

    def pruned_by(self, counts: RowCounts) -> Distribution:
        """
        The same without values that have no rows left, or may have none, as row counts of the same rows tell.

        There are no buckets if the row counts have every value.
        """
        is_below = self.hashes < np.uint64(counts.theta)
        kept = np.where(is_below, is_among(self.hashes, counts.hashes), self.low > 0)
        missed = self._most(~kept & ~is_below)
        found = replace(self._only(kept), theta=min(self.theta, counts.theta), missed=missed)
        return replace(found, buckets=None) if counts.theta == MAX_THETA else found

    def bucketed(self, counts: RowCounts) -> Distribution:
        """With buckets, computed from row counts of the same rows if they were omitted."""
        if self.buckets is not None or counts.theta < MAX_THETA:
            return self
        return replace(self, buckets=in_buckets(counts.hashes, counts.rows.view(np.uint64), BUCKETS))

    def with_exact(self, counts: RowCounts) -> Distribution:
        """
        The same with bounds tightened by row counts of the same rows.

        Values below their theta get exact rows, the others at most what the known values leave of their bucket;
        ``missed`` stays (see `left_over`). Heavy values are chosen without regard to hashes, so those with exact rows
        show where the rows of the others probably lie (``likely``).
        """
        low, high = self.low.copy(), self.high.copy()
        at, has = places(self.hashes, counts.hashes)
        low[has] = counts.rows[at[has]].view(np.uint64)
        left = replace(self, low=low).left_over(counts)
        if left is not None:
            high = np.minimum(high, low + left[bucket_of(self.hashes, len(left))])
        is_told = has & self.is_heavy
        counted, exact, most = (float(each[is_told].sum()) for each in (self.low, low, np.maximum(high, low)))
        likely = self.likely
        if np.count_nonzero(is_told) >= _ENOUGH and most > counted:
            likely = min(max((exact - counted) / (most - counted), 0.0), 1.0)
        high[has] = low[has]
        return replace(self, low=low, high=high, likely=likely)

    def left_over(self, counts: RowCounts | None) -> Counts | None:
        """The rows of each bucket that no known value has for certain; those of row counts are known too, if given."""
        if self.buckets is None:
            return None
        known = in_buckets(self.hashes, self.low, len(self.buckets))
        if counts is not None:
            others = ~is_among(counts.hashes, self.hashes)
            known += in_buckets(counts.hashes[others], counts.rows[others].view(np.uint64), len(self.buckets))
        return self.buckets - np.minimum(known, self.buckets)

    def cut(self, sample: int = SAMPLE, times: int = 1) -> Distribution:
        """Keep at most ``sample`` values in the sample, and ``times`` `HEAVY` others."""
        theta, in_sample = self.theta, self.in_sample
        present = np.flatnonzero(in_sample)
        if len(present) > sample:
            theta = int(self.hashes[present[sample]])
            in_sample = self.hashes < np.uint64(theta)
        # A complete distribution must not depend on how its rows were split.
        may_be = self.is_heavy | (theta == MAX_THETA and self.missed == 0)
        is_heavy = may_be & (self.low > 1)
        most = times * HEAVY
        if np.count_nonzero(is_heavy) > most:
            # Drop all values that tie at the limit: choosing among them by hash would bias the sample.
            rows = self.low[is_heavy]
            is_heavy &= self.low > np.partition(rows, len(rows) - most - 1)[len(rows) - most - 1]
        kept = in_sample | is_heavy
        missed = self._most(~kept)
        found = self._only(kept)
        buckets = None if found._has_every_row else self._every_bucket()
        if buckets is not None and self.rows >= _MANY_ROWS:
            buckets = folded(buckets, FEWER_BUCKETS)
        found = replace(found, theta=theta, missed=min(missed, self.rows), is_heavy=is_heavy[kept], buckets=buckets)
        return found.within_bytes()

    def within_bytes(self) -> Distribution:
        if self.values is None:
            return self
        lengths, _ = contents(self.values)
        most = next((most for most in CUTS if int(np.minimum(lengths, most).sum()) <= MOST_VALUE_BYTES), CUTS[-1])
        is_longer = lengths > max(most, WHOLE_BYTES)
        if not is_longer.any():
            return self
        values = pc.if_else(pa.array(is_longer), cut_to(self.values, most), self.values)
        return replace(self, values=values, is_cut=self.is_cut | is_longer)

    def _part_of(self, hashes: Hashes, at: npt.NDArray[np.intp]) -> tuple[Counts, Counts, Flags]:
        """
        The fewest and the most rows of the values with these hashes in a sum, and whether they are heavy here.

        The hashes have all of this distribution, at the places ``at``.
        """
        low, high = np.zeros(len(hashes), np.uint64), np.zeros(len(hashes), np.uint64)
        is_heavy = np.zeros(len(hashes), np.bool_)
        low[at] = self.low if self._is_complete else np.where(self.is_heavy, self.low, np.uint64(0))
        high[hashes.searchsorted(np.uint64(self.theta)) :] = self.missed
        high[at] = self.high
        is_heavy[at] = self.is_heavy
        return low, high, is_heavy

    @property
    def _is_complete(self) -> bool:
        return self.theta == MAX_THETA and self.missed == 0

    @property
    def _chosen(self) -> Distribution:
        """
        Only the heavy values; all values if the distribution is complete.

        Values become heavy by counted rows. If the rows of values that are only in the sample counted too, sampled
        values would become heavy more easily than others. ``missed`` covers them, since a sampled value may have more
        rows than any value that is not listed.
        """
        if self._is_complete:
            return self
        return replace(self._only(self.is_heavy), theta=1, missed=self._most(~self.is_heavy))

    def _every_bucket(self) -> Counts | None:
        """The buckets, if need be from the rows of all values; None if these are not known."""
        if self.buckets is None and self._has_every_row:
            return in_buckets(self.hashes, self.low, BUCKETS)
        return self.buckets

    @property
    def _has_every_row(self) -> bool:
        return int(self.low.sum()) == self.rows

    def _most(self, gone: Flags) -> int:
        """The new ``missed`` if these values are dropped."""
        return max(self.missed, int(self.high[gone].max(initial=0)))

    def _only(self, kept: Flags) -> Distribution:
        if kept.all():
            return self
        at = np.flatnonzero(kept)  # once for all arrays
        return replace(
            self,
            hashes=self.hashes[at],
            low=self.low[at],
            high=self.high[at],
            is_heavy=self.is_heavy[at],
            values=None if self.values is None else self.values.take(pa.array(at)),
            is_cut=self.is_cut[at],
        )


def _combined(one: Counts | None, other: Counts | None, operation: Callable[[Counts, Counts], Counts]) -> Counts | None:
    if one is None or other is None:
        return None
    fewer = min(len(one), len(other))
    return operation(folded(one, fewer), folded(other, fewer))


def folded(buckets: Counts, count: int) -> Counts:
    """The rows of fewer buckets, which fewer bits choose."""
    found: Counts = buckets.reshape(-1, count).sum(axis=0)
    return found
