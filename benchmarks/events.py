"""
The rows of ``events``: the same ones every time, made column by column without a loop over values.

Values are in random order. A writer that judges by its first page whether a dictionary pays, as Spark's does, then
gives one to ``category`` alone; Arrow's gives one to ``k`` too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES = 8

_SEED = 20_260_101
_ODD = 0x9E3779B97F4A7C15  # times an odd number is one to one, modulo any power of two
_ID_BITS = (1 << 62) - 1
_DISTINCT_K, _DISTINCT_S, _DISTINCT_CATEGORY = 100_000, 1_000_000, 50
_START = 1_767_225_600_000_000  # 2026-01-01 in microseconds
_MONTH = 30 * 24 * 3600 * 1_000_000


def stage(directory: Path, rows: int) -> Iterator[Path]:
    """Write the rows as ``FILES`` Parquet files into the directory, and tell their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    bounds = [rows * part // FILES for part in range(FILES + 1)]
    for part, (start, stop) in enumerate(itertools.pairwise(bounds)):
        path = directory / f"{part}.parquet"
        pq.write_table(_rows(start, stop), path)
        yield path


def _rows(start: int, stop: int) -> pa.Table:
    random = np.random.default_rng([_SEED, start])
    count = stop - start
    return pa.table(
        {
            "id": pa.array((np.arange(start, stop, dtype=np.uint64) * np.uint64(_ODD) & _ID_BITS).astype(np.int64)),
            "k": random.integers(0, _DISTINCT_K, count, np.int32),
            "s": _names("customer-", _DISTINCT_S).take(pa.array(random.integers(0, _DISTINCT_S, count))),
            "category": _names("category-", _DISTINCT_CATEGORY).take(
                pa.array(random.integers(0, _DISTINCT_CATEGORY, count))
            ),
            "ts": pa.array(_START + random.integers(0, _MONTH, count)).cast(pa.timestamp("us", "UTC")),
            "amount": _decimals(random.integers(0, 10_000_000, count)),
            "value": random.standard_normal(count),
        }
    )


def _names(prefix: str, count: int) -> pa.Array:
    return pa.array([f"{prefix}{number:07}" for number in range(count)])


def _decimals(unscaled: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    # 128 bits each, the low half first; no value is negative.
    halves = np.zeros((len(unscaled), 2), np.int64)
    halves[:, 0] = unscaled
    return pa.Array.from_buffers(pa.decimal128(18, 2), len(unscaled), [None, pa.py_buffer(halves)])
