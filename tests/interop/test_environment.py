"""Spark, Iceberg Java and the REST catalog work as the other interoperation tests expect."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

EXPECTED = Path(__file__).parents[2] / "fixtures" / "tables-spark-3.5-iceberg-1.10" / "iceberg-spark-expected.json"


def test_spark_writes_and_reads_an_iceberg_table_in_the_warehouse(spark, warehouse):
    spark.sql("CREATE TABLE hadoop.environment.written (id bigint) USING iceberg")
    spark.sql("INSERT INTO hadoop.environment.written VALUES (1), (2), (3)")
    assert [row.id for row in spark.table("hadoop.environment.written").orderBy("id").collect()] == [1, 2, 3]
    assert (warehouse / "environment" / "written" / "metadata" / "version-hint.text").exists()


def test_spark_runs_python_tasks_in_this_interpreter(spark):
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]


def test_iceberg_java_reads_a_puffin_file_over_py4j(spark, golden_tables):
    """Iceberg's reader finds the blobs that the table metadata lists in Spark's statistics file."""
    entry = json.loads((golden_tables / "t_types" / "metadata" / "v5.metadata.json").read_text())["statistics"][0]
    iceberg = spark._jvm.org.apache.iceberg
    source = iceberg.Files.localInput(entry["statistics-path"].removeprefix("file:"))
    reader = iceberg.puffin.Puffin.read(source).withFileSize(entry["file-size-in-bytes"]).build()
    found = [list(blob.inputFields()) for blob in reader.fileMetadata().blobs()]
    reader.close()
    assert found == [blob["fields"] for blob in entry["blob-metadata"]]


@pytest.mark.parametrize(("table", "expected"), json.loads(EXPECTED.read_text()).items())
def test_golden_tables_have_the_rows_that_their_writer_counted(spark, golden_tables, table, expected):
    """With deletes applied."""
    assert spark.read.format("iceberg").load(f"file:{golden_tables / table}").count() == expected["rows"]


def test_rest_catalog_keeps_what_pyiceberg_commits(rest_catalog):
    catalog = load_catalog("rest", **rest_catalog)
    catalog.create_namespace("kept")
    catalog.create_table("kept.v2", schema=pa.schema([("id", pa.int64())])).append(pa.table({"id": [1, 2, 3]}))
    table = load_catalog("rest", **rest_catalog).load_table("kept.v2")
    assert table.format_version == 2
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert table.location().startswith(rest_catalog["warehouse"])


def test_rest_catalog_serves_tables_of_format_version_3(rest_catalog):
    catalog = load_catalog("rest", **rest_catalog)
    catalog.create_namespace("three")
    catalog.create_table("three.v3", schema=pa.schema([("id", pa.int64())]), properties={"format-version": "3"})
    assert catalog.load_table("three.v3").format_version == 3


def test_rest_catalog_refuses_the_second_of_two_conflicting_commits(rest_catalog):
    catalog = load_catalog("rest", **rest_catalog)
    catalog.create_namespace("conflicting")
    without_retries = {"commit.retry.num-retries": "0"}
    first = catalog.create_table("conflicting.t", schema=pa.schema([("id", pa.int64())]), properties=without_retries)
    second = catalog.load_table("conflicting.t")
    first.append(pa.table({"id": [1]}))
    with pytest.raises(CommitFailedException):
        second.append(pa.table({"id": [2]}))
    assert catalog.load_table("conflicting.t").scan().count() == 1


def test_spark_writes_through_the_rest_catalog(spark_rest, rest_catalog):
    spark_rest.sql("CREATE NAMESPACE rest.from_spark")
    spark_rest.sql("CREATE TABLE rest.from_spark.t (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    spark_rest.sql("INSERT INTO rest.from_spark.t VALUES (1), (2)")
    table = load_catalog("rest", **rest_catalog).load_table("from_spark.t")
    assert table.format_version == 3
    assert table.scan().count() == 2
