"""
Count every value in a table of bounded size; when it is full, count only values that may have many rows.

Buckets count the rows of all values whose hashes share some bits, and may run ahead of the table. A bucket is busy when
it has more rows than the floor, and the values of busy buckets go into the table. A value that enters late, or again,
may have had up to ``floor`` rows before: dropped and skipped values have at most that many. The table is one array,
four words for each slot, two of which are in its second half since they are seldom looked at. The number of slots is a
power of two, and the search for a hash starts at the slot that its low bits name::

    slots    hash │ rows │ hash │ rows │ ... │ slack │ place │ slack │ place │ ...    a slot with hash 0 is free

Rows were counted; slack is the most rows the value may have had before. The place is its position among the picked
values, which are frequent or have a hash below theta.

Values below theta stay in the table, so that each is picked once; if their bucket is not busy they stay as shadows with
0 rows, because sampled values must not be found frequent more easily than others.
"""

from __future__ import annotations

import numpy as np

from puffin.kernels.compiler import (
    BYTES,
    INT64,
    INT64S,
    NEW_BYTES,
    NEW_INT64S,
    NEW_UINT32S,
    NEW_UINT64S,
    NONE,
    STRIDED_UINT64S,
    THREE_INT64S,
    UINT64,
    UINT64S,
    Bytes,
    Int64s,
    Uint32s,
    Uint64s,
    compiled,
    inlined,
)

