"""Broken images: one test per field of the layout, every cut, trailing bytes, and random damage."""

from __future__ import annotations

import struct
import sys
from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptSketchError, UnsupportedError
from puffin.sketches.theta_image import MAX_THETA, SketchImage, ascend

THETA = 1000
HASHES = [3, 70, 999]


def write(theta: int, hashes: list[int]) -> bytes:
    return SketchImage(theta, memoryview(array("Q", hashes))).to_bytes()


EMPTY = write(MAX_THETA, [])
SINGLE = write(MAX_THETA, [7])
EXACT = write(MAX_THETA, HASHES)
ESTIMATING = write(THETA, HASHES)
NO_ENTRIES = write(THETA, [])
COMPRESSED = bytes([1, 4, 3, 10, 1, 0x1A, 0xCC, 0x93, 3]) + ((3 << 20 | 67 << 10 | 929) << 2).to_bytes(4, "big")
COMPRESSED_ESTIMATING = bytes([2, 4, 3, 10, 1, 0x1A, 0xCC, 0x93]) + struct.pack("<Q", THETA) + COMPRESSED[8:]
EVERY_FORM = {
    "empty": EMPTY,
    "single": SINGLE,
    "exact": EXACT,
    "estimating": ESTIMATING,
    "no-entries": NO_ENTRIES,
    "compressed": COMPRESSED,
    "compressed-estimating": COMPRESSED_ESTIMATING,
}


def patch(image: bytes, offset: int, new: bytes | int) -> bytes:
    new = bytes([new]) if isinstance(new, int) else new
    return image[:offset] + new + image[offset + len(new) :]


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def f32(value: float) -> bytes:
    return struct.pack("<f", value)


@pytest.mark.parametrize(
    ("name", "theta", "hashes"),
    [
        ("empty", MAX_THETA, []),
        ("single", MAX_THETA, [7]),
        ("exact", MAX_THETA, HASHES),
        ("estimating", THETA, HASHES),
        ("no-entries", THETA, []),
        ("compressed", MAX_THETA, HASHES),
        ("compressed-estimating", THETA, HASHES),
    ],
)
def test_valid_image_is_read(name: str, theta: int, hashes: list[int]) -> None:
    """In every form, from any kind of buffer, and with read-only hashes."""
    for image in (EVERY_FORM[name], bytearray(EVERY_FORM[name]), memoryview(EVERY_FORM[name])):
        parsed = SketchImage.parse(image)
        assert (parsed.theta, parsed.hashes.tolist()) == (theta, hashes)
        assert parsed.hashes.readonly


