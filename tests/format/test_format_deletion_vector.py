"""Deletion vectors are read and written as Java does, and no bytes do worse than raise our errors."""

import contextlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptDeletionVectorError, UsageError
from puffin.format.deletion_vector import MAGIC, MAX_KEY, MAX_POSITION, DeletionVector

JAVA = Path(__file__).parents[2] / "fixtures" / "deletion-vectors-java"


def contains(vector, position):
    return position & 0xFFFFFFFF in vector.bitmaps.get(position >> 32, ())


GOLDEN = {
    "empty-position-index.bin": [],
    "small-alternating-values-position-index.bin": [1, 3, 5, 7, 9],
    "small-and-large-values-position-index.bin": [100, 101, 2**31 + 99, 2**31 + 100],
    "all-container-types-position-index.bin": [
        *(5, 7),
        *range(2**16 + 1, 2**16 + 1000),
        *range(2**17 + 1, 2**17 + 65535),
        *(2**32 + 10, 2**32 + 20),
        *range(2**32 + 2**16 + 10, 2**32 + 2**16 + 500),
        *range(2**32 + 2**17 + 1, 2**32 + 2**17 + 65535),
    ],
}

golden_cases = pytest.mark.parametrize(("name", "positions"), GOLDEN.items(), ids=GOLDEN.keys())

# Clusters around container and key borders, so that keys, containers and runs are shared.
positions_lists = st.lists(
    st.builds(
        lambda base, start, length: range(base + start, base + start + length),
        st.sampled_from([0, 2**16 - 5, 2**32 - 5, 2**40, MAX_KEY << 32]),
        st.integers(0, 20),
        st.integers(0, 12),
    ),
    max_size=8,
).map(lambda ranges: [position for each in ranges for position in each])


def framed(vector: bytes) -> bytes:
    """A payload with a valid frame around any vector."""
    body = MAGIC + vector
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def vector_of(*bitmaps: tuple[int, bytes]) -> bytes:
    return struct.pack("<Q", len(bitmaps)) + b"".join(struct.pack("<I", key) + bitmap for key, bitmap in bitmaps)


def array_bitmap(*members: int, cardinality: int | None = None, offset: int = 16) -> bytes:
    stated = len(members) if cardinality is None else cardinality
    return struct.pack(f"<IIHHI{len(members)}H", 12346, 1, 0, stated - 1, offset, *members)


def run_bitmap(*runs: tuple[int, int], cardinality: int) -> bytes:
    flat = [number for run in runs for number in run]
    return struct.pack(f"<HHBHHH{len(flat)}H", 12347, 0, 1, 0, cardinality - 1, len(runs), *flat)


EMPTY_BITMAP = struct.pack("<II", 12346, 0)


# --- what is right --------------------------------------------------------------------------------------------


@golden_cases
def test_java_payload_decodes(name: str, positions: list[int]) -> None:
    vector = DeletionVector.from_bytes((JAVA / name).read_bytes(), expected_cardinality=len(positions))
    assert vector.positions().tolist() == positions
    assert vector.first(4) == positions[:4]


@golden_cases
def test_payload_is_byte_equal_to_java(name: str, positions: list[int]) -> None:
    golden = (JAVA / name).read_bytes()
    assert DeletionVector.from_positions(reversed(positions)).to_bytes() == golden
    assert DeletionVector.from_bytes(golden).to_bytes() == golden


@given(positions_lists)
def test_round_trip(positions: list[int]) -> None:
    vector = DeletionVector.from_positions(positions)
    expected = sorted(set(positions))
    assert vector.positions().tolist() == expected
    assert vector.first(3) == expected[:3]
    assert vector.cardinality == len(expected)
    assert DeletionVector.from_bytes(vector.to_bytes(), expected_cardinality=len(expected)) == vector


@given(st.integers(0, 2**32 - 1), st.integers(4000, 70_000), st.integers(1, 9))
@settings(max_examples=25)
def test_round_trip_of_bitset_containers_and_offset_headers(start: int, count: int, step: int) -> None:
    """The layout changes with thousands of members in a container, and with four containers."""
    positions = np.arange(start, start + count * step, step)
    payload = DeletionVector.from_positions(positions).to_bytes()
    assert np.array_equal(DeletionVector.from_bytes(payload).positions(), positions)


@given(positions_lists, positions_lists)
def test_union_is_the_set_union(left: list[int], right: list[int]) -> None:
    union = DeletionVector.from_positions(left).union(DeletionVector.from_positions(right))
    assert union.positions().tolist() == sorted({*left, *right})
    left_alone = DeletionVector.from_positions(left).difference(DeletionVector.from_positions(right))
    assert left_alone == DeletionVector.from_positions({*left} - {*right})


