"""The bytes of each type, written by hand from appendix D, and the arrays that are refused."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptDataFileError, UnsupportedTypeError
from puffin.values.serialized import Words
from puffin.values.single_value import single_values
from puffin.values.value_type import is_hashable

pytestmark = pytest.mark.usefixtures("both_ways")

DAY = 86_400
WIDEST = 10**38 - 1


def bytes_of(array: pa.Array | pa.ChunkedArray, type_string: str) -> list[bytes]:
    """The serialized values, laid out as bytes again."""
    values = []
    for part in single_values(array, type_string):
        if isinstance(part, Words):
            high = part.high if part.high is not None else np.zeros_like(part.low)
            lengths = np.broadcast_to(part.length, len(part.low))
            padded = [int(word).to_bytes(8, "little") for pair in zip(part.low, high, strict=True) for word in pair]
            values += [(padded[2 * i] + padded[2 * i + 1])[: int(length)] for i, length in enumerate(lengths)]
        else:
            values += [part.data[a:b].tobytes() for a, b in zip(part.offsets, part.offsets[1:], strict=False)]
    return values


def long(value: int) -> bytes:
    return struct.pack("<q", value)


def int_(value: int) -> bytes:
    return struct.pack("<i", value)


@pytest.mark.parametrize(
    ("type_string", "arrow_type", "value", "expected"),
    [
        ("boolean", pa.bool_(), False, b"\x00"),
        ("boolean", pa.bool_(), True, b"\x01"),
        ("int", pa.int32(), -2, int_(-2)),
        ("long", pa.int64(), 34, long(34)),
        ("long", pa.duration("ns"), np.timedelta64(34, "ns"), long(34)),
        ("float", pa.float32(), -4.5, struct.pack("<f", -4.5)),
        ("double", pa.float64(), 6.25, struct.pack("<d", 6.25)),
        ("date", pa.date32(), -1, int_(-1)),
        ("time", pa.time64("us"), 81_068_123_456, long(81_068_123_456)),
        ("timestamp", pa.timestamp("us"), -1, long(-1)),
        ("timestamptz", pa.timestamp("us", "Europe/Berlin"), 7, long(7)),
        ("timestamp_ns", pa.timestamp("ns"), 123, long(123)),
        ("timestamptz_ns", pa.timestamp("ns", "UTC"), 123, long(123)),
        ("string", pa.string(), "iceberg é", "iceberg é".encode()),
        ("binary", pa.binary(), b"\x00\xff", b"\x00\xff"),
        ("fixed[3]", pa.binary(3), b"abc", b"abc"),
        ("fixed[16]", pa.binary(16), bytes(range(16)), bytes(range(16))),
        ("decimal(9,2)", pa.decimal128(9, 2), Decimal("14.20"), b"\x05\x8c"),
    ],
)
def test_value_has_the_bytes_of_appendix_d(
    type_string: str, arrow_type: pa.DataType, value: Any, expected: bytes
) -> None:
    assert bytes_of(pa.array([value], arrow_type), type_string) == [expected]


def test_uuid_is_sixteen_big_endian_bytes() -> None:
    """Whether Arrow calls it a uuid or not; never its text."""
    value = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    plain = pa.array([value.bytes], pa.binary(16))
    for array in (plain, pa.array([value.bytes], pa.binary()), pa.ExtensionArray.from_storage(pa.uuid(), plain)):
        assert bytes_of(array, "uuid") == [value.bytes]
    with pytest.raises(CorruptDataFileError, match=r"^a column of type uuid cannot be read from Arrow string$"):
        bytes_of(pa.array([str(value)]), "uuid")


@pytest.mark.parametrize(
    ("type_string", "arrow_type", "value", "expected"),
    [
        ("int", pa.int8(), -1, int_(-1)),
        ("int", pa.uint16(), 65_535, int_(65_535)),
        ("long", pa.int32(), -5, long(-5)),
        ("long", pa.int16(), 5, long(5)),
        ("long", pa.uint32(), 2**32 - 1, long(2**32 - 1)),
        ("double", pa.float32(), 0.1, struct.pack("<d", np.float32(0.1))),
        ("double", pa.int32(), -5, struct.pack("<d", -5.0)),
        ("decimal(12, 2)", pa.int32(), 5, b"\x01\xf4"),
        ("decimal(9, 3)", pa.decimal128(8, 2), Decimal("-0.01"), b"\xf6"),
        ("decimal(38, 2)", pa.decimal128(9, 2), Decimal("1.28"), b"\x00\x80"),
        ("timestamp", pa.date32(), -1, long(-DAY * 10**6)),
        ("timestamp_ns", pa.date32(), 1, long(DAY * 10**9)),
        ("date", pa.date64(), -DAY * 1000, int_(-1)),
        ("time", pa.time32("s"), 3, long(3_000_000)),
        ("time", pa.time32("ms"), 3, long(3_000)),
        ("time", pa.time64("ns"), 3_999, long(3)),
        ("timestamp", pa.timestamp("s"), -1, long(-1_000_000)),
        ("timestamp", pa.timestamp("ms"), 5, long(5_000)),
        ("timestamp", pa.timestamp("ns"), 1_999, long(1)),
        ("timestamp", pa.timestamp("ns"), -1, long(-1)),
        ("timestamptz", pa.timestamp("ns"), -1_001, long(-2)),
        ("timestamp_ns", pa.timestamp("us"), -7, long(-7_000)),
        ("string", pa.binary(), b"\xff", b"\xff"),
        ("binary", pa.string(), "a", b"a"),
        ("binary", pa.binary(2), b"ab", b"ab"),
        ("fixed[2]", pa.large_binary(), b"ab", b"ab"),
    ],
)
def test_narrower_file_type_has_the_bytes_of_the_column(
    type_string: str, arrow_type: pa.DataType, value: Any, expected: bytes
) -> None:
    """Promotion and units follow the table's type; finer times are rounded down, before 1970 too."""
    assert bytes_of(pa.array([value], arrow_type), type_string) == [expected]


