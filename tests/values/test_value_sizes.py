"""The size of values is the number of bytes that are hashed."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from puffin.values.serialized import Words
from puffin.values.single_value import single_values
from puffin.values.value_sizes import total_size, value_width
from puffin.values.value_type import ValueType

pytestmark = pytest.mark.usefixtures("both_ways")

EXACT = decimal.Context(prec=60)


def serialized_size(array, type_):
    return sum(
        int(np.broadcast_to(v.length, len(v.low)).sum()) if isinstance(v, Words) else int(v.offsets[-1] - v.offsets[0])
        for v in single_values(array, type_)
    )


def decimals(unscaled, precision=38):
    values = [None if v is None else EXACT.scaleb(decimal.Decimal(v), -3) for v in unscaled]
    return pa.array(values, pa.decimal128(precision, 3))


EDGES = [sign * (1 << bits) + step for bits in range(0, 125, 1) for sign in (1, -1) for step in (-1, 0, 1)]


@pytest.mark.parametrize("unscaled", EDGES[:: len(EDGES) // 40])
def test_decimal_takes_the_fewest_bytes(unscaled):
    expected = next(n for n in range(1, 17) if -(1 << 8 * n - 1) <= unscaled < 1 << 8 * n - 1)
    assert total_size(decimals([unscaled]), ValueType.parse("decimal(38, 3)")) == expected


@given(st.lists(st.none() | st.sampled_from(EDGES) | st.integers(-(10**37), 10**37)), st.integers(0, 3))
def test_decimal_size_is_the_hashed_size(unscaled, offset):
    array = decimals(unscaled).slice(offset)
    assert total_size(array, ValueType.parse("decimal(38, 3)")) == serialized_size(array, "decimal(38, 3)")


@given(st.lists(st.none() | st.integers(-(10**8), 10**8)))
def test_decimals_of_an_older_type_have_the_size_of_the_columns(unscaled):
    wider = decimals(unscaled, precision=9)
    assert total_size(wider, ValueType.parse("decimal(20, 3)")) == serialized_size(wider, "decimal(20, 3)")


@given(st.lists(st.none() | st.text() | st.just("")), st.integers(0, 3), st.booleans())
def test_string_size_is_its_utf8_length(texts, offset, is_large):
    array = pa.array(texts, pa.large_string() if is_large else pa.string()).slice(offset)
    expected = sum(len(text.encode()) for text in texts[offset:] if text is not None)
    assert total_size(array, ValueType.parse("string")) == expected


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array(["", "a", "\u00fc"]), "string"),
        (pa.array([b"", b"abc"], pa.large_binary()), "binary"),
        (pa.array([b"abc", b"def"], pa.binary(3)), "binary"),
        (decimals([0, 127, 128, 2**64]), "decimal(38, 3)"),
        (decimals([]), "decimal(38, 3)"),
    ],
)
def test_value_size_counts_for_each_row(array, type_):
    rows = np.arange(len(array)) * 3
    repeated = array.take(pa.array(np.repeat(np.arange(len(array)), rows)))
    assert total_size(array, ValueType.parse(type_), rows) == total_size(repeated, ValueType.parse(type_))


@pytest.mark.parametrize(
    ("type_", "array"),
    {
        "int": pa.array([1, -5], pa.int32()),
        "long": pa.array([1]),
        "float": pa.array([0.5], pa.float32()),
        "double": pa.array([0.5]),
        "date": pa.array([1], pa.date32()),
        "time": pa.array([1], pa.time64("us")),
        "timestamptz_ns": pa.array([1], pa.timestamp("ns", "UTC")),
        "boolean": pa.array([True]),
        "uuid": pa.array([b"0" * 16], pa.binary(16)),
        "fixed[5]": pa.array([b"01234"], pa.binary(5)),
    }.items(),
)
def test_width_of_a_type_is_the_size_of_every_value(type_, array):
    assert value_width(ValueType.parse(type_)) == serialized_size(array, type_) / len(array)


@pytest.mark.parametrize("type_", ["string", "binary", "decimal(9, 2)"])
def test_variable_types_have_no_width(type_):
    assert value_width(ValueType.parse(type_)) is None