@given(positions_lists, st.sampled_from([0, 2**16, 2**32, 2**40]), st.integers(0, 30), st.integers(0, 60))
def test_live_mask_agrees_with_contains(positions: list[int], base: int, before: int, length: int) -> None:
    start = max(base - before, 0)
    vector = DeletionVector.from_positions(positions)
    mask = vector.live_mask(start, start + length)
    assert mask.dtype == np.bool_
    assert mask.tolist() == [row not in set(positions) for row in range(start, start + length)]
    assert mask.tolist() == [not contains(vector, row) for row in range(start, start + length)]


def test_contains_is_false_for_impossible_positions() -> None:
    vector = DeletionVector.from_positions([0, MAX_POSITION])
    assert contains(vector, MAX_POSITION)
    assert not contains(vector, -1)
    assert not contains(vector, MAX_POSITION + 1)


def test_empty_bitmaps_are_left_out() -> None:
    """Java writes one for every key below the highest."""
    vector = DeletionVector.from_bytes(framed(vector_of((0, EMPTY_BITMAP), (1, array_bitmap(7)))))
    assert vector == DeletionVector.from_positions([2**32 + 7])


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([-1], f"positions: expected 0 to {MAX_POSITION}, found -1"),
        ([5, MAX_POSITION + 1], f"positions: expected 0 to {MAX_POSITION}, found {MAX_POSITION + 1}"),
        ([1.5], "positions: expected one dimension of 64-bit integers, found 1 of float64"),
        (np.zeros((2, 2), np.int64), "positions: expected one dimension of 64-bit integers, found 2 of int64"),
    ],
)
def test_positions_out_of_range_are_refused(positions, message: str) -> None:
    with pytest.raises(UsageError) as error:
        DeletionVector.from_positions(positions)
    assert str(error.value) == message


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3)])
def test_impossible_row_ranges_are_refused(start: int, stop: int) -> None:
    with pytest.raises(UsageError, match=r"row range: expected 0 <= start <= stop"):
        DeletionVector.from_positions([1]).live_mask(start, stop)


# --- what is wrong: one case for each field, in the order of the layout ---------------------------------------

SMALL = (JAVA / "small-alternating-values-position-index.bin").read_bytes()

NO_COOKIE = SMALL[:20] + b"\xff" + SMALL[21:]

BROKEN = {
    "too short": (bytes(19), "payload size at offset 0: expected at least 20 bytes, found 19"),
    "length": (b"\0\0\0\x2b" + SMALL[4:], "length of magic and vector at offset 0: expected 42, found 43"),
    "magic": (SMALL[:7] + b"\x65" + SMALL[8:], "magic at offset 4: expected d1 d3 39 64, found d1 d3 39 65"),
    "checksum": (SMALL[:-1] + b"\0", "CRC-32 of magic and vector at offset 46: expected b3fb20be, found b3fb2000"),
    "checksum is looked at before the bitmaps": (
        NO_COOKIE,
        f"CRC-32 of magic and vector at offset 46: expected {zlib.crc32(NO_COOKIE[4:-4]):08x}, found b3fb20be",
    ),
    "count": (framed(struct.pack("<Q", 2**63)), f"bitmap count at offset 8: expected at most 0, found {2**63}"),
    "count is bounded by the bytes left": (
        framed(struct.pack("<Q", 3) + bytes(24)),
        "bitmap count at offset 8: expected at most 2, found 3",
    ),
    "key order": (
        framed(vector_of((4, EMPTY_BITMAP), (4, EMPTY_BITMAP))),
        f"key at offset 28: expected 5 to {MAX_KEY}, found 4",
    ),
    "key range": (
        framed(vector_of((MAX_KEY + 1, EMPTY_BITMAP))),
        f"key at offset 16: expected 0 to {MAX_KEY}, found {MAX_KEY + 1}",
    ),
    "cookie": (
        framed(vector_of((0, struct.pack("<II", 12345, 0)))),
        "Roaring cookie at offset 20: expected 12346 or 12347, found 12345",
    ),
    "container count": (
        framed(vector_of((0, struct.pack("<II", 12346, 65537)))),
        "container count at offset 24: expected at most 65536, found 65537",
    ),
    "run flags cut": (
        framed(vector_of((0, struct.pack("<HHI", 12347, 65535, 0)))),
        "run flags at offset 24: expected 8192 bytes, found 4 left",
    ),
    "container headers cut": (
        framed(vector_of((0, struct.pack("<II", 12346, 65536)))),
        "container headers at offset 28: expected 262144 bytes, found 0 left",
    ),
    "container keys": (
        framed(vector_of((0, struct.pack("<II4H2I2H", 12346, 2, 8, 0, 8, 0, 24, 26, 1, 2)))),
        "container key at offset 32: expected more than 8, found 8",
    ),
    "container offsets cut": (
        framed(vector_of((0, struct.pack("<IIHH", 12346, 1, 0, 0)))),
        "container offsets at offset 32: expected 4 bytes, found 0 left",
    ),
    "container offset": (
        framed(vector_of((0, array_bitmap(1, offset=17)))),
        "container offset at offset 32: expected 16, found 17",
    ),
    "array cut": (
        framed(vector_of((0, array_bitmap(1, cardinality=2)))),
        "array container at offset 36: expected 4 bytes, found 2 left",
    ),
    "array order": (
        framed(vector_of((0, array_bitmap(3, 3)))),
        "container at offset 36: expected members strictly ascending and below 65536, found disorder",
    ),
    "bitset cut": (
        framed(vector_of((0, array_bitmap(*range(4095), cardinality=4097)))),
        "bitset container at offset 36: expected 8192 bytes, found 8190 left",
    ),
    "bitset cardinality": (
        framed(vector_of((0, array_bitmap(*[0xFFFF] * 4096, cardinality=5000)))),
        "container at offset 36: expected 5000 members, as its header says, found 65536",
    ),
    "runs cut": (
        framed(vector_of((0, run_bitmap((1, 1), cardinality=2)[:-2]))),
        "runs at offset 31: expected 4 bytes, found 2 left",
    ),
    "run order": (
        framed(vector_of((0, run_bitmap((1, 5), (6, 1), cardinality=8)))),
        "container at offset 29: expected members strictly ascending and below 65536, found disorder",
    ),
    "run past the end": (
        framed(vector_of((0, run_bitmap((65535, 1), cardinality=2)))),
        "container at offset 29: expected members strictly ascending and below 65536, found disorder",
    ),
    "run cardinality": (
        framed(vector_of((0, run_bitmap(cardinality=1)))),
        "container at offset 29: expected 1 members, as its header says, found 0",
    ),
    "trailing bytes": (
        framed(vector_of((0, array_bitmap(1))) + b"junk"),
        "end of the vector at offset 38: expected no further bytes, found 4 more bytes",
    ),
}