@pytest.mark.parametrize(
    ("unscaled", "length"),
    [
        (0, 1), (-1, 1), (127, 1), (-128, 1), (128, 2), (-129, 2), (2**15 - 1, 2), (2**15, 3), (2**31, 5),
        (-(2**31), 4),
        (2**55 - 1, 7), (2**55, 8), (-(2**55) - 1, 8), (2**63 - 1, 8), (2**63, 9), (-(2**63), 8), (-(2**63) - 1, 9),
        (2**64, 9), (2**71, 10), (2**119 - 1, 15), (2**119, 16), (-(2**119), 15), (-(2**119) - 1, 16),
        (WIDEST, 16), (-WIDEST, 16),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arrow_type", [pa.decimal128(38, 3), pa.decimal256(38, 3)], ids=str)
def test_decimal_takes_the_fewest_bytes(unscaled: int, length: int, arrow_type: pa.DataType) -> None:
    """The unscaled value is big-endian two's complement with room for its sign."""
    array = pa.array([Decimal(f"{unscaled}E-3")], arrow_type)
    assert bytes_of(array, "decimal(38, 3)") == [unscaled.to_bytes(length, "big", signed=True)]


@settings(max_examples=60)
@given(st.lists(st.integers(-WIDEST, WIDEST) | st.integers(-(2**70), 2**70) | st.integers(-300, 300), min_size=1))
def test_decimals_of_mixed_lengths_are_serialized_once_each(unscaled: list[int]) -> None:
    array = pa.array([Decimal(value) for value in unscaled], pa.decimal128(38, 0))
    lengths = [((value ^ (value >> 200)).bit_length()) // 8 + 1 for value in unscaled]
    expected = [value.to_bytes(size, "big", signed=True) for value, size in zip(unscaled, lengths, strict=True)]
    assert sorted(bytes_of(array, "decimal(38, 0)")) == sorted(expected)


@pytest.mark.parametrize("name", ["decimal32", "decimal64"])
def test_small_decimal_arrays_are_read(name: str) -> None:
    """Arrow's 32- and 64-bit decimals, sliced, have the bytes of the same values at 128 bits."""
    if not hasattr(pa, name):
        pytest.skip(f"this Arrow has no {name}")
    array = pa.array([Decimal("0.01"), Decimal("1.28"), None, Decimal("-1.29")], getattr(pa, name)(9, 2))[1:]
    assert bytes_of(array, "decimal(9, 2)") == [b"\x00\x80", b"\xff\x7f"]


def test_wide_decimal_beyond_128_bits_is_corrupt() -> None:
    """No Iceberg decimal has such a value."""
    array = pa.array([Decimal(2**130)], pa.decimal256(60, 0))
    with pytest.raises(CorruptDataFileError, match=r"decimal\(38, 0\) from Arrow decimal256.*at most 128 bits"):
        bytes_of(array, "decimal(38, 0)")


@pytest.mark.parametrize(("type_string", "arrow_type", "bits"), [
    ("float", pa.float32(), [0x00000000, 0x80000000, 0x7FC00000, 0xFFC00001]),
    ("double", pa.float64(), [0x0, 1 << 63, 0x7FF8000000000000, 0x7FF8000000000001]),
])  # fmt: skip
def test_floats_are_distinguished_by_their_bits(type_string: str, arrow_type: pa.DataType, bits: list[int]) -> None:
    """0.0 and -0.0 are two values, and so are NaNs with different bits."""
    width = arrow_type.bit_width // 8
    array = pa.array(bits, pa.uint32() if width == 4 else pa.uint64()).view(arrow_type)
    assert bytes_of(array, type_string) == [value.to_bytes(width, "little") for value in bits]


@pytest.mark.parametrize(
    ("type_string", "arrow_type"),
    [
        ("boolean", pa.int8()),
        ("int", pa.int64()),
        ("int", pa.uint32()),
        ("long", pa.uint64()),
        ("long", pa.float64()),
        ("float", pa.float64()),
        ("double", pa.int64()),
        ("date", pa.timestamp("us")),
        ("time", pa.int64()),
        ("timestamp", pa.int64()),
        ("timestamptz", pa.date32()),
        ("timestamp_ns", pa.time64("ns")),
        ("string", pa.int32()),
        ("string", pa.binary(3)),
        ("uuid", pa.binary(15)),
        ("fixed[4]", pa.binary(5)),
        ("fixed[4]", pa.string()),
        ("decimal(9, 2)", pa.decimal128(9, 3)),
        ("decimal(9, 2)", pa.int32()),
        ("binary", pa.list_(pa.int8())),
    ],
)
def test_array_of_another_type_is_refused_with_both_names(type_string: str, arrow_type: pa.DataType) -> None:
    """Even without rows."""
    with pytest.raises(CorruptDataFileError) as caught:
        single_values(pa.array([], arrow_type), type_string)
    assert str(caught.value) == f"a column of type {type_string} cannot be read from Arrow {arrow_type}"


@pytest.mark.parametrize(
    ("type_string", "array", "message"),
    [
        ("timestamp_ns", pa.array([2**62], pa.timestamp("us")), r"_ns from Arrow timestamp\[us\]: expected counts"),
        ("timestamp_ns", pa.array([-(2**62)], pa.timestamp("s")), r"expected counts within 9223372036 of 1970"),
        ("date", pa.array([2**60], pa.date64()), r"date from Arrow date64\[ms\]: expected days of at most 32 bits"),
        ("fixed[4]", pa.array([b"abcd", b"abc"]), r"from Arrow binary: expected values of 4 bytes, found one of 3"),
    ],
)  # fmt: skip
def test_value_that_does_not_fit_the_column_is_refused(type_string: str, array: pa.Array, message: str) -> None:
    """Nothing wraps around or is cut to fit."""
    with pytest.raises(CorruptDataFileError, match=message):
        list(single_values(array, type_string))


@pytest.mark.parametrize(
    "type_string",
    [
        "unknown", "variant", "geometry", "geometry(srid:4326)", "geography", "geography(srid:4326, karney)",
        "struct<1: a: int>", "struct", "list<int>", "map<int, int>", "decimal(39, 2)", "decimal(0, 0)", "decimal",
        "fixed", "fixed[-1]", "LONG", " long", "",
    ],
)  # fmt: skip
def test_unhashable_type_is_refused_by_name(type_string: str) -> None:
    """Nested, v3 and misspelt types."""
    assert not is_hashable(type_string)
    with pytest.raises(UnsupportedTypeError, match="has no single-value bytes to hash") as caught:
        single_values(pa.array([1]), type_string)
    assert repr(type_string) in str(caught.value)


def test_every_primitive_type_of_appendix_d_is_hashable(any_type: str) -> None:
    assert is_hashable(any_type)


def test_null_typed_column_has_no_values(any_type: str) -> None:
    """Readers use Arrow's null type for a missing column of any type."""
    assert bytes_of(pa.nulls(3), any_type) == []