def test_harmless_variations_are_accepted() -> None:
    """What C++ writes differently from Java, and hashes in any order."""
    assert SketchImage.parse(patch(EMPTY, 6, b"\xcc\x93")).hashes.tolist() == []
    assert SketchImage.parse(patch(SINGLE, 5, 0x1A)).hashes.tolist() == [7]
    assert SketchImage.parse(patch(EXACT, 12, f32(0.0))).hashes.tolist() == HASHES
    unordered = patch(patch(EXACT, 5, 0x0A), 16, u64(999) + u64(3) + u64(70))
    assert SketchImage.parse(unordered).hashes.tolist() == HASHES


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (patch(EXACT, 0, 0), "preamble longs at offset 0: expected 1, 2 or 3, found 0"),
        (patch(EXACT, 0, 4), "preamble longs at offset 0: expected 1, 2 or 3, found 4"),
        (patch(EXACT, 0, 0x42), "preamble longs at offset 0: expected 1, 2 or 3, found 66"),
        (patch(EMPTY, 0, 2), "preamble longs of this flag at offset 0: expected 1, found 2"),
        (patch(EXACT, 5, 0x3A), "preamble longs of this flag at offset 0: expected 1, found 2"),
        (patch(EXACT, 2, 2), "family at offset 2: expected 3, found 2"),
        (patch(EXACT, 3, 12), "lg nominal longs at offset 3: expected 0, found 12"),
        (patch(EXACT, 4, 13), "lg array longs at offset 4: expected 0, found 13"),
        (patch(EXACT, 5, 0x5A), "flags at offset 5: expected bits 6 and 7 clear, found 0x5a"),
        (patch(EXACT, 5, 0x9A), "flags at offset 5: expected bits 6 and 7 clear, found 0x9a"),
        (patch(EXACT, 5, 0x12), "flags at offset 5: expected compact (bit 3), found 0x12"),
        (patch(EXACT, 5, 0x18), "flags at offset 5: expected read-only (bit 1), found 0x18"),
        (patch(EMPTY, 5, 0x3E), "flags at offset 5: expected empty or single item, not both, found 0x3e"),
        (patch(EXACT, 6, b"\xcd"), "seed hash at offset 6: expected 0x93cc (seed 9001), found 0x93cd"),
        (patch(EXACT, 6, b"\0\0"), "seed hash at offset 6: expected 0x93cc (seed 9001), found 0x0000"),
        (patch(EMPTY, 7, 1), "seed hash at offset 6: expected 0x93cc (seed 9001), found 0x0100"),
        (patch(EXACT, 8, u32(2)), "size at offset 32: expected 32 bytes, found 40 bytes"),
        (patch(EXACT, 8, u32(4)), "size at offset 40: expected 48 bytes, found 40 bytes"),
        (patch(EXACT, 8, u32(0xFFFFFFFF)), "retained entries at offset 8: expected at most 134217728, found 429"),
        (patch(EXACT, 12, f32(1.5)), "p at offset 12: expected 0.0 to 1.0, found 1.5"),
        (patch(EXACT, 12, f32(float("nan"))), "p at offset 12: expected 0.0 to 1.0, found nan"),
        (patch(ESTIMATING, 16, u64(0)), f"theta at offset 16: expected 1 to {MAX_THETA}, found 0"),
        (patch(ESTIMATING, 16, u64(1 << 63)), f"theta at offset 16: expected 1 to {MAX_THETA}, found {1 << 63}"),
        (patch(ESTIMATING, 16, u64(999)), "hash at offset 40: expected above 0 and below theta 999, found 999"),
        (patch(EXACT, 16, u64(0)), f"hash at offset 16: expected above 0 and below theta {MAX_THETA}, found 0"),
        (patch(SINGLE, 8, u64(MAX_THETA)), f"hash at offset 8: expected above 0 and below theta {MAX_THETA}"),
        (patch(EXACT, 24, u64(3)), "hash at offset 24: expected above the one before it, 3, found 3"),
        (patch(EXACT, 32, u64(69)), "hash at offset 32: expected above the one before it, 70, found 69"),
        (patch(patch(EXACT, 5, 0x0A), 32, u64(3)), "hash at offset 16: expected no repetition, found 3"),
    ],
)  # fmt: skip
def test_broken_field_is_named(image: bytes, message: str) -> None:
    """The error says where the field is, what was expected and what was found."""
    with pytest.raises(CorruptSketchError) as caught:
        SketchImage.parse(image)
    assert str(caught.value).startswith(f"theta sketch, {message}")


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (patch(COMPRESSED, 0, 3), "preamble longs at offset 0: expected 1 or 2, found 3"),
        (patch(COMPRESSED, 3, 0), "bits per delta at offset 3: expected 1 to 63, found 0"),
        (patch(COMPRESSED, 3, 64), "bits per delta at offset 3: expected 1 to 63, found 64"),
        (patch(COMPRESSED, 4, 0), "bytes of the count at offset 4: expected 1 to 4, found 0"),
        (patch(COMPRESSED, 4, 255), "bytes of the count at offset 4: expected 1 to 4, found 255"),
        (patch(COMPRESSED, 5, 0x0A), "flags of a compressed sketch at offset 5: expected 0x1a, found 0x0a"),
        (patch(COMPRESSED, 5, 0x1E), "flags of a compressed sketch at offset 5: expected 0x1a, found 0x1e"),
        (patch(COMPRESSED, 6, 0), "seed hash at offset 6: expected 0x93cc (seed 9001), found 0x9300"),
        (patch(COMPRESSED, 8, 0), "retained entries at offset 8: expected 1 to 134217728, found 0"),
        (patch(COMPRESSED, 8, 4), "size at offset 13: expected 14 bytes, found 13 bytes"),
        (patch(COMPRESSED[:9] + b"\xff\xff\xff" + COMPRESSED[9:], 4, 4), "retained entries at offset 8"),
        (patch(COMPRESSED, 9, b"\0\0"), f"hash at offset 9: expected above 0 and below theta {MAX_THETA}, found 0"),
        (patch(COMPRESSED, 12, COMPRESSED[12] | 1), "padding at offset 12: expected zero bits"),
        (patch(COMPRESSED_ESTIMATING, 8, u64(0)), f"theta at offset 8: expected 1 to {MAX_THETA}, found 0"),
        (patch(COMPRESSED_ESTIMATING, 8, u64(71)), "hash at offset 19: expected above 0 and below theta 71, found 999"),
    ],
)  # fmt: skip
def test_broken_field_of_a_compressed_image_is_named(image: bytes, message: str) -> None:
    """Serial version 4 has its own fields, checked before unpacking."""
    with pytest.raises(CorruptSketchError) as caught:
        SketchImage.parse(image)
    assert str(caught.value).startswith(f"theta sketch, {message}")


