"""Rows appended to a Delta table of keys and texts, which the first rows create."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake


def append(table: Path, count: int, first: int = 0) -> None:
    """Append rows whose keys count up from ``first``."""
    keys = list(range(first, first + count))
    write_deltalake(str(table), pa.table({"k": keys, "s": [f"key {key}" for key in keys]}), mode="append")
