"""Arrays of hashes, and of the rows of each: their order, places and buckets, and how kernels take them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.kernels import kernels_ready
from puffin.values.serialized import for_kernel

Hashes: TypeAlias = npt.NDArray[np.uint64]
Rows: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = npt.NDArray[np.uint64]
Flags: TypeAlias = npt.NDArray[np.bool_]

BUCKET_SHIFT = np.uint64(16)
"""The bits of a hash below those that choose its bucket; the same as in `puffin.kernels.heavy`, which loads numba."""
_ONE_EACH = np.broadcast_to(np.uint64(1), 1 << 40)  # a long array of ones that takes the memory of one


def is_first_of_run(ascending: Hashes) -> Flags:
    """Whether each number differs from the one before it."""
    is_first = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return is_first


def order_of(hashes: Hashes) -> npt.NDArray[np.int64]:
    """The positions of hashes in ascending order; equal hashes come in any order."""
    if kernels_ready():
        from puffin.kernels import hashes as kernels

        order = kernels.order_of(for_kernel(hashes))
        if len(order) == len(hashes):
            return order
    return hashes.argsort()


def first_of_each(hashes: Hashes) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """The distinct hashes, ascending, and a position of each."""
    order = order_of(hashes)
    in_order = hashes[order]
    starts = np.flatnonzero(is_first_of_run(in_order))
    return in_order[starts], order[starts]


def places(hashes: Hashes, ascending: Hashes) -> tuple[npt.NDArray[np.intp], Flags]:
    """The place of each hash among those in ascending order, and whether it is there; if not, the place is any."""
    if not len(ascending):
        return np.zeros(len(hashes), np.intp), np.zeros(len(hashes), np.bool_)
    at = np.minimum(np.searchsorted(ascending, hashes), len(ascending) - 1)
    return at, ascending[at] == hashes


def place_of(hashed: int, ascending: Hashes) -> int | None:
    """The place of a hash among those in ascending order; None if it is not there."""
    at = int(ascending.searchsorted(np.uint64(hashed)))
    return at if at < len(ascending) and ascending.item(at) == hashed else None


def is_among(hashes: Hashes, ascending: Hashes) -> Flags:
    """Whether each hash is one of those in ascending order."""
    return places(hashes, ascending)[1]


def bucket_of(hashes: Hashes, count: int) -> npt.NDArray[np.intp]:
    """The bucket of each hash, one of ``count``."""
    return (hashes >> BUCKET_SHIFT).astype(np.intp) & (count - 1)


def in_buckets(hashes: Hashes, rows: Counts, count: int) -> Counts:
    """The rows of each bucket."""
    found = np.zeros(count, np.uint64)
    np.add.at(found, bucket_of(hashes, count), rows)
    return found


def rows_for_kernel(rows: Rows | None, count: int) -> Counts:
    """The rows of ``count`` hashes for a kernel; None means one row each."""
    return _ONE_EACH[:count] if rows is None else for_kernel(rows).view(np.uint64)
