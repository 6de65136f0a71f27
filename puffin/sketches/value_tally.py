"""
The running state behind a distribution: the rows of every value, as far as memory allows, and the values wanted.

Two classes do the same. `TableTally` counts in a hash table of a compiled kernel, which drops the values with the
fewest rows when it is full. `SortedTally` collects slices, sorts their hashes and keeps those with the most rows. A
value is taken from the column when its hash is first below theta, or when it turns out to have many rows; others are
never looked at.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.kernels import kernels_ready
from puffin.sketches.distribution import PARTS, Counts, Distribution, Flags, first_of_each, is_among, places
from puffin.sketches.row_tally import Hashes, Rows, sum_rows
from puffin.sketches.smallest import is_first_of_run
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.serialized import SerializedValues
from puffin.values.value_bytes import MOST_BYTES, contents, cut_to, pick

_MANY = 16  # a value is wanted from a share of 2^-16 of the rows on
_FEWEST_SLOTS, _MOST_SLOTS = 1 << 12, 1 << 16
_HELD = 1 << 14
_UNSORTED = 1 << 18
_BUCKETS = 1 << 16
_DEVIATIONS, _LEAST_BUSY = 6, 4
_LAST_BUCKET = _BUCKETS - 1
_BUSY = 4  # buckets with so many times the rows of the others are looked into
_ONE_BUSY = np.full(1, 1 << 63, np.uint64)
_ONES = np.broadcast_to(np.uint64(1), 1 << 40)


class DistributionBuilder:
    """Takes the values of a column with their hashes; ``sample`` is the most values of its sample."""

    def __init__(self, sample: int, *, keeps_values: bool = True) -> None:
        self._picked = _PickedValues(sample, keeps_values)
        self._tally: _Tally = _TableTally(self._picked) if kernels_ready() else _SortedTally(self._picked)

    def update_hashed(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        """Count hashes, the rows of each, and their values, as `puffin.sketches.counted_hashes` returns them."""
        self._tally.add(hashes, rows, values)

    def compact(self) -> Distribution:
        """The distribution so far; the builder stays usable."""
        return self._tally.state().cut(self._picked.sample, PARTS)


class _PickedValues:
    """The values that were taken from the column, by hash."""

    def __init__(self, sample: int, keeps_values: bool) -> None:
        self.theta = MAX_THETA
        self.sample = sample
        self.keeps_values = keeps_values
        self._hashes: list[Hashes] = [np.empty(0, np.uint64)]
        self._values: list[pa.LargeBinaryArray] = [pa.array([], pa.large_binary())]
        self._count = self._limit = 0

    def add(self, hashes: Hashes, values: SerializedValues, positions: npt.NDArray[np.int64]) -> None:
        """Take the values at these positions, which have these hashes."""
        self._hashes.append(hashes)
        if self.keeps_values:
            self._values.append(pick(values, positions))
        self._count += len(positions)

    def settle(self, held: Callable[[], Hashes], *, at_once: bool = False) -> None:
        """Drop values that are neither held nor among the smallest hashes, once they are many; lower theta."""
        if at_once or self._count > max(self._limit, 2 * self.sample):
            hashes = np.concatenate(self._hashes)
            self._lower_theta(hashes)
            kept = np.flatnonzero(self._is_kept(hashes, held()))
            self._hashes = [hashes[kept]]
            if self.keeps_values:
                self._values = [pa.concat_arrays(self._values).take(pa.array(kept))]
            self._count, self._limit = len(kept), len(kept) + self.sample

    def lowest(self, hashes: Hashes) -> Hashes:
        """Those of ascending, distinct hashes that may be in the sample; lowers theta if there are more."""
        below = hashes[hashes < np.uint64(self.theta)]
        if len(below) > self.sample:
            self.theta = int(below[self.sample])
        return below[: self.sample]

    def state(self, held: Hashes) -> tuple[Hashes, pa.LargeBinaryArray]:
        """The ascending hashes of the sample and of those held, and their values."""
        hashes = np.concatenate(self._hashes)
        self._lower_theta(hashes)
        kept = np.flatnonzero(self._is_kept(hashes, held))
        hashes, first = first_of_each(hashes[kept])
        values = pa.concat_arrays(self._values)
        return hashes, values.take(pa.array(kept[first])) if self.keeps_values else values

    def _lower_theta(self, hashes: Hashes) -> None:
        if len(hashes) > self.sample:
            below = np.sort(hashes[hashes < np.uint64(self.theta)])  # far cheaper than the order of all
            self.lowest(below[is_first_of_run(below)])

    def _is_kept(self, hashes: Hashes, held: Hashes) -> Flags:
        is_kept: Flags = hashes < np.uint64(self.theta)
        if len(held):
            others = np.flatnonzero(~is_kept)
            is_kept[others] = is_among(hashes[others], np.sort(held))
        return is_kept


class _Tally(ABC):
    def __init__(self, picked: _PickedValues) -> None:
        self._picked = picked
        self._rows = 0
        self._floor = 0

    @abstractmethod
    def add(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        """Count hashes and pick the values that are wanted."""

    @abstractmethod
    def _entries(self) -> tuple[Hashes, Counts, Counts]:
        """The distinct hashes that are held, the rows counted of each, and how many more there may be."""

    @property
    def _many(self) -> int:
        return max(2, self._rows >> _MANY)

    def state(self) -> Distribution:
        held, low, slack = self._entries()
        is_many = low >= np.uint64(self._many)
        hashes, values = self._picked.state(held[is_many])
        missed = max(self._floor, int((low + slack)[~is_many].max(initial=0)))
        asked = np.flatnonzero(is_many | (held < np.uint64(self._picked.theta)))
        asked = asked[held[asked].argsort()]
        heavy = held[asked][is_many[asked]]
        known = Distribution(0, self._floor, 1, held[asked], low[asked], (low + slack)[asked], is_many, None, is_many)
        low, high = known.rows_of(hashes)
        lengths, _ = contents(values)
        keeps = self._picked.keeps_values
        theta = np.uint64(self._picked.theta)
        return Distribution(
            rows=self._rows,
            missed=min(missed, self._rows) if int(theta) < MAX_THETA else 0,
            theta=int(theta),
            hashes=hashes,
            low=low,
            high=np.maximum(high, np.uint64(1)),
            is_heavy=is_among(hashes, heavy),
            values=cut_to(values, MOST_BYTES) if keeps else None,
            is_cut=lengths > MOST_BYTES if keeps else np.zeros(len(hashes), np.bool_),
        )


class _TableTally(_Tally):
    def __init__(self, picked: _PickedValues) -> None:
        super().__init__(picked)
        self._slots = np.zeros(3 * _FEWEST_SLOTS, np.uint64)
        self._buckets = _ONE_BUSY.copy()  # while the table holds every value
        self._used = np.zeros(2, np.int64)
        self._positions = np.empty(0, np.int64)

    def add(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        from puffin.kernels.heavy import count_values

        hashes = np.require(hashes, requirements=["C", "A"])
        counts = _ONES[: len(hashes)] if rows is None else np.require(rows, requirements="A").view(np.uint64)
        self._rows += len(hashes) if rows is None else int(rows.sum())
        if len(self._positions) < len(hashes):
            self._positions = np.empty(len(hashes), np.int64)
        done = 0
        while True:
            self._used[1] = 0
            more = count_values(
                self._slots, self._buckets, self._used, hashes[done:], counts[done:], self._limits(), self._positions
            )
            if self._used[1]:
                positions = self._positions[: self._used[1]] + done
                self._picked.add(hashes[positions], values, positions)
                theta = self._picked.theta
                self._picked.settle(self._flagged)
                if self._picked.theta < theta and len(self._buckets) > 1:
                    self._keep(0)
            done += more
            if done == len(hashes):
                return
            self._make_room()

    def _limits(self) -> npt.NDArray[np.uint64]:
        busy = 0
        if len(self._buckets) > 1:
            mean = self._rows / _BUCKETS
            busy = int(mean + _DEVIATIONS * math.sqrt(mean)) + _LEAST_BUSY
            self._floor = max(self._floor, busy)
        return np.array([self._floor, self._picked.theta, self._many, busy], np.uint64)

    def _make_room(self) -> None:
        from puffin.kernels.heavy import BUCKET_SHIFT, BUSY, least_common

        if len(self._slots) < 3 * _MOST_SLOTS:
            self._keep(0, 4 * len(self._slots))
            return
        self._picked.settle(self._flagged, at_once=True)  # fewer shadows
        least = int(least_common(self._slots, np.uint64(self._floor)))
        if len(self._buckets) == 1:
            held, low, slack = self._entries()
            self._buckets = np.zeros(_BUCKETS, np.uint64)
            at = (held >> BUCKET_SHIFT) & np.uint64(_BUCKETS - 1)
            np.add.at(self._buckets, at, low)
            self._buckets[at[low + slack >= np.uint64(least)]] |= BUSY
        self._floor = least - 1
        self._keep(least)

    def _keep(self, least: int, size: int = 3 * _MOST_SLOTS) -> None:
        from puffin.kernels.heavy import move_values

        full, self._slots = self._slots, np.zeros(size, np.uint64)
        theta = np.uint64(self._picked.theta)
        self._used[0] = move_values(self._slots, full, self._buckets, np.uint64(least), theta)

    def _flagged(self) -> Hashes:
        from puffin.kernels.heavy import FLAG

        return self._slots[0::3][self._slots[2::3] & FLAG > 0]

    def _entries(self) -> tuple[Hashes, Counts, Counts]:
        from puffin.kernels.heavy import SHADOW

        table = self._slots.reshape(-1, 3)
        table = table[(table[:, 0] > 0) & (table[:, 2] != SHADOW)]
        return table[:, 0], table[:, 1], table[:, 2] >> np.uint64(1)


class _SortedTally(_Tally):
    """
    Sorts the hashes of many rows at once. Of those that share their low bits with few rows it only keeps the number, as
    the most rows that one of them may have.
    """

    def __init__(self, picked: _PickedValues) -> None:
        super().__init__(picked)
        self._held = tuple(np.empty(0, np.uint64) for _ in range(3))
        self._flagged = np.empty(0, np.uint64)  # those that were picked for their many rows
        self._slices: list[tuple[Hashes, Rows | None, SerializedValues]] = []
        self._pending = 0

    def add(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        if len(hashes):
            self._slices.append((hashes, rows, values))
            self._rows += len(hashes) if rows is None else int(rows.sum())
            self._pending += len(hashes)
            if self._pending >= _UNSORTED:
                self._settle()

    def _settle(self) -> None:
        if not self._slices:
            return
        slices, self._slices, self._pending = self._slices, [], 0
        every = np.concatenate([hashes for hashes, _, _ in slices])
        rows = None
        if any(rows is not None for _, rows, _ in slices):
            rows = np.concatenate([np.ones(len(h), np.int64) if r is None else r for h, r, _ in slices])
        buckets = every.view(np.int64) & _LAST_BUCKET
        in_bucket = np.bincount(buckets, rows, _BUCKETS)
        is_busy = in_bucket >= _BUSY * in_bucket.mean()
        chosen = np.flatnonzero(is_busy[buckets] | (every < np.uint64(self._picked.theta)))
        found, of_each = _summed(every[chosen], None if rows is None else rows[chosen])
        # Whether a value is found to have many rows must not depend on its hash: rows in other buckets do not count.
        counted = is_busy[found.view(np.int64) & _LAST_BUCKET]
        many = self._add(found[counted], of_each[counted], is_busy, in_bucket)
        wanted = np.union1d(self._picked.lowest(found), many)
        self._pick(slices, np.sort(_first_positions(every[chosen], chosen, wanted)), every)
        self._floor += int(in_bucket[~is_busy].max(initial=0))
        self._drop_rare()
        self._picked.settle(lambda: self._flagged)

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
        many = new[all_low[at_new] >= np.uint64(self._many)]
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
                self._picked.add(every[inside], values, inside - start)
            start = stop

    def _entries(self) -> tuple[Hashes, Counts, Counts]:
        self._settle()
        hashes, low, slack = self._held
        return hashes, low, slack


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