_U = np.uint64
_ZERO, _ONE = _U(0), _U(1)
NO_PLACE = _U((1 << 64) - 1)
BUCKET_SHIFT = _U(16)
MOST_IN_BUCKET = _U((1 << 32) - 1)  # where counting ends; such a bucket stays busy
NO_ROWS, GIVEN_ROWS, ONE_ROW = _ZERO, _ONE, _U(2)  # what is added to the bucket of each hash
_BLOCK = 512  # hashes whose buckets are looked at before their values are looked up
_FEW_LOOKED_UP = _U(_BLOCK // 8)
_LINEAR_BITS = 5
_LINEAR = 1 << _LINEAR_BITS  # fewer rows above the floor have a level for each number, others for each power of two
_LEVELS = _LINEAR + 64


@inlined
def _count_buckets(
    buckets: Uint32s, hashes: Uint64s, rows: Uint64s, limits: tuple[np.uint64, np.uint64, np.uint64], looked_up: Uint64s
) -> np.uint64:
    """
    Add to buckets, unless the last of the limits is 0.

    ``looked_up`` gets twice the position of each hash to look up, one more if its bucket is busy.
    """
    calm, theta, adds = limits
    last = _U(len(buckets) - 1)
    found = _ZERO
    if last == _ZERO:  # the table holds every value
        for offset in range(len(hashes)):
            looked_up[offset] = _U(offset + offset) + _ONE
        return _U(len(hashes))
    for offset in range(len(hashes)):
        i = _U(offset)  # numba tests of other positions whether they count from the end
        bucket = (hashes[i] >> BUCKET_SHIFT) & last
        in_bucket = _U(buckets[bucket]) + rows[i] * adds
        buckets[bucket] = min(in_bucket, MOST_IN_BUCKET)
        is_busy = in_bucket > calm
        looked_up[found] = i + i + _U(is_busy)
        found += _U(is_busy | (hashes[i] < theta))  # no branch, which would often be mispredicted
    return found


@inlined
def _count_ones(
    buckets: Uint32s, hashes: Uint64s, limits: tuple[np.uint64, np.uint64], looked_up: Uint64s
) -> np.uint64:
    """
    As `_count_buckets`, for one row each, where no bucket gets full.

    A branch is faster than writing every position, as long as few are looked up.
    """
    calm, theta = limits
    last = _U(len(buckets) - 1)
    found = _ZERO
    for offset in range(len(hashes)):
        i = _U(offset)
        bucket = (hashes[i] >> BUCKET_SHIFT) & last
        in_bucket = _U(buckets[bucket]) + _ONE
        buckets[bucket] = in_bucket
        if (in_bucket > calm) | (hashes[i] < theta):
            looked_up[found] = i + i + _U(in_bucket > calm)
            found += _ONE
    return found


@compiled(THREE_INT64S, NEW_UINT64S, NEW_UINT32S, INT64, UINT64S, STRIDED_UINT64S, UINT64S, NEW_INT64S)
def count_values(
    slots: Uint64s,
    buckets: Uint32s,
    used: int,
    hashes: Uint64s,
    rows: Uint64s,
    limits: Uint64s,
    picked: Int64s,
) -> tuple[int, int, int]:
    """
    Add the rows of each hash to the table, at least one for each; skip the hash 0.

    Values are looked up together, so that the processor waits for several of them at a time.

    Args:
        slots: The table; updated.
        buckets: The rows of all values of each bucket; updated. A power of two of them.
        used: The used slots.
        limits: Floor, theta, the rows that make a value frequent, the next free place, the slack of values that come,
            and `NO_ROWS` if the buckets have these rows already, else `GIVEN_ROWS`, or `ONE_ROW` if each hash has one
            and no bucket gets more than `MOST_IN_BUCKET`.
        picked: Gets the positions of hashes whose value is wanted.

    Returns:
        The number of hashes done, fewer than given if the table is half full, and perhaps a little more; the slots used
        then; how many positions were picked.
    """
    floor, theta, many, first, slack, added = limits[0], limits[1], limits[2], limits[3], limits[4], limits[5]
    calm = min(floor, MOST_IN_BUCKET - _ONE)
    last = _U((len(slots) >> 2) - 1)
    second = _U(len(slots) >> 1)
    most = len(slots) >> 3
    looked_up = np.empty(_BLOCK, np.uint64)
    is_one_each = added == ONE_ROW and len(buckets) > 1
    adds = min(added, GIVEN_ROWS)
    count, out, done = used, 0, 0
    found = _ZERO
    while done < len(hashes) and count < most:
        stop = min(done + _BLOCK, len(hashes))
        if is_one_each and found < _FEW_LOOKED_UP:
            found = _count_ones(buckets, hashes[done:stop], (calm, theta), looked_up)
        else:
            found = _count_buckets(buckets, hashes[done:stop], rows[done:stop], (calm, theta, adds), looked_up)
        for each in looked_up[:found]:
            i = _U(done) + (each >> _ONE)
            wanted = hashes[i]
            if wanted == _ZERO:
                continue
            slot = wanted & last
            at = slot + slot
            is_sampled = False  # the others below theta have been picked when they came
            while slots[at] != wanted:
                if slots[at] == _ZERO:
                    slots[at] = wanted
                    slots[second + at + _ONE] = NO_PLACE
                    count += 1
                    is_sampled = wanted < theta
                    break
                slot = (slot + _ONE) & last
                at = slot + slot
            becomes_many = False
            if each & _ONE:
                before = slots[at + _ONE]
                if before == _ZERO:
                    slots[second + at] = slack
                total = before + rows[i]
                slots[at + _ONE] = total
                becomes_many = before < many and total >= many
            if is_sampled or (becomes_many and slots[second + at + _ONE] == NO_PLACE):
                slots[second + at + _ONE] = first + _U(out)
                picked[out] = i
                out += 1
        done = stop
    return done, count, out


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
def least_common(slots: Uint64s, floor: np.uint64) -> np.uint64:
    """The rows that a value needs to stay, if at most half of the values of a table stay."""
    levels = np.zeros(_LEVELS, np.int64)
    second = _U(len(slots) >> 1)
    for slot in range(len(slots) >> 2):
        at = _U(slot) + _U(slot)
        rows = slots[at + _ONE]
        levels[_level(max(rows + slots[second + at], floor) - floor)] += rows != _ZERO  # a branch would take longer
    count = levels.sum()
    left = count
    level = 0
    while left > count // 2:
        left -= levels[level]
        level += 1
    return floor + (_U(level) if level <= _LINEAR else _ONE << _U(level - _LINEAR + _LINEAR_BITS))


@compiled(NONE, NEW_UINT32S, UINT64S, STRIDED_UINT64S)
def fill_buckets(buckets: Uint32s, hashes: Uint64s, rows: Uint64s) -> None:
    """Add the rows of each hash to its bucket."""
    last = _U(len(buckets) - 1)
    for offset in range(len(hashes)):
        i = _U(offset)
        bucket = (hashes[i] >> BUCKET_SHIFT) & last
        buckets[bucket] = min(_U(buckets[bucket]) + rows[i], MOST_IN_BUCKET)


@compiled(NEW_UINT64S, UINT64S, INT64, NEW_UINT32S, UINT64, UINT64)
def values_above(slots: Uint64s, used: int, buckets: Uint32s, floor: np.uint64, theta: np.uint64) -> Uint64s:
    """The four words of each value in a busy bucket with more rows than the floor, or below theta, as a shadow."""
    second = _U(len(slots) >> 1)
    calm = min(floor, MOST_IN_BUCKET - _ONE)
    last_bucket = _U(len(buckets) - 1)
    kept = np.empty(4 * used + 4, np.uint64)  # and those of a slot that is not kept
    end = _ZERO
    for slot in range(len(slots) >> 2):
        at = _U(slot) + _U(slot)
        hash_, rows, slack = slots[at], slots[at + _ONE], slots[second + at]
        is_counted = (rows != _ZERO) & (rows + slack > floor)
        is_counted &= _U(buckets[(hash_ >> BUCKET_SHIFT) & last_bucket]) > calm
        kept[end], kept[end + _ONE] = hash_, rows * _U(is_counted)
        kept[end + _U(2)], kept[end + _U(3)] = slack, slots[second + at + _ONE]
        end += _U(4) * _U(is_counted | (hash_ - _ONE < theta - _ONE))  # 0 wraps around to the largest number
    return kept[:end]


@compiled(INT64, NEW_UINT64S, UINT64S)
def put_values(slots: Uint64s, values: Uint64s) -> int:
    """Put values, four words each, into an empty table; how many."""
    second = _U(len(slots) >> 1)
    last = _U((len(slots) >> 2) - 1)
    for value in range(len(values) >> 2):
        start = _U(4) * _U(value)
        slot = values[start] & last
        while slots[slot + slot] != _ZERO:
            slot = (slot + _ONE) & last
        at = slot + slot
        slots[at], slots[at + _ONE] = values[start], values[start + _ONE]
        slots[second + at], slots[second + at + _ONE] = values[start + _U(2)], values[start + _U(3)]
    return len(values) >> 2


@compiled(NEW_INT64S, NEW_UINT64S, UINT64, UINT64)
def keep_places(slots: Uint64s, theta: np.uint64, many: np.uint64) -> Int64s:
    """The places of values that are still wanted, which get new ones: those in this order."""
    kept = np.empty(len(slots) >> 2, np.int64)
    second = _U(len(slots) >> 1)
    count = 0
    for slot in range(len(slots) >> 2):
        at = _U(slot) + _U(slot)
        place = second + at + _ONE
        if slots[at] != _ZERO and slots[place] != NO_PLACE:
            if slots[at] < theta or slots[at + _ONE] >= many:
                kept[count] = np.int64(slots[place])
                slots[place] = _U(count)
                count += 1
            else:
                slots[place] = NO_PLACE
    return kept[:count].copy()


@compiled(NEW_BYTES, BYTES, INT64S, INT64S, INT64, NEW_INT64S)
def pick_strings(
    data: Bytes,
    offsets: Int64s,
    positions: Int64s,
    most: int,
    ends: Int64s,
) -> Bytes:
    """
    The bytes of the strings at these positions, at most ``most`` of each.

    ``ends`` is filled with their offsets, one more than there are positions. Positions and offsets are not checked.
    """
    ends[0] = 0
    for i in range(len(positions)):
        start = offsets[positions[i]]
        ends[i + 1] = ends[i] + min(offsets[positions[i] + 1] - start, most)
    picked = np.empty(ends[len(positions)], np.uint8)
    for i in range(len(positions)):
        start = offsets[positions[i]]
        for place in range(ends[i + 1] - ends[i]):
            picked[ends[i] + place] = data[start + place]
    return picked
