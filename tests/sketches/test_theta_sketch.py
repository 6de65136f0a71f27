"""Builder and sketch are canonical for any order and parts, bounded in memory, and frozen."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from datasketches import compact_theta_sketch, theta_union
from hypothesis import given, settings
from hypothesis import strategies as st

import puffin
from puffin.errors import UsageError
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.theta_sketch import ThetaSketch, ThetaSketchBuilder, merge

LG_K = 5
K = 1 << LG_K


def drawn(seed: int, n: int, highest: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, highest, n, np.uint64, endpoint=True).tolist()


# Few hashes, where every coincidence is tried, or enough of them to fill a sketch, with or without many repetitions.
HASHES = st.lists(st.integers(0, 9) | st.integers(MAX_THETA - 2, MAX_THETA), max_size=6) | st.builds(
    drawn, st.integers(0, 1 << 32), st.integers(0, 4 * K), st.sampled_from([K, 2 * K, 10 * K, MAX_THETA])
)


def array(values: list[int] | range) -> npt.NDArray[np.uint64]:
    return np.array(values, np.uint64)


def build(hashes: list[int] | range, lg_k: int = LG_K) -> ThetaSketch:
    builder = ThetaSketchBuilder(lg_k)
    builder.update_hashes(array(hashes))
    return builder.compact()


def smallest(hashes: list[int]) -> tuple[int, list[int]]:
    """The definition: the k smallest distinct hashes, and theta the next one."""
    distinct = sorted({h for h in hashes if 0 < h < MAX_THETA})
    return (distinct[K] if len(distinct) > K else MAX_THETA), distinct[:K]


class TestBuilder:
    @settings(max_examples=100)
    @given(st.lists(HASHES, max_size=5))
    def test_sketch_keeps_the_k_smallest_hashes(self, batches: list[list[int]]) -> None:
        """After any batches; theta is the next hash."""
        builder = ThetaSketchBuilder(LG_K)
        for batch in batches:
            builder.update_hashes(array(batch))
        sketch = builder.compact()
        assert (sketch.theta, sketch.hashes.tolist()) == smallest([*chain.from_iterable(batches)])

    def test_builder_continues_after_a_sketch_was_taken(self) -> None:
        """The taken sketch does not change."""
        builder = ThetaSketchBuilder(LG_K)
        builder.update_hashes(array(range(100, 200)))
        early = builder.compact()
        image = early.to_bytes()
        builder.update_hashes(array(range(1, 50)))
        assert early.to_bytes() == image
        assert builder.compact().hashes.tolist() == list(range(1, K + 1))

    def test_large_batch_equals_small_ones(self) -> None:
        """It is longer than what may wait for a sort."""
        hashes = np.random.default_rng(7).integers(1, 1 << 62, 300_000).astype(np.uint64)
        whole, sliced = ThetaSketchBuilder(), ThetaSketchBuilder()
        whole.update_hashes(hashes)
        for start in range(0, len(hashes), 999):
            sliced.update_hashes(hashes[start : start + 999])
        assert whole.compact() == sliced.compact()

    def test_caller_may_reuse_its_array(self) -> None:
        """The builder copies hashes that wait for a sort."""
        buffer = array([5, 6, 7])
        builder = ThetaSketchBuilder()
        builder.update_hashes(buffer)
        buffer[:] = 9
        assert builder.compact().hashes.tolist() == [5, 6, 7]

    def test_memory_does_not_grow_with_the_values(self) -> None:
        """Four million distinct hashes need the memory of a few tens of thousands."""
        builder = ThetaSketchBuilder(LG_K)
        descending = np.arange(1 << 22, 0, -1, dtype=np.uint64)  # the worst order: every hash is below theta
        tracemalloc.start()
        try:
            builder.update_hashes(descending)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert builder.compact().hashes.tolist() == list(range(1, K + 1))
        assert peak < 4 << 20

    @pytest.mark.parametrize("lg_k", [4, 27, -1, 12.0, True, "12"])
    def test_other_sizes_are_refused(self, lg_k: int) -> None:
        """By builder and merge alike."""
        with pytest.raises(UsageError, match="lg_k: expected an integer from 5 to 26, found"):
            ThetaSketchBuilder(lg_k)
        with pytest.raises(UsageError, match="lg_k"):
            merge([], lg_k)

    @pytest.mark.parametrize("hashes", [np.array([1, -1]), np.array([[1]], np.uint64), np.array([0.5])])
    def test_other_arrays_are_refused(self, hashes: npt.NDArray[np.uint64]) -> None:
        """numpy would compare them as floats."""
        with pytest.raises(UsageError, match="expected a row of uint64"):
            ThetaSketchBuilder().update_hashes(hashes)


@pytest.mark.parametrize("values", [[1, 2], np.array([1, 2]), 5])
def test_values_that_are_no_arrow_are_refused(values: Any) -> None:
    with pytest.raises(UsageError, match=r"array: expected a pyarrow Array or ChunkedArray, found .*; pyarrow\.array"):
        ThetaSketch.from_arrow(values, "long")


def test_column_that_exports_an_arrow_array_is_taken() -> None:
    class Exported:
        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            return pa.array([1, 2, 2]).__arrow_c_array__(requested_schema)

    assert ThetaSketch.from_arrow(Exported(), "long") == ThetaSketch.from_arrow(pa.array([1, 2]), "long")


def test_operators_are_the_set_operations() -> None:
    one, other = build([1, 2, 3]), build([3, 4])
    assert (one | other, one & other, one - other) == (build([1, 2, 3, 4]), build([3]), build([1, 2]))
    with pytest.raises(TypeError, match="unsupported operand"):
        one | {3}  # type: ignore[operator]


@pytest.mark.parametrize("operation", [ThetaSketch.union, ThetaSketch.intersect, ThetaSketch.difference])
def test_set_operations_refuse_what_is_no_sketch(operation: Callable[..., Any]) -> None:
    with pytest.raises(UsageError, match="expected a ThetaSketch, found a list"):
        operation(build([1]), [build([2])])


SKETCHES = HASHES.map(build)


class TestMerge:
    @settings(max_examples=60)
    @given(SKETCHES, SKETCHES)
    def test_merge_is_commutative(self, left: ThetaSketch, right: ThetaSketch) -> None:
        assert left.union(right, lg_k=LG_K).to_bytes() == right.union(left, lg_k=LG_K).to_bytes()

    @settings(max_examples=60)
    @given(SKETCHES, SKETCHES, SKETCHES)
    def test_merge_is_associative(self, a: ThetaSketch, b: ThetaSketch, c: ThetaSketch) -> None:
        """Nor does it matter if all come at once."""
        at_once = merge([a, b, c], LG_K).to_bytes()
        assert a.union(b, lg_k=LG_K).union(c, lg_k=LG_K).to_bytes() == at_once
        assert a.union(b.union(c, lg_k=LG_K), lg_k=LG_K).to_bytes() == at_once

    @given(SKETCHES)
    def test_merge_is_idempotent(self, sketch: ThetaSketch) -> None:
        """Also with an empty sketch."""
        assert sketch.union(sketch, lg_k=LG_K).to_bytes() == sketch.to_bytes()
        assert sketch.union(build([]), lg_k=LG_K).to_bytes() == sketch.to_bytes()

    @settings(max_examples=60)
    @given(HASHES, st.lists(st.integers(0, 4 * K), max_size=4))
    def test_merge_of_parts_is_the_whole(self, hashes: list[int], cuts: list[int]) -> None:
        """However rows are divided, with overlaps or without."""
        bounds = [0, *sorted(cuts), len(hashes)]
        parts = [build(hashes[a:b]) for a, b in pairwise(bounds)]
        overlapping = [*parts, build(hashes[::2])]
        whole = build(hashes).to_bytes()
        assert merge(parts, LG_K).to_bytes() == whole
        assert merge(overlapping, LG_K).to_bytes() == whole

    @settings(max_examples=60)
    @given(st.lists(SKETCHES, max_size=4))
    def test_merge_equals_the_union_of_datasketches(self, parts: list[ThetaSketch]) -> None:
        union = theta_union(LG_K)
        for part in parts:
            union.update(compact_theta_sketch.deserialize(part.to_bytes()))
        assert merge(parts, LG_K) == ThetaSketch.from_bytes(union.get_result().serialize())

    def test_merge_to_a_larger_sketch_keeps_theta(self) -> None:
        """What a smaller sketch left out stays left out."""
        parts = build(range(1, 100)), build(range(K, 200), lg_k=LG_K + 1)
        assert merge(parts, LG_K + 1) == build(range(1, 100))

    def test_merge_of_nothing_is_empty(self) -> None:
        assert merge([]).empty

    def test_merge_cuts_a_larger_sketch(self) -> None:
        """A sketch of more hashes, as QuickSelect leaves them, becomes canonical."""
        large = build(range(1, 2000), lg_k=10)
        assert large.union(lg_k=LG_K) == build(range(1, 2000))

    def test_merge_of_parts_of_a_column_equals_its_sketch(self, any_type: str, column: Callable[..., pa.Array]) -> None:
        """For every type."""
        values = column(any_type, 300)
        parts = [ThetaSketch.from_arrow(values[i : i + 50], any_type, LG_K) for i in range(0, 300, 50)]
        assert merge(parts, LG_K).to_bytes() == ThetaSketch.from_arrow(values, any_type, LG_K).to_bytes()


class TestSketch:
    def test_empty_sketch_is_exact_and_zero(self) -> None:
        sketch = ThetaSketch.from_arrow(pa.array([], pa.int64()), "long")
        assert (sketch.empty, sketch.estimating, sketch.retained, sketch.ndv) == (True, False, 0, 0)
        assert (sketch.estimate, sketch.lower_bound(), sketch.upper_bound()) == (0.0, 0.0, 0.0)

    def test_sketch_is_exact_until_k_values(self) -> None:
        """One more makes it estimate."""
        assert not build(range(1, K + 1)).estimating
        assert build(range(1, K + 2)).estimating
        assert build(range(1, K + 1)).ndv == K

    def test_bounds_enclose_the_estimate(self) -> None:
        """More standard deviations widen the interval."""
        sketch = ThetaSketch.from_arrow(pa.array(range(100_000)), "long")
        interval = [sketch.lower_bound(n) for n in (3, 2, 1)] + [sketch.estimate]
        interval += [sketch.upper_bound(n) for n in (1, 2, 3)]
        assert interval == sorted(set(interval))
        assert sketch.lower_bound() < 100_000 < sketch.upper_bound()

    @pytest.mark.parametrize("std_devs", [0, 4])
    def test_other_standard_deviations_are_refused(self, std_devs: int) -> None:
        """Only 1, 2 and 3 have bounds, for exact sketches too."""
        for bound in (build([1]).lower_bound, build([1]).upper_bound):
            with pytest.raises(UsageError, match="std_devs: expected 1, 2 or 3"):
                bound(std_devs)

    def test_sketch_is_immutable(self) -> None:
        """Attributes and hashes, also after a pickle."""
        for sketch in (build([1, 2]), pickle.loads(pickle.dumps(build([1, 2])))):
            with pytest.raises(AttributeError):
                sketch.theta = 5
            with pytest.raises(ValueError, match="read-only"):
                sketch.hashes[0] = 5

    def test_sketches_are_equal_by_value(self) -> None:
        """Other types are unequal."""
        assert build([1, 2]) == build([2, 1, 1])
        assert hash(build([1, 2])) == hash(build([2, 1]))
        assert build([1, 2]) != build([1, 3])
        assert build([1]) != ThetaSketch(5, build([1]).hashes)
        assert build([1]) != "sketch"

    @pytest.mark.parametrize(
        ("theta", "hashes"), [(0, []), (1 << 63, []), (5, [5]), (9, [0]), (9, [3, 3]), (9, [4, 3])]
    )
    def test_invalid_sketch_is_refused(self, theta: int, hashes: list[int]) -> None:
        values = array(hashes)
        values.setflags(write=False)
        with pytest.raises(UsageError, match="theta sketch: expected"):
            ThetaSketch(theta, values)

    def test_writeable_hashes_are_refused(self) -> None:
        with pytest.raises(UsageError, match="read-only hashes"):
            ThetaSketch(MAX_THETA, array([1, 2]))


def test_exact_sketch_needs_no_datasketches() -> None:
    """Neither the import nor an exact sketch loads a sketch library."""
    script = (
        "import sys, puffin; s = puffin.ThetaSketch.from_bytes(bytes.fromhex('01030300001e0000'));"
        "s.ndv, s.lower_bound(), s.upper_bound(); sys.exit('_datasketches' in sys.modules)"
    )
    root = Path(puffin.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", script], cwd=root, check=False).returncode == 0
