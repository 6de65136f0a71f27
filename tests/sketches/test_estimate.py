"""Apache DataSketches for C++ (its Python binding) reads our sketches, we read its, and the numbers agree."""

from __future__ import annotations

import math
import platform

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.sketches.theta_image import MAX_THETA, SketchImage
from puffin.sketches.theta_sketch import ThetaSketch

LADDER = [0, 1, 2, 10, 100, 1000, 4096, 4097, 20_000]
# Where the processor can, compilers round once for a product and a sum, and Python twice.
FUSED_ULPS = 0 if platform.machine() in ("x86_64", "AMD64") else 4


def theirs(values: range, *, trim: bool = True) -> datasketches.compact_theta_sketch:
    sketch = datasketches.update_theta_sketch(12)
    for value in values:
        sketch.update(value)
    if trim:
        sketch.trim()
    return sketch.compact()


def ours(values: range) -> ThetaSketch:
    return ThetaSketch.from_arrow(pa.array(values, pa.int64()), "long")


def of_any_hashes(theta: int, retained: int) -> ThetaSketch:
    hashes = np.arange(1, min(retained, theta - 1) + 1, dtype=np.uint64)
    hashes.setflags(write=False)
    return ThetaSketch(theta, hashes)


@pytest.mark.parametrize("n", LADDER)
def test_we_read_their_image(n: int) -> None:
    """A C++ sketch of longs, plain or compressed."""
    sketch = theirs(range(n))
    assert ThetaSketch.from_bytes(sketch.serialize()) == ours(range(n))
    assert ThetaSketch.from_bytes(sketch.serialize(compress=True)) == ours(range(n))


@pytest.mark.parametrize("n", LADDER)
def test_they_read_our_image(n: int) -> None:
    """With the same theta, hashes, estimate and bounds."""
    sketch = ours(range(n))
    read = datasketches.compact_theta_sketch.deserialize(sketch.to_bytes())
    assert (read.theta64, list(read), read.is_empty()) == (sketch.theta, sketch.hashes.tolist(), sketch.empty)
    assert read.get_estimate() == sketch.estimate
    for std_devs in (1, 2, 3):
        assert read.get_lower_bound(std_devs) == sketch.lower_bound(std_devs)
        assert read.get_upper_bound(std_devs) == sketch.upper_bound(std_devs)


@pytest.mark.parametrize("ordered", [True, False])
def test_sketch_with_more_than_k_hashes_is_read(ordered: bool) -> None:
    """An untrimmed C++ sketch holds up to 2k hashes, in any order."""
    sketch = datasketches.update_theta_sketch(12)
    for value in range(20_000):
        sketch.update(value)
    read = ThetaSketch.from_bytes(sketch.compact(ordered).serialize())
    assert read.retained == sketch.num_retained > 4096
    assert read.estimate == sketch.get_estimate()


@settings(max_examples=200)
@given(st.integers(1, MAX_THETA), st.integers(0, 200))
def test_estimate_equals_theirs_bit_for_bit(theta: int, retained: int) -> None:
    """Retained over theta, in their order of operations."""
    sketch = of_any_hashes(theta, retained)
    assert sketch.estimate == datasketches.compact_theta_sketch.deserialize(sketch.to_bytes()).get_estimate()


@settings(max_examples=500)
@given(
    st.one_of(
        st.integers(1, MAX_THETA), st.integers(MAX_THETA - 5000, MAX_THETA), st.integers(0, 62).map(lambda n: 1 << n)
    ),
    st.one_of(st.integers(0, 130), st.integers(100, 10_000)),
)
def test_bounds_equal_theirs_bit_for_bit(theta: int, retained: int) -> None:
    """For any share retained; at 120 the formula changes."""
    sketch = of_any_hashes(theta, retained)
    read = datasketches.compact_theta_sketch.deserialize(sketch.to_bytes())
    for std_devs in (1, 2, 3):
        for ours, theirs in (
            (sketch.lower_bound(std_devs), read.get_lower_bound(std_devs)),
            (sketch.upper_bound(std_devs), read.get_upper_bound(std_devs)),
        ):
            assert abs(ours - theirs) <= FUSED_ULPS * math.ulp(theirs)


@pytest.mark.parametrize(("left", "right"), [(range(100), range(50, 150)), (range(30_000), range(20_000, 60_000))])
def test_set_operations_equal_theirs(left: range, right: range) -> None:
    a, b = ours(left), ours(right)
    intersection = datasketches.theta_intersection()
    intersection.update(theirs(left))
    intersection.update(theirs(right))
    assert a.intersect(b) == ThetaSketch.from_bytes(intersection.get_result().serialize())
    difference = datasketches.theta_a_not_b().compute(theirs(left), theirs(right))
    assert a.difference(b) == ThetaSketch.from_bytes(difference.serialize())


def test_exact_set_operations_count() -> None:
    a, b = ours(range(100)), ours(range(50, 130))
    assert (a.intersect(b).ndv, a.difference(b).ndv, a.union(b).ndv) == (50, 50, 130)
    assert a.intersect(ours(range(500, 600))).empty
    assert a.difference(a).empty


def test_disjoint_large_sets_leave_no_entries() -> None:
    """Their intersection is not empty, and takes part in further operations."""
    nothing = ours(range(20_000)).intersect(ours(range(30_000, 50_000)))
    assert (nothing.retained, nothing.empty, nothing.estimating) == (0, False, True)
    assert ThetaSketch.from_bytes(nothing.to_bytes()) == nothing
    assert ours(range(10_000)).union(nothing).theta <= nothing.theta


def test_image_keeps_serial_version_and_seed_hash() -> None:
    """A dump shows them as stored."""
    compressed = SketchImage.parse(theirs(range(100)).serialize(compress=True))
    assert (compressed.serial_version, compressed.seed_hash) == (4, 0x93CC)
    empty = SketchImage.parse(ours(range(0)).to_bytes())
    assert (empty.serial_version, empty.seed_hash) == (3, 0)
    assert SketchImage.parse(theirs(range(0)).serialize()).seed_hash == 0x93CC
