"""
Take the hashes below theta: select them, put them in order, or sum the rows of each in an open-addressing hash table.

numpy branches on every hash that it selects, and each mispredicted branch costs as much as hashing a value.
`hashes_below` writes every hash and advances the position only after those that it selects.

The table is one array with hash and rows side by side, so that a slot costs one cache line. The number of slots is a
power of two, and the search for a hash starts at the slot that its low bits name::

    slots    hash │ rows │ hash │ rows │ ...    a slot with hash 0 is free
"""

from __future__ import annotations

import numpy as np

from puffin.kernels.compiler import (
    INT64,
    NEW_INT64S,
    NEW_UINT64S,
    PAIR_OF_NEW_UINT64S,
    STRIDED_UINT64S,
    UINT64,
    UINT64S,
    Int64s,
    Uint64s,
    compiled,
    inlined,
)

_U = np.uint64
_ZERO, _ONE, _TWO = _U(0), _U(1), _U(2)
_BLOCK = 512  # hashes, which leaves room in the smallest table, of 4,096 slots
_MANY_SKIPPED = _U(7 << 60)  # an eighth of them, since all are below 2^63
_UNEVEN = 8  # sorting takes too long if a hash shares its bucket with this many others on average


@compiled(NEW_UINT64S, UINT64S, UINT64)
def hashes_below(hashes: Uint64s, theta: np.uint64) -> Uint64s:
    """The hashes above 0 and below theta, in their order."""
    taken = np.empty(len(hashes), np.uint64)
    count = 0
    beyond = theta - _ONE
    for i in range(len(hashes)):
        taken[count] = hashes[i]
        count += hashes[i] - _ONE < beyond  # 0 wraps around to the largest number
    return taken[:count].copy()  # a view would keep the whole array alive


@compiled(NEW_UINT64S, UINT64S)
def distinct(hashes: Uint64s) -> Uint64s:
    """Each hash above 0 once, in any order."""
    size = _ONE
    while size < _U(len(hashes)):
        size += size
    last = size + size - _ONE
    slots = np.zeros(size + size, np.uint64)
    found = np.empty(len(hashes), np.uint64)
    count = 0
    for i in range(len(hashes)):
        wanted = hashes[i]
        at = wanted & last
        while slots[at] != wanted:
            if slots[at] == _ZERO:
                slots[at] = wanted
                found[count] = wanted
                count += 1
                break
            at = (at + _ONE) & last
    return found[:count].copy()


@inlined
def _bucket(hash_: np.uint64, scale: np.float64, last: np.int64) -> np.uint64:
    # Without ``last``, which only a rounded number may exceed, the compiler takes three times as long for the loops.
    return _U(min(np.int64(np.float64(np.int64(hash_)) * scale), last))


@compiled(NEW_INT64S, UINT64S)
def order_of(hashes: Uint64s) -> Int64s:
    """
    The positions of hashes in ascending order, equal ones in their own order; none if the hashes are uneven.

    Hashes spread evenly, so one pass puts them near to their places. All of them are below 2^63.
    """
    count = len(hashes)
    order = np.empty(count, np.int64)
    size = 1
    while size < count:
        size += size
    last = np.int64(size)
    most = _ZERO
    for i in range(count):
        most = max(most, hashes[i])
    scale = np.float64(size) / (np.float64(np.int64(most)) + 1.0)
    ends = np.zeros(size + 3, np.int32)
    for i in range(count):
        ends[_bucket(hashes[i], scale, last) + _TWO] += 1
    pairs = np.int64(0)
    for i in range(size + 1):
        bucket = _U(i)
        pairs += np.int64(ends[bucket + _TWO]) * np.int64(ends[bucket + _TWO])
        ends[bucket + _TWO] += ends[bucket + _ONE]
    if pairs > _UNEVEN * count:
        return order[:0]
    near = np.zeros(count + 1, np.uint64)  # after a 0, before which no hash belongs
    for i in range(count):
        start = _bucket(hashes[i], scale, last) + _ONE
        to = _U(ends[start])
        near[to + _ONE] = hashes[i]
        order[to] = i
        ends[start] += 1
    for i in range(1, count):
        place = _U(i)
        moved, position = near[place + _ONE], order[place]
        while near[place] > moved:
            near[place + _ONE], order[place] = near[place], order[place - _ONE]
            place -= _ONE
        near[place + _ONE], order[place] = moved, position
    return order


@inlined
def _add(slots: Uint64s, wanted: np.uint64, rows: np.uint64) -> int:
    """Add rows to a hash in the table; 1 if it is new, otherwise 0."""
    last = _U((len(slots) >> 1) - 1)
    new = 0
    at = wanted & last
    while slots[at + at] != wanted:
        if slots[at + at] == _ZERO:
            slots[at + at] = wanted
            new = 1
            break
        at = (at + _ONE) & last
    slots[at + at + _ONE] += rows
    return new


@compiled(INT64, NEW_UINT64S, NEW_INT64S, UINT64S, STRIDED_UINT64S, UINT64, UINT64)
def add_rows(slots: Uint64s, used: Int64s, hashes: Uint64s, rows: Uint64s, least: np.uint64, theta: np.uint64) -> int:
    """
    Add the rows of each hash to the table; skip hashes below ``least``, which is 1 or more, and from theta on.

    Where many are skipped, those of a block are found first: a branch on each hash would often be mispredicted.

    Args:
        slots: The table; updated.
        used: One number, the used slots; updated.

    Returns:
        The number of hashes done: fewer than given if the table is half full, and perhaps a little more.
    """
    most = len(slots) >> 2
    span = theta - least
    taken = np.empty(_BLOCK, np.uint64)
    count, done = used[0], 0
    while done < len(hashes) and count < most:
        block = hashes[done : done + _BLOCK]
        rows_of = rows[done : done + _BLOCK]
        if span < _MANY_SKIPPED:
            found = _ZERO
            for i in range(len(block)):
                taken[found] = _U(i)
                found += _U(block[i] - least < span)  # fewer than ``least`` wrap around to the largest numbers
            for i in taken[:found]:
                count += _add(slots, block[i], rows_of[i])
        else:
            for i in range(len(block)):
                if block[i] - least < span:
                    count += _add(slots, block[i], rows_of[i])
        done += len(block)
    used[0] = count
    return done


@compiled(PAIR_OF_NEW_UINT64S, UINT64S, INT64, UINT64)
def rows_below(slots: Uint64s, used: int, theta: np.uint64) -> tuple[Uint64s, Uint64s]:
    """The hashes of a table that are below theta, in any order, and the rows of each."""
    hashes, rows = np.empty(used + 1, np.uint64), np.empty(used + 1, np.uint64)  # and one that is not below
    count = 0
    beyond = theta - _ONE
    for i in range(len(slots) >> 1):
        at = _U(i) + _U(i)
        hashes[count], rows[count] = slots[at], slots[at + _ONE]
        count += slots[at] - _ONE < beyond  # 0 wraps around to the largest number
    return hashes[:count], rows[:count]
