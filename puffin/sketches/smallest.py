"""
The running state behind a sketch: the k smallest distinct hashes so far, and theta, the next one above them.

It drops hashes from the running theta on before it sorts anything, so once it holds k hashes a batch costs one
comparison per hash. The others wait until they are worth a sort; sorting and comparing neighbours finds repetitions
much faster than hashing does (`np.unique`). Memory stays within a few times k.
"""

from __future__ import annotations

import numpy as np

from puffin.kernels import kernels_ready
from puffin.sketches.hash_arrays import Hashes, is_first_of_run, order_of
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.serialized import for_kernel

_LEAST_WORTH_SORTING = 1 << 14
_PART = 32  # one in 32 hashes is counted to estimate how many there are
_DEVIATIONS = 4  # standard deviations of safety margin


def distinct_below(hashes: Hashes, theta: int) -> float:
    """An estimate of the distinct hashes below theta, from a part of them. Needs the kernels."""
    from puffin.kernels.hashes import distinct, hashes_below

    return _PART * len(distinct(hashes_below(hashes, np.uint64(max(1, theta // _PART)))))


def theta_of(values: float, most: int, theta: int) -> int:
    """A lower theta that probably leaves a little more than ``most`` of these ``values`` hashes below ``theta``."""
    aim = most + _DEVIATIONS * (_PART * most) ** 0.5
    return theta if values <= aim else int(theta * (aim / values))


class SmallestHashes:
    """Takes hashes in any order, any number of times."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._theta = MAX_THETA
        self._kept = np.empty(0, np.uint64)
        self._pending: list[Hashes] = []
        self._pending_count = 0
        self._pending_limit = max(k, _LEAST_WORTH_SORTING)

    def add(self, hashes: Hashes) -> None:
        """Add hashes; ignores 0, as other implementations do."""
        for start in range(0, len(hashes), self._pending_limit):
            below = self._below_theta(hashes[start : start + self._pending_limit])
            if len(below) > 0:
                self._pending.append(below)
                self._pending_count += len(below)
            if self._pending_count >= self._pending_limit:
                self._settle()

    def lower_theta(self, theta: int) -> None:
        """Drop every hash at or above this theta, now and later."""
        self._theta = min(self._theta, theta)

    def state(self) -> tuple[int, Hashes]:
        """Theta, and at most k hashes below it: ascending, distinct, read-only."""
        self._settle()
        return self._theta, self._kept

    def _below_theta(self, hashes: Hashes) -> Hashes:
        if kernels_ready():
            from puffin.kernels.hashes import distinct, hashes_below

            below = hashes_below(for_kernel(hashes), np.uint64(self._theta))
            return distinct(below)  # else columns of few values would be sorted again and again
        return hashes[hashes < np.uint64(self._theta)]

    def _settle(self) -> None:
        merged = np.concatenate((self._kept, *self._pending))
        merged = merged[order_of(merged)]
        # Theta may be lower than when a hash was added.
        merged = merged[slice(*np.searchsorted(merged, np.array([1, self._theta], np.uint64)))]
        merged = merged[is_first_of_run(merged)]
        if len(merged) > self._k:
            self._theta = int(merged[self._k])
            merged = merged[: self._k].copy()  # a view would keep the rest in memory
        merged.setflags(write=False)
        self._kept = merged
        self._pending = []
        self._pending_count = 0
