"""Single values in JSON: manifests and schemas give the constants they stand for."""

import datetime
import decimal
import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptMetadataError, UnsupportedTypeError
from puffin.values.json_values import arrow_type, to_json, to_scalar

LONGS = st.integers(-(2**63), 2**63 - 1)
PHYSICAL = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": LONGS,
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": st.integers(-(2**31), 2**31 - 1),
    "time": st.integers(0, 86_399_999_999),
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), LONGS),
    "string": st.text(),
    "uuid": st.binary(min_size=16, max_size=16),
    "fixed[5]": st.binary(min_size=5, max_size=5),
    "binary": st.binary(),
}


def stored_number(scalar: pa.Scalar) -> int:
    return scalar.cast(pa.int32() if scalar.type.bit_width == 32 else pa.int64()).as_py()


@pytest.mark.parametrize("type_string", PHYSICAL)
@settings(max_examples=40)
@given(data=st.data())
def test_partition_value_survives_json(type_string, data):
    physical = data.draw(PHYSICAL[type_string])
    scalar = to_scalar(type_string, to_json(type_string, physical))
    assert scalar.type == arrow_type(type_string)
    if pa.types.is_temporal(scalar.type):
        assert stored_number(scalar) == physical
    else:
        assert pa.array([scalar.as_py()], scalar.type).equals(pa.array([physical], scalar.type)) or physical != physical


@settings(max_examples=100)
@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_partition_decimal_survives_json(unscaled, scale):
    type_string = f"decimal(38, {scale})"
    stored = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
    value = to_scalar(type_string, to_json(type_string, stored)).as_py()
    assert value.as_tuple() == decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=60)).as_tuple()


JSON = {
    "timestamptz": (-1, "1969-12-31T23:59:59.999999+00:00"),
    "timestamp": (0, "1970-01-01T00:00:00.000000"),
    "timestamptz_ns": (1, "1970-01-01T00:00:00.000000001+00:00"),
    "date": (-1, "1969-12-31"),
    "time": (81_068_123_456, "22:31:08.123456"),
    "decimal(9,2)": (b"\x05\x8c", "14.20"),
    "decimal(12,10)": (b"\x01", "0.0000000001"),
    "uuid": (
        b"\xf7\x9c\x3e\x09\x67\x7c\x4b\xbd\xa4\x79\x3f\x34\x9c\xb7\x85\xe7",
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
    ),
    "fixed[4]": (b"\x00\x01\x02\xff", "000102ff"),
    "boolean": (True, True),
    "long": (34, 34),
}


@pytest.mark.parametrize(("type_string", "forms"), JSON.items())
def test_json_forms_are_those_of_appendix_d(type_string, forms):
    physical, json_form = forms
    assert to_json(type_string, physical) == json_form


@pytest.mark.parametrize(
    ("day", "json_form"),
    [
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_years_beyond_four_digits_have_a_sign(day, json_form):
    """As ISO 8601 and Java's library write them."""
    assert to_json("date", day) == json_form
    if abs(day) < 10**8:
        assert to_json("timestamptz", day * 86_400_000_000) == f"{json_form}T00:00:00.000000+00:00"
        assert to_scalar("timestamp", f"{json_form} 00:00").value == day * 86_400_000_000
    for refused in ("10000-01-01", "+5881580-07-12", "+10001-02-29", "--001-01-01"):
        with pytest.raises(CorruptMetadataError):
            to_scalar("date", refused)


@pytest.mark.parametrize(
    ("type_string", "json_form", "value"),
    [
        ("timestamp", "2017-11-16T22:31:08", datetime.datetime(2017, 11, 16, 22, 31, 8)),
        (
            "timestamptz",
            "2017-11-16T22:31:08.5Z",
            datetime.datetime(2017, 11, 16, 22, 31, 8, 500000, datetime.timezone.utc),
        ),
        ("time", "22:31", datetime.time(22, 31)),
        ("decimal(20, 3)", "2E+2", decimal.Decimal("200.000")),
        ("double", 3, 3.0),
        ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7", uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes),
    ],
)
def test_other_writers_forms_are_accepted(type_string, json_form, value):
    assert to_scalar(type_string, json_form).as_py() == value


@pytest.mark.parametrize("type_string", [*PHYSICAL, "decimal(9, 2)"])
def test_null_is_the_null_of_the_type(type_string):
    assert to_json(type_string, None) is None
    scalar = to_scalar(type_string, None)
    assert (scalar.type, scalar.is_valid) == (arrow_type(type_string), False)


@pytest.mark.parametrize(
    ("type_string", "json_form"),
    [
        *(("int", v) for v in (2**31, "x", 1.5, True, [], {})),
        *(("date", v) for v in ("2017-13-01", 5, "x", "", [], 2.5)),
        *(("timestamp", v) for v in ("2017-11-16T25:00:00", 5, None.__class__, "2017-11-16T22:31:08.123456789")),
        *(("timestamptz", v) for v in ("2017-11-16T22:31:08+05:00", 5)),
        *(("time", v) for v in ("24:00:01", 7)),
        *(("uuid", v) for v in ("f79c", 5)),
        *(("fixed[4]", v) for v in ("00", "zz", 5)),
        *(("binary", v) for v in ("0", 5)),
        *(("decimal(4, 2)", v) for v in ("123.45", "x", "0.001", [])),
        ("string", 5),
        *(("boolean", v) for v in ("true", 1)),
        *((type_, True) for type_ in ("long", "float", "double", "decimal(9, 2)")),
    ],
)
def test_json_form_of_another_type_is_corrupt_metadata(type_string, json_form):
    with pytest.raises(CorruptMetadataError, match="expected a "):
        to_scalar(type_string, json_form)


@pytest.mark.parametrize(("type_string", "physical"), [("date", "x"), ("uuid", b"short"), ("decimal(9, 2)", 5)])
def test_partition_value_of_another_type_is_corrupt_metadata(type_string, physical):
    with pytest.raises(CorruptMetadataError, match="in a partition tuple"):
        to_json(type_string, physical)


def test_type_without_single_values_has_no_constants():
    with pytest.raises(UnsupportedTypeError):
        arrow_type("variant")
