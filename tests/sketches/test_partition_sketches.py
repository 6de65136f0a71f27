"""Partition sketches are canonical, can be cut and joined without loss, and equal single sketches."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import UsageError
from puffin.sketches.hashing import hash_array
from puffin.sketches.partition_sketches import PartitionSketches, PartitionSketchesBuilder, lg_k_for
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.theta_sketch import ThetaSketch, merge

HASHES = st.integers(1, 120).map(lambda n: n * (MAX_THETA // 128))  # few enough that partitions share many
KEYS = st.sampled_from([(0, "{}"), (1, '{"1000":1}'), (1, '{"1000":"Ü"}'), (2, '{"1000":null,"1001":2.5}')])
ADDITIONS = st.lists(st.tuples(KEYS, st.lists(HASHES, max_size=60)), max_size=8)


def hashes_of(*values: int) -> np.ndarray:
    (hashes,) = hash_array(pa.array(values, pa.int64()), "long")
    return hashes


def built(additions, lg_k: int = 4) -> PartitionSketches:
    builder = PartitionSketchesBuilder(lg_k)
    for key, hashes in additions:
        builder.add(key, MAX_THETA, np.array(hashes, np.uint64))
    return builder.compact()


def expected(additions, lg_k: int = 4) -> dict:
    """Theta and hashes by partition, by the definition of a canonical sketch."""
    k = 1 << lg_k
    values: dict = {}
    for key, hashes in additions:
        values.setdefault(key, set()).update(hashes)
    ascending = {key: sorted(found) for key, found in values.items()}
    return {key: (found[k] if len(found) > k else MAX_THETA, found[:k]) for key, found in ascending.items()}


def contents(sketches: PartitionSketches) -> dict:
    return {
        key: (sketch.theta, sketch.hashes.tolist())
        for key in sketches.keys
        for sketch in [sketches.union(lambda other, key=key: other == key)]
    }


@settings(max_examples=80)
@given(ADDITIONS)
def test_each_partition_has_the_canonical_sketch_of_its_values(additions):
    sketches = built(additions)
    assert contents(sketches) == expected(additions)
    assert list(sketches.keys) == sorted({key for key, _ in additions})


@settings(max_examples=80)
@given(ADDITIONS, st.randoms(use_true_random=False), st.integers(0, 8))
def test_bytes_do_not_depend_on_order_and_parts(additions, random, at):
    shuffled = random.sample(additions, len(additions))
    builder = PartitionSketchesBuilder(4)
    for part in (built(shuffled[:at]), built(shuffled[at:])):
        builder.merge(part)
        builder.compact()
    assert builder.compact().to_bytes() == built(additions).to_bytes()


@settings(max_examples=60)
@given(ADDITIONS)
def test_larger_sketches_are_cut_to_the_smaller_size(additions):
    builder = PartitionSketchesBuilder(4)
    builder.merge(built(additions, lg_k=6))
    assert builder.compact() == built(additions, lg_k=4)


@settings(max_examples=60)
@given(ADDITIONS, st.sets(KEYS))
def test_excluded_partitions_leave_nothing_behind(additions, without):
    builder = PartitionSketchesBuilder(4)
    builder.merge(built(additions), without=without)
    assert builder.compact() == built([(key, hashes) for key, hashes in additions if key not in without])


def test_hashes_that_a_part_left_out_stay_out():
    """The theta of a part holds for its partition, and for no other."""
    one, other = (1, "{}"), (2, "{}")
    builder = PartitionSketchesBuilder(4)
    builder.add(one, 1000, np.arange(1, 17, dtype=np.uint64))
    builder.add(one, MAX_THETA, np.array([5, 999, 1000, 2000], np.uint64))
    builder.add(other, MAX_THETA, np.array([5, 2000], np.uint64))
    assert contents(builder.compact()) == {one: (999, [*range(1, 17)]), other: (MAX_THETA, [5, 2000])}


def test_many_values_of_many_partitions_need_bounded_memory():
    """More than is sorted at once: dropped hashes do not come back."""
    builder, values = PartitionSketchesBuilder(9), np.arange(200_000)
    parts = np.split(values, 40)
    for index, part in enumerate(parts):
        builder.add((0, f'{{"1000":{index % 3}}}'), MAX_THETA, hashes_of(*part))
    sketches = builder.compact()
    for index in range(3):
        whole = ThetaSketch.from_arrow(pa.array(np.concatenate(parts[index::3])), "long", lg_k=9)
        assert sketches.union(lambda key, index=index: key[1] == f'{{"1000":{index}}}') == whole


def test_union_equals_that_of_single_sketches():
    """It has as many hashes as they retain, which is more than any of them has."""
    by_key = {(0, f'{{"1000":{i}}}'): range(i * 700, i * 700 + 1000) for i in range(6)}
    sketches = built([(key, hashes_of(*values)) for key, values in by_key.items()], lg_k=9)
    parts = [ThetaSketch.from_arrow(pa.array(values, pa.int64()), "long", lg_k=9) for values in by_key.values()]
    assert sketches.union() == merge(parts, lg_k=12)
    assert sketches.union(lambda key: key[1] > '{"1000":3}') == merge(parts[4:], lg_k=12)
    assert sketches.union().retained > 512


def test_union_of_nothing_is_the_empty_sketch():
    empty = ThetaSketch.from_arrow(pa.array([], pa.int64()), "long")
    assert built([((0, "{}"), [5])]).union(lambda _: False) == empty
    assert built([]).union() == empty


def test_partition_of_nulls_is_present():
    """It has rows, and no values."""
    assert built([((0, "{}"), [])]).keys == ((0, "{}"),)
    assert PartitionSketches.from_bytes(built([((0, "{}"), [])]).to_bytes()).keys == ((0, "{}"),)


def test_image_round_trips():
    sketches = built([((0, "{}"), [5, 6]), ((1, "{}"), [6])])
    assert pickle.loads(pickle.dumps(sketches)) == sketches
    assert hash(sketches) == hash(built([((1, "{}"), [6]), ((0, "{}"), [6, 5])]))
    assert sketches != built([((0, "{}"), [5, 6])])


@pytest.mark.parametrize(
    ("partitions", "lg_k"),
    [(0, 9), (1, 9), (512, 9), (513, 8), (1024, 8), (1025, 7), (16_384, 4), (100_000, 4), (131_072, 4)],
)
def test_size_follows_from_the_number_of_partitions(partitions, lg_k):
    """2^18 hashes for all of them together, unless 16 for each are more."""
    assert lg_k_for([(0, str(i)) for i in range(partitions)]) == lg_k


def test_too_many_partitions_have_no_sketches():
    with pytest.raises(UsageError, match="at most 131072 partitions, found 131073"):
        lg_k_for(range(131_073))
    with pytest.raises(UsageError, match="at most 16777216 bytes in JSON, found 16777217"):
        lg_k_for([(0, "ü" * (1 << 22)), (1, "ü" * (1 << 22)), (2, "x")])


@pytest.mark.parametrize("lg_k", [3, 10, 4.0, None])
def test_other_sizes_are_refused(lg_k):
    with pytest.raises(UsageError, match="from 4 to 9, found"):
        PartitionSketchesBuilder(lg_k)


def test_smaller_sketches_cannot_be_joined():
    """They lack hashes that a larger one keeps."""
    with pytest.raises(UsageError, match="lg_k from 5 on, found 4"):
        PartitionSketchesBuilder(5).merge(built([]))
