"""Partition transforms against the spec's own values and pyiceberg's, and partitions as text against Java's."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import transforms as peer
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    UUIDType,
)

from puffin.errors import CorruptMetadataError, UnsupportedTableError, UsageError
from puffin.tables.document import source_types
from puffin.tables.transforms import apply, partition_to_path, partition_value, result_type, to_partition_value, to_text

EPOCH = datetime.datetime(1970, 1, 1)
UUID_OF_THE_SPEC = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes
MOMENT_OF_THE_SPEC = 1_510_871_468_000_000

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers(-700_000, 2_900_000)  # the years 53 to 9909
MICROS = st.integers(-(6 * 10**16), 25 * 10**16)
DECIMALS = st.integers(-(10**12) + 1, 10**12 - 1).map(lambda unscaled: Decimal(unscaled).scaleb(-3))


@pytest.mark.parametrize(
    ("type_", "value", "hash_"),
    [
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9,2)", Decimal("14.20"), -500754589),
        ("date", 17486, -653330422),
        ("time", 81_068_000_000, -662762989),
        ("timestamp", MOMENT_OF_THE_SPEC, -2047944441),
        ("timestamptz", MOMENT_OF_THE_SPEC, -2047944441),
        ("timestamp_ns", MOMENT_OF_THE_SPEC * 1000 + 999, -2047944441),
        ("timestamptz_ns", MOMENT_OF_THE_SPEC * 1000, -2047944441),
        ("string", "iceberg", 1210000089),
        ("uuid", UUID_OF_THE_SPEC, 1488055340),
        ("fixed[4]", b"\0\1\2\3", -188683207),
        ("binary", b"\0\1\2\3", -188683207),
    ],
)
def test_buckets_are_those_of_the_hashes_in_appendix_b(type_, value, hash_):
    """The sign of the hash is dropped; nanoseconds below a microsecond do not count."""
    assert apply("bucket[1000]", type_, value) == (hash_ & 0x7FFF_FFFF) % 1000
    assert apply("bucket[2147483647]", type_, value) == hash_ & 0x7FFF_FFFF


@settings(max_examples=60)
@given(data=st.data(), width=st.integers(1, 10_000))
@pytest.mark.parametrize(
    ("type_", "peer_type", "values"),
    [
        ("int", IntegerType(), INTS),
        ("long", LongType(), LONGS),
        ("date", DateType(), DAYS),
        ("time", TimeType(), st.integers(0, 86_399_999_999)),
        ("timestamp", TimestampType(), MICROS),
        ("decimal(12, 3)", DecimalType(12, 3), DECIMALS),
        ("string", StringType(), st.text(max_size=20)),
        ("binary", BinaryType(), st.binary(max_size=20)),
        ("uuid", UUIDType(), st.binary(min_size=16, max_size=16)),
    ],
)
def test_any_value_is_in_the_bucket_that_pyiceberg_puts_it_in(type_, peer_type, values, data, width):
    value = data.draw(values)
    assert apply(f"bucket[{width}]", type_, value) == peer.BucketTransform(width).transform(peer_type)(value)


@settings(max_examples=60)
@given(data=st.data(), width=st.integers(1, 10_000))
@pytest.mark.parametrize(
    ("type_", "peer_type", "values"),
    [
        ("int", IntegerType(), INTS),
        ("long", LongType(), LONGS),
        ("decimal(12, 3)", DecimalType(12, 3), DECIMALS),
        ("string", StringType(), st.text(max_size=20)),
        ("binary", BinaryType(), st.binary(max_size=20)),
    ],
)
def test_any_value_is_truncated_as_pyiceberg_truncates_it(type_, peer_type, values, data, width):
    value = data.draw(values)
    truncated = apply(f"truncate[{width}]", type_, value)
    assert truncated == peer.TruncateTransform(width).transform(peer_type)(value)
    assert apply(f"truncate[{width}]", type_, truncated) == truncated


def test_truncation_follows_the_examples_of_the_spec():
    """Remainders are positive, a decimal's width counts in its last digit, a string's in characters."""
    assert [apply("truncate[10]", "int", value) for value in (1, -1)] == [0, -10]
    assert apply("truncate[50]", "decimal(9,2)", Decimal("10.65")) == Decimal("10.50")
    assert apply("truncate[50]", "decimal(9,2)", Decimal("-0.01")) == Decimal("-0.50")
    assert apply("truncate[3]", "string", "🧊ceberg") == "🧊ce"


@settings(max_examples=100)
@given(micros=MICROS)
def test_parts_of_the_calendar_are_whole_units_from_1970_downwards_before_it(micros):
    moment = EPOCH + datetime.timedelta(microseconds=micros)
    months = 12 * (moment.year - 1970) + moment.month - 1
    expected = {
        "year": moment.year - 1970,
        "month": months,
        "day": (moment - EPOCH).days,
        "hour": micros // 3_600_000_000,
    }
    for transform, ordinal in expected.items():
        assert apply(transform, "timestamp", micros) == apply(transform, "timestamptz", micros) == ordinal
        assert apply(transform, "timestamptz_ns", micros * 1000 + 999) == ordinal
        if transform != "hour":
            assert apply(transform, "date", expected["day"]) == ordinal


@pytest.mark.parametrize("transform", ["identity", "void", "bucket[4]", "truncate[4]"])
def test_null_stays_null(transform):
    assert apply(transform, "long", None) is None
    assert to_text(transform, "long", None) == "null"
    assert to_partition_value(transform, "long", "null") is None


def test_void_makes_null_of_everything_and_identity_nothing_else():
    assert apply("void", "long", 5) is None
    assert apply("identity", "long", 5) == 5
    assert to_text("void", "long", 5) == "null"


@pytest.mark.parametrize(
    ("transform", "source", "result"),
    [
        ("identity", "decimal(9, 2)", "decimal(9, 2)"),
        ("void", "double", "double"),
        ("bucket[8]", "uuid", "int"),
        ("Bucket[8]", "fixed[3]", "int"),
        ("truncate[8]", "decimal(38,0)", "decimal(38,0)"),
        ("year", "date", "int"),
        ("MONTH", "timestamptz_ns", "int"),
        ("day", "timestamp", "date"),
        ("hour", "timestamp_ns", "int"),
    ],
)
def test_the_result_type_follows_from_transform_and_source(transform, source, result):
    """A transform is matched whatever its case, as Java does."""
    assert result_type(transform, source) == result


@pytest.mark.parametrize(
    ("transform", "source"),
    [
        ("bucket[8]", "double"),
        ("truncate[8]", "date"),
        ("truncate[8]", "fixed[8]"),
        ("year", "time"),
        ("hour", "date"),
        ("bucket[0]", "int"),
        ("bucket", "int"),
        ("year[4]", "date"),
        ("zorder", "int"),
        ("", "int"),
    ],
)
def test_a_transform_that_is_not_of_the_type_or_not_known_is_refused(transform, source):
    for call in (result_type, lambda *args: apply(*args, 1), lambda *args: to_partition_value(*args, "1")):
        with pytest.raises(UnsupportedTableError, match=r"is not (supported|known)"):
            call(transform, source)


# What Iceberg Java 1.12 makes of each value; the test of every type in tests/interop compares more of them.
TEXTS = [
    ("identity", "boolean", True, "true"),
    ("identity", "int", -7, "-7"),
    ("identity", "float", 0.10000000149011612, "0.1"),
    ("identity", "float", 16777216.0, "1.6777216E7"),
    ("identity", "double", -0.0, "-0.0"),
    ("identity", "double", 123.0, "123.0"),
    ("identity", "double", 0.001, "0.001"),
    ("identity", "double", 0.000123, "1.23E-4"),
    ("identity", "double", 1e7, "1.0E7"),
    ("identity", "double", -1e22, "-1.0E22"),
    ("identity", "double", math.inf, "Infinity"),
    ("identity", "double", -math.inf, "-Infinity"),
    ("identity", "decimal(9,2)", Decimal("-12345.60"), "-12345.60"),
    ("identity", "decimal(38,10)", Decimal("1.2E-9"), "1.2E-9"),
    ("identity", "date", -1, "1969-12-31"),
    ("identity", "time", 36_720_000_000, "10:12"),
    ("identity", "time", 36_725_000_000, "10:12:05"),
    ("identity", "time", 36_720_500_000, "10:12:00.500"),
    ("identity", "time", 36_720_000_010, "10:12:00.000010"),
    ("identity", "timestamp", -86_400_000_000, "1969-12-31T00:00:00"),
    ("identity", "timestamp", 1_704_164_645_500_000, "2024-01-02T03:04:05.5"),
    ("identity", "timestamptz", 1_704_164_650_000_001, "2024-01-02T03:04:10.000001+00:00"),
    ("identity", "timestamptz", 0, "1970-01-01T00:00:00+00:00"),
    ("identity", "timestamp_ns", -1, "1969-12-31T23:59:59.999999999"),
    ("identity", "timestamptz_ns", 10**12, "1970-01-01T00:16:40+00:00"),
    ("identity", "string", "a/b=ü", "a/b=ü"),
    ("identity", "uuid", UUID_OF_THE_SPEC, "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ("identity", "fixed[4]", b"\0\xff~?", "AP9+Pw=="),
    ("identity", "binary", b"", ""),
    ("truncate[2]", "binary", b"\xfb\xff", "+/8="),
    ("truncate[2]", "long", -20, "-20"),
    ("bucket[16]", "string", 15, "15"),
    ("year", "date", -1, "1969"),
    ("month", "timestamp", 648, "2024-01"),
    ("month", "date", -1, "1969-12"),
    ("day", "timestamptz_ns", 19724, "2024-01-02"),
    ("hour", "timestamp", 473379, "2024-01-02-03"),
    ("hour", "timestamp", -1, "1969-12-31-23"),
]


@pytest.mark.parametrize(("transform", "type_", "value", "text"), TEXTS)
def test_a_partition_value_is_written_as_java_writes_it_and_read_back(transform, type_, value, text):
    assert to_text(transform, type_, value) == text
    read = to_partition_value(transform, type_, text)
    assert (read, type(read), math.copysign(1, read) if isinstance(read, float) else None) == (
        value,
        type(value),
        math.copysign(1, value) if isinstance(value, float) else None,
    )


def test_nan_is_written_and_read():
    assert to_text("identity", "float", math.nan) == "NaN"
    assert math.isnan(to_partition_value("identity", "float", "NaN"))


@pytest.mark.parametrize(
    ("transform", "type_", "text"),
    [
        ("identity", "boolean", "True"),
        ("identity", "int", "2147483648"),
        ("identity", "int", "1.0"),
        ("identity", "double", "many"),
        ("identity", "decimal(9,2)", "1.005"),
        ("identity", "decimal(3,2)", "12.00"),
        ("identity", "date", "2024-02-30"),
        ("identity", "time", "25:00"),
        ("identity", "timestamp", "today"),
        ("identity", "uuid", "f79c3e09"),
        ("identity", "fixed[4]", "AP9+"),
        ("identity", "binary", "***"),
        ("bucket[16]", "string", "16"),
        ("bucket[16]", "string", "-1"),
        ("year", "date", "24"),
        ("month", "date", "2024"),
        ("month", "date", "2024-13"),
        ("day", "date", "NaT"),
        ("day", "date", "2024-01-02T03"),
        ("hour", "timestamp", "2024-01-02-24"),
        ("void", "int", "1"),
    ],
)
def test_a_text_that_is_no_such_value_is_wrong_usage(transform, type_, text):
    with pytest.raises(UsageError, match="found"):
        to_partition_value(transform, type_, text)


@settings(max_examples=100)
@given(micros=MICROS, number=st.floats(allow_nan=False), string=st.text(max_size=9).filter(lambda text: text != "null"))
def test_what_is_written_means_the_same_value(micros, number, string):
    for transform, type_, value in (
        ("identity", "timestamptz", micros),
        ("identity", "timestamp_ns", micros * 10 + 1),
        ("identity", "double", number),
        ("identity", "string", string),
        ("year", "timestamp", apply("year", "timestamp", micros)),
        ("month", "timestamp", apply("month", "timestamp", micros)),
        ("day", "timestamp", apply("day", "timestamp", micros)),
        ("hour", "timestamp", apply("hour", "timestamp", micros)),
    ):
        assert to_partition_value(transform, type_, to_text(transform, type_, value)) == value


def test_a_decimal_is_the_number_that_its_bytes_are_however_padded():
    """A manifest written before the type got wider pads it to fewer bytes."""
    for stored in (b"\xfe", b"\xff\xfe", b"\xff" * 15 + b"\xfe"):
        assert partition_value("decimal(9, 2)", stored) == Decimal("-0.02")
    assert partition_value("decimal(38,0)", (10**38 - 1).to_bytes(16, "big")) == 10**38 - 1
    assert partition_value("decimal(9,2)", None) is None
    assert partition_value("binary", b"\xfe") == b"\xfe"
    with pytest.raises(CorruptMetadataError, match=r"expected a decimal\(9,2\)"):
        partition_value("decimal(9,2)", 5)


def test_the_context_of_the_caller_rounds_nothing():
    with decimal.localcontext(prec=3):
        assert apply("truncate[10]", "decimal(12,3)", Decimal("123456.789")) == Decimal("123456.780")
        assert partition_value("decimal(12,3)", (123456789).to_bytes(4, "big")) == Decimal("123456.789")


def test_a_partition_is_a_path_of_its_fields_in_the_order_of_the_spec():
    """Each as in a URL's query, as Java's URLEncoder has it."""
    fields = [
        {"source-id": 2, "field-id": 1001, "name": "ts_day", "transform": "day"},
        {"source-id": 1, "field-id": 1000, "name": "a~b", "transform": "identity"},
        {"source-id": 3, "field-id": 1002, "name": "price", "transform": "truncate[10]"},
    ]
    types = {1: "string", 2: "timestamp", 3: "decimal(9,2)"}
    path = partition_to_path(fields, types, {1000: "x y*~/ü=%+._-", 1001: 19724, 1002: b"\x00\x00\x00\x6e"})
    assert path == "ts_day=2024-01-02/a%7Eb=x+y*%7E%2F%C3%BC%3D%25%2B._-/price=1.10"
    assert partition_to_path(fields, types, {1001: None}) == "ts_day=null/a%7Eb=null/price=null"
    assert partition_to_path([], types, {}) == ""


def test_a_partition_that_cannot_be_told_says_why():
    field = {"source-id": 7, "field-id": 1000, "name": "p", "transform": "identity"}
    with pytest.raises(UnsupportedTableError, match="field p: no schema has column 7"):
        partition_to_path([field], {1: "int"}, {1000: 1})
    with pytest.raises(CorruptMetadataError, match="found '2024'"):
        partition_to_path([field], {7: "date"}, {1000: "2024"})
    with pytest.raises(CorruptMetadataError, match="without 'name'"):
        partition_to_path([{"source-id": 7, "field-id": 1000, "transform": "identity"}], {7: "int"}, {})


def test_source_types_are_the_current_ones_and_of_columns_that_are_gone_the_last(table_document, tmp_path):
    """The current schema need not be the last one."""
    schemas = [
        {"schema-id": i, "fields": [{"id": id_, "name": f"c{id_}", "type": type_} for id_, type_ in fields.items()]}
        for i, fields in enumerate([{1: "int", 2: "float"}, {1: "long"}, {1: "int", 2: "double"}])
    ]
    document = table_document(tmp_path)
    assert source_types(document | {"schemas": schemas, "current-schema-id": 1}) == {1: "long", 2: "double"}
    only = {key: value for key, value in document.items() if key != "schemas"}
    assert source_types(only | {"schema": schemas[0]}) == {1: "int", 2: "float"}
