"""
No false negatives: a value is found in a filter of any type that its column may have had when the filter was built.

And a value that this type cannot hold is not found there.

``PUFFIN_PROBES=1000000`` seeks more values than the default.
"""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from puffin.index.bloom import BloomFilterBuilder
from puffin.index.value_hashes import hash_scalar, hash_values
from puffin.values.json_values import arrow_type, to_json
from tests.index.stored_filters import may_contain

PROBES = int(os.environ.get("PUFFIN_PROBES", "6600"))
STORED_AND_ASKED = [
    *[("int", "int"), ("int", "long"), ("long", "long"), ("float", "float"), ("float", "double"), ("double", "double")],
    *[("date", "date"), ("date", "timestamp"), ("time", "time"), ("timestamp", "timestamp")],
    *[("timestamptz", "timestamptz"), ("timestamp_ns", "timestamp_ns"), ("string", "string"), ("binary", "binary")],
    *[("decimal(9, 2)", "decimal(9, 2)"), ("decimal(9, 2)", "decimal(18, 2)"), ("decimal(9, 2)", "decimal(38, 2)")],
    *[("decimal(18, 2)", "decimal(30, 2)"), ("decimal(38, 9)", "decimal(38, 9)"), ("int", "double")],
    *[("uuid", "uuid"), ("fixed[7]", "fixed[7]")],
]
ROWS = 300
"""Of a file."""

RANGES = {
    "int": (-(1 << 31), 1 << 31),
    "long": (-(1 << 63), (1 << 63) - 1),
    "date": (-719_162, 2_932_896),
    "time": (0, 86_400_000_000),
    "timestamp_ns": (-(1 << 62), 1 << 62),
    **dict.fromkeys(("timestamp", "timestamptz"), (-62_135_596_800_000_000, 253_402_300_799_999_999)),
}


def drawn(source: np.random.Generator, type_: str) -> pa.Array:
    """Random values; many are small."""
    target = arrow_type(type_)
    if type_ in RANGES:
        words = source.integers(*RANGES[type_], ROWS) >> source.integers(0, 40, ROWS)
        return pa.array(words).cast(pa.int32() if target.bit_width == 32 else pa.int64()).cast(target)
    if type_ in ("float", "double"):
        return pa.Array.from_buffers(target, ROWS, [None, pa.py_buffer(source.bytes(ROWS * target.bit_width // 8))])
    if type_.startswith("decimal"):
        numbers = source.integers(-(10**9) + 1, 10**9, ROWS) >> source.integers(0, 30, ROWS)
        return pa.array([Decimal(f"{number}e-{target.scale}") for number in numbers.tolist()], target)
    width = target.byte_width if pa.types.is_fixed_size_binary(target) else None
    lengths = source.integers(0, 70, ROWS).tolist() if width is None else [width] * ROWS
    texts = [source.bytes(length) for length in lengths]
    return pa.array([text.decode("latin1") for text in texts] if type_ == "string" else texts, target)


def as_json(type_: str, scalar: pa.Scalar) -> Any:
    if type_.startswith("decimal"):
        return str(scalar.as_py())
    return to_json(type_, scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py())


@pytest.mark.parametrize(("stored", "asked"), STORED_AND_ASKED)
def test_present_value_is_found(stored: str, asked: str) -> None:
    source = np.random.default_rng(len(stored))
    for _ in range(max(1, PROBES // len(STORED_AND_ASKED) // ROWS)):
        values = drawn(source, stored)
        builder = BloomFilterBuilder(len(values), 0.01)
        builder.update(hash_values(values, stored))
        filter_ = builder.compact().folded(0.01)
        hashes = [hash_scalar(asked, stored, as_json(asked, scalar)) for scalar in values.cast(arrow_type(asked))]
        sought = [each for each in hashes if each is not None]  # NaN is not sought
        assert len(sought) > 0.9 * ROWS
        assert may_contain(filter_, np.concatenate(sought)).mean() > 0.999  # one of two zeros may be absent
        alone = [each for each in sought if len(each) == 1]
        assert may_contain(filter_, np.concatenate(alone)).all()
        assert all(may_contain(filter_, each).any() for each in sought if len(each) == 2)


def test_value_beyond_the_type_that_a_filter_was_built_with_has_no_hashes() -> None:
    around = {sign * (1 << bits) + step for bits in range(63) for sign in (-1, 1) for step in (-1, 0, 1)}
    for value in around:
        fits = -(1 << 31) <= value < 1 << 31
        assert len(hash_scalar("long", "int", value)) == fits, value


@pytest.mark.parametrize("before", range(1, 39))
def test_decimal_of_more_digits_than_the_bytes_of_a_filter_hold_has_no_hashes(before: int) -> None:
    stored = f"decimal({before}, 1)"
    most = max(each for each in range(1, 39) if bytes_of(each) == bytes_of(before))
    for digits in range(1, 39):
        for value in (Decimal((sign, (figure,) * digits, -1)) for sign in (0, 1) for figure in (1, 9)):
            hashes = hash_scalar("decimal(38, 1)", stored, str(value))
            if digits <= before:
                array = pa.array([value], arrow_type(stored))
                assert hashes.tolist() == np.concatenate([*hash_values(array, stored)]).tolist()
            assert len(hashes) == (digits <= most), value


def bytes_of(digits: int) -> int:
    """Of a decimal in Parquet."""
    return 4 if digits <= 9 else 8 if digits <= 18 else (int(10**digits).bit_length() + 8) // 8


def test_double_is_sought_among_floats_as_the_float_nearest_to_it() -> None:
    source = np.random.default_rng(11)
    floats = source.integers(0, 1 << 32, 3000, np.uint32).view(np.float32)
    floats = floats[np.isfinite(floats) & (floats != 0)].astype(np.float64)
    for value in [*floats, *np.nextafter(floats, np.inf), *source.normal(0, 1e3, 1000)]:
        found = hash_scalar("double", "float", float(value))
        nearest = pa.array([np.float32(value)], pa.float32())
        assert found.tolist() == np.concatenate([*hash_values(nearest, "float")]).tolist()


@pytest.mark.parametrize(
    ("stored", "asked"), [("int", "long"), ("float", "double"), ("decimal(9, 2)", "decimal(38, 2)")]
)
def test_value_that_no_file_of_the_type_can_hold_is_not_found(stored: str, asked: str) -> None:
    source = np.random.default_rng(5)
    values = drawn(source, stored)
    builder = BloomFilterBuilder(len(values), 0.01)
    builder.update(hash_values(values, stored))
    filter_ = builder.compact()
    target = arrow_type(asked)
    others = [
        number / 7 if asked == "double" else number for number in source.integers(1 << 40, 1 << 50, 1000).tolist()
    ]
    hashes = [hash_scalar(asked, stored, as_json(asked, each)) for each in pa.array(others, target)]
    assert may_contain(filter_, np.concatenate(hashes)).sum() < 30
