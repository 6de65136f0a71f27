"""
No false negatives: a value is found in a filter of any type that its column may have had when the filter was built.

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
        assert filter_.may_contain(np.concatenate(sought)).mean() > 0.999  # one of two zeros may be absent
        alone = [each for each in sought if len(each) == 1]
        assert filter_.may_contain(np.concatenate(alone)).all()
        assert all(filter_.may_contain(each).any() for each in sought if len(each) == 2)
