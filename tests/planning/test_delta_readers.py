"""deltalake, DuckDB and polars read the files of a plan, and nobody reads deleted rows by accident."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from puffin.errors import UnsupportedTableError, UsageError
from stats_jobs.index import index
from stats_jobs.options import IndexOptions

ODD = ["x y", "a%20b", "a/b", "ü?*[1]", "plus+", None, "07"]
"""Partition values that paths encode."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A partition for each odd value, in a directory with a space; a column was added after the first file."""
    path = tmp_path / "my table"
    for i, value in enumerate(ODD):
        added = {"added": pa.array([f"new {i}", None])} if i else {}
        rows = pa.table({"k": [i, i + 100], "p": pa.array([value] * 2, pa.string()), **added})
        write_deltalake(path, rows, mode="append", partition_by=["p"], schema_mode="merge")
    return path


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["k"])


def test_dataset_of_deltalake_has_the_planned_files_alone(table: Path) -> None:
    whole = DeltaTable(table).to_pyarrow_dataset().to_table()
    left = []
    for i, value in enumerate(ODD):
        plan = puffin.plan(str(table), f"k = {i + 100}")
        dataset = plan.for_deltalake(DeltaTable(table))
        left.append(len(list(dataset.get_fragments())))
        assert left[-1] == len(plan.files)
        found = dataset.to_table(filter=ds.field("k") == i + 100)
        assert found.schema == whole.schema
        assert rows_of(found) == rows_of(whole.filter(ds.field("k") == i + 100))
        assert found["p"].to_pylist() == [value]
    assert left == [7, 6, 5, 4, 3, 2, 1]


def test_dataset_reaches_duckdb_and_polars(table: Path) -> None:
    dataset = puffin.plan(str(table), "k = 101 or k = 2").for_deltalake(DeltaTable(table))
    found = duckdb.sql("SELECT k, p, added FROM dataset WHERE k = 101 OR k = 2 ORDER BY k").fetchall()
    assert found == [(2, "a/b", "new 2"), (101, "a%20b", None)]
    frame = polars.scan_pyarrow_dataset(dataset).filter(polars.col("k") == 101).collect()
    assert frame.to_dicts() == [{"k": 101, "p": "a%20b", "added": None}]


def test_paths_reach_duckdb_and_polars(table: Path) -> None:
    """Encoded partition values, spaces, and a column that the oldest file lacks."""
    paths = puffin.plan(str(table), "k > 99").parquet_paths()
    assert len(paths) == len(ODD)
    assert all(Path(path).is_file() for path in paths)
    expected = [(i + 100, value, None) for i, value in enumerate(ODD)]
    options = "union_by_name=true, hive_partitioning=true, hive_types_autocast=false"
    found = duckdb.execute(f"SELECT k, p, added FROM read_parquet(?, {options}) WHERE k > 99 ORDER BY k", [paths])
    assert found.fetchall() == expected
    frame = polars.scan_parquet(
        paths[::-1], hive_partitioning=True, hive_schema={"p": polars.String}, missing_columns="insert"
    )
    found = frame.filter(polars.col("k") > 99).sort("k").select("k", "p", "added").collect()
    assert found.rows() == expected


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_paths_of_a_location_as_uri_can_be_read(tmp_path: Path, prefix: str) -> None:
    write_deltalake(tmp_path / "my table", pa.table({"k": [1, 2]}))
    paths = puffin.plan(f"{prefix}{tmp_path}/my table").parquet_paths()
    assert duckdb.read_parquet(paths).fetchall() == [(1,), (2,)]
    assert polars.read_parquet(paths)["k"].to_list() == [1, 2]


def test_typed_partitions_keep_their_types_in_the_dataset(tmp_path: Path) -> None:
    day, price = datetime.date(2024, 2, 29), decimal.Decimal("1.50")
    at = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc)
    rows = pa.table(
        {
            "k": [1],
            "day": [day],
            "at": pa.array([at], pa.timestamp("us", "UTC")),
            "price": pa.array([price], pa.decimal128(9, 2)),
            "yes": [True],
        }
    )
    write_deltalake(tmp_path / "t", rows, partition_by=["day", "at", "price", "yes"])
    plan = puffin.plan(str(tmp_path / "t"), "day = '2024-02-29' and price = 1.50 and yes = true")
    (row,) = plan.for_deltalake(DeltaTable(tmp_path / "t")).to_table().to_pylist()
    assert row == {"k": 1, "day": day, "at": at, "price": price, "yes": True}


def test_index_spares_files_in_both_forms(tmp_path: Path) -> None:
    for i in range(4):
        write_deltalake(tmp_path / "t", pa.table({"k": [0, i + 1, 100]}), mode="append")
    index(str(tmp_path / "t"), IndexOptions(columns=("k",)))
    plan = puffin.plan(str(tmp_path / "t"), "k = 3")
    assert len(plan.parquet_paths()) == len(plan.for_deltalake(DeltaTable(tmp_path / "t")).files) == 1


