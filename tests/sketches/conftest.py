"""Golden sketches of datasketches-java, and the values they consist of."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

JAVA = Path(__file__).parents[2] / "fixtures" / "theta-java"
GOLDEN_RATIO = 0x9E3779B97F4A7C15


def counted(i: int, length: int) -> bytes:
    """The four bytes of ``i``, then bytes that depend on it: `counted` of the Java generator."""
    return bytes((i >> (8 * j) if j < 4 else 31 * j + i) & 0xFF for j in range(length))


def decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, Context(prec=60))


def power(i: int) -> int:
    return (i + 1) ** (1 + i % 10) * (1 if i % 2 == 0 else -1)


def wrap(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def words(*values: int) -> bytes:
    return b"".join((value % (1 << 64)).to_bytes(8, "big") for value in values)


# Column type to the Arrow type of a file and value number i, as in the Java generator.
VALUES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "boolean": (pa.bool_(), lambda i: i % 2 == 0),
    "int": (pa.int32(), lambda i: wrap(i * GOLDEN_RATIO, 32)),
    "long": (pa.int64(), lambda i: wrap(i * GOLDEN_RATIO, 64)),
    "float": (pa.float32(), lambda i: (i - 1000) / 8),
    "double": (pa.float64(), lambda i: (i - 1000) / 8),
    "date": (pa.date32(), lambda i: i - 1000),
    "time": (pa.time64("us"), lambda i: i * 43_201),
    "timestamp": (pa.timestamp("us"), lambda i: (i - 1000) * 1_000_003),
    "timestamptz": (pa.timestamp("us", "UTC"), lambda i: (i - 1000) * 1_000_033),
    "timestamp_ns": (pa.timestamp("ns"), lambda i: (i - 1000) * 1_000_000_007),
    "timestamptz_ns": (pa.timestamp("ns", "UTC"), lambda i: (i - 1000) * 1_000_000_009),
    "string": (pa.string(), lambda i: str(i) * (i % 13) + ("é漢😀" if i % 3 == 0 else "") + f"#{i}"),
    "uuid": (pa.binary(16), lambda i: words(i * GOLDEN_RATIO, ~i * GOLDEN_RATIO)),
    "binary": (pa.binary(), lambda i: counted(i, 4 + i % 37)),
    "fixed[5]": (pa.binary(5), lambda i: counted(i, 5)),
    "fixed[16]": (pa.binary(16), lambda i: counted(i, 16)),
    "fixed[20]": (pa.binary(20), lambda i: counted(i, 20)),
    "decimal(9, 2)": (pa.decimal128(9, 2), lambda i: decimal((i - 1000) * 7919, 2)),
    "decimal(18, 4)": (pa.decimal128(18, 4), lambda i: decimal((i - 1000) * 104_729_104_729, 4)),
    "decimal(38, 10)": (pa.decimal128(38, 10), lambda i: decimal(power(i), 10)),
}


@pytest.fixture(scope="module", autouse=True)
def _with_and_without_kernels(both_ways: None) -> None:
    """Every test of this folder holds for both ways to a hash."""


@pytest.fixture(scope="session")
def column() -> Callable[[str, int], pa.Array]:
    """Builds the array of values 0 to n - 1 that the Java generator feeds for a column type."""

    def build(type_string: str, n: int) -> pa.Array:
        arrow_type, value = VALUES[type_string]
        if type_string == "long":
            return pa.array((np.arange(n, dtype=np.uint64) * np.uint64(GOLDEN_RATIO)).view(np.int64))
        return pa.array([value(i) for i in range(n)], arrow_type)

    return build


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``golden`` runs over the sketches, ``golden_hash`` over the hashes, ``any_type`` over the types Java wrote."""
    if "golden" in metafunc.fixturenames:
        goldens = json.loads((JAVA / "sketches.json").read_text("utf-8"))
        names = [f"{golden['type']}-{golden['family'].lower()}-{golden['n']}" for golden in goldens]
        metafunc.parametrize("golden", goldens, ids=names)
    if "golden_hash" in metafunc.fixturenames:
        goldens = json.loads((JAVA / "hashes.json").read_text("utf-8"))
        metafunc.parametrize("golden_hash", goldens, ids=[str(golden["length"]) for golden in goldens])
    if "any_type" in metafunc.fixturenames:
        metafunc.parametrize("any_type", VALUES)
