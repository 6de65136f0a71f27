"""
The hashes that a sketch may still take, out of many that it does not.

numpy guesses, value by value, whether one is taken, and each wrong guess costs as much as hashing a value. Here every
value is written, and the place moves on behind those that are taken.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels.compiler import NEW_UINT64S, UINT64, UINT64S, compiled

_ONE = np.uint64(1)


@compiled(NEW_UINT64S, UINT64S, UINT64)
def hashes_below(hashes: npt.NDArray[np.uint64], theta: np.uint64) -> npt.NDArray[np.uint64]:
    """The hashes above 0 and below theta, in their order."""
    taken = np.empty(len(hashes), np.uint64)
    count = 0
    beyond = theta - _ONE
    for i in range(len(hashes)):
        taken[count] = hashes[i]
        count += hashes[i] - _ONE < beyond  # 0 comes round to the largest number there is
    return taken[:count].copy()  # a view would hold on to the rest
