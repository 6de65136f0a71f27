"""
The estimate of a sketch and its bounds, equal to those of Apache DataSketches in the last bit.

The bounds of a sketch that retains few hashes are left to that library. It is imported at the call, since the import
takes longer than all else that looking into a sketch does.
"""

from __future__ import annotations

import math
from array import array
from typing import Any

from puffin.sketches.theta_image import MAX_THETA, SketchImage

_FEW = 120  # up to so many retained hashes the normal distribution is too far from the binomial one


def estimate(theta: int, retained: int) -> float:
    """The distinct values a sketch stands for: what it retained, over the share of all hashes below theta."""
    return retained / _share(theta)


def lower_bound(theta: int, retained: int, std_devs: int) -> float:
    """The estimate less an error of 1, 2 or 3 standard deviations; never less than what the sketch retained."""
    share = _share(theta)
    if share == 1.0:
        return float(retained)
    if retained <= _FEW:
        return float(_sketch_of(theta, retained).get_lower_bound(std_devs))
    bound = _normal_bound(retained - 0.5, share, -std_devs) - 0.5
    return min(retained / share, max(float(retained), bound))


def upper_bound(theta: int, retained: int, std_devs: int) -> float:
    """The estimate plus an error of 1, 2 or 3 standard deviations."""
    share = _share(theta)
    if share == 1.0:
        return float(retained)
    if retained <= _FEW:
        return float(_sketch_of(theta, retained).get_upper_bound(std_devs))
    bound = _normal_bound(retained + 0.5, share, std_devs) + 0.5
    return max(retained / share, bound)


# --- bounds -------------------------------------------------------------------------------------------------------
#
# Each of n values is below theta with probability p, the share, so that np ± s √(np(1 - p)) are retained with the
# confidence of s standard deviations. A bound is the n for which the number retained, corrected by a half because it
# is a whole one, stands at the far end of that range. The operations are in the order of Apache DataSketches.


def _share(theta: int) -> float:
    """The share of all hashes that is below theta."""
    return theta / float(MAX_THETA)


def _normal_bound(retained: float, share: float, std_devs: int) -> float:
    middle = retained / share
    spread = std_devs * math.sqrt((1.0 - share) / share)
    return middle + 0.5 * (spread * spread) + 0.5 * spread * math.sqrt(spread * spread + 4.0 * middle)


def _sketch_of(theta: int, retained: int) -> Any:
    """A sketch of that library; the bounds depend on the number of its hashes only, so that any will do."""
    from datasketches import compact_theta_sketch

    hashes = memoryview(array("Q", range(1, retained + 1)))
    return compact_theta_sketch.deserialize(SketchImage(theta, hashes).to_bytes())
