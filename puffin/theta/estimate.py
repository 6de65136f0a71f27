"""
Set operations and error bounds, by Apache DataSketches.

Images in, images or numbers out: nothing of ours is an object of that library, and no other file imports it. It is
imported at the call, so that looking into an exact sketch, whose numbers are simply counts, does without.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from puffin.theta.image import MAX_THETA


def estimate(theta: int, retained: int) -> float:
    """The distinct values a sketch stands for: what it retained, over the share of all hashes below theta."""
    if theta == MAX_THETA:
        return float(retained)
    # In the order of operations of Apache DataSketches, hence equal to its estimate in the last bit.
    return retained / (theta / float(MAX_THETA))


def lower_bound(image: bytes, std_devs: int) -> float:
    """The estimate less an error of 1, 2 or 3 standard deviations."""
    return float(_deserialize(image).get_lower_bound(std_devs))


def upper_bound(image: bytes, std_devs: int) -> float:
    """The estimate plus an error of 1, 2 or 3 standard deviations."""
    return float(_deserialize(image).get_upper_bound(std_devs))


def union(images: Iterable[bytes], lg_k: int) -> bytes:
    """The image of all values of any of the sketches, of at most 2^lg_k hashes."""
    from datasketches import theta_union

    operation = theta_union(lg_k)
    for image in images:
        operation.update(_deserialize(image))
    return bytes(operation.get_result().serialize())


def intersection(left: bytes, right: bytes) -> bytes:
    """The image of the values in both sketches."""
    from datasketches import theta_intersection

    operation = theta_intersection()
    operation.update(_deserialize(left))
    operation.update(_deserialize(right))
    return bytes(operation.get_result().serialize())


def a_not_b(left: bytes, right: bytes) -> bytes:
    """The image of the values in the left sketch and not in the right."""
    from datasketches import theta_a_not_b

    return bytes(theta_a_not_b().compute(_deserialize(left), _deserialize(right)).serialize())


def _deserialize(image: bytes) -> Any:
    from datasketches import compact_theta_sketch

    return compact_theta_sketch.deserialize(image)
