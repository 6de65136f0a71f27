"""Tuples of values have one hash, whatever the layout of the arrays."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from puffin.sketches.hashing import hash_array
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.tuple_hashes import EMPTY, NULL, row_hashes, tuple_hashes

D = decimal.Decimal
COLUMNS = {
    "boolean": pa.array([True, None, False, True]),
    "int": pa.array([1, None, -1, 1], pa.int32()),
    "long": pa.array([1, None, -(2**40), 1], pa.int64()),
    "double": pa.array([0.5, None, float("nan"), 0.5]),
    "date": pa.array([datetime.date(2024, 1, 2), None, datetime.date(1960, 1, 1), datetime.date(2024, 1, 2)]),
    "string": pa.array(["a", None, "a longer text of more than sixteen bytes", "a"]),
    "binary": pa.array([b"\x00", None, b"\x00\x00", b"\x00"]),
    "uuid": pa.array([b"0123456789abcdef", None, b"fedcba9876543210", b"0123456789abcdef"], pa.binary(16)),
    "decimal(38, 2)": pa.array([D("1.25"), None, D(2) ** 70, D("1.25")], pa.decimal128(38, 2)),
}


@pytest.mark.parametrize(("type_", "column"), COLUMNS.items())
def test_hash_of_a_row_is_that_of_its_value_in_a_sketch(type_, column):
    hashes = row_hashes(column, type_)
    for value, found in zip(column, hashes.tolist(), strict=True):
        alone = pa.array([value.as_py()], column.type)
        expected = [int(each) for part in hash_array(alone, type_) for each in part] or [NULL]
        assert [found] == expected
    assert hashes[0] == hashes[3]


def test_decimals_of_all_lengths_keep_their_rows():
    numbers = [D(3), D(2) ** 70, D(2) ** 124, -(D(2) ** 90), D(-4), None, D(2) ** 124, D(3)]
    column = pa.array(numbers, pa.decimal128(38, 0))
    one_by_one = [row_hashes(column.slice(i, 1), "decimal(38, 0)")[0] for i in range(len(column))]
    assert row_hashes(column, "decimal(38, 0)").tolist() == one_by_one


@pytest.mark.parametrize("layout", ["dictionary", "view", "sliced", "null"])
def test_layout_of_an_array_does_not_change_hashes(layout):
    plain = pa.array(["a", "", None, "b", "a"])
    laid_out = {
        "dictionary": plain.dictionary_encode(),
        "view": plain.cast(pa.string_view()),
        "sliced": pa.concat_arrays([pa.array(["x", None]), plain, pa.array(["y"])]).slice(2, 5),
        "null": pa.nulls(5),
    }[layout]
    expected = [NULL] * 5 if layout == "null" else row_hashes(plain, "string").tolist()
    assert row_hashes(laid_out, "string").tolist() == expected
    assert row_hashes(plain, "string").tolist()[1:3] == [EMPTY, NULL]


def test_dictionary_with_a_null_entry_is_read_as_null():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None]))
    assert row_hashes(column, "string").tolist() == row_hashes(pa.array(["a", None, None, "a"]), "string").tolist()


@pytest.mark.parametrize("width", [2, 3, 4])
def test_equal_tuples_and_only_these_have_equal_hashes(width):
    values = [None, "", "a", "b"]
    rows = [tuple(values[(i // 4**place) % 4] for place in range(width)) for i in range(4**width)]
    arrays = [pa.array([row[place] for row in rows * 2], pa.string()) for place in range(width)]
    hashes = tuple_hashes(arrays, ["string"] * width)
    assert len(np.unique(hashes)) == len(rows)
    assert (hashes[: len(rows)] == hashes[len(rows) :]).all()
    assert hashes.min() > 0
    assert hashes.max() <= MAX_THETA


def test_order_of_columns_matters_and_no_rows_have_no_hashes():
    one, other = pa.array([1, 2], pa.int64()), pa.array([2, 1], pa.int64())
    hashes = tuple_hashes([one, other], ["long", "long"])
    assert hashes.tolist() == tuple_hashes([other, one], ["long", "long"]).tolist()[::-1]
    assert hashes[0] != hashes[1]
    assert len(tuple_hashes([one[:0], other[:0], one[:0]], ["long"] * 3)) == 0


def test_hash_of_a_tuple_is_the_same_in_every_version():
    arrays = [pa.array(["de", None], pa.string()), pa.array([10, 20], pa.int64()), pa.array(["", "x"], pa.string())]
    two = tuple_hashes(arrays[:2], ["string", "long"]).tolist()
    three = tuple_hashes(arrays, ["string", "long", "string"]).tolist()
    assert two == [984149367140945107, 5461427927967156341]
    assert three == [5393578136027093130, 1148988066916923994]
