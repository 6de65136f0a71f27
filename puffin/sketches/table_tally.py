"""The rows of values, counted in the hash table of a compiled kernel: see `puffin.kernels.heavy`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.sketches.distribution import Counts, folded
from puffin.sketches.distribution_image import BUCKETS
from puffin.sketches.picked_values import PickedValues
from puffin.sketches.row_tally import Hashes, Rows
from puffin.sketches.tally_state import TallyState, many_of
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.serialized import SerializedValues

_FEWEST_SLOTS, _MOST_SLOTS = 1 << 12, 1 << 16
_WORDS = 4  # of a slot, two of them in the first half of the table
_BUCKETS = 1 << 17
_LOOKED_AT = 16  # every so many buckets are looked at to choose a floor
_GROWTH = 2  # the table should be full again only when there are half as many rows more
_FEW = 64  # no values stand out if one in so many buckets has hardly more rows than one in `_busy`
_LEAST_BUSY = 1 << 10  # so few of the buckets are busy if it is full too soon again and again
_TIMES_PICKED = 3  # values are dropped when so many times the sample are picked
_ONE_BUSY = np.ones(1, np.uint32)
_ONES = np.broadcast_to(np.uint64(1), 1 << 40)


class TableTally:
    """
    Counts all values until these are more than half of a table.

    From then on the floor rises each time when the table is full: so high that half of the values go, and that few
    buckets are busy.
    """

    def __init__(self, sample: int, picked: PickedValues) -> None:
        self._sample, self._picked = sample, picked
        self._slots = self._spare = np.zeros(_WORDS * _FEWEST_SLOTS, np.uint64)
        self._buckets = _ONE_BUSY.copy()  # while the table holds every value
        self._used = np.zeros(2, np.int64)
        self._positions = np.empty(0, np.int64)
        self._rows = self._floor = self._rows_at_rise = 0
        self._theta = MAX_THETA
        self._most_picked = _TIMES_PICKED * sample
        self._busy = 8  # one in so many buckets may be busy when the floor rises

    def add(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        """Count hashes and pick the values that are wanted."""
        from puffin.kernels.heavy import count_values

        hashes = np.require(hashes, requirements=["C", "A"])
        counts = _ONES[: len(hashes)] if rows is None else np.require(rows, requirements="A").view(np.uint64)
        self._rows += len(hashes) if rows is None else int(rows.sum())
        if len(self._positions) < len(hashes):
            self._positions = np.empty(len(hashes), np.int64)
        done = 0
        while True:
            self._used[1] = 0
            limits = np.array([self._floor, self._theta, many_of(self._rows), len(self._picked)], np.uint64)
            more = count_values(
                self._slots, self._buckets, self._used, hashes[done:], counts[done:], limits, self._positions
            )
            if self._used[1]:
                self._picked.add(values, self._positions[: self._used[1]] + done)
                if len(self._picked) > self._most_picked:
                    self._settle()
            done += more
            if done == len(hashes):
                return
            self._make_room()

    def state(self) -> TallyState:
        """What was counted."""
        self._lower_theta()
        used = np.flatnonzero(self._hashes)
        hashes, low = self._hashes[used], self._counted[used]
        slack, place = self._slots[len(self._slots) // 2 :].reshape(-1, 2)[used].T
        high = low + np.where(low == 0, np.uint64(self._floor), slack)
        is_many = low >= np.uint64(many_of(self._rows))  # never shadows, which have no rows
        is_known = is_many | (hashes < np.uint64(self._theta))
        missed = max(self._floor, int(high[~is_known].max(initial=0)))
        known = np.flatnonzero(is_known)
        known = known[hashes[known].argsort()]
        return TallyState(
            self._rows,
            missed,
            self._theta,
            hashes[known],
            (low[known], high[known]),
            is_many[known],
            place[known].view(np.int64),
            None if self._theta == MAX_THETA else self._rows_of_buckets(),
        )

    def _rows_of_buckets(self) -> Counts | None:
        from puffin.kernels.heavy import MOST_IN_BUCKET

        buckets = self._in_buckets() if len(self._buckets) == 1 else self._buckets
        return None if buckets.max() == MOST_IN_BUCKET else folded(buckets.astype(np.uint64), BUCKETS)

    def _settle(self) -> None:
        """Drop values that have neither many rows nor one of the smallest hashes; lower theta."""
        from puffin.kernels.heavy import keep_places

        self._lower_theta()
        kept = keep_places(self._slots, np.uint64(self._theta), np.uint64(many_of(self._rows)))
        self._picked.keep(kept)
        self._most_picked = len(kept) + (_TIMES_PICKED - 1) * self._sample

    def _lower_theta(self) -> None:
        hashes = self._hashes
        below = hashes[(hashes > 0) & (hashes < np.uint64(self._theta))]
        if len(below) > self._sample:
            self._theta = int(np.partition(below, self._sample)[self._sample])

    def _make_room(self) -> None:
        from puffin.kernels.heavy import least_common

        if len(self._slots) < _WORDS * _MOST_SLOTS:
            self._spare = np.empty(_WORDS * _MOST_SLOTS, np.uint64)
            self._move()
            self._spare = np.empty_like(self._slots)
            return
        self._lower_theta()  # for fewer shadows
        if len(self._buckets) == 1:
            self._buckets = self._in_buckets()
        elif self._rows < self._rows_at_rise + self._rows_at_rise // _GROWTH:
            self._busy = min(2 * self._busy, _LEAST_BUSY)
        self._rows_at_rise = self._rows
        some = np.sort(self._buckets[::_LOOKED_AT])
        in_bucket, in_few = (int(some[-1 - len(some) // share]) for share in (self._busy, _FEW))
        enough = in_bucket + in_bucket // _GROWTH
        if in_few <= enough:  # no values stand out: to miss more rows costs little, and saves looking them up
            enough = max(enough, 2 * in_few)
        least = int(least_common(self._slots, np.uint64(self._floor)))
        self._floor = max(least - 1, enough)
        self._move()

    def _in_buckets(self) -> npt.NDArray[np.uint32]:
        from puffin.kernels.heavy import BUCKET_SHIFT, MOST_IN_BUCKET

        buckets = ((self._hashes >> BUCKET_SHIFT) & np.uint64(_BUCKETS - 1)).view(np.int64)
        rows = np.bincount(buckets, self._counted, _BUCKETS)
        return np.minimum(rows, MOST_IN_BUCKET).astype(np.uint32)

    @property
    def _hashes(self) -> Hashes:
        return self._slots[: len(self._slots) // 2 : 2]

    @property
    def _counted(self) -> Counts:
        return self._slots[1 : len(self._slots) // 2 : 2]

    def _move(self) -> None:
        from puffin.kernels.heavy import move_values

        floor, theta = np.uint64(self._floor), np.uint64(self._theta)
        self._used[0] = move_values(self._spare, self._slots, self._buckets, floor, theta)
        self._slots, self._spare = self._spare, self._slots
