"""
Take the hashes below theta: select them, or sum the rows of each in an open-addressing hash table.

numpy branches on every hash that it selects, and each mispredicted branch costs as much as hashing a value.
`hashes_below` writes every hash and advances the position only after those that it selects.

The table is one array with hash and rows side by side, so that a slot costs one cache line. The number of slots is a
power of two, and the search for a hash starts at the slot that its low bits name::

    slots    hash │ rows │ hash │ rows │ ...    a slot with hash 0 is free
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels.compiler import INT64, NEW_INT64S, NEW_UINT64S, STRIDED_UINT64S, UINT64, UINT64S, compiled

_U = np.uint64
_ZERO, _ONE = _U(0), _U(1)


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


@compiled(INT64, NEW_UINT64S, NEW_INT64S, UINT64S, STRIDED_UINT64S, UINT64)
def add_rows(
    slots: npt.NDArray[np.uint64],
    used: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.uint64],
    theta: np.uint64,
) -> int:
    """
    Add the rows of each hash to the table; skip hashes that are 0 or not below ``theta``.

    Args:
        slots: The table; updated.
        used: One number, the used slots; updated.

    Returns:
        The number of hashes done: fewer than given if a new hash meets a table that is half full.
    """
    last = _U((len(slots) >> 1) - 1)
    most = len(slots) >> 2
    beyond = theta - _ONE
    count = used[0]
    for i in range(len(hashes)):
        wanted = hashes[i]
        if wanted - _ONE >= beyond:  # 0 wraps around to the largest number
            continue
        at = wanted & last
        while slots[at + at] != wanted:
            if slots[at + at] == _ZERO:
                if count == most:
                    used[0] = count
                    return i
                slots[at + at] = wanted
                count += 1
                break
            at = (at + _ONE) & last
        slots[at + at + _ONE] += rows[i]
    used[0] = count
    return len(hashes)
