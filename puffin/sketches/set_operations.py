"""
Union, intersection and difference of sketches, each given as its theta and its hashes.

A result has only hashes below the lowest theta of its parts. Results equal those of Apache DataSketches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

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
    return below(min(left[0], right[0]), np.intersect1d(left[1], right[1], assume_unique=True))


def difference(left: State, right: State) -> State:
    if _is_empty(left):
        return left
    return below(min(left[0], right[0]), np.setdiff1d(left[1], right[1], assume_unique=True))


def below(theta: int, ascending: npt.NDArray[np.uint64]) -> State:
    """The hashes below a theta, of ascending ones."""
    return theta, _read_only(ascending[ascending < np.uint64(theta)])


def _is_empty(sketch: State) -> bool:
    theta, hashes = sketch
    return theta == MAX_THETA and len(hashes) == 0


def _read_only(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    hashes.setflags(write=False)
    return hashes