@pytest.mark.parametrize(
    ("number", "scale"),
    [
        ("99999999999999.99999", 5),
        ("-1234567890123456789.98765", 5),
        ("123456789012345678901.12345", 5),
        ("1234567890123456789", 0),
        ("9223372036854775817", 0),
        ("-9223372036854775817", 0),
    ],
)
def test_bounds_that_deltalake_rounds_keep_the_decimal(tmp_path: Path, number: str, scale: int) -> None:
    rows = pa.table({"d": pa.array([decimal.Decimal(number)], pa.decimal128(38, scale))})
    write_deltalake(tmp_path / "t", rows)
    for op in ("=", ">=", "<="):
        assert puffin.plan(str(tmp_path / "t"), f"d {op} {number}").files_matched == 1


def test_plan_of_another_version_is_refused(table: Path) -> None:
    plan = puffin.plan(str(table), "k = 1")
    write_deltalake(table, pa.table({"k": [1], "p": ["x"], "added": [None]}, None), mode="append")
    with pytest.raises(UsageError, match="expected the files of the plan, found those of version 7"):
        plan.for_deltalake(DeltaTable(table))
    assert plan.for_deltalake(DeltaTable(table, version=6)).count_rows() > 0


def test_version_without_changes_has_the_files_of_the_plan(table: Path) -> None:
    """As the note of an analysis in the log."""
    plan = puffin.plan(str(table), "k = 1")
    DeltaTable(table).alter.set_table_properties({"delta.appendOnly": "false"})
    assert plan.for_deltalake(DeltaTable(table)).count_rows() > 0


def test_plan_of_an_iceberg_table_is_refused(make_table: Any) -> None:
    iceberg = make_table([(1, "k", "long")])
    iceberg.snapshot(iceberg.data(iceberg.write("a.parquet", pa.table({"k": [1]}), {"k": 1})))
    path = iceberg.root / "v1.metadata.json"
    path.write_text(json.dumps(iceberg.document))
    with pytest.raises(UsageError, match="format delta"):
        puffin.plan(str(path)).parquet_paths()


def test_file_outside_of_the_table_is_no_file_of_a_dataset(tmp_path: Path) -> None:
    """deltalake looks for absolute paths of a shallow clone below the table; to leave one out would lose rows."""
    write_deltalake(tmp_path / "source", pa.table({"k": [1, 2]}))
    log = Path("_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in (tmp_path / "source" / log).read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = f"{tmp_path}/source/{action['add']['path']}"
    (tmp_path / "clone" / log.parent).mkdir(parents=True)
    (tmp_path / "clone" / log).write_text("\n".join(map(json.dumps, actions)))
    plan = puffin.plan(str(tmp_path / "clone"), "k = 1")
    assert duckdb.read_parquet(plan.parquet_paths()).count("*").fetchall() == [(2,)]
    with pytest.raises(UsageError, match="found those of version 0"):
        plan.for_deltalake(DeltaTable(tmp_path / "clone"))


def test_deleted_rows_are_not_read_by_accident(spark: Any, tmp_path: Path) -> None:
    """A planned file with a deletion vector is marked, and no list has it; a plan without such files is a list."""
    path = tmp_path / "t"
    vectors = "TBLPROPERTIES (delta.enableDeletionVectors=true)"
    spark.sql(f"CREATE TABLE delta.`{path}` (k bigint) USING delta {vectors}")
    for first in (0, 100):
        spark.range(first, first + 100, 1, 1).toDF("k").write.format("delta").mode("append").save(str(path))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE k = 7")
    plan = puffin.plan(str(path), "k < 50")
    (task,) = plan.files
    assert [file.content for file in task.delete_files] == ["POSITION_DELETES"]
    with pytest.raises(UnsupportedTableError, match="1 of 1 planned files have deletion vectors"):
        plan.parquet_paths()
    assert polars.read_parquet(puffin.plan(str(path), "k > 150").parquet_paths())["k"].to_list() == [*range(100, 200)]


def test_mapped_columns_are_not_read_by_their_old_names(spark: Any, tmp_path: Path) -> None:
    """After a rename, a file's column of a name may be another column of the table."""
    path = tmp_path / "t"
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode'='name')"
    spark.sql(f"CREATE TABLE delta.`{path}` (a bigint, b bigint) USING delta {mapped}")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 2)")
    with pytest.raises(UnsupportedTableError, match="column mapping"):
        puffin.plan(str(path), "a = 1").parquet_paths()


def test_partition_of_a_timestamp_without_a_zone_is_planned_for_every_session(delta_table: Any) -> None:
    """Spark reads midnight in the zone of its session: in Berlin it is 23:00 of the day before in UTC."""
    table = delta_table(types={"a": "long", "ts": "timestamp"}, partitioned_by=["ts"])
    texts = {"none": "2024-01-01 00:00:00", "utc": "2024-01-01T00:00:00.000000Z", "null": None}
    table.commit(*(table.add({"a": [1]}, f"{name}.parquet", partitionValues={"ts": t}) for name, t in texts.items()))

    def planned(where: str) -> set[str]:
        return {Path(task.data_file.file_path).stem for task in puffin.plan(str(table.path), where).files}

    assert planned("ts = '2024-01-01T00:00:00+01:00'") == {"none"}
    assert planned("ts = '2024-01-01T00:00:00+00:00'") == {"none", "utc"}
    assert planned("ts > '2024-01-01T17:00:00+00:00'") == {"none"}
    assert planned("ts > '2024-01-01T18:00:00+00:00' or ts < '2023-12-31T06:00:00+00:00'") == set()
    assert planned("ts is null") == {"null"}
