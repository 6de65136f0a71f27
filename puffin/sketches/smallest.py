"""
The running state behind a sketch: the k smallest distinct hashes so far, and theta, the next one above them.

Hashes at or above the running theta are dropped as they come, before anything is sorted, so once k hashes are held a
batch costs one comparison per hash. What passes waits until it is worth a sort; sorting and comparing neighbours finds
repetitions much faster than hashing does (`np.unique`). Memory stays within a few times k, whatever is fed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels import kernels_ready
from puffin.sketches.theta_image import MAX_THETA

_LEAST_WORTH_SORTING = 1 << 14


class SmallestHashes:
    """Takes hashes in any order, any number of times."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._theta = MAX_THETA
        self._kept = np.empty(0, np.uint64)
        self._pending: list[npt.NDArray[np.uint64]] = []
        self._pending_count = 0
        self._pending_limit = max(k, _LEAST_WORTH_SORTING)

    def add(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Take hashes in; 0 is ignored, as in other implementations."""
        for start in range(0, len(hashes), self._pending_limit):
            below = self._below_theta(hashes[start : start + self._pending_limit])
            if len(below) > 0:
                self._pending.append(below)
                self._pending_count += len(below)
            if self._pending_count >= self._pending_limit:
                self._settle()

    def lower_theta(self, theta: int) -> None:
        """Let go of every hash at or above this theta too, for all that is still to come."""
        self._theta = min(self._theta, theta)

    def state(self) -> tuple[int, npt.NDArray[np.uint64]]:
        """Theta, and the hashes below it: ascending, distinct, at most k, read-only."""
        self._settle()
        return self._theta, self._kept

    def _below_theta(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        if kernels_ready():
            from puffin.kernels.selection import hashes_below

            return hashes_below(np.require(hashes, np.uint64, ["C", "A"]), np.uint64(self._theta))
        below: npt.NDArray[np.uint64] = hashes[hashes < np.uint64(self._theta)]
        return below

    def _settle(self) -> None:
        merged = np.concatenate((self._kept, *self._pending))
        merged.sort()
        # Theta may have come down since a hash was taken.
        merged = merged[slice(*np.searchsorted(merged, np.array([1, self._theta], np.uint64)))]
        is_first = np.ones(len(merged), bool)
        np.not_equal(merged[1:], merged[:-1], out=is_first[1:])
        merged = merged[is_first]
        if len(merged) > self._k:
            self._theta = int(merged[self._k])
            merged = merged[: self._k].copy()  # a view would hold on to the rest
        merged.setflags(write=False)
        self._kept = merged
        self._pending = []
        self._pending_count = 0
