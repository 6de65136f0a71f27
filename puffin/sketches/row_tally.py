"""
The running state behind row counts: the smallest distinct hashes so far, and the rows of each.

Two classes give the same result. `SortedTally` drops hashes from the running theta on, sorts the rest and counts runs.
That is fast once it drops nearly everything, but in a column of few values it sorts every row. `TableTally` avoids the
sort with a hash table, whose loop is fast only in a compiled kernel.

Both drop hashes along the way when they hold more than ``limit``, and still count exactly. A dropped hash has ``limit``
smaller ones beside it, now and in the end. So every hash in the result was counted from its first row. Memory stays
within a few times the limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from puffin.sketches.hash_arrays import Counts, Hashes, Rows, is_first_of_run, order_of, rows_for_kernel
from puffin.sketches.smallest import distinct_below, theta_of
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.serialized import for_kernel

_LEAST_WORTH_SORTING = 1 << 15
_FEWEST_SLOTS, _SLOTS = 1 << 12, 1 << 16
_SLOTS_PER_HASH = 4  # in a new table, which leaves room for as many again


def sum_rows(hashes: Hashes, rows: Rows, *, in_runs: bool = False) -> tuple[Hashes, Rows]:
    """Sort and deduplicate the hashes, which may consist of a few ascending runs, and sum the rows of each."""
    order = hashes.argsort(kind="stable") if in_runs else order_of(hashes)  # a stable sort merges runs
    hashes, rows = hashes[order], rows[order]
    starts = np.flatnonzero(is_first_of_run(hashes))
    return hashes[starts], np.add.reduceat(rows, starts)


def cut(theta: int, hashes: Hashes, rows: Rows, limit: int) -> tuple[int, Hashes, Rows]:
    """Keep at most ``limit`` of ascending hashes, and lower theta to the first one dropped."""
    if len(hashes) <= limit:
        return theta, hashes, rows
    return int(hashes[limit]), hashes[:limit].copy(), rows[:limit].copy()  # a view would keep the rest in memory


class RowTally(ABC):
    """Takes hashes in any order, any number of times."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._theta = MAX_THETA

    @abstractmethod
    def add(self, hashes: Hashes, rows: Rows | None = None) -> None:
        """Add hashes, with the rows of each or one each; ignores the hash 0."""

    @abstractmethod
    def state(self) -> tuple[int, Hashes, Rows]:
        """Theta, the ascending hashes below it, at most ``limit``, and the rows of each."""


class SortedTally(RowTally):
    """Holds hashes in numpy arrays, and sorts them once they are worth a sort."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._parts: list[tuple[Hashes, Rows]] = [(np.empty(0, np.uint64), np.empty(0, np.int64))]
        self._pending_count = 0

    def add(self, hashes: Hashes, rows: Rows | None = None) -> None:
        is_below = hashes < np.uint64(self._theta)
        if not is_below.any():
            return
        below = hashes[is_below]
        part = _count_runs(below) if rows is None else (below, rows[is_below])
        self._parts.append(part)
        self._pending_count += len(part[0])
        if self._pending_count >= max(self._limit, _LEAST_WORTH_SORTING):
            self._parts = [self.state()[1:]]
            self._pending_count = 0

    def state(self) -> tuple[int, Hashes, Rows]:
        hashes, rows = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        kept = np.flatnonzero((hashes > 0) & (hashes < np.uint64(self._theta)))
        state = cut(self._theta, *sum_rows(hashes[kept], rows[kept]), self._limit)
        self._theta = state[0]
        return state


class TableTally(RowTally):
    """
    Holds hashes in a table of `puffin.kernels`, and rebuilds it when it is half full.

    For a large first batch it guesses theta from a sample of the hashes and counts those below; if they are too few it
    counts the rest as well.
    """

    def __init__(self, limit: int) -> None:
        from puffin.kernels.hashes import add_rows

        super().__init__(limit)
        self._add_rows = add_rows
        self._slots = np.zeros(2 * _FEWEST_SLOTS, np.uint64)
        self._used = np.zeros(1, np.int64)

    def add(self, hashes: Hashes, rows: Rows | None = None) -> None:
        hashes = for_kernel(hashes)
        counts = rows_for_kernel(rows, len(hashes))
        if self._used[0] or len(hashes) <= self._limit:
            self._count(hashes, counts, 1, self._theta)
            return
        values = distinct_below(hashes, self._theta)
        expected = theta_of(values, self._limit, self._theta)
        if min(values, self._limit) > _FEWEST_SLOTS // _SLOTS_PER_HASH:
            self._make_table(_SLOTS_PER_HASH * min(int(values), self._limit))
        self._count(hashes, counts, 1, expected)
        if self._used[0] > self._limit:
            self._theta = min(self._theta, expected)
        elif self._theta > expected:
            self._count(hashes, counts, expected, self._theta)

    def state(self) -> tuple[int, Hashes, Rows]:
        hashes, rows = self._entries(self._theta)
        order = order_of(hashes)
        if len(order) > self._limit:
            self._theta = int(hashes[order[self._limit]])
            order = order[: self._limit]
        return self._theta, hashes[order], rows[order]

    def _count(self, hashes: Hashes, counts: Counts, least: int, theta: int) -> None:
        """Count hashes from ``least`` on and below theta."""
        while least < min(theta, self._theta):
            theta = min(theta, self._theta)
            done = self._add_rows(self._slots, self._used, hashes, counts, np.uint64(least), np.uint64(theta))
            if done == len(hashes):
                return
            hashes, counts = hashes[done:], counts[done:]
            self._rebuild()

    def _rebuild(self) -> None:
        expected = theta_of(self._used[0], self._limit, self._theta)
        hashes, rows = self._entries(expected)
        if len(hashes) > self._limit:
            self._theta = expected
        else:
            hashes, rows = self._entries(self._theta)
            if len(hashes) > self._limit:  # the hashes are distinct, and need no order
                self._theta = int(np.partition(hashes, self._limit)[self._limit])
        self._make_table(_SLOTS_PER_HASH * min(len(hashes), self._limit))
        self._count(hashes, rows.view(np.uint64), 1, self._theta)

    def _entries(self, theta: int) -> tuple[Hashes, Rows]:
        from puffin.kernels.hashes import rows_below

        hashes, rows = rows_below(self._slots, self._used[0], np.uint64(theta))
        return hashes, rows.view(np.int64)

    def _make_table(self, slots: int) -> None:
        slots = _FEWEST_SLOTS if slots <= _FEWEST_SLOTS else max(_SLOTS, 1 << (slots - 1).bit_length())
        if 2 * slots == len(self._slots):
            self._slots[:] = 0
        else:
            self._slots = np.zeros(2 * slots, np.uint64)
        self._used[0] = 0


def _count_runs(hashes: Hashes) -> tuple[Hashes, Rows]:
    """The distinct hashes, ascending, and how often each occurs; sorts its argument in place."""
    hashes.sort()
    starts = np.flatnonzero(is_first_of_run(hashes))
    return hashes[starts], np.diff(starts, append=len(hashes))
