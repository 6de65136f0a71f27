"""
Select the few hashes that a sketch can still take.

numpy branches on every value, and each mispredicted branch costs as much as hashing a value. This loop writes every
value and advances the position only after those that it selects.
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
        count += hashes[i] - _ONE < beyond  # 0 wraps around to the largest number
    return taken[:count].copy()  # a view would keep the whole array alive
