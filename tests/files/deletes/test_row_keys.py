"""Two rows have the same key exactly if Iceberg calls them equal, and lookups among deleted keys are exact."""

import datetime
import decimal
import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptDataFileError
from puffin.files.deletes import equality_deletes
from puffin.files.deletes.equality_deletes import DeletedKeys
from puffin.files.deletes.row_keys import row_keys
from puffin.tables.base import Column


def columns(*types):
    return [Column(i, f"c{i}", type_, (i,), (None,)) for i, type_ in enumerate(types, 1)]


def keys(type_, array):
    return row_keys(columns(type_), [array]).to_pylist()


def as_java_sees(value):
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("<d", value)
    return value


ROW = st.tuples(
    st.none() | st.integers(-2, 2),
    st.none() | st.text("a\0", max_size=2),
    st.none() | st.sampled_from([0.0, -0.0, math.nan, -math.nan]),
    st.none() | st.binary(max_size=2),
)


@settings(max_examples=100)
@given(st.lists(ROW, min_size=1, max_size=8), st.integers(0, 3))
def test_keys_are_equal_exactly_if_all_values_are(rows, skipped):
    types = {"int": pa.int32(), "string": pa.string(), "double": pa.float64(), "binary": pa.binary()}
    arrays = [pa.array(values, t) for values, t in zip(zip(*rows, strict=True), types.values(), strict=True)]
    found = row_keys(columns(*types), [array.slice(skipped) for array in arrays]).to_pylist()
    expected = [tuple(map(as_java_sees, row)) for row in rows[skipped:]]
    assert [[a == b for b in found] for a in found] == [[a == b for b in expected] for a in expected]


def test_bytes_of_neighbouring_columns_do_not_run_together():
    first, second = row_keys(columns("string", "string"), [pa.array(["ab", "a"]), pa.array(["c", "bc"])]).to_pylist()
    assert first != second


DECIMAL = decimal.Decimal("-12.34")
NOON = datetime.time(12)


@pytest.mark.parametrize(
    ("type_", "arrays"),
    [
        ("long", [pa.array([-1], t) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())]),
        ("long", [pa.array([2**31], t) for t in (pa.uint32(), pa.int64())]),
        ("double", [pa.array([0.5], t) for t in (pa.float32(), pa.float64())]),
        ("decimal(38, 2)", [pa.array([DECIMAL], t(9, 2)) for t in (pa.decimal32, pa.decimal64, pa.decimal128)]),
        ("decimal(9, 2)", [pa.array([DECIMAL], pa.decimal256(60, 2)), pa.array([DECIMAL], pa.decimal128(4, 2))]),
        ("time", [pa.array([NOON], t) for t in (pa.time32("ms"), pa.time64("us"), pa.time64("ns"))]),
        ("timestamp", [pa.array([-1], pa.timestamp("us")), pa.array([-1], pa.timestamp("ns"))]),
        ("timestamptz", [pa.array([5], pa.timestamp("us", "UTC")), pa.array([5999], pa.timestamp("ns"))]),
        ("timestamp_ns", [pa.array([-1], pa.timestamp("ms")), pa.array([-1_000_000], pa.timestamp("ns"))]),
        ("timestamp", [pa.array([-1], pa.date32()), pa.array([-86_400], pa.timestamp("s"))]),
        ("string", [pa.array(["ä"], t) for t in (pa.string(), pa.large_string(), pa.string_view())]),
        ("string", [pa.array(["ä"]), pa.array(["ä"]).dictionary_encode(), pa.array(["ä".encode()])]),
        ("binary", [pa.array([b"ab"], t) for t in (pa.binary(), pa.binary(2), pa.large_binary(), pa.binary_view())]),
        ("uuid", [pa.array([bytes(16)], pa.binary(16)), pa.array([bytes(16)], pa.binary(16)).cast(pa.uuid())]),
    ],
)
def test_value_has_one_key_in_every_file_representation(type_, arrays):
    """Finer times than the column's are rounded down, also before 1970."""
    found = {key for array in arrays for key in keys(type_, array)}
    assert len(found) == 1


@pytest.mark.parametrize("type_", ["boolean", "long", "double", "date", "time", "timestamptz", "decimal(9, 2)", "uuid"])
def test_column_of_nulls_may_have_no_type(type_):
    other = {"boolean": pa.bool_(), "uuid": pa.binary(16), "double": pa.float32()}.get(type_)
    nulls = keys(type_, pa.nulls(2))
    assert len(set(nulls)) == 1
    assert other is None or set(nulls) == set(keys(type_, pa.nulls(1, other)))


def test_zero_rows_have_no_keys():
    assert keys("long", pa.array([], pa.int64())) == []


@pytest.mark.parametrize(
    ("type_", "array"), [("int", pa.array([1])), ("long", pa.array(["1"])), ("date", pa.array([1]))]
)
def test_values_outside_the_type_are_corrupt(type_, array):
    with pytest.raises(CorruptDataFileError, match=rf"column c1: a column of type {type_} cannot be read from Arrow"):
        keys(type_, array)


@pytest.mark.parametrize("hash_", [0, 5, 2**63 - 1])
def test_keys_with_the_same_hash_are_distinguished(monkeypatch, hash_):
    monkeypatch.setattr(equality_deletes, "_hashes", lambda keys: np.full(len(keys), hash_, np.uint64))
    texts = [pa.array(keys, pa.large_binary()) for keys in ([b"a", b"b"], [b"c", b"a"], [b"d"])]
    deleted = DeletedKeys({"1": texts[:1], "2": texts[1:2], "3": texts[2:]})
    asked = pa.array([b"a", b"b", b"c", b"d", b"e", b"c"], pa.large_binary())
    assert deleted.contain(asked, deleted.of_files(["2"])).tolist() == [True, False, True, False, False, True]
    assert deleted.contain(asked, deleted.of_files(["1", "3"])).tolist() == [True, True, False, True, False, False]
