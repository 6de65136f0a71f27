"""The image of row counts: its bytes, broken ones field by field, every cut, trailing bytes, and random damage."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptSketchError
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_image import MAX_THETA

THETA = 0x0102030405060708
ROWS = {0x11: 1, 0x2233: 0x0504030201, 0x0102030405060707: 2**63 - 1}


def make(rows: dict[int, int], theta: int) -> RowCounts:
    hashes, numbers = np.array(sorted(rows), np.uint64), np.array([rows[h] for h in sorted(rows)], np.int64)
    for values in (hashes, numbers):
        values.setflags(write=False)
    return RowCounts(theta, hashes, numbers)


IMAGE = make(ROWS, THETA).to_bytes()
EMPTY = make({}, MAX_THETA).to_bytes()
HASHES_AT, ROWS_AT = 16, 16 + 3 * 8


def patch(offset: int, new: bytes | int) -> bytes:
    new = bytes([new]) if isinstance(new, int) else new
    return IMAGE[:offset] + new + IMAGE[offset + len(new) :]


def put(first: int, index: int, number: int) -> bytes:
    """The image with another number among the three whose planes begin at ``first``."""
    image = bytearray(IMAGE)
    image[first + index : first + 24 : 3] = struct.pack("<Q", number)
    return bytes(image)


@pytest.mark.parametrize(
    ("image", "layout"),
    [
        (
            IMAGE,
            "01 00 cc93 03000000 0807060504030201"
            "113307 002207 000006 000005 000004 000003 000002 000001"
            "0101ff 0002ff 0003ff 0004ff 0005ff 0000ff 0000ff 00007f",
        ),
        (EMPTY, "01 00 cc93 00000000 ffffffffffffff7f"),
    ],
    ids=["some", "empty"],
)
def test_layout_of_the_image(image: bytes, layout: str) -> None:
    """The preamble, then the hashes and the rows plane by plane, lowest bytes first."""
    assert image == bytes.fromhex(layout)


def test_any_buffer_is_read() -> None:
    """Bytes, a byte array, and a part of a larger buffer at an odd address."""
    for image in (IMAGE, bytearray(IMAGE), memoryview(b"x" + IMAGE)[1:]):
        counts = RowCounts.from_bytes(image)
        assert counts == make(ROWS, THETA)
        assert not counts.hashes.flags.writeable
        assert not counts.rows.flags.writeable


@settings(max_examples=60)
@given(
    st.dictionaries(st.integers(1, MAX_THETA - 1), st.integers(1, 2**63 - 1), max_size=40),
    st.integers(1, MAX_THETA),
)
def test_row_counts_round_trip(rows: dict[int, int], theta: int) -> None:
    counts = make({h: n for h, n in rows.items() if h < theta}, theta)
    assert RowCounts.from_bytes(counts.to_bytes()) == counts


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (patch(0, 2), "version at offset 0: expected 1, found 2"),
        (patch(1, 1), "reserved byte at offset 1: expected 0, found 1"),
        (patch(2, 0xCD), "seed hash at offset 2: expected 0x93cc, found 0x93cd"),
        (patch(4, struct.pack("<I", 2)), "size at offset 48: expected 48 bytes, found 64 bytes"),
        (patch(4, struct.pack("<I", 4)), "size at offset 64: expected 80 bytes, found 64 bytes"),
        (patch(4, b"\xff" * 4), "count at offset 4: expected at most 268435456, found 4294967295"),
        (patch(8, bytes(8)), f"theta at offset 8: expected 1 to {MAX_THETA}, found 0"),
        (patch(8, struct.pack("<Q", 2**63)), f"theta at offset 8: expected 1 to {MAX_THETA}, found {2**63}"),
        (patch(8, struct.pack("<Q", 0x2233)), "hash at offset 17: expected above 0 and below theta 8755, found 8755"),
        (put(HASHES_AT, 0, 0), f"hash at offset 16: expected above 0 and below theta {THETA}, found 0"),
        (put(HASHES_AT, 2, THETA), f"hash at offset 18: expected above 0 and below theta {THETA}, found {THETA}"),
        (put(HASHES_AT, 2, 2**64 - 1), f"hash at offset 18: expected above 0 and below theta {THETA}, found 184467"),
        (put(HASHES_AT, 1, 0x11), "hash at offset 17: expected above the one before it, found 17"),
        (put(HASHES_AT, 2, 0x2232), "hash at offset 18: expected above the one before it, found 8754"),
        (put(ROWS_AT, 0, 0), f"rows at offset 40: expected 1 to {2**63 - 1}, found 0"),
        (put(ROWS_AT, 2, 2**63), f"rows at offset 42: expected 1 to {2**63 - 1}, found {2**63}"),
    ],
)  # fmt: skip
def test_broken_field_is_named(image: bytes, message: str) -> None:
    """The error says where the field is, what was expected and what was found."""
    with pytest.raises(CorruptSketchError) as caught:
        RowCounts.from_bytes(image)
    assert str(caught.value).startswith(f"row counts, {message}")


@pytest.mark.parametrize("image", [IMAGE, EMPTY], ids=["some", "empty"])
def test_truncated_image_is_corrupt(image: bytes) -> None:
    for size in range(len(image)):
        with pytest.raises(CorruptSketchError, match=f"size at offset {size}: expected .* found {size} bytes"):
            RowCounts.from_bytes(image[:size])


@pytest.mark.parametrize("image", [IMAGE, EMPTY], ids=["some", "empty"])
def test_trailing_bytes_are_corrupt(image: bytes) -> None:
    for junk in (b"\0", b"\0" * 16):
        with pytest.raises(CorruptSketchError, match=f"size at offset {len(image)}: expected {len(image)} bytes"):
            RowCounts.from_bytes(image + junk)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, len(IMAGE) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_damaged_image_is_refused_or_round_trips(damage: list[tuple[int, int]]) -> None:
    """It may be a valid image of something else."""
    image = bytearray(IMAGE)
    for offset, byte in damage:
        image[offset] = byte
    try:
        counts = RowCounts.from_bytes(image)
    except CorruptSketchError:
        return
    assert counts.to_bytes() == image
