"""Avro and ORC tables of Spark have the same sketches, byte for byte, as Parquet tables of the same rows."""

from __future__ import annotations

import pytest

ROWS = 6000  # more distinct values than a sketch holds, and fewer, see SELECT
COLUMNS = """b boolean, i int, l bigint, f float, d double, dt date, ts timestamp, tn timestamp_ntz, s string,
    bin binary, small decimal(9, 2), middle decimal(18, 4), large decimal(38, 10),
    st struct<x: int, y: struct<z: string>>, a array<int>, m map<string, bigint>, p int"""
SELECT = """SELECT id % 3 = 0, CAST(id % 1000 - 500 AS int), id * 1000000007 - 3000000000,
    CAST(id % 2000 AS float) / 3,
    CASE WHEN id % 50 = 0 THEN double('NaN') WHEN id % 50 = 1 THEN -0.0D ELSE id / 7D END,
    date_add(DATE '1955-01-01', CAST(id * 7 % 3000 AS int)),
    timestamp_micros(id * 1000003 - 500000000000),
    CAST(timestamp_micros(id % 700 * 444000000000123 - 62000000000000000) AS timestamp_ntz),
    IF(id % 5 = 0, NULL, concat('s', id)), CAST(concat('b', id % 900) AS binary), CAST(id / 100 - 20 AS decimal(9, 2)),
    CAST(-id % 800 / 7 AS decimal(18, 4)), CAST(id * 1e20 / 7 AS decimal(38, 10)),
    IF(id % 4 = 0, NULL, struct(IF(id % 7 = 0, NULL, CAST(id AS int)) AS x, struct(concat('z', id % 600) AS z) AS y)),
    array(1, CAST(id AS int)), map('k', id), CAST(id % 2 AS int)"""
COLUMN_COUNT = 16  # those in lists and maps not counted
FORMATS = {"parquet": ("parquet", "parquet"), "avro_then_orc": ("avro", "orc"), "orc_then_avro": ("orc", "avro")}
OTHERS = ("avro_then_orc", "orc_then_avro")


@pytest.fixture(scope="module")
def histories(spark, analyze_table, open_table, stored_payloads):
    """By table name: how it was read after each change, the rows read and the sketches; and its rows."""
    found = {}
    for name, (first, then) in FORMATS.items():
        table = f"hadoop.formats.{name}"
        spark.sql(
            f"""CREATE TABLE {table} ({COLUMNS}) USING iceberg PARTITIONED BY (p) TBLPROPERTIES (
                'format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none',
                'write.delete.distribution-mode' = 'none',
                'write.format.default' = '{first}', 'write.delete.format.default' = '{then}')"""
        )
        steps = []

        def analyze(table=table, steps=steps, **options):
            report = analyze_table(table, **options)
            steps.append((report.mode, report.rows_read, stored_payloads(open_table(table), report.entry)))

        spark.sql(f"INSERT INTO {table} {SELECT} FROM range({ROWS})")
        analyze()
        spark.sql(f"DELETE FROM {table} WHERE l % 1000 < 300")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = '{then}')")
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN s TO renamed")
        spark.sql(f"INSERT INTO {table} {SELECT} FROM range({ROWS}, {ROWS + 1000})")
        analyze()
        analyze(mode="full")
        found[name] = steps, spark.table(table).count()
    return found


@pytest.mark.parametrize("name", OTHERS)
def test_avro_and_orc_sketches_equal_parquet_after_every_change(histories, name):
    """Some changes are read alone, in Parquet and elsewhere."""
    (whole, changed, again), live = histories[name]
    expected, _ = histories["parquet"]
    assert [whole, changed, again] == expected
    assert (whole[0], changed[0], again[1]) == ("full", "incremental", live)
    assert changed[1] < again[1]
    assert len(again[2]) == COLUMN_COUNT


@pytest.mark.parametrize("name", OTHERS)
def test_files_have_the_requested_formats(spark, histories, name):
    """Otherwise the test above would prove nothing."""
    files = spark.sql(f"SELECT content, file_format FROM hadoop.formats.{name}.all_files").collect()
    first, then = (format_.upper() for format_ in FORMATS[name])
    assert {row.file_format for row in files if row.content == 0} == {first, then}
    assert {row.file_format for row in files if row.content == 1} == {then}
