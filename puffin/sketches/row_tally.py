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
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.sketches.smallest import is_first_of_run
from puffin.sketches.theta_image import MAX_THETA

Hashes: TypeAlias = npt.NDArray[np.uint64]
Rows: TypeAlias = npt.NDArray[np.int64]

_LEAST_WORTH_SORTING = 1 << 15
_FEWEST_SLOTS = 1 << 16
_SLOTS_PER_HASH = 4  # in a new table, which leaves room for as many again
_ONE_EACH = np.broadcast_to(np.uint64(1), 1 << 40)  # one row for each of any number of hashes, in the memory of one


def sum_rows(hashes: Hashes, rows: Rows) -> tuple[Hashes, Rows]:
    """Sort and deduplicate the hashes, and sum the rows of each."""
    order = hashes.argsort()
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

    def lower_theta(self, theta: int) -> None:
        """Drop every hash at or above this theta, now and later."""
        self._theta = min(self._theta, theta)

    def state(self) -> tuple[int, Hashes, Rows]:
        """Theta, the ascending hashes below it, at most ``limit``, and the rows of each."""
        hashes, rows = self._entries()
        kept = np.flatnonzero((hashes > 0) & (hashes < np.uint64(self._theta)))
        state = cut(self._theta, *sum_rows(hashes[kept], rows[kept]), self._limit)
        self._theta = state[0]
        return state

    @abstractmethod
    def _entries(self) -> tuple[Hashes, Rows]:
        """All hashes and rows held, in any order."""


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

    def _entries(self) -> tuple[Hashes, Rows]:
        hashes, rows = zip(*self._parts, strict=True)
        return np.concatenate(hashes), np.concatenate(rows)


class TableTally(RowTally):
    """Holds hashes in a table of `puffin.kernels`, and rebuilds it when it is half full."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._make_table(_FEWEST_SLOTS)

    def add(self, hashes: Hashes, rows: Rows | None = None) -> None:
        from puffin.kernels.hashes import add_rows

        hashes = np.require(hashes, requirements=["C", "A"])  # the kernel requires it
        counts = _ONE_EACH[: len(hashes)] if rows is None else np.require(rows, requirements="A").view(np.uint64)
        done = 0
        while True:
            done += add_rows(self._slots, self._used, hashes[done:], counts[done:], np.uint64(self._theta))
            if done == len(hashes):
                return
            kept = self._entries()
            self._make_table(1 << (_SLOTS_PER_HASH * len(kept[0]) - 1).bit_length())
            self.add(*kept)

    def _entries(self) -> tuple[Hashes, Rows]:
        hashes = self._slots[0::2]
        kept = np.flatnonzero((hashes > 0) & (hashes < np.uint64(self._theta)))
        hashes = hashes[kept]
        if len(hashes) > self._limit:  # the hashes are distinct, and need no order
            self._theta = int(np.partition(hashes, self._limit)[self._limit])
            is_below = hashes < np.uint64(self._theta)
            kept, hashes = kept[is_below], hashes[is_below]
        return hashes, self._slots[1::2].view(np.int64)[kept]

    def _make_table(self, slots: int) -> None:
        self._slots = np.zeros(2 * max(slots, _FEWEST_SLOTS), np.uint64)
        self._used = np.zeros(1, np.int64)


def _count_runs(hashes: Hashes) -> tuple[Hashes, Rows]:
    """The distinct hashes, ascending, and how often each occurs; sorts its argument in place."""
    hashes.sort()
    starts = np.flatnonzero(is_first_of_run(hashes))
    return hashes[starts], np.diff(starts, append=len(hashes))
