"""
Count every value in a table of bounded size; when it is full, count only values that may have many rows.

Buckets have the rows of all values whose hashes share some bits. A value goes into the table when its bucket is busy,
which it then stays. A value that comes late, or comes back, may have had as many rows as the floor: the most of a value
that was dropped or has not been looked at. The table is one array, three words for each slot. The number of slots is a
power of two, and the search for a hash starts at the slot that its low bits name::

    slots    hash │ rows │ slack and flag │ hash │ rows │ ...    a slot with hash 0 is free

Rows are those counted; slack is the floor at the time when the value came. The flag, the lowest bit of the third word,
says that the value was picked, since it has many rows.

Values below theta are picked too, and stay in the table as shadows, so that each is picked once. Their rows are not
counted before their bucket is busy: whether a value is found to have many rows must not depend on its hash.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels.compiler import INT64, NEW_INT64S, NEW_UINT64S, STRIDED_UINT64S, UINT64, UINT64S, compiled, inlined

_U = np.uint64
_ZERO, _ONE, _TWO, _THREE = _U(0), _U(1), _U(2), _U(3)
BUSY = _U(1 << 63)
FLAG = _U(1)
SHADOW = _U((1 << 64) - 2)  # without a flag
BUCKET_SHIFT = _U(16)
_LINEAR_BITS = 5
_LINEAR = 1 << _LINEAR_BITS  # fewer rows above the floor have a level for each number, others for each power of two
_LEVELS = _LINEAR + 64

Array = npt.NDArray[np.uint64]


@compiled(INT64, NEW_UINT64S, NEW_UINT64S, NEW_INT64S, UINT64S, STRIDED_UINT64S, UINT64S, NEW_INT64S)
def count_values(  # noqa: C901 - one loop; calls of functions would cost more than its branches
    slots: Array,
    buckets: Array,
    used: npt.NDArray[np.int64],
    hashes: Array,
    rows: Array,
    limits: Array,
    picked: npt.NDArray[np.int64],
) -> int:
    """
    Add the rows of each hash to the table; skip the hash 0.

    Args:
        slots: The table; updated.
        buckets: The rows of all values of each bucket, and a flag if it is busy; updated. A power of two of them.
        used: The used slots, and how many positions were picked; updated.
        limits: Floor, theta, the rows from which on a value is picked, and those from which on a bucket is busy.
        picked: Gets the positions of hashes whose value is wanted: new in the table and below theta, or with many rows.

    Returns:
        The number of hashes done: fewer than given if a new hash meets a table that is half full.
    """
    floor, theta, many, busy = limits[0], limits[1], limits[2], limits[3]
    last_bucket = _U(len(buckets) - 1)
    size = _U(len(slots) // 3)
    last = size - _ONE
    most = len(slots) // 6
    count = used[0]
    out = used[1]
    for i in range(len(hashes)):
        wanted = hashes[i]
        if wanted == _ZERO:
            continue
        bucket = (wanted >> BUCKET_SHIFT) & last_bucket
        in_bucket = buckets[bucket]
        is_busy = in_bucket + rows[i] >= busy  # a flag makes it so
        if is_busy:
            in_bucket |= BUSY
        elif wanted >= theta:
            buckets[bucket] = in_bucket + rows[i]
            continue
        slot = wanted & last
        at = slot * _THREE
        is_picked = False
        while slots[at] != wanted:
            if slots[at] == _ZERO:
                if count == most:
                    used[0] = count
                    used[1] = out
                    return i
                slots[at] = wanted
                slots[at + _TWO] = SHADOW
                count += 1
                is_picked = wanted < theta
                break
            slot = (slot + _ONE) & last
            at = slot * _THREE
        buckets[bucket] = in_bucket + rows[i]
        if is_busy:
            if slots[at + _TWO] == SHADOW:
                slots[at + _TWO] = floor << _ONE
            total = slots[at + _ONE] + rows[i]
            slots[at + _ONE] = total
            if total >= many and slots[at + _TWO] & _ONE == _ZERO:
                slots[at + _TWO] |= _ONE
                is_picked = True
        if is_picked:
            picked[out] = i
            out += 1
    used[0] = count
    used[1] = out
    return len(hashes)


@inlined
def _level(above: np.uint64) -> np.int64:
    level = np.int64(_LINEAR)
    rest = above >> _U(_LINEAR_BITS)
    if rest == _ZERO:
        return np.int64(above)
    while rest > _ONE:
        rest >>= _ONE
        level += 1
    return level


@compiled(UINT64, UINT64S, UINT64)
def least_common(slots: Array, floor: np.uint64) -> np.uint64:
    """The rows that a value needs to stay, if at most half of the values of a table stay."""
    levels = np.zeros(_LEVELS, np.int64)
    for i in range(len(slots) // 3):
        if slots[3 * i] != _ZERO and slots[3 * i + 2] != SHADOW:
            levels[_level(slots[3 * i + 1] + (slots[3 * i + 2] >> _ONE) - floor)] += 1
    count = levels.sum()
    left = count
    level = 0
    while left > count // 2:
        left -= levels[level]
        level += 1
    return floor + (_U(level) if level <= _LINEAR else _ONE << _U(level - _LINEAR + _LINEAR_BITS))


@compiled(INT64, NEW_UINT64S, UINT64S, UINT64S, UINT64, UINT64)
def move_values(slots: Array, full: Array, buckets: Array, least: np.uint64, theta: np.uint64) -> int:
    """Move values with so many rows in busy buckets, and shadows below theta, to an empty table; how many these are."""
    last = _U(len(slots) // 3 - 1)
    last_bucket = _U(len(buckets) - 1)
    kept = 0
    for i in range(len(full) // 3):
        wanted = full[3 * i]
        if full[3 * i + 2] == SHADOW:
            is_kept = _ZERO < wanted < theta
        else:
            is_busy = buckets[(wanted >> BUCKET_SHIFT) & last_bucket] >= BUSY
            is_kept = wanted != _ZERO and is_busy and full[3 * i + 1] + (full[3 * i + 2] >> _ONE) >= least
        if is_kept:
            slot = wanted & last
            while slots[slot * _THREE] != _ZERO:
                slot = (slot + _ONE) & last
            slots[slot * _THREE] = wanted
            slots[slot * _THREE + _ONE] = full[3 * i + 1]
            slots[slot * _THREE + _TWO] = full[3 * i + 2]
            kept += 1
    return kept
