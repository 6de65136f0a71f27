"""
Count every value in a table of bounded size; when it is full, count only values that may have many rows.

Buckets have the rows of all values whose hashes share some bits. A bucket is busy when it has more rows than the floor,
and the values of busy buckets go into the table. A value that comes late, or comes back, may have had as many rows as
the floor: no value that was dropped or has not been looked at has more. The table is one array, four words for each
slot. The number of slots is a power of two, and the search for a hash starts at the slot that its low bits name::

    slots    hash │ rows │ slack │ place │ hash │ rows │ ...    a slot with hash 0 is free

Rows are those counted; slack is the floor at the time when the value came. The place is that of the value among those
that were picked: since it has many rows, or a hash below theta.

Values below theta stay in the table, so that each is picked once; while their bucket is not busy, as shadows, whose
rows are not counted: whether a value is found to have many rows must not depend on its hash.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puffin.kernels.compiler import (
    INT64,
    NEW_INT64S,
    NEW_UINT32S,
    NEW_UINT64S,
    STRIDED_UINT64S,
    UINT64,
    UINT64S,
    compiled,
    inlined,
)

_U = np.uint64
_ZERO, _ONE, _TWO, _THREE, _FOUR = _U(0), _U(1), _U(2), _U(3), _U(4)
SHADOW = NO_PLACE = _U((1 << 64) - 1)
BUCKET_SHIFT = _U(16)
MOST_IN_BUCKET = _U((1 << 32) - 1)  # where counting ends; such a bucket stays busy
_LINEAR_BITS = 5
_LINEAR = 1 << _LINEAR_BITS  # fewer rows above the floor have a level for each number, others for each power of two
_LEVELS = _LINEAR + 64

Array = npt.NDArray[np.uint64]
Buckets = npt.NDArray[np.uint32]


@compiled(INT64, NEW_UINT64S, NEW_UINT32S, NEW_INT64S, UINT64S, STRIDED_UINT64S, UINT64S, NEW_INT64S)
def count_values(
    slots: Array,
    buckets: Buckets,
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
        buckets: The rows of all values of each bucket; updated. A power of two of them.
        used: The used slots, and how many positions were picked; updated.
        limits: Floor, theta, the rows from which on a value is picked, and the place of the first that is.
        picked: Gets the positions of hashes whose value is wanted.

    Returns:
        The number of hashes done: fewer than given if a new hash meets a table that is half full.
    """
    floor, theta, many, first = limits[0], limits[1], limits[2], limits[3]
    calm = min(floor, MOST_IN_BUCKET - _ONE)
    last_bucket = _U(len(buckets) - 1)
    last = _U((len(slots) >> 2) - 1)
    most = len(slots) >> 3
    count = used[0]
    out = used[1]
    for i in range(len(hashes)):
        wanted = hashes[i]
        if wanted == _ZERO:
            continue
        bucket = (wanted >> BUCKET_SHIFT) & last_bucket
        in_bucket = _U(buckets[bucket]) + rows[i]
        is_busy = in_bucket > calm
        if not is_busy and wanted >= theta:
            buckets[bucket] = in_bucket
            continue
        slot = wanted & last
        at = slot * _FOUR
        while slots[at] != wanted:
            if slots[at] == _ZERO:
                if count == most:
                    used[0] = count
                    used[1] = out
                    return i
                slots[at] = wanted
                slots[at + _TWO] = SHADOW
                slots[at + _THREE] = NO_PLACE
                count += 1
                break
            slot = (slot + _ONE) & last
            at = slot * _FOUR
        buckets[bucket] = min(in_bucket, MOST_IN_BUCKET)
        total = _ZERO
        if is_busy:
            if slots[at + _TWO] == SHADOW:
                slots[at + _TWO] = floor
            total = slots[at + _ONE] + rows[i]
            slots[at + _ONE] = total
        if (total >= many or wanted < theta) and slots[at + _THREE] == NO_PLACE:
            slots[at + _THREE] = first + _U(out)
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
    for i in range(0, len(slots), 4):
        if slots[i] != _ZERO and slots[i + 2] != SHADOW:
            levels[_level(slots[i + 1] + slots[i + 2] - floor)] += 1
    count = levels.sum()
    left = count
    level = 0
    while left > count // 2:
        left -= levels[level]
        level += 1
    return floor + (_U(level) if level <= _LINEAR else _ONE << _U(level - _LINEAR + _LINEAR_BITS))


@compiled(INT64, NEW_UINT64S, UINT64S, NEW_UINT32S, UINT64, UINT64)
def move_values(slots: Array, full: Array, buckets: Buckets, floor: np.uint64, theta: np.uint64) -> int:
    """Empty a table, and move to it the values with more rows than the floor, and all below theta; how many."""
    slots[:] = _ZERO
    calm = min(floor, MOST_IN_BUCKET - _ONE)
    last = _U((len(slots) >> 2) - 1)
    last_bucket = _U(len(buckets) - 1)
    kept = 0
    for i in range(0, len(full), 4):
        wanted = full[i]
        is_counted = full[i + 2] != SHADOW and full[i + 1] + full[i + 2] > floor
        is_counted &= _U(buckets[(wanted >> BUCKET_SHIFT) & last_bucket]) > calm
        if wanted != _ZERO and (is_counted or wanted < theta):
            slot = wanted & last
            while slots[slot * _FOUR] != _ZERO:
                slot = (slot + _ONE) & last
            at = slot * _FOUR
            slots[at] = wanted
            slots[at + _ONE] = full[i + 1] if is_counted else _ZERO
            slots[at + _TWO] = full[i + 2] if is_counted else SHADOW
            slots[at + _THREE] = full[i + 3]
            kept += 1
    return kept


@compiled(NEW_INT64S, NEW_UINT64S, UINT64, UINT64)
def keep_places(slots: Array, theta: np.uint64, many: np.uint64) -> npt.NDArray[np.int64]:
    """The places of values that are still wanted, which get new ones: those in this order."""
    kept = np.empty(len(slots) >> 3, np.int64)
    count = 0
    for i in range(0, len(slots), 4):
        if slots[i] != _ZERO and slots[i + 3] != NO_PLACE:
            if slots[i] < theta or slots[i + 1] >= many:
                kept[count] = np.int64(slots[i + 3])
                slots[i + 3] = _U(count)
                count += 1
            else:
                slots[i + 3] = NO_PLACE
    return kept[:count].copy()
