"""Split-block Bloom filters: hashes, bits and sizes, held against Arrow's own filters and a plain reference."""

import io
import math
import struct
import uuid
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin.errors import CorruptError, UnsupportedTypeError
from puffin.files.parquet.thrift import read_struct
from puffin.index.bloom import BLOCK_BYTES, BloomFilter, BloomFilterBuilder, lg_blocks_for
from puffin.index.checksums import row_checksums
from puffin.index.value_hashes import hash_scalar, hash_values
from puffin.kernels import load_kernels
from puffin.values.json_values import arrow_type
from tests.index.stored_filters import may_contain

MASK = (1 << 64) - 1
P1, P2, P3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
P4, P5 = 9650029242287828579, 2870177450012600261


def xxh64(data: bytes) -> int:
    """xxHash64 with seed 0, as its specification writes it."""

    def rotate(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (64 - bits))) & MASK

    def absorb(state: int, word: int) -> int:
        return rotate((state + word * P2) & MASK, 31) * P1 & MASK

    at = 0
    if len(data) >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        while at + 32 <= len(data):
            words = struct.unpack_from("<4Q", data, at)
            lanes = [absorb(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        state = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & MASK
        for lane in lanes:
            state = ((state ^ absorb(0, lane)) * P1 + P4) & MASK
    else:
        state = P5
    state = (state + len(data)) & MASK
    while at + 8 <= len(data):
        state = (rotate(state ^ absorb(0, int.from_bytes(data[at : at + 8], "little")), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        state = (rotate(state ^ (int.from_bytes(data[at : at + 4], "little") * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        state = rotate(state ^ (byte * P5 & MASK), 11) * P1 & MASK
    state = (state ^ (state >> 33)) * P2 & MASK
    state = (state ^ (state >> 29)) * P3 & MASK
    return state ^ (state >> 32)


@pytest.fixture(params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to hash and insert."""
    if request.param == "compiled":
        assert load_kernels()
    else:
        monkeypatch.setattr("puffin.index.xxhash.kernels_ready", lambda: False)
        monkeypatch.setattr("puffin.index.bloom.kernels_ready", lambda: False)
    return str(request.param)


def hashes_of(values: list[object], type_: str) -> list[int]:
    found = [np.empty(0, np.uint64), *hash_values(pa.array(values, arrow_type(type_)), type_)]
    return [int(each) for each in np.concatenate(found)]


def filter_of(hashes: np.ndarray, rows: int | None = None, fpp: float = 0.01) -> BloomFilter:
    builder = BloomFilterBuilder(len(hashes) if rows is None else rows, fpp)
    builder.update([hashes])
    return builder.compact()


def test_reference_hash_agrees_with_published_values() -> None:
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"a") == 0xD24EC4F1A98C6E5B
    assert xxh64(b"The quick brown fox jumps over the lazy dog") == 0x0B242D361FDA71BC


PLAIN = {
    "int": (-5, struct.pack("<i", -5)),
    "long": (1 << 40, struct.pack("<q", 1 << 40)),
    "float": (1.5, struct.pack("<f", 1.5)),
    "double": (-0.0, struct.pack("<d", -0.0)),
    "date": (20_000, struct.pack("<i", 20_000)),
    "timestamptz": (-1, struct.pack("<q", -1)),
    "timestamp_ns": (7, struct.pack("<q", 7)),
    "time": (86_399_999_999, struct.pack("<q", 86_399_999_999)),
    "decimal(9, 2)": (Decimal("-1.23"), struct.pack("<i", -123)),
    "decimal(18, 2)": (Decimal("-1.23"), struct.pack("<q", -123)),
    "decimal(19, 2)": (Decimal("-1.23"), (-123).to_bytes(9, "big", signed=True)),
    "decimal(38, 0)": (Decimal(10**37), (10**37).to_bytes(16, "big", signed=True)),
    "string": ("zé", "zé".encode()),
    "binary": (b"", b""),
    "uuid": (uuid.UUID(int=3).bytes, uuid.UUID(int=3).bytes),
    "fixed[3]": (b"abc", b"abc"),
}


@pytest.mark.parametrize("type_", PLAIN)
def test_values_are_hashed_by_the_bytes_of_plain_encoding(type_: str, engine: str) -> None:
    value, plain = PLAIN[type_]
    assert hashes_of([None, value], type_) == [xxh64(plain)]


@given(st.lists(st.binary(max_size=100), max_size=30))
def test_strings_of_any_length_are_hashed_alike_with_and_without_kernels(values: list[bytes]) -> None:
    expected = sorted(map(xxh64, values))
    assert sorted(hashes_of(values * 40, "binary")) == sorted(expected * 40)  # more than kernels take at once
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("puffin.index.xxhash.kernels_ready", lambda: False)
        assert sorted(hashes_of(list(values), "binary")) == expected


def test_booleans_cannot_be_indexed() -> None:
    with pytest.raises(UnsupportedTypeError, match="boolean"):
        hashes_of([True], "boolean")


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("long", list(range(-500, 500))),
        ("string", [f"key-{i}" for i in range(1000)]),
        ("double", [i / 7 for i in range(1000)]),
        ("uuid", [uuid.UUID(int=i << 70).bytes for i in range(1000)]),
    ],
)
def test_filter_has_the_bytes_of_arrows_filter(type_: str, values: list[object], engine: str) -> None:
    """Arrow's C++ writer makes a filter of the same values; folded to one size, both have the same bytes."""
    array = pa.array(values, arrow_type(type_))
    sink = io.BytesIO()
    options = {"c": {"ndv": len(values), "fpp": 0.05}}
    pq.write_table(pa.table({"c": array}), sink, use_dictionary=False, bloom_filter_options=options)
    theirs = arrows_filter(sink.getvalue())
    ours = filter_of(np.concatenate(list(hash_values(array, type_))))
    assert ours.merge(BloomFilter(np.zeros_like(theirs.blocks))).to_bytes() == (
        theirs.merge(BloomFilter(np.zeros_like(ours.blocks))).to_bytes()
    )


def arrows_filter(file: bytes) -> BloomFilter:
    """The filter of the only column chunk of a Parquet file (``BloomFilterHeader`` and its bitset)."""
    footer_size = int.from_bytes(file[-8:-4], "little")
    footer, _ = read_struct(file, len(file) - 8 - footer_size, {4: {1: {3: {14: None}}}})
    header, begin = read_struct(file, footer[4][0][1][0][3][14], {1: None})
    return BloomFilter.from_bytes(file[begin : begin + header[1]])


@given(st.integers(1, 3000), st.integers(0, 5), st.integers(0, 2**32))
def test_a_larger_filter_folds_to_the_one_built_smaller(count: int, larger: int, seed: int) -> None:
    hashes = np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)
    small = filter_of(hashes)
    large = filter_of(hashes, rows=count << larger)
    while large.lg_blocks > small.lg_blocks:
        large = large.halved()
    assert large.to_bytes() == small.to_bytes()
    assert may_contain(large, hashes).all()


def test_rate_is_the_same_with_numpy_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no `bitwise_count`."""
    filter_ = filter_of(np.random.default_rng(3).integers(0, 2**64, 5000, np.uint64))
    expected = filter_.false_positive_rate()
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert filter_.false_positive_rate() == expected > 0


@pytest.mark.parametrize("fpp", [0.1, 0.01, 0.001])
def test_folded_filter_keeps_its_rate_and_is_no_larger_than_needed(fpp: float) -> None:
    generator = np.random.default_rng(5)
    for count in (1, 10, 1000, 30_000):
        hashes, others = (generator.integers(0, 2**64, n, np.uint64) for n in (count, 200_000))
        folded = filter_of(hashes, rows=50 * count, fpp=fpp).folded(fpp)
        found = may_contain(folded, others).mean()
        assert found <= fpp + 5 * math.sqrt(fpp / len(others))
        assert folded.false_positive_rate() == pytest.approx(found, abs=5 * math.sqrt(fpp / len(others)))
        assert folded.lg_blocks == 0 or folded.halved().false_positive_rate() > fpp


def test_filters_take_at_most_2_7_bytes_per_distinct_value() -> None:
    """Sizes are powers of two, so counts drawn log-uniformly need 1.9 bytes on average at 1 %."""
    generator = np.random.default_rng(7)
    sizes = []
    for _ in range(60):
        count = int(10 ** generator.uniform(4, 5.5))
        folded = filter_of(generator.integers(0, 2**64, count, np.uint64)).folded(0.01)
        sizes.append(len(folded.blocks) * BLOCK_BYTES / count)
    assert max(sizes) < 2.7
    assert np.mean(sizes) < 1.95


def test_first_size_has_room_for_all_values() -> None:
    generator = np.random.default_rng(3)
    for count in (1, 5, 1000, 20_000, 65_536):
        for fpp in (0.2, 0.01, 1e-4):
            built = filter_of(generator.integers(0, 2**64, count, np.uint64), fpp=fpp)
            assert built.false_positive_rate() <= fpp, (count, fpp, lg_blocks_for(count, fpp))


@pytest.mark.parametrize("size", [0, 31, 33, 96])
def test_filter_of_odd_size_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptError, match="power of two"):
        BloomFilter.from_bytes(bytes(size))


@pytest.mark.parametrize(
    ("type_", "stored", "value", "plain"),
    [
        ("long", "int", 7, struct.pack("<i", 7)),
        ("double", "float", 0.5, struct.pack("<f", 0.5)),
        ("double", "float", 0.1, struct.pack("<f", 0.1)),  # pyiceberg compares it with the floats of a file so
        ("decimal(18, 2)", "decimal(9, 2)", "1.25", struct.pack("<i", 125)),
        ("decimal(38, 2)", "decimal(18, 2)", "1.25", struct.pack("<q", 125)),
        ("timestamp", "date", "1970-01-02T00:00:00", struct.pack("<i", 1)),
    ],
)
def test_value_is_sought_in_the_type_that_the_filter_was_built_with(
    type_: str, stored: str, value: object, plain: bytes
) -> None:
    assert [int(each) for each in hash_scalar(type_, stored, value)] == [xxh64(plain)]


@pytest.mark.parametrize(
    ("type_", "stored", "value"),
    [
        *[("double", "double", math.nan), ("double", "float", math.nan), ("string", "long", "x")],
        *[("double", "int", 0.5), ("timestamp", "date", "1970-01-02T00:00:01")],
        ("decimal(9, 2)", "decimal(9, 2)", "10000000.00"),
    ],
)
def test_value_without_certain_hashes_is_not_sought(type_: str, stored: str, value: object) -> None:
    assert hash_scalar(type_, stored, value) is None


@pytest.mark.parametrize(
    ("stored", "code", "value"),
    [("double", "<d", 0.0), ("double", "<d", -0.0), ("float", "<f", -0.0), ("float", "<f", 1e-60)],
)
def test_both_zeros_are_sought(stored: str, code: str, value: float) -> None:
    found = {int(each) for each in hash_scalar("double", stored, value)}
    assert found == {xxh64(struct.pack(code, zero)) for zero in (0.0, -0.0)}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("words", [8, 24, 1016, 1024, 2048])
@pytest.mark.parametrize("first", [0, 1000, 2**22])
def test_checksums_of_rows_are_those_of_zlib(
    words: int, first: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_kernels()
    monkeypatch.setattr("puffin.index.checksums.kernels_ready", lambda: compiled)
    rows = np.random.default_rng(words).integers(0, 2**32, (7, words + 1), np.uint32)
    expected = [zlib.crc32(row[:-1].tobytes(), first + i) for i, row in enumerate(rows)]
    assert row_checksums(rows, first).tolist() == expected
