"""The hash of one value or tuple is that of an array of one."""

from __future__ import annotations

import decimal
import random

import pyarrow as pa
import pytest

from puffin.sketches.hashing import hash_array
from puffin.sketches.single_hash import hash_one, hash_tuple
from puffin.sketches.tuple_hashes import EMPTY, NULL, row_hashes, tuple_hashes
from puffin.values.value_bytes import serializer

NUMBERS = [0, 1, -1, 127, 128, -128, -129, 255, 32767, 32768, -32768, 2**31 - 1]
CASES = [
    *((type_, NUMBERS, pa.array(NUMBERS, of)) for type_, of in (("int", pa.int32()), ("long", pa.int64()))),
    ("double", [0.0, -0.0, 1.5, 1e300], pa.array([0.0, -0.0, 1.5, 1e300])),
    ("float", [0.5, -1.25], pa.array([0.5, -1.25], pa.float32())),
    ("boolean", [True, False], pa.array([True, False])),
    ("date", [0, -719162, 19000], pa.array([0, -719162, 19000], pa.date32())),
    ("timestamp", [0, -1, 10**15], pa.array([0, -1, 10**15], pa.timestamp("us"))),
    ("string", [b"a", b"\xc3\xbc" * 40], pa.array(["a", "ü" * 40])),
    (
        "decimal(38, 2)",
        [*NUMBERS, 2**70, -(2**90)],
        pa.array([decimal.Decimal(each).scaleb(-2) for each in [*NUMBERS, 2**70, -(2**90)]], pa.decimal128(38, 2)),
    ),
]


@pytest.mark.parametrize("length", [*range(1, 70), 1000])
def test_hash_of_any_bytes_is_that_of_a_sketch(length):
    data = random.Random(length).randbytes(length)
    (hashes,) = hash_array(pa.array([data]), "binary")
    assert hash_one(data) == hashes[0]


@pytest.mark.parametrize(("type_", "values", "column"), CASES, ids=[case[0] for case in CASES])
def test_compared_values_are_hashed_as_those_of_the_column(type_, values, column):
    to_bytes = serializer(type_)
    assert [hash_one(to_bytes(value)) for value in values] == row_hashes(column, type_).tolist()


@pytest.mark.parametrize("width", [2, 3, 4])
def test_hash_of_a_tuple_is_that_of_its_row(width):
    columns = [
        pa.array(["a", "", None]),
        pa.array(["b", "c", ""]),
        pa.array([None, "", "x"]),
        pa.array(["y", "z", "w"]),
    ]
    found = tuple_hashes(columns[:width], ["string"] * width)
    hashes = [row_hashes(column, "string").tolist() for column in columns[:width]]
    assert {NULL, EMPTY} <= {each for column in hashes for each in column}
    assert [hash_tuple(each) for each in zip(*hashes, strict=True)] == found.tolist()
