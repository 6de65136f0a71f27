"""
Up to 4,096 distinct values our sketches equal those of Spark's ``compute_table_stats`` byte for byte.

In every type that Spark can write (a uuid is text to it), and with the values that are easily hashed otherwise: NULL,
both zeros, NaN, empty strings and binaries, negative decimals, dates before the epoch. The sketches of every format
version are held against the values that Spark reads in `test_table_kinds`.
"""

from __future__ import annotations

import pytest

# One column per type; the first has as many values as a sketch holds before it estimates.
COLUMNS = {
    "i": ("int", "CAST(id * 524287 - 1073741824 AS int)"),
    "b": ("boolean", "id % 2 = 0"),
    "l": ("bigint", "id % 3000 * 4294967297 - 9000000000000"),
    "f": ("float", "CASE id WHEN 0 THEN float('-0') WHEN 1 THEN float('0') WHEN 2 THEN float('nan') ELSE id / 8 END"),
    "d": ("double", "CASE id WHEN 0 THEN double('-0') WHEN 1 THEN 0d WHEN 2 THEN double('inf') ELSE id % 500 / 3 END"),
    "dec9": ("decimal(9, 2)", "(id % 2500 - 1250) * 3.17"),
    "dec18": ("decimal(18, 4)", "(id % 2500 - 1250) * 12345678.9012"),
    "dec38": ("decimal(38, 10)", "CAST(id % 2500 - 1250 AS decimal(38, 10)) * 98765432109876.1234"),
    "dt": ("date", "date_add(DATE'1969-01-01', CAST(id % 1000 AS int))"),
    "ts": ("timestamp", "timestamp_micros((id % 1500 - 700) * 86399999999)"),
    "ntz": ("timestamp_ntz", "CAST(timestamp_micros((id % 1500 - 700) * 1234567891) AS timestamp_ntz)"),
    "s": ("string", "CASE id WHEN 0 THEN '' ELSE concat('Grüße ', id % 2000) END"),
    "bin": ("binary", "CASE id WHEN 0 THEN X'' ELSE unhex(lpad(hex(id % 700), 6, '0')) END"),
    "st": ("struct<x: bigint>", "named_struct('x', id % 11)"),
}
LEAVES = [name if name != "st" else "st.x" for name in COLUMNS]


@pytest.fixture
def name(spark):
    """A table of 4,096 rows of values, and ten of NULL."""
    values = ", ".join(f"CAST({value} AS {type_}) AS {name}" for name, (type_, value) in COLUMNS.items())
    nulls = ", ".join(f"CAST(NULL AS {type_})" for type_, _ in COLUMNS.values())
    rows = f"SELECT {values} FROM range(4096) UNION ALL SELECT {nulls} FROM range(10)"
    spark.sql(f"CREATE TABLE hadoop.same.t USING iceberg TBLPROPERTIES ('format-version' = '3') AS {rows}")
    return "hadoop.same.t"


def test_sketches_equal_sparks_byte_for_byte(spark, name, analyze_table, java_statistics):
    asked = ", ".join(f"'{leaf}'" for leaf in LEAVES)
    spark.sql(f"CALL hadoop.system.compute_table_stats(table => '{name}', columns => array({asked}))")
    (by_spark,) = java_statistics(name).values()
    report = analyze_table(name, mode="full", columns=tuple(LEAVES))
    (by_us,) = java_statistics(name).values()

    assert by_us.path != by_spark.path
    names = {column.column.field_id: column.column.name for column in report.columns}
    assert set(names.values()) == set(LEAVES)
    differing = [name for field_id, name in names.items() if by_us.payloads[field_id] != by_spark.payloads[field_id]]
    assert differing == []
    assert {b.fields: b.properties["ndv"] for b in by_us.blobs} == {
        b.fields: b.properties["ndv"] for b in by_spark.blobs
    }
    assert {name: c.ndv for name, c in zip(LEAVES, report.columns, strict=True)}["i"] == 4096
    assert {(b.snapshot_id, b.sequence_number) for b in by_us.blobs} == {
        (b.snapshot_id, b.sequence_number) for b in by_spark.blobs
    }
