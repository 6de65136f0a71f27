"""
The running state behind row counts: the smallest distinct hashes so far, and how many rows have each.

There are two ways to it, which give the same. `SortedTally` drops what is not below the running theta, sorts the rest
and counts runs. That is quick once nearly everything is dropped, but of a column of few values nothing ever is, and
every row of it is sorted. `TableTally` spares that with a hash table, which is a loop that only a compiled kernel can
run fast.

Either lets go of hashes in the middle of its work, when it holds more than ``limit``, and is exact all the same: a hash
that is dropped had ``limit`` smaller ones beside it and still has them in the end, so one that is there in the end was
counted from its first row. Memory stays within a few times the limit, whatever is fed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.sketches.theta_image import MAX_THETA

Hashes: TypeAlias = npt.NDArray[np.uint64]
Rows: TypeAlias = npt.NDArray[np.int64]

_LEAST_WORTH_SORTING = 1 << 15
_FEWEST_SLOTS = 1 << 16
_SLOTS_PER_HASH = 4  # after the table was made anew, which gives it room for as many again
_ONE_EACH = np.broadcast_to(np.uint64(1), 1 << 40)  # a row for each of any number of hashes, in the memory of one


def sum_rows(hashes: Hashes, rows: Rows) -> tuple[Hashes, Rows]:
    """The distinct hashes, ascending, and the sum of the rows of each."""
    order = hashes.argsort()
    hashes, rows = hashes[order], rows[order]
    starts = _run_starts(hashes)
    return hashes[starts], np.add.reduceat(rows, starts)


def cut(theta: int, hashes: Hashes, rows: Rows, limit: int) -> tuple[int, Hashes, Rows]:
    """At most ``limit`` of ascending hashes, with theta lowered to the first that is left out."""
    if len(hashes) <= limit:
        return theta, hashes, rows
    return int(hashes[limit]), hashes[:limit].copy(), rows[:limit].copy()  # a view would hold on to the rest


class RowTally(ABC):
    """Takes hashes in any order, any number of times."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._theta = MAX_THETA

    @abstractmethod
    def add(self, hashes: Hashes, rows: Rows | None = None) -> None:
        """Take hashes in, with the rows of each if it is not one; the hash 0 is ignored."""

    def lower_theta(self, theta: int) -> None:
        """Let go of every hash at or above this theta too, for all that is still to come."""
        self._theta = min(self._theta, theta)

    def state(self) -> tuple[int, Hashes, Rows]:
        """Theta, the hashes below it, ascending and at most ``limit``, and the rows of each."""
        hashes, rows = self._entries()
        kept = np.flatnonzero((hashes > 0) & (hashes < np.uint64(self._theta)))
        state = cut(self._theta, *sum_rows(hashes[kept], rows[kept]), self._limit)
        self._theta = state[0]
        return state

    @abstractmethod
    def _entries(self) -> tuple[Hashes, Rows]:
        """Everything that is held, in any order."""


class SortedTally(RowTally):
    """In numpy: what passes theta waits until it is worth a sort."""

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
    """With the hash table of `puffin.kernels`, which have to be ready; it is made anew whenever it is half full."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._make_table(_FEWEST_SLOTS)

    def add(self, hashes: Hashes, rows: Rows | None = None) -> None:
        from puffin.kernels.counting import add_rows

        hashes = np.require(hashes, requirements=["C", "A"])  # the kernel takes no other
        counts = _ONE_EACH[: len(hashes)] if rows is None else np.require(rows, requirements="A").view(np.uint64)
        done = 0
        while True:
            done += add_rows(self._slots, self._used, hashes[done:], counts[done:], np.uint64(self._theta))
            if done == len(hashes):
                return
            kept = self.state()[1:]
            self._make_table(1 << (_SLOTS_PER_HASH * len(kept[0]) - 1).bit_length())
            self.add(*kept)

    def _entries(self) -> tuple[Hashes, Rows]:
        return self._slots[0::2], self._slots[1::2].view(np.int64)

    def _make_table(self, slots: int) -> None:
        self._slots = np.zeros(2 * max(slots, _FEWEST_SLOTS), np.uint64)
        self._used = np.zeros(1, np.int64)


def _count_runs(hashes: Hashes) -> tuple[Hashes, Rows]:
    """The distinct hashes, ascending, and how often each is there; sorts what it is given."""
    hashes.sort()
    starts = _run_starts(hashes)
    return hashes[starts], np.diff(starts, append=len(hashes))


def _run_starts(ascending: Hashes) -> npt.NDArray[np.intp]:
    is_first = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)
