"""0.0 and -0.0, and NaNs: each has a hash of its own, and they are one value in comparisons, groups and joins."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from puffin.estimates.counted import Counted
from puffin.estimates.interval import Interval
from puffin.estimates.others import hashes_by
from puffin.sketches.distribution import Distribution
from puffin.sketches.hash_arrays import Hashes, bucket_of, places
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.single_hash import hash_one
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.values.value_bytes import serializer


@functools.cache
def zeros_of(type_: str) -> Hashes | None:
    """The two hashes, ascending; None for a type without -0.0."""
    return np.sort(np.array(hashes_by(type_)(0.0), np.uint64)) if type_ in ("float", "double") else None


def rarer_zero(type_: str, found: Distribution, counts: RowCounts | None) -> Interval:
    """The rows of the one of both that has fewer, of a type that has both."""
    one, other = rows_of_zeros(type_, found, counts)
    lower = min(one.lower, other.lower)
    return Interval(lower, lower, min(one.upper, other.upper))


def rows_of_zeros(type_: str, found: Distribution, counts: RowCounts | None) -> tuple[Interval, Interval]:
    """The rows of 0.0 and those of -0.0, of a type that has both."""
    return _rows_of(hashes_by(type_)(0.0), found, counts)


def rows_of_nans(type_: str, found: Distribution, counts: RowCounts | None) -> tuple[Interval, Interval]:
    """The rows of NaN and those of the same with the other sign, which processors make; each has its hash."""
    to_bytes = serializer(type_)
    return _rows_of([hash_one(to_bytes(math.copysign(math.nan, sign))) for sign in (1, -1)], found, counts)


def nans_beyond_one(nans: Sequence[Interval], every: Interval) -> Interval:
    """How many hashes NaNs have beside one, if these are the rows of some of them."""
    known = sum(nan.lower > 0 for nan in nans)
    others = max(0.0, every.upper - sum(nan.lower for nan in nans))
    least = max(0.0, known - 1.0)
    return Interval(least, least, max(0.0, known + others - 1))


def as_one(side: Counted, zeros: Hashes | None) -> Counted:
    """
    The rows of a side of a join with both as one value; ``zeros`` are those of its type.

    It has the larger of the two hashes, so that it is below theta only if both are.
    """
    if zeros is None:
        return side
    at, has = places(zeros, side.hashes)
    if not has.any():
        return side
    low, high, is_heavy = (each[at[has]] for each in (side.low, side.high, side.is_heavy))
    more = sum(_most_rows(side, zeros[i : i + 1]) for i in np.flatnonzero(~has))
    others = side.without(zeros)
    rest = others.rest
    if rest is not None:
        rest += -side.likely * more if is_heavy.any() else float(low.sum())
    place = int(others.hashes.searchsorted(zeros[1]))
    return replace(
        others,
        hashes=np.insert(others.hashes, place, zeros[1]),
        low=np.insert(others.low, place, low.sum()),
        high=np.insert(others.high, place, high.sum() + more),
        is_heavy=np.insert(others.is_heavy, place, is_heavy.any()),
        rest=rest,
    )


def sketch_as_one(sketch: ThetaSketch, zeros: Hashes | None) -> ThetaSketch:
    """A sketch with both as one value, likewise."""
    if zeros is None or not places(zeros, sketch.hashes)[1].any():
        return sketch
    others = np.setdiff1d(sketch.hashes, zeros)
    kept = np.union1d(others, zeros[1:]) if zeros[1] < np.uint64(sketch.theta) else others
    return ThetaSketch(sketch.theta, kept, True)


def _rows_of(hashed: Sequence[int], found: Distribution, counts: RowCounts | None) -> tuple[Interval, Interval]:
    """The rows of two values."""
    hashes = np.array(hashed, np.uint64)
    low, high = found.rows_of(hashes)
    if counts is not None:
        at, has = places(hashes, counts.hashes)
        low[has] = high[has] = counts.rows[at[has]].view(np.uint64)
        high[~has & (hashes < np.uint64(counts.theta))] = 0
    one, other = (Interval(float(a), float(a), float(b)) for a, b in zip(low, high, strict=True))
    return one, other


def _most_rows(side: Counted, hashed: Hashes) -> float:
    """The most rows of a value that a side does not have."""
    if hashed[0] < np.uint64(side.theta):
        return 0.0
    left = math.inf if side.left is None else float(side.left[bucket_of(hashed, len(side.left))][0])
    return min(side.missed, left)
