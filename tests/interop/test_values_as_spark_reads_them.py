"""Columns whose values depend on more than the file's bytes are read as Spark reads them, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.errors import UnsupportedTableError
from puffin.load import load_table
from puffin.sketches.theta_sketch import ThetaSketch

DAYS = ["0001-01-01", "1500-01-01", "1582-10-04", "1582-10-15", "1899-12-31", "1900-01-01", "2020-02-02"]
RECENT = DAYS[3:]


@pytest.fixture
def legacy(spark: Any) -> Any:
    """Makes Spark write dates and timestamps of the Julian calendar, in this Parquet type."""
    keys = {f"spark.sql.parquet.{kind}RebaseModeInWrite": "LEGACY" for kind in ("datetime", "int96")}
    before = {key: spark.conf.get(key) for key in (*keys, "spark.sql.parquet.outputTimestampType")}

    def write_as(type_: str) -> None:
        for key, value in (keys | {"spark.sql.parquet.outputTimestampType": type_}).items():
            spark.conf.set(key, value)

    yield write_as
    for key, value in before.items():
        spark.conf.set(key, value)


def days(spark: Any, listed: list[str]) -> Any:
    rows = ", ".join(f"(date '{day}', timestamp '{day} 12:34:56.123456')" for day in listed)
    return spark.sql(f"SELECT * FROM VALUES {rows} AS t(d, ts)").coalesce(1)


def sketches_of(spark: Any, relation: str) -> dict[int, bytes]:
    rows = spark.sql(f"SELECT unix_date(d), unix_micros(ts) FROM {relation}").collect()
    dates = pa.array([row[0] for row in rows], pa.int32()).cast(pa.date32())
    times = pa.array([row[1] for row in rows], pa.timestamp("us", "UTC"))
    return {
        1: ThetaSketch.from_arrow(dates, "date").to_bytes(),
        2: ThetaSketch.from_arrow(times, "timestamptz").to_bytes(),
    }


@pytest.mark.parametrize("type_", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_julian_dates_are_refused_in_delta_and_read_as_stored_in_iceberg(
    spark: Any, legacy: Any, warehouse: Path, tmp_path: Path, stored_payloads: Callable[..., Any],
    analyze_table: Callable[..., Any], type_: str,
) -> None:  # fmt: skip
    legacy(type_)
    old, recent, source = (str(tmp_path / name) for name in ("old", "recent", "source"))
    days(spark, DAYS).write.format("delta").save(old)
    for column in ("d", "ts"):
        message = f"column {column}: values before 1582-10-15 are Julian dates"
        with pytest.raises(UnsupportedTableError, match=message):
            analyze_table(load_table(old), columns=(column,))
    days(spark, RECENT).write.format("delta").save(recent)
    table = load_table(recent)
    report = analyze_table(table)
    assert stored_payloads(table, report.entry) == sketches_of(spark, f"delta.`{recent}`")

    days(spark, DAYS).write.parquet(source)
    name = f"hadoop.calendars.{type_}".lower()
    spark.sql(f"CREATE TABLE {name} (d date, ts timestamp) USING iceberg")
    spark.sql(f"CALL hadoop.system.add_files(table => '{name[7:]}', source_table => '`parquet`.`{source}`')")
    report = analyze_table(name)
    assert stored_payloads(load_table(str(warehouse / name[7:].replace(".", "/"))), report.entry) == sketches_of(
        spark, name
    )


@pytest.mark.parametrize("stored", [None, [1, 2, 3]], ids=["lacks it", "has it"])
@pytest.mark.parametrize("value", ["7", "__HIVE_DEFAULT_PARTITION__"])
def test_files_added_by_partition_take_the_column_from_the_partition(
    spark: Any, analyze_table: Callable[..., Any], tmp_path: Path, stored: list[int] | None, value: str
) -> None:
    folder = tmp_path / f"p={value}"
    folder.mkdir()
    columns = {"id": [1, 2, 3], **({} if stored is None else {"p": pa.array(stored, pa.int32())})}
    pq.write_table(pa.table(columns), folder / "a.parquet")
    name = f"partitions.{'lacks' if stored is None else 'has'}_{'null' if value.startswith('_') else value}"
    spark.sql(f"CREATE TABLE hadoop.{name} (id bigint, p int) USING iceberg PARTITIONED BY (p)")
    spark.sql(f"CALL hadoop.system.add_files(table => '{name}', source_table => '`parquet`.`{tmp_path}`')")
    read = {row.p for row in spark.table(f"hadoop.{name}").collect()}
    assert read == ({7} if value == "7" else {None})
    assert [column.ndv for column in analyze_table(f"hadoop.{name}").columns] == [3, len(read - {None})]


def test_signed_zeros_and_nan_count_alike_in_partitions_and_files(
    spark: Any, analyze_table: Callable[..., Any]
) -> None:
    name = "hadoop.partitions.zeros"
    spark.sql(f"CREATE TABLE {name} (id bigint, p double) USING iceberg PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {name} VALUES (1, 0.0D), (2, -0.0D), (3, double('NaN')), (4, NULL), (5, 1.5D)")
    read = {repr(row.p) for row in spark.table(name).collect() if row.p is not None}
    assert [column.ndv for column in analyze_table(name).columns] == [5, len(read)]
