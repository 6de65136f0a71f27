"""
How much the ranges of files overlap: how many files a key is within the bounds of.

A key of a file is taken to lie anywhere between the file's bounds with equal chance. Bounds of every type become
numbers for that: text by its bytes after the common prefix, where each position counts the bytes that bounds have
there, so that digits and hexadecimal text are spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from puffin.values.column_bounds import Comparable

Numbers = npt.NDArray[np.float64]

_TEXT_BYTES = 16  # that are looked at after the common prefix
_NARROW = 1e-6  # of all values; sums over many files are not exact enough for narrower ranges


def files_per_key(lower: Sequence[Comparable], upper: Sequence[Comparable]) -> Numbers:
    """For each file, how many of the files a key of it is within the bounds of, on average; at least 1."""
    if not lower:
        return np.empty(0)
    low, high = _as_numbers(lower, upper)
    starts, ends = np.sort(low), np.sort(high)
    middle = (low + high) / 2
    at_middle = np.searchsorted(starts, middle, "right") - np.searchsorted(ends, middle, "left")
    width = high - low
    is_wide = width > _NARROW
    area = _area(starts, ends, high) - _area(starts, ends, low)
    found: Numbers = np.where(is_wide, area / np.where(is_wide, width, 1), at_middle)
    return np.clip(found, 1, len(low))


def most_distinct(lower: Sequence[Any], upper: Sequence[Any]) -> float:
    """How many distinct values there can be between these bounds at most; infinite for all but integers."""
    is_integer = bool(lower) and isinstance(lower[0], int)
    return float(max(upper) - min(lower) + 1) if is_integer else math.inf


def _area(starts: Numbers, ends: Numbers, at: Numbers) -> Numbers:
    """The total length of all ranges up to some points."""
    return _past(starts, at) - _past(ends, at)


def _past(points: Numbers, at: Numbers) -> Numbers:
    count = np.searchsorted(points, at, "right")
    sums = np.concatenate([[0.0], np.cumsum(points)])
    past: Numbers = count * at - sums[count]
    return past


def _as_numbers(lower: Sequence[Any], upper: Sequence[Any]) -> tuple[Numbers, Numbers]:
    """Ranges as numbers from 0 to 1. Integers are ranges of their own, so that neighbours do not touch."""
    bounds = [*lower, *upper]
    if isinstance(bounds[0], int):
        least = min(lower)
        found = np.array([float(bound - least) for bound in bounds])
        found[len(lower) :] += 1
    elif isinstance(bounds[0], float):
        found = np.array(bounds)
        finite = found[np.isfinite(found)]
        found = np.clip(found, *((finite.min(), finite.max()) if len(finite) else (-1, 1))) / 2  # sums stay finite
        found -= found.min()
    else:
        found = _of_bytes([_to_bytes(bound) for bound in bounds])
    found = found / (found.max() or 1)
    return found[: len(lower)], np.maximum(found[len(lower) :], found[: len(lower)])


def _to_bytes(bound: Any) -> bytes:
    return bound.encode(errors="surrogatepass") if isinstance(bound, str) else bytes(bound)


def _of_bytes(texts: Sequence[bytes]) -> Numbers:
    first, last = min(texts), max(texts)
    prefix = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    cut = [text[prefix : prefix + _TEXT_BYTES] for text in texts]
    rows = np.array(cut, f"S{_TEXT_BYTES}").view(np.uint8).reshape(-1, _TEXT_BYTES)
    found, scale = np.zeros(len(texts)), 1.0
    for position in range(_TEXT_BYTES):
        seen, ranks = np.unique(rows[:, position], return_inverse=True)
        scale /= len(seen)
        found += ranks * scale
    return found
