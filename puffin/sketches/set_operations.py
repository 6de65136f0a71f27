"""
Union, intersection and difference of sketches, each given as its theta and its hashes.

A result has only hashes below the lowest theta of its parts. Results equal those of Apache DataSketches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.sketches.partition_sketches_image import PartitionSketchesImage
from puffin.sketches.smallest import SmallestHashes
from puffin.sketches.theta_image import MAX_THETA

State: TypeAlias = tuple[int, npt.NDArray[np.uint64]]
"""Theta, and the hashes below it: ascending, distinct, read-only."""

_EMPTY = np.empty(0, np.uint64)


def union(parts: Iterable[State], k: int) -> State:
    """The values in any of the sketches, with at most ``k`` hashes; takes the parts one at a time."""
    smallest = SmallestHashes(k)
    for theta, hashes in parts:
        smallest.lower_theta(theta)
        smallest.add(hashes)
    return smallest.state()


def intersection(left: State, right: State) -> State:
    if _is_empty(left) or _is_empty(right):
        return MAX_THETA, _read_only(_EMPTY)
    return _below(min(left[0], right[0]), np.intersect1d(left[1], right[1], assume_unique=True))


def difference(left: State, right: State) -> State:
    if _is_empty(left):
        return left
    return _below(min(left[0], right[0]), np.setdiff1d(left[1], right[1], assume_unique=True))


def union_of_partitions(image: PartitionSketchesImage, is_chosen: npt.NDArray[np.bool_]) -> State:
    """The values of some partitions: all hashes that they retain below the lowest of their thetas."""
    theta = int(image.thetas[is_chosen].min(initial=np.uint64(MAX_THETA)))
    is_retained = np.zeros(len(image.hashes), bool)
    is_retained[image.places[np.repeat(is_chosen, image.counts)]] = True
    return _below(theta, image.hashes[is_retained])


def _is_empty(sketch: State) -> bool:
    theta, hashes = sketch
    return theta == MAX_THETA and len(hashes) == 0


def _below(theta: int, ascending: npt.NDArray[np.uint64]) -> State:
    return theta, _read_only(ascending[ascending < np.uint64(theta)])


def _read_only(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    hashes.setflags(write=False)
    return hashes
