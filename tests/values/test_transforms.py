"""Result types of partition transforms, and the text of partitions as Java and pyiceberg write it."""

from __future__ import annotations

import decimal
import math
import uuid
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import transforms as peer
from pyiceberg.types import DoubleType, StringType, TimestampType, TimestamptzType

from puffin.errors import CorruptMetadataError, UnsupportedTableError, UsageError
from puffin.iceberg.metadata.document import parse_state
from puffin.values.transforms import partition_value, result_type, to_partition_value

UUID_OF_THE_SPEC = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes


@pytest.mark.parametrize(
    ("transform", "source", "result"),
    [
        ("identity", "decimal(9, 2)", "decimal(9, 2)"),
        ("void", "double", "double"),
        ("bucket[8]", "uuid", "int"),
        ("bucket[8]", "fixed[3]", "int"),
        ("truncate[8]", "decimal(38,0)", "decimal(38,0)"),
        ("year", "date", "int"),
        ("month", "timestamptz_ns", "int"),
        ("day", "timestamp", "date"),
        ("hour", "timestamp_ns", "int"),
    ],
)
def test_result_type_follows_from_transform_and_source(transform, source, result):
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
def test_unsuitable_or_unknown_transform_is_refused(transform, source):
    for call in (result_type, lambda *args: to_partition_value(*args, "1")):
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
def test_partition_value_is_read_as_java_writes_it(transform, type_, value, text):
    read = to_partition_value(transform, type_, text)
    assert (read, type(read), math.copysign(1, read) if isinstance(read, float) else None) == (
        value,
        type(value),
        math.copysign(1, value) if isinstance(value, float) else None,
    )


def test_nan_and_null_are_read():
    for transform in ("identity", "void", "bucket[4]", "truncate[4]"):
        assert to_partition_value(transform, "long", "null") is None
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
def test_text_that_is_no_value_is_a_usage_error(transform, type_, text):
    with pytest.raises(UsageError, match="found"):
        to_partition_value(transform, type_, text)


@settings(max_examples=100)
@given(
    micros=st.integers(-(6 * 10**16), 25 * 10**16),
    number=st.floats(allow_nan=False),
    string=st.text(max_size=9).filter(lambda text: text != "null"),
)
def test_pyicebergs_text_means_the_same_value(micros, number, string):
    for transform, peer_type, value in (
        ("identity", TimestamptzType(), micros),
        ("identity", DoubleType(), number),
        ("identity", StringType(), string),
        ("year", TimestampType(), peer.YearTransform().transform(TimestampType())(micros)),
        ("month", TimestampType(), peer.MonthTransform().transform(TimestampType())(micros)),
        ("day", TimestampType(), peer.DayTransform().transform(TimestampType())(micros)),
        ("hour", TimestampType(), peer.HourTransform().transform(TimestampType())(micros)),
    ):
        text = peer.parse_transform(transform).to_human_string(peer_type, value)
        assert to_partition_value(transform, str(peer_type), text) == value


def test_decimal_is_the_number_of_its_bytes_however_padded():
    """A manifest written before the type was widened has fewer bytes."""
    for stored in (b"\xfe", b"\xff\xfe", b"\xff" * 15 + b"\xfe"):
        assert partition_value("decimal(9, 2)", stored) == Decimal("-0.02")
    assert partition_value("decimal(38,0)", (10**38 - 1).to_bytes(16, "big")) == 10**38 - 1
    assert partition_value("decimal(9,2)", None) is None
    assert partition_value("binary", b"\xfe") == b"\xfe"
    with pytest.raises(CorruptMetadataError, match=r"expected a decimal\(9,2\)"):
        partition_value("decimal(9,2)", 5)


def test_callers_decimal_context_rounds_nothing():
    with decimal.localcontext(prec=3):
        assert partition_value("decimal(12,3)", (123456789).to_bytes(4, "big")) == Decimal("123456.789")


def test_source_types_come_from_the_current_or_the_last_schema(table_document, tmp_path):
    """The current schema need not be the last one."""
    schemas = [
        {"schema-id": i, "fields": [{"id": id_, "name": f"c{id_}", "type": type_} for id_, type_ in fields.items()]}
        for i, fields in enumerate([{1: "int", 2: "float"}, {1: "long"}, {1: "int", 2: "double"}])
    ]
    document = table_document(tmp_path)
    assert parse_state(document | {"schemas": schemas, "current-schema-id": 1}, "m").source_types == {
        1: "long",
        2: "double",
    }
    only = {key: value for key, value in document.items() if key != "schemas"}
    assert parse_state(only | {"schema": schemas[0]}, "m").source_types == {1: "int", 2: "float"}
