"""The rows of values, counted by sorting the hashes of many rows at once, where there are no compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from puffin.sketches.distribution import Distribution
from puffin.sketches.distribution_image import BUCKETS
from puffin.sketches.hash_arrays import (
    Counts,
    Flags,
    Hashes,
    Rows,
    bucket_of,
    first_of_each,
    is_among,
    is_first_of_run,
    places,
)
from puffin.sketches.picked_values import PickedValues, Places
from puffin.sketches.row_tally import sum_rows
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.value_tally import ValueTally, many_of
from puffin.values.serialized import SerializedValues

_HELD = 1 << 14
_UNSORTED = 1 << 18
_COARSE_BUCKETS = 1 << 16
_LAST_BUCKET = _COARSE_BUCKETS - 1
_BUSY = 4  # buckets with this many times the rows of the others are looked into


class SortedValueTally(ValueTally):
    """
    Sorts the hashes of many rows at once. Of values in buckets with few rows it keeps only the bucket's row count, as
    an upper bound for each of them.
    """

    def __init__(self, sample: int, picked: PickedValues) -> None:
        self._sample, self._picked = sample, picked
        self._theta = MAX_THETA
        self._rows = self._floor = 0
        self._held = tuple(np.empty(0, np.uint64) for _ in range(3))
        self._flagged = np.empty(0, np.uint64)  # those that were picked for their many rows
        self._picked_hashes = np.empty(0, np.uint64)
        self._most_picked = 2 * sample
        self._slices: list[tuple[Hashes, Rows | None, SerializedValues]] = []
        self._pending = 0
        self._rows_of_buckets = np.zeros(BUCKETS, np.uint64)

    def add(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        if len(hashes):
            self._slices.append((hashes, rows, values))
            self._rows += len(hashes) if rows is None else int(rows.sum())
            self._pending += len(hashes)
            if self._pending >= _UNSORTED:
                self._settle()

    def state(self) -> tuple[Distribution, Places]:
        self._settle()
        held, low, slack = self._held
        high = low + slack
        is_many = low >= np.uint64(many_of(self._rows))
        self._lower_theta(self._picked_hashes)
        kept = np.flatnonzero(self._is_kept(self._picked_hashes, held[is_many]))
        hashes, first = first_of_each(self._picked_hashes[kept])
        at, is_held = places(hashes, held)
        found = Distribution(
            rows=self._rows,
            missed=0 if self._theta == MAX_THETA else max(self._floor, int(high[~is_many].max(initial=0))),
            theta=self._theta,
            hashes=hashes,
            low=np.zeros(len(hashes), np.uint64),
            high=np.full(len(hashes), max(1, self._floor), np.uint64),
            is_heavy=is_among(hashes, held[is_many]),
            values=None,
            is_cut=np.zeros(len(hashes), np.bool_),
            buckets=self._rows_of_buckets.copy(),
        )
        found.low[is_held], found.high[is_held] = low[at[is_held]], np.maximum(high[at[is_held]], np.uint64(1))
        return found, kept[first]

    def _settle(self) -> None:
        if not self._slices:
            return
        slices, self._slices, self._pending = self._slices, [], 0
        every = np.concatenate([hashes for hashes, _, _ in slices])
        rows = None
        if any(rows is not None for _, rows, _ in slices):
            rows = np.concatenate([np.ones(len(h), np.int64) if r is None else r for h, r, _ in slices])
        added = np.uint64(1) if rows is None else rows.view(np.uint64)
        np.add.at(self._rows_of_buckets, bucket_of(every, BUCKETS), added)
        buckets = every.view(np.int64) & _LAST_BUCKET
        in_bucket = np.bincount(buckets, rows, _COARSE_BUCKETS)
        is_busy = in_bucket >= _BUSY * in_bucket.mean()
        chosen = np.flatnonzero(is_busy[buckets] | (every < np.uint64(self._theta)))
        found, of_each = _summed(every[chosen], None if rows is None else rows[chosen])
        # Count rows of busy buckets only: otherwise sampled values would be found frequent more easily than others.
        counted = is_busy[found.view(np.int64) & _LAST_BUCKET]
        many = self._add(found[counted], of_each[counted], is_busy, in_bucket)
        wanted = np.union1d(self._lowest(found), many)
        self._pick(slices, np.sort(_first_positions(every[chosen], chosen, wanted)), every)
        self._floor += int(in_bucket[~is_busy].max(initial=0))
        self._drop_rare()
        self._drop_picked()

    def _add(self, new: Hashes, counts: Counts, is_busy: Flags, in_bucket: npt.NDArray[Any]) -> Hashes:
        """Add rows to the held values; returns those that have many rows now, and had not before."""
        hashes, low, slack = self._held
        all_hashes = np.union1d(hashes, new)
        all_low, all_slack = np.zeros(len(all_hashes), np.uint64), np.full(len(all_hashes), self._floor, np.uint64)
        at, at_new = np.searchsorted(all_hashes, hashes), np.searchsorted(all_hashes, new)
        all_low[at], all_slack[at] = low, slack
        all_low[at_new] += counts
        is_unseen = np.ones(len(all_hashes), np.bool_)
        is_unseen[at_new] = False
        unseen = all_hashes[is_unseen].view(np.int64) & _LAST_BUCKET
        all_slack[is_unseen] += np.where(is_busy[unseen], 0, in_bucket[unseen]).astype(np.uint64)
        self._held = all_hashes, all_low, all_slack
        many = new[all_low[at_new] >= np.uint64(many_of(self._rows))]
        many = many[~is_among(many, self._flagged)]
        self._flagged = np.union1d(self._flagged, many)
        return many

    def _drop_rare(self) -> None:
        hashes, low, slack = self._held
        if len(hashes) > _HELD:
            upper = low + slack
            self._floor = max(self._floor, int(np.partition(upper, -_HELD)[-_HELD]))
            kept = upper > np.uint64(self._floor)
            self._held = hashes[kept], low[kept], slack[kept]
            self._flagged = self._flagged[is_among(self._flagged, hashes[kept])]

    def _pick(
        self,
        slices: Sequence[tuple[Hashes, Rows | None, SerializedValues]],
        positions: npt.NDArray[np.int64],
        every: Hashes,
    ) -> None:
        start = 0
        for hashes, _, values in slices:
            stop = start + len(hashes)
            inside = positions[np.searchsorted(positions, start) : np.searchsorted(positions, stop)]
            if len(inside):
                self._picked_hashes = np.append(self._picked_hashes, every[inside])
                self._picked.add(values, inside - start)
            start = stop

    def _drop_picked(self) -> None:
        """Drop values that have neither many rows nor one of the smallest hashes, once they are many; lower theta."""
        if len(self._picked) > self._most_picked:
            self._lower_theta(self._picked_hashes)
            kept = np.flatnonzero(self._is_kept(self._picked_hashes, self._flagged))
            self._picked_hashes = self._picked_hashes[kept]
            self._picked.keep(kept)
            self._most_picked = len(kept) + self._sample

    def _lowest(self, hashes: Hashes) -> Hashes:
        """Those of ascending, distinct hashes that may be in the sample; lowers theta if there are more."""
        below = hashes[hashes < np.uint64(self._theta)]
        if len(below) > self._sample:
            self._theta = int(below[self._sample])
        return below[: self._sample]

    def _lower_theta(self, hashes: Hashes) -> None:
        below = np.sort(hashes[hashes < np.uint64(self._theta)])
        self._lowest(below[is_first_of_run(below)])

    def _is_kept(self, hashes: Hashes, held: Hashes) -> Flags:
        return (hashes < np.uint64(self._theta)) | is_among(hashes, held)


def _summed(hashes: Hashes, rows: Rows | None) -> tuple[Hashes, Counts]:
    """The distinct hashes, ascending, and the rows of each; None is one for each hash."""
    if rows is not None:
        found, sums = sum_rows(hashes, rows) if len(hashes) else (hashes, rows)
        return found, sums.view(np.uint64)
    in_order = np.sort(hashes)
    starts = np.flatnonzero(is_first_of_run(in_order)) if len(hashes) else np.empty(0, np.int64)
    return in_order[starts], np.diff(starts, append=len(hashes)).view(np.uint64)


def _first_positions(hashes: Hashes, positions: npt.NDArray[np.int64], wanted: Hashes) -> npt.NDArray[np.int64]:
    """The first of the positions of each wanted hash, all of which are there; ``wanted`` ascends."""
    at, is_wanted = places(hashes, wanted)
    hits = np.flatnonzero(is_wanted)[::-1]
    first = np.empty(len(wanted), np.int64)
    first[at[hits]] = positions[hits]
    return first