@pytest.mark.parametrize(("payload", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_rule_is_named_with_its_place(payload: bytes, message: str) -> None:
    with pytest.raises(CorruptDeletionVectorError) as error:
        DeletionVector.from_bytes(payload)
    assert str(error.value) == f"deletion vector: {message}"


def test_cardinality_that_contradicts_the_metadata_is_refused() -> None:
    with pytest.raises(CorruptDeletionVectorError, match="cardinality at offset 8: expected 4, found 5"):
        DeletionVector.from_bytes(SMALL, expected_cardinality=4)


def test_pyroaring_errors_are_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its releases check different things."""

    class Refusing:
        @staticmethod
        def deserialize(_: bytes) -> None:
            raise ValueError("not to my liking")

    monkeypatch.setattr("pyroaring.FrozenBitMap", Refusing)
    with pytest.raises(CorruptDeletionVectorError, match=r"bitmap at offset 20: .* found not to my liking") as error:
        DeletionVector.from_bytes(SMALL)
    assert isinstance(error.value.__cause__, ValueError)


@golden_cases
def test_vector_cut_anywhere_is_refused(name: str, positions: list[int]) -> None:
    """Cut from the outside, and inside a corrected frame."""
    golden = (JAVA / name).read_bytes()
    vector = golden[8:-4]
    cuts = [golden[:size] for size in range(len(golden))] + [framed(vector[:size]) for size in range(len(vector))]
    for cut in cuts:
        with pytest.raises(CorruptDeletionVectorError):
            DeletionVector.from_bytes(cut)


@golden_cases
def test_trailing_junk_is_refused(name: str, positions: list[int]) -> None:
    golden = (JAVA / name).read_bytes()
    for junk in (golden + b"\0", framed(golden[8:-4] + b"\0")):
        with pytest.raises(CorruptDeletionVectorError):
            DeletionVector.from_bytes(junk)


@given(
    st.sampled_from(sorted(GOLDEN)),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4),
)
@settings(max_examples=200)
def test_mutated_vector_is_refused_or_round_trips(name: str, changes: list[tuple[int, int]]) -> None:
    """With a corrected checksum."""
    vector = bytearray((JAVA / name).read_bytes()[8:-4])
    for index, value in changes:
        vector[index % len(vector)] = value
    try:
        decoded = DeletionVector.from_bytes(framed(bytes(vector)))
    except CorruptDeletionVectorError:
        return
    positions = decoded.positions()
    assert decoded.cardinality == len(positions)
    assert (np.diff(positions) > 0).all()
    assert DeletionVector.from_positions(positions) == decoded
    assert DeletionVector.from_bytes(decoded.to_bytes()) == decoded


@given(st.sampled_from([12346, 12347, 12347 | 3 << 16]), st.binary(max_size=60))
def test_random_containers_are_refused_or_decoded(cookie: int, rest: bytes) -> None:
    with contextlib.suppress(CorruptDeletionVectorError):
        DeletionVector.from_bytes(framed(vector_of((0, struct.pack("<I", cookie) + rest))))
