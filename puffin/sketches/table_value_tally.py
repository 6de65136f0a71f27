"""The rows of values, counted in the hash table of a compiled kernel: see `puffin.kernels.heavy`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from puffin.sketches.distribution import Distribution
from puffin.sketches.distribution_image import BUCKETS
from puffin.sketches.hash_arrays import Counts, Hashes, Rows, in_buckets, order_of, rows_for_kernel
from puffin.sketches.picked_values import PickedValues, Places
from puffin.sketches.smallest import distinct_below, theta_of
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.value_tally import ValueTally, many_of
from puffin.values.serialized import SerializedValues, for_kernel

_SLOTS = 1 << 12, 1 << 14, 1 << 16
_SLOTS_PER_VALUE = 8  # in a new table; the fewer slots are used, the more searches end at the first one
_SIFTING = 1 << 15  # slots of the first table that drops values
_WORDS = 4  # of a slot, two of them in the first half of the table
_BUCKETS = 1 << 17
_MOST_HELD = 28_000  # the most values that the largest table takes, with some room for values that were not expected
_LOOKED_AHEAD = 1 << 14  # with this many rows, it is worth looking at them before they are counted
_LOOKED_AT = 16  # one bucket in this many is looked at to choose a floor
_GROWTH = 2  # aim to fill the table again only after half as many more rows
_FEW = 64  # if the top 1/64 of buckets has hardly more rows than the top 1/_busy, no value is frequent
_UNIQUE = 0.9  # share of distinct values among rows above which hardly any value is frequent
_LEAST_BUSY = 1 << 10  # at least one in this many buckets stays busy, however often the table fills too soon
_TIMES_PICKED = 3  # values are dropped when this many times the sample are picked
_EVERY_BUCKET = np.ones(1, np.uint32)
_NO_HASHES = np.empty(0, np.uint64)


class TableValueTally(ValueTally):
    """
    Counts all values while these are less than half of a table.

    With more values it raises a floor whenever the table is full, so that half of the values are dropped and few
    buckets stay busy. The rows at hand are looked at before they are counted, so that values are not counted and picked
    only to be dropped. What is dropped had at most ``floor`` rows, so a value that comes late may have had as many
    before, which is its slack. A shadow is a value of the sample whose rows are not counted.
    """

    def __init__(self, sample: int, picked: PickedValues) -> None:
        from puffin.kernels import heavy

        self._heavy = heavy
        self._sample, self._picked = sample, picked
        self._slots = _table(_SLOTS[0])
        self._buckets = _EVERY_BUCKET  # while the table holds every value
        self._positions = np.empty(0, np.int64)
        self._used = self._rows = self._floor = self._slack = self._rows_at_rise = 0
        self._is_ahead = False  # whether buckets have the rows of a slice that the table has not yet
        self._theta = MAX_THETA
        self._most_picked = _TIMES_PICKED * sample
        self._busy = 8  # one in this many buckets may be busy when the floor rises

    def add(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        hashes = for_kernel(hashes)
        counts = rows_for_kernel(rows, len(hashes))
        self._rows += len(hashes) if rows is None else int(rows.sum())
        if len(self._positions) < len(hashes):
            self._positions = np.empty(len(hashes), np.int64)
        if not self._used and len(hashes) >= _LOOKED_AHEAD:
            self._make_room(hashes, counts)
        done = self._count(hashes, counts, values, 0, one_each=rows is None)
        while done < len(hashes):
            self._make_room(hashes[done:], counts[done:])
            done += self._count(hashes[done:], counts[done:], values, done, one_each=rows is None)
        self._slack, self._is_ahead = self._floor, False

    def _count(self, hashes: Hashes, counts: Counts, values: SerializedValues, first: int, *, one_each: bool) -> int:
        """
        Count hashes until the table is full and pick wanted values; returns how many hashes were counted.

        ``first`` is the position of the first hash in ``values``.
        """
        heavy = self._heavy
        is_one = one_each and self._rows < heavy.MOST_IN_BUCKET
        added = heavy.NO_ROWS if self._is_ahead else heavy.ONE_ROW if is_one else heavy.GIVEN_ROWS
        limits = self._floor, self._theta, many_of(self._rows), len(self._picked), self._slack, added
        table, given = (self._slots, self._buckets, self._used), (hashes, counts, np.array(limits, np.uint64))
        counted: tuple[int, int, int] = heavy.count_values(*table, *given, self._positions)
        done, self._used, picked = counted
        if picked:
            self._picked.add(values, self._positions[:picked] + first)
            if len(self._picked) > self._most_picked:
                self._settle()
        return done

    def state(self) -> tuple[Distribution, Places]:
        self._lower_theta()
        values = self._values(0, self._theta)
        hashes, low, slack, _ = values.T
        high = low + np.where(low == 0, np.uint64(self._floor), slack)
        is_many = low >= np.uint64(many_of(self._rows))  # never shadows, which have no rows
        is_known = is_many | (hashes < np.uint64(self._theta))
        known = np.flatnonzero(is_known)
        known = known[order_of(hashes[known])]
        known_hashes, known_low, _, places = np.ascontiguousarray(values[known].T)
        samples_all = self._theta == MAX_THETA
        found = Distribution(
            rows=self._rows,
            missed=0 if samples_all else max(self._floor, int(high[~is_known].max(initial=0))),
            theta=self._theta,
            hashes=known_hashes,
            low=known_low,
            high=np.maximum(high[known], np.uint64(1)),
            is_heavy=is_many[known],
            values=None,
            is_cut=np.zeros(len(known), np.bool_),
            buckets=None if samples_all else self._rows_of_buckets(hashes, low),
        )
        return found, places.view(np.int64)

    def _rows_of_buckets(self, hashes: Hashes, rows: Counts) -> Counts | None:
        if self._holds_all:
            return in_buckets(hashes, np.ascontiguousarray(rows), BUCKETS)
        if self._buckets.max() == self._heavy.MOST_IN_BUCKET:
            return None
        folded: Counts = self._buckets[:BUCKETS].astype(np.uint64) + self._buckets[BUCKETS:]
        return folded

    @property
    def _holds_all(self) -> bool:
        return self._buckets is _EVERY_BUCKET

    def _settle(self) -> None:
        """Drop values that have neither many rows nor one of the smallest hashes; lower theta."""
        self._lower_theta()
        kept = self._heavy.keep_places(self._slots, np.uint64(self._theta), np.uint64(many_of(self._rows)))
        self._picked.keep(kept)
        self._most_picked = len(kept) + (_TIMES_PICKED - 1) * self._sample

    def _lower_theta(self, ahead: Hashes = _NO_HASHES) -> None:
        """To the least that the held hashes allow, with those of rows that are counted next."""
        from puffin.kernels.hashes import distinct, hashes_below, rows_below

        below, _ = rows_below(self._slots[: len(self._slots) // 2], self._used, np.uint64(self._theta))
        if len(ahead) > self._sample:
            every = np.concatenate((below, hashes_below(ahead, np.uint64(self._theta))))
            theta = theta_of(distinct_below(every, self._theta), self._sample, self._theta)
            found = distinct(hashes_below(every, np.uint64(theta)))
            below = found if len(found) > self._sample else below
        if len(below) > self._sample:
            self._theta = int(below[order_of(below)[self._sample]])

    def _make_room(self, hashes: Hashes, counts: Counts) -> None:
        """Take a larger table, or let the floor rise; these rows are counted next."""
        slots = len(self._slots) // _WORDS
        if self._holds_all and slots < _SLOTS[-1]:
            expected = self._expected(hashes)
            if expected <= _MOST_HELD:
                least = _SLOTS_PER_VALUE * max(expected, self._used)
                wanted = next((each for each in _SLOTS if each >= least), _SLOTS[-1])
                if wanted > slots:
                    self._move(wanted, self._values(0, MAX_THETA))
                if expected > self._sample:
                    self._lower_theta(hashes)
                return
        self._lower_theta(hashes)  # for fewer shadows
        is_too_soon = self._rows < self._rows_at_rise + self._rows_at_rise // _GROWTH
        if is_too_soon and slots == _SIFTING and not self._holds_all:
            self._move(_SLOTS[-1], self._values(0, self._theta))  # all of them, so that the floor need not rise
            return
        if is_too_soon:
            self._busy = min(2 * self._busy, _LEAST_BUSY)
        self._rise(hashes, counts)
        values = self._values(self._floor, self._theta)
        busy = _LOOKED_AT * int(np.count_nonzero(self._buckets[::_LOOKED_AT] > self._floor))  # of two values or so each
        is_small = slots < _SLOTS[-1] and 2 * max(len(values), 2 * busy + self._sample) <= _SIFTING
        self._move(_SIFTING if is_small else _SLOTS[-1], values)

    def _expected(self, ahead: Hashes) -> float:
        """About how many values there are, as far as the rows at hand tell."""
        used = self._used
        if used < len(ahead):
            return max(used, distinct_below(ahead, MAX_THETA))
        counted = int(self._slots[1 : len(self._slots) // 2 : 2].sum())
        return np.inf if used > _UNIQUE * counted else used

    def _rise(self, hashes: Hashes, counts: Counts) -> None:
        held, rows = (self._slots[first : len(self._slots) // 2 : 2] for first in (0, 1))
        held_all = self._holds_all
        if held_all:
            self._buckets = np.zeros(_BUCKETS, np.uint32)
            self._heavy.fill_buckets(self._buckets, np.ascontiguousarray(held), rows)
        self._rows_at_rise = self._rows
        if not self._is_ahead:
            self._heavy.fill_buckets(self._buckets, hashes, counts)
            self._is_ahead = True
        enough = self._calm()
        if len(self._slots) >= _WORDS * _SIFTING:
            enough = max(enough, int(self._heavy.least_common(self._slots, np.uint64(self._floor))) - 1)
        self._floor = self._slack = max(self._floor, enough)
        if held_all:  # a value that arrives later had at most as many rows as a dropped one
            self._slack = int(rows.max(initial=0, where=rows <= self._floor))

    def _calm(self) -> int:
        """The rows of a bucket that is not busy."""
        some = self._buckets[::_LOOKED_AT].copy()  # near to each other
        at = [len(some) - 1 - len(some) // share for share in (self._busy, _FEW)]
        in_bucket, in_few = (int(rows) for rows in np.partition(some, at)[at])
        enough = in_bucket + in_bucket // _GROWTH
        # If no value is frequent, a higher floor loses little and saves lookups.
        if in_few <= enough:
            return max(enough, 2 * in_few)
        empty = max(1, len(some) - int(np.count_nonzero(some)))
        # If all rows differ, chance leaves as many buckets empty.
        differ = math.log(len(some) / empty) > _UNIQUE * some.mean()
        return in_few if differ else enough

    def _values(self, floor: int, theta: int) -> npt.NDArray[np.uint64]:
        """Hash, rows, slack and place of each value in a busy bucket with more rows than the floor, or below theta."""
        found = self._heavy.values_above(self._slots, self._used, self._buckets, np.uint64(floor), np.uint64(theta))
        return found.view(np.uint64).reshape(-1, _WORDS)  # numba's own uint64 is slow in `np.add.at`

    def _move(self, slots: int, values: npt.NDArray[np.uint64]) -> None:
        """Make an empty table of this many slots, and put values into it."""
        if len(self._slots) == _WORDS * slots:
            self._slots[: len(self._slots) // 2] = 0
        else:
            self._slots = _table(slots)
        self._used = self._heavy.put_values(self._slots, values.reshape(-1))


def _table(slots: int) -> npt.NDArray[np.uint64]:
    return np.zeros(_WORDS * slots, np.uint64)
