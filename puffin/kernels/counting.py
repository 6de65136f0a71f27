"""
Rows per hash, added up in an open-addressing hash table.

The table is one array, hash and rows side by side, so that a look at a slot costs one cache line. Its number of slots
is a power of two, and a hash is looked for from the slot that its low bits name::

    slots    hash │ rows │ hash │ rows │ ...    a slot without a hash, 0, is free
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels.compiler import INT64, NEW_INT64S, NEW_UINT64S, STRIDED_UINT64S, UINT64, UINT64S, compiled

_U = np.uint64
_ZERO, _ONE = _U(0), _U(1)


@compiled(INT64, NEW_UINT64S, NEW_INT64S, UINT64S, STRIDED_UINT64S, UINT64)
def add_rows(
    slots: npt.NDArray[np.uint64],
    used: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.uint64],
    theta: np.uint64,
) -> int:
    """
    Add rows to the table, as long as no more than half of its slots are used.

    Args:
        slots: The table, which is written to.
        used: One number, the slots that are used, which is kept up to date.
        hashes: Those of 0, or at or above ``theta``, are passed over.
        rows: How many rows have each hash.

    Returns:
        How many of the hashes are done; less than all if the next one is new to a table half full.
    """
    last = _U((len(slots) >> 1) - 1)
    most = len(slots) >> 2
    beyond = theta - _ONE
    count = used[0]
    for i in range(len(hashes)):
        wanted = hashes[i]
        if wanted - _ONE >= beyond:  # 0 comes round to the largest number there is
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