@pytest.mark.parametrize("serial_version", [0, 1, 2, 5])
def test_other_serial_versions_are_unsupported(serial_version: int) -> None:
    """Older and future ones are named."""
    with pytest.raises(UnsupportedError, match=f"expected serial version 3 or 4, found {serial_version}"):
        SketchImage.parse(patch(EXACT, 1, serial_version))


def test_big_endian_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match=r"big-endian image \(flags 0x1b at offset 5\)"):
        SketchImage.parse(patch(EXACT, 5, 0x1B))


@pytest.mark.parametrize("name", EVERY_FORM)
def test_truncated_image_is_corrupt(name: str) -> None:
    image = EVERY_FORM[name]
    for size in range(len(image)):
        with pytest.raises(CorruptSketchError, match="size at offset"):
            SketchImage.parse(image[:size])


@pytest.mark.parametrize("name", EVERY_FORM)
def test_trailing_bytes_are_corrupt(name: str) -> None:
    image = EVERY_FORM[name]
    for junk in (b"\0", b"\0" * 8):
        with pytest.raises(CorruptSketchError, match=f"size at offset {len(image)}: expected {len(image)} bytes"):
            SketchImage.parse(image + junk)


@settings(max_examples=300)
@given(st.sampled_from(sorted(EVERY_FORM)), st.data())
def test_damaged_image_is_refused_or_round_trips(name: str, data: st.DataObject) -> None:
    image = bytearray(EVERY_FORM[name])
    for _ in range(data.draw(st.integers(1, 3))):
        image[data.draw(st.integers(0, len(image) - 1))] = data.draw(st.integers(0, 255))
    try:
        parsed = SketchImage.parse(image)
    except (CorruptSketchError, UnsupportedError):
        return
    hashes = parsed.hashes.tolist()
    assert hashes == sorted(set(hashes))
    assert all(0 < h < parsed.theta <= MAX_THETA for h in hashes)
    again = SketchImage.parse(parsed.to_bytes())
    assert (again.theta, again.hashes.tolist()) == (parsed.theta, hashes)


@pytest.mark.parametrize("name", EVERY_FORM)
def test_small_sketches_are_checked_alike_without_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain Python checks them while numpy is not loaded."""
    image = EVERY_FORM[name]
    flipped = [patch(image, offset, image[offset] ^ bit) for offset in range(len(image)) for bit in (1, 4, 0x80)]
    with_numpy = [outcome(each) for each in (image, *flipped)]
    monkeypatch.setattr("puffin.sketches.theta_image.sys", SimpleNamespace(modules={}, byteorder=sys.byteorder))
    assert [outcome(each) for each in (image, *flipped)] == with_numpy


def outcome(image: bytes) -> object:
    try:
        parsed = SketchImage.parse(image)
    except (CorruptSketchError, UnsupportedError) as exc:
        return str(exc)
    return parsed.theta, parsed.hashes.tolist()


@given(st.integers(1, 12), st.lists(st.integers(0, 12), max_size=5))
def test_hashes_must_ascend_from_zero_to_theta(theta: int, hashes: list[int]) -> None:
    assert ascend(hashes, theta) == (sorted({0, *hashes, theta}) == [0, *hashes, theta])


def test_words_are_swapped_on_a_big_endian_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.byteorder", "big" if sys.byteorder == "little" else "little")
    parsed = SketchImage.parse(SINGLE)
    assert parsed.hashes.tolist() == [7 << 56]
    assert parsed.to_bytes() == SINGLE
