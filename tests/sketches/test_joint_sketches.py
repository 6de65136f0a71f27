"""The payload of a joint blob is read strictly and written as it was read."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pyarrow as pa
import pytest

from puffin.errors import CorruptSketchError
from puffin.sketches.distribution import Distribution
from puffin.sketches.distribution_builder import DistributionBuilder
from puffin.sketches.joint_sketches import JointColumn, JointSketch, JointSketches
from puffin.sketches.row_counts import RowCountsBuilder
from puffin.sketches.tuple_hashes import tuple_hashes
from puffin.statistics.kinds.joint import JointKind
from puffin.tables.base import Column
from puffin.values.serialized import Words


def sketch_of(*columns: JointColumn, keeps_values: bool = False) -> JointSketch:
    arrays = [pa.array(range(i, 50 + i), pa.int64()) for i, _ in enumerate(columns)]
    hashes = tuple_hashes(arrays, ["long"] * len(columns))
    counts, spread = RowCountsBuilder(1 << 7), DistributionBuilder(1 << 7, keeps_values=keeps_values)
    counts.update_hashes(hashes)
    spread.update_hashed(hashes, None, Words(hashes, None, 8))
    return JointSketch(columns, counts.compact(), spread.compact())


A, B, C = JointColumn(1, "long"), JointColumn(2, "decimal(9, 2)", "5f0c"), JointColumn(7, "string")
PAIR, TRIPLE = sketch_of(A, B), sketch_of(A, B, C)
IMAGE = JointSketches.of([TRIPLE, PAIR]).to_bytes()


def test_sets_are_read_as_they_were_written():
    read = JointSketches.from_bytes(IMAGE)
    assert [each.field_ids for each in read] == [(1, 2), (1, 2, 7)]
    assert read.find((1, 2, 7)) == TRIPLE
    assert read.find((1, 7)) is None
    assert read.to_bytes() == IMAGE
    assert JointSketches.from_bytes(JointSketches(()).to_bytes()).sets == ()


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([sketch_of(A)], "columns at offset 4: expected 2 to 4, found 1"),
        ([sketch_of(B, A)], "field id at offset 28: expected at least 3, found 1"),
        ([PAIR, PAIR], "expected field ids above [1, 2], found [1, 2]"),
        ([PAIR, sketch_of(B, C)], "expected one that begins with field 1, found [2, 7]"),
        ([sketch_of(A, B, keeps_values=True)], "flags at offset "),
    ],
)
def test_sets_that_break_a_rule_are_refused(sets, expected):
    with pytest.raises(CorruptSketchError) as caught:
        JointSketches.from_bytes(JointSketches(tuple(sets)).to_bytes())
    assert expected in str(caught.value)


@pytest.mark.parametrize("offset", [0, 1, 9])
def test_changed_byte_of_the_head_is_refused(offset):
    image = bytearray(IMAGE)
    image[offset] ^= 0xFF
    with pytest.raises(CorruptSketchError):
        JointSketches.from_bytes(image)


def test_image_that_is_too_short_or_too_long_is_refused():
    for size in (*range(0, 200, 7), len(IMAGE) - 1):
        with pytest.raises(CorruptSketchError):
            JointSketches.from_bytes(IMAGE[:size])
    with pytest.raises(CorruptSketchError, match="size"):
        JointSketches.from_bytes(IMAGE + b"\0")


def test_type_that_is_not_utf8_is_refused():
    at = IMAGE.index(b"long")
    with pytest.raises(CorruptSketchError, match="UTF-8"):
        JointSketches.from_bytes(IMAGE[:at] + b"\xff\xfe\xfd\xfc" + IMAGE[at + 4 :])


def test_broken_image_inside_a_set_is_refused():
    size_at = IMAGE.index(struct.pack("<I", len(PAIR.counts.to_bytes())))
    image = bytearray(IMAGE)
    image[size_at + 4] = 9
    with pytest.raises(CorruptSketchError, match="version"):
        JointSketches.from_bytes(image)


def test_distribution_of_tuples_counts_every_row():
    found = PAIR.distribution
    assert isinstance(found, Distribution)
    assert found.values is None
    assert found.rows == 50
    assert np.array_equal(found.hashes, PAIR.counts.hashes)


def test_kind_and_sketches_travel_to_executors_and_back():
    columns = tuple(Column(field_id, f"c{field_id}", "long", (field_id,), (None,)) for field_id in (1, 2))
    kind = pickle.loads(pickle.dumps(JointKind(7, (columns,))))
    one, other = kind.start(), kind.start()
    one.update_rows({1: pa.array([1, 1]), 2: pa.array([None, None], pa.int64()), 3: pa.array([5, 6])})
    other.update_rows({1: pa.array([1, 2]), 2: pa.array([None, 4])})
    parts = [pickle.loads(pickle.dumps(each.compact())) for each in (one, other)]
    (merged,) = kind.merge(*parts)
    assert sorted(merged.counts.rows.tolist()) == [1, 3]
    assert merged.distribution.rows == 4
