"""The image of partition sketches: its bytes, broken ones field by field, every cut, trailing bytes, random damage."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptSketchError
from puffin.sketches.partition_sketches import PartitionSketches, PartitionSketchesBuilder
from puffin.sketches.partition_sketches_image import MAX_KEY_BYTES, MAX_PARTITIONS
from puffin.sketches.theta_image import MAX_THETA


def image_of(*partitions) -> bytes:
    builder = PartitionSketchesBuilder(4)
    for key, hashes in partitions:
        builder.add(key, MAX_THETA, np.array(hashes, np.uint64))
    return builder.compact().to_bytes()


SHARED = 0x0102030405060708
IMAGE = image_of(((0, "{}"), [0x11, SHARED]), ((3, '{"1000":"é"}'), []), ((3, '{"1000":1}'), [0x2211, SHARED]))
EMPTY = image_of()
ESTIMATING = image_of(((0, "{}"), range(1, 18)))
THETAS, SPECS, KEY_SIZES, COUNTS, KEYS = 20, 44, 56, 68, 80
HASHES = KEYS + 2 + 13 + 10
PLACES = HASHES + 3 * 8


def patch(offset: int, new: str, image: bytes = IMAGE) -> bytes:
    replaced = bytes.fromhex(new)
    return image[:offset] + replaced + image[offset + len(replaced) :]


@pytest.mark.parametrize(
    ("image", "layout"),
    [
        (
            IMAGE,
            "01 04 cc93 03000000 19000000 03000000 04000000"
            "ffffffffffffff7f ffffffffffffff7f ffffffffffffff7f"
            "00000000 03000000 03000000  02000000 0d000000 0a000000  02000000 00000000 02000000"
            "7b7d 7b2231303030223a22c3a9227d 7b2231303030223a317d"
            "1100f7 0022e4 000005 000005 000004 000003 000002 000001"
            "00020101 00000000 00000000 00000000",
        ),
        (EMPTY, "01 04 cc93 00000000 00000000 00000000 00000000"),
    ],
    ids=["some", "none"],
)
def test_layout_of_the_image(image, layout):
    """The preamble, the fields of each partition, their keys, all hashes, and the place of each."""
    assert image.hex() == bytes.fromhex(layout).hex()


def test_any_buffer_is_read():
    """Bytes, a byte array, and a part of a larger buffer at an odd address."""
    for image in (IMAGE, bytearray(IMAGE), memoryview(b"x" + IMAGE)[1:]):
        sketches = PartitionSketches.from_bytes(image)
        assert sketches.to_bytes() == IMAGE
        for array in (sketches.image.thetas, sketches.image.counts, sketches.image.hashes, sketches.image.places):
            assert not array.flags.writeable


@pytest.mark.parametrize("image", [IMAGE, EMPTY, ESTIMATING], ids=["some", "none", "estimating"])
def test_truncated_image_and_trailing_bytes_are_refused(image):
    for end in range(len(image)):
        with pytest.raises(CorruptSketchError, match="size at offset"):
            PartitionSketches.from_bytes(image[:end])
    with pytest.raises(CorruptSketchError, match="size at offset"):
        PartitionSketches.from_bytes(image + b"\0")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (patch(0, "02"), "version at offset 0: expected 1, found 2"),
        (patch(1, "03"), "lg k at offset 1: expected 4 to 9, found 3"),
        (patch(1, "0a"), "lg k at offset 1: expected 4 to 9, found 10"),
        (patch(2, "cc94"), "seed hash at offset 2: expected 0x93cc, found 0x94cc"),
        (patch(4, "01000200"), f"partitions at offset 4: expected at most {MAX_PARTITIONS}, found 131073"),
        (patch(8, "01000001"), f"key bytes at offset 8: expected at most {MAX_KEY_BYTES}, found 16777217"),
        (patch(12, "05000000"), "distinct hashes at offset 12: expected at most 4, found 5"),
        (patch(16, "31000000"), "retained at offset 16: expected at most 48, found 49"),
        (patch(THETAS + 8, "00" * 8), f"theta at offset {THETAS + 8}: expected 1 to {MAX_THETA}, found 0"),
        (patch(THETAS + 8, "ff" * 8), f"theta at offset {THETAS + 8}: expected 1 to {MAX_THETA}"),
        (patch(THETAS + 8, "05" + "00" * 7), f"count at offset {COUNTS + 4}: expected at most 16, and that below"),
        (patch(COUNTS, "11000000"), f"count at offset {COUNTS}: expected at most 16, and that below a theta, found 17"),
        (patch(COUNTS, "03000000"), f"counts at offset {COUNTS}: expected a sum of 4, found 5"),
        (patch(KEY_SIZES, "03000000"), f"key sizes at offset {KEY_SIZES}: expected a sum of 25, found 26"),
        (patch(SPECS, "04000000"), f"key at offset {KEYS + 2}: expected above the one before it"),
        (patch(SPECS + 4, "04000000"), f"key at offset {KEYS + 15}: expected above the one before it"),
        (patch(KEYS, "5b5d"), f"key at offset {KEYS}: expected single values by partition field id"),
        (patch(KEYS, "7b7b"), f"key at offset {KEYS}: expected a partition tuple in JSON"),
        (patch(KEYS, "ffff"), f"key at offset {KEYS}: expected a partition tuple in JSON"),
        (patch(KEYS + 4, "61"), f"key at offset {KEYS + 2}: expected single values by partition field id"),
        (patch(KEYS + 10, "7b7d7d"), f"key at offset {KEYS + 2}: expected"),
        (patch(HASHES, "00"), f"hash at offset {HASHES}: expected above the one before it, found 0"),
        (patch(HASHES + 1, "00f70000"), f"hash at offset {HASHES + 1}: expected above the one before it"),
        (patch(HASHES + 21, "7f"), f"hash at offset {HASHES + 2}: expected below {MAX_THETA}"),
        (patch(HASHES + 23, "80"), f"hash at offset {HASHES + 2}: expected above the one before it"),
        (patch(PLACES + 1, "00"), f"place at offset {PLACES + 1}: expected above the one before it, found 0"),
        (patch(PLACES + 1, "03"), f"place at offset {PLACES + 1}: expected below 3"),
        (patch(PLACES + 1, "0100"), f"hash at offset {HASHES + 2}: expected one that a partition retains"),
        (patch(THETAS, "05" + "00" * 7, ESTIMATING), "place at offset"),
    ],
)
def test_broken_field_is_named(image, message):
    with pytest.raises(CorruptSketchError) as error:
        PartitionSketches.from_bytes(image)
    assert message in str(error.value)


@settings(max_examples=300)
@given(st.sampled_from([IMAGE, ESTIMATING]), st.data())
def test_damaged_image_raises_our_error_or_is_an_image(image, data):
    damaged = bytearray(image)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptSketchError):
        assert PartitionSketches.from_bytes(damaged).to_bytes() == bytes(damaged)
