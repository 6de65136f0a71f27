"""Counts of a column whose type has changed since are those of the rows that were counted, not of all."""

from __future__ import annotations

import pyarrow as pa

from puffin.lookup.estimates import estimate
from stats_jobs import Options, analyze

FEATURES = ["typeWidening"]


def test_null_count_before_a_wider_type_leaves_later_rows_open(delta_table) -> None:
    table = delta_table("t", {"f": "float", "x": "long"})
    protocol = table.protocol(3, 7, readerFeatures=FEATURES, writerFeatures=FEATURES)
    table.commit(protocol, table.metadata({"f": "float", "x": "long"}))

    def append(name: str, type_: pa.DataType, values: list[float | None]) -> None:
        table.commit(table.add({"f": pa.array(values, type_), "x": pa.array([1] * len(values))}, name))

    append("a.parquet", pa.float32(), [1.0, 2.0])
    analyze(str(table.path), Options())
    table.commit(table.metadata({"f": "double", "x": "long"}))
    append("b.parquet", pa.float64(), [None, None, 3.0])
    found = estimate(str(table.path), "f is not null").rows
    assert found.lower <= 3 <= found.upper
    assert not found.is_exact
