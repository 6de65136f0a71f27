"""
The estimate of a sketch and its bounds, equal to those of Apache DataSketches in the last bit.

That library computes the bounds of sketches with few hashes. This module imports it only then, because the import takes
longer than inspecting a sketch.
"""

from __future__ import annotations

import math
from array import array
from typing import Any

from puffin.sketches.theta_image import MAX_THETA, SketchImage

_FEW = 120  # up to here the normal distribution is too far from the binomial one


def estimate(theta: int, retained: int) -> float:
    """Estimate the number of distinct values: the retained hashes, divided by the share of all hashes below theta."""
    return retained / _share(theta)


def lower_bound(theta: int, retained: int, std_devs: int) -> float:
    """The estimate minus 1, 2 or 3 standard deviations, and at least the number of retained hashes."""
    share = _share(theta)
    if share == 1.0:
        return float(retained)
    if retained <= _FEW:
        return float(_sketch_of(theta, retained).get_lower_bound(std_devs))
    bound = _normal_bound(retained - 0.5, share, -std_devs) - 0.5
    return min(retained / share, max(float(retained), bound))


def upper_bound(theta: int, retained: int, std_devs: int) -> float:
    """The estimate plus 1, 2 or 3 standard deviations."""
    share = _share(theta)
    if share == 1.0:
        return float(retained)
    if retained <= _FEW:
        return float(_sketch_of(theta, retained).get_upper_bound(std_devs))
    bound = _normal_bound(retained + 0.5, share, std_devs) + 0.5
    return max(retained / share, bound)


# --- bounds -------------------------------------------------------------------------------------------------------
#
# Each of n values is below theta with probability p, the share, so a sketch retains np ± s √(np(1 - p)) with the
# confidence of s standard deviations. A bound is the n whose range ends at the number retained, corrected by a half
# because it is an integer. The operations are in the order of Apache DataSketches.


def _share(theta: int) -> float:
    return theta / float(MAX_THETA)


def _normal_bound(retained: float, share: float, std_devs: int) -> float:
    middle = retained / share
    spread = std_devs * math.sqrt((1.0 - share) / share)
    return middle + 0.5 * (spread * spread) + 0.5 * spread * math.sqrt(spread * spread + 4.0 * middle)


def _sketch_of(theta: int, retained: int) -> Any:
    """A sketch of that library with this number of hashes, on which alone the bounds depend."""
    from datasketches import compact_theta_sketch

    hashes = memoryview(array("Q", range(1, retained + 1)))
    return compact_theta_sketch.deserialize(SketchImage(theta, hashes).to_bytes())
