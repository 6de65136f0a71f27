"""Statistics of a column whose type has changed since are those of the rows that were counted, not of all."""

from __future__ import annotations

import pyarrow as pa

from puffin import ndv
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


def test_bounds_of_text_are_none_of_the_decimals_in_its_place(delta_table) -> None:
    table = delta_table("t", {"a": "string", "b": "long"})
    old = table.add({"a": ["x", "1e9"], "b": [1, 2]})
    table.commit(old)
    analyze(str(table.path), Options())
    decimals = pa.array([1, 2, None], pa.decimal128(9, 2))
    table.commit(
        table.metadata({"a": "decimal(9,2)", "b": "long"}), table.remove(old), table.add({"a": decimals, "b": [1] * 3})
    )
    found = estimate(str(table.path), "a > 1.5").rows
    assert found.lower <= 1 <= found.upper
    (answer,) = ndv(str(table.path), ["a"]).columns
    assert (answer.ndv, answer.summary.min, answer.summary.max, answer.summary.avg_bytes) == (2, None, None, None)
