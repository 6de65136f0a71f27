"""Partition values: every spelling that the protocol or a writer uses is accepted, and nothing else."""

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.delta.scan.partition_values import partition_json
from puffin.errors import CorruptMetadataError
from puffin.values.json_values import to_scalar

ALL_TYPES = [
    "int",
    "long",
    "float",
    "double",
    "decimal(12, 3)",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamptz",
]


def value_of(type_, text):
    return partition_json(type_, text, "part-0.parquet")


@pytest.mark.parametrize("type_", [*ALL_TYPES, "string", "variant"])
@pytest.mark.parametrize("text", [None, ""])
def test_null_and_empty_text_are_null_for_any_type(type_, text):
    assert value_of(type_, text) is None


@pytest.mark.parametrize(
    ("type_", "text", "json_form"),
    [
        ("int", "-128", -128),
        ("int", "+7", 7),
        ("int", " 2147483647 ", 2147483647),
        ("long", "-9223372036854775808", -(2**63)),
        ("double", "0.1", 0.1),
        ("double", "1.0E300", 1e300),
        ("double", "Infinity", math.inf),
        ("double", "-inf", -math.inf),
        ("double", "-0.0", -0.0),
        ("double", "1", 1.0),
        ("float", "0.1", 0.10000000149011612),
        ("float", "-Infinity", -math.inf),
        ("decimal(12, 3)", "12.300", "12.300"),
        ("decimal(12, 3)", "12.3", "12.300"),
        ("decimal(12, 3)", "0E-3", "0.000"),
        ("decimal(12, 10)", "1E-10", "0.0000000001"),
        ("decimal(12, 3)", "-1e2", "-100.000"),
        ("decimal(12, 3)", "7", "7.000"),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("date", "1969-12-31", "1969-12-31"),
        ("date", "9999-12-31", "9999-12-31"),
        ("date", "2024-3-1", "2024-03-01"),
        ("date", "+10209-1-27", "+10209-01-27"),
        ("timestamp", "+10209-01-27 06:13:20", "+10209-01-27T06:13:20.000000"),
        ("timestamptz", "-0001-12-31T23:30:00-01:00", "0000-01-01T00:30:00.000000+00:00"),
        ("timestamp", "2024-03-01 12:30:15.123456", "2024-03-01T12:30:15.123456"),
        ("timestamp", "2024-03-01 00:00:00.5", "2024-03-01T00:00:00.500000"),
        ("timestamp", "1960-01-01 00:00:00", "1960-01-01T00:00:00.000000"),
        ("timestamp", "2024-03-01", "2024-03-01T00:00:00.000000"),
        ("timestamptz", "2024-03-01T12:30:15.123456Z", "2024-03-01T12:30:15.123456+00:00"),
        ("timestamptz", "2024-03-01 12:30:15.123456", "2024-03-01T12:30:15.123456+00:00"),
        ("timestamptz", "1969-12-31T23:59:59.000001Z", "1969-12-31T23:59:59.000001+00:00"),
        ("timestamptz", "2024-03-01T12:30:15+05:30", "2024-03-01T07:00:15.000000+00:00"),
        ("timestamptz", "0001-01-01 00:00:00", "0001-01-01T00:00:00.000000+00:00"),
        ("timestamptz", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999+00:00"),
        ("binary", "\x01a\xfc", "0161c3bc"),
        ("binary", r"\u0001\u00FF\u0000", "01ff00"),
        ("binary", r"\u0141", rb"\u0141".hex()),
        ("binary", r"\u0001x", rb"\u0001x".hex()),
        ("string", " a b/c%d=e:f ", " a b/c%d=e:f "),
        ("string", "null", "null"),
        ("string", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
        ("variant", "anything", "anything"),
    ],
)
def test_text_becomes_the_json_form(type_, text, json_form):
    found = value_of(type_, text)
    assert (found, type(found)) == (json_form, type(json_form))
    assert math.copysign(1, found) == math.copysign(1, json_form) if isinstance(found, float) else True


@pytest.mark.parametrize("text", ["NaN", "nan"])
@pytest.mark.parametrize("type_", ["float", "double"])
def test_nan_has_javas_bits(type_, text):
    bits = {"float": (pa.uint32(), 0x7FC00000), "double": (pa.uint64(), 0x7FF8000000000000)}[type_]
    scalar = to_scalar(type_, value_of(type_, text))
    assert pa.array([scalar.as_py()], scalar.type).view(bits[0]).to_pylist() == [bits[1]]


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        *[("int", text) for text in ("1.0", "1_0", "a", "2147483648", "0x1", "٣", "NaN", "9" * 5000)],
        ("long", "9223372036854775808"),
        *[("double", text) for text in ("1_0", "1.0d", "--1", "infinite", "1,5", "0x1p3", "٣")],
        *[("decimal(12, 3)", text) for text in ("1.2345", "1234567890", "NaN", "1_0", "1E+999999999", "1E-999999999")],
        *[("boolean", text) for text in ("1", "yes", "t")],
        *[("date", text) for text in ("2024-02-30", "2024-1", "24-01-01", "2024-01-01 00:00:00", "10000-01-01")],
        *[("timestamp", text) for text in ("now", "2024-13-01 00:00:00", "2024-01-01 24:00:00", "2024-01-01 1:2", "1")],
        ("timestamptz", "2024-01-01T00:00:00+99:00"),
        ("string", "\ud800"),
        ("binary", "\ud800"),
    ],
)
def test_invalid_value_is_refused_with_file_and_both_sides(type_, text):
    with pytest.raises(CorruptMetadataError) as caught:
        value_of(type_, text)
    assert str(caught.value).startswith(f"part-0.parquet: partition value: expected a {type_}, found '")
    assert len(str(caught.value)) < 250


def test_line_break_in_a_value_is_escaped_in_the_error():
    with pytest.raises(CorruptMetadataError, match=r"found '1\\n2'$"):
        value_of("int", "1\n2")


@settings(max_examples=200)
@given(st.sampled_from(ALL_TYPES), st.text(max_size=12) | st.text("0123456789-+:. TZeE\\u", max_size=24))
def test_any_text_is_refused_or_reads_back(type_, text):
    try:
        found = value_of(type_, text)
    except CorruptMetadataError:
        return
    assert to_scalar(type_, found).is_valid == (text != "")


@settings(max_examples=60)
@given(st.datetimes())
def test_time_means_the_same_with_and_without_a_zone(moment):
    without = moment.isoformat(sep=" ")
    zoned = moment.isoformat(timespec="microseconds") + "Z"
    micros = pa.scalar(moment, pa.timestamp("us")).value
    for type_ in ("timestamp", "timestamptz"):
        assert {to_scalar(type_, value_of(type_, text)).value for text in (without, zoned)} == {micros}
