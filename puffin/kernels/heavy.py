"""
Count every value in a table of bounded size; when it is full, count only values that may have many rows.

Buckets have the rows of all values whose hashes share some bits. A bucket is busy when it has more rows than the floor,
and the values of busy buckets go into the table. A value that comes late, or comes back, may have had as many rows as
the floor: no value that was dropped or has not been looked at has more. The table is one array, four words for each
slot, two of which are in its second half since they are seldom looked at. The number of slots is a power of two, and
the search for a hash starts at the slot that its low bits name::

    slots    hash │ rows │ hash │ rows │ ... │ slack │ place │ slack │ place │ ...    a slot with hash 0 is free

Rows are those counted; slack is the floor at the time when the value came. The place is that of the value among those
that were picked: since it has many rows, or a hash below theta.

Values below theta stay in the table, so that each is picked once; while their bucket is not busy, as shadows, whose
rows are not counted, and which have none: whether a value is found to have many rows must not depend on its hash.
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
_ZERO, _ONE = _U(0), _U(1)
NO_PLACE = _U((1 << 64) - 1)
BUCKET_SHIFT = _U(16)
MOST_IN_BUCKET = _U((1 << 32) - 1)  # where counting ends; such a bucket stays busy
_BLOCK = 512  # hashes whose buckets are looked at before their values are looked up
_LINEAR_BITS = 5
_LINEAR = 1 << _LINEAR_BITS  # fewer rows above the floor have a level for each number, others for each power of two
_LEVELS = _LINEAR + 64

Array = npt.NDArray[np.uint64]
Buckets = npt.NDArray[np.uint32]


@inlined
def _count_buckets(
    buckets: Buckets, hashes: Array, rows: Array, limits: tuple[np.uint64, np.uint64], looked_up: Array
) -> np.uint64:
    """Add to buckets; ``looked_up`` gets twice the position of each hash to look up, one more if its bucket is busy."""
    calm, theta = limits
    last = _U(len(buckets) - 1)
    found = _ZERO
    for offset in range(len(hashes)):
        i = _U(offset)  # numba tests of other positions whether they count from the end
        bucket = (hashes[i] >> BUCKET_SHIFT) & last
        in_bucket = _U(buckets[bucket]) + rows[i]
        buckets[bucket] = min(in_bucket, MOST_IN_BUCKET)
        is_busy = in_bucket > calm
        if is_busy or hashes[i] < theta:
            looked_up[found] = i + i + _U(is_busy)
            found += _ONE
    return found


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
    Add the rows of each hash to the table, at least one for each; skip the hash 0.

    Values are looked up together, so that the processor waits for several of them at a time.

    Args:
        slots: The table; updated.
        buckets: The rows of all values of each bucket; updated. A power of two of them.
        used: The used slots, and how many positions were picked; updated.
        limits: Floor, theta, the rows from which on a value is picked, and the place of the first that is.
        picked: Gets the positions of hashes whose value is wanted.

    Returns:
        The number of hashes done: fewer than given if the table is half full, and perhaps a little more.
    """
    floor, theta, many, first = limits[0], limits[1], limits[2], limits[3]
    calm = min(floor, MOST_IN_BUCKET - _ONE)
    last = _U((len(slots) >> 2) - 1)
    seldom = _U(len(slots) >> 1)
    most = len(slots) >> 3
    looked_up = np.empty(_BLOCK, np.uint64)
    count, out, done = used[0], used[1], 0
    while done < len(hashes) and count < most:
        stop = min(done + _BLOCK, len(hashes))
        found = _count_buckets(buckets, hashes[done:stop], rows[done:stop], (calm, theta), looked_up)
        for each in looked_up[:found]:
            i = _U(done) + (each >> _ONE)
            wanted = hashes[i]
            if wanted == _ZERO:
                continue
            slot = wanted & last
            at = slot + slot
            while slots[at] != wanted:
                if slots[at] == _ZERO:
                    slots[at] = wanted
                    slots[seldom + at + _ONE] = NO_PLACE
                    count += 1
                    break
                slot = (slot + _ONE) & last
                at = slot + slot
            total = _ZERO
            if each & _ONE:
                total = slots[at + _ONE]
                if total == _ZERO:
                    slots[seldom + at] = floor
                total += rows[i]
                slots[at + _ONE] = total
            if (total >= many or wanted < theta) and slots[seldom + at + _ONE] == NO_PLACE:
                slots[seldom + at + _ONE] = first + _U(out)
                picked[out] = i
                out += 1
        done = stop
    used[0], used[1] = count, out
    return done


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
    seldom = _U(len(slots) >> 1)
    for slot in range(len(slots) >> 2):
        at = _U(slot) + _U(slot)
        if slots[at + _ONE] != _ZERO:
            levels[_level(slots[at + _ONE] + slots[seldom + at] - floor)] += 1
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
    seldom, seldom_in_full = _U(len(slots) >> 1), _U(len(full) >> 1)
    slots[:seldom] = _ZERO
    calm = min(floor, MOST_IN_BUCKET - _ONE)
    last = _U((len(slots) >> 2) - 1)
    last_bucket = _U(len(buckets) - 1)
    kept = 0
    for old in range(len(full) >> 2):
        was = _U(old) + _U(old)
        wanted, rows, slack = full[was], full[was + _ONE], full[seldom_in_full + was]
        is_counted = rows != _ZERO and rows + slack > floor
        is_counted &= _U(buckets[(wanted >> BUCKET_SHIFT) & last_bucket]) > calm
        if wanted != _ZERO and (is_counted or wanted < theta):
            slot = wanted & last
            while slots[slot + slot] != _ZERO:
                slot = (slot + _ONE) & last
            at = slot + slot
            slots[at] = wanted
            slots[at + _ONE] = rows if is_counted else _ZERO
            slots[seldom + at] = slack
            slots[seldom + at + _ONE] = full[seldom_in_full + was + _ONE]
            kept += 1
    return kept


@compiled(NEW_INT64S, NEW_UINT64S, UINT64, UINT64)
def keep_places(slots: Array, theta: np.uint64, many: np.uint64) -> npt.NDArray[np.int64]:
    """The places of values that are still wanted, which get new ones: those in this order."""
    kept = np.empty(len(slots) >> 2, np.int64)
    seldom = _U(len(slots) >> 1)
    count = 0
    for slot in range(len(slots) >> 2):
        at = _U(slot) + _U(slot)
        place = seldom + at + _ONE
        if slots[at] != _ZERO and slots[place] != NO_PLACE:
            if slots[at] < theta or slots[at + _ONE] >= many:
                kept[count] = np.int64(slots[place])
                slots[place] = _U(count)
                count += 1
            else:
                slots[place] = NO_PLACE
    return kept[:count].copy()
