"""
Spark's planner uses our NDV, however a table is named, and only for the snapshot it describes.

``attributeStats`` of the optimized plan is what its cost rules use; ``EXPLAIN COST`` does not print it.
"""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from puffin.statistics import assemble

KNOWN = {"id": 3000, "s": 10, "d": 20}


@pytest.fixture
def new_table(spark):
    """Makes a table of 3,000 rows with a struct, and returns its name."""

    def make(name: str) -> str:
        spark.sql(f"CREATE TABLE {name} (id bigint, s string, d double, st struct<x: int>) USING iceberg")
        append(spark, name)
        return name

    return make


def append(spark, name: str, first: int = 0) -> None:
    spark.sql(
        f"""INSERT INTO {name} SELECT id, concat('s', id % 10), id % 20 / 2, named_struct('x', CAST(id % 3 AS int))
            FROM range({first}, {first} + 3000)"""
    )


def explain_join(spark, name: str) -> str:
    return spark.sql(f"EXPLAIN COST SELECT * FROM {name} l JOIN {name} r ON l.id = r.id").first()[0]


@pytest.fixture(scope="module")
def rest_namespace(spark_rest):
    spark_rest.sql("CREATE NAMESPACE rest.planner")


@pytest.mark.parametrize("name", ["hadoop.planner.t", "rest.planner.t"])
def test_planner_knows_the_ndv_of_a_catalog_table(
    spark_rest, rest_namespace, new_table, analyze_table, planner_ndv, name
):
    """Only of top-level columns; the blob of a nested one does no harm."""
    new_table(name)
    assert planner_ndv(spark_rest.table(name)) == {}
    report = analyze_table(name)
    assert {column.column.name: column.ndv for column in report.columns} == {**KNOWN, "st.x": 3}
    assert planner_ndv(spark_rest.table(name)) == KNOWN
    assert "Join" in explain_join(spark_rest, name)


def test_planner_knows_the_ndv_of_a_table_loaded_by_its_directory(
    spark, new_table, analyze_table, open_table, planner_ndv
):
    name = new_table("hadoop.planner.by_path")
    analyze_table(name)
    assert planner_ndv(spark.read.format("iceberg").load(open_table(name).name)) == KNOWN


def test_planner_ignores_ndv_without_cost_based_optimization(spark, new_table, analyze_table, planner_ndv):
    """So the tests above depend on ``spark.sql.cbo.enabled``."""
    name = new_table("hadoop.planner.no_cbo")
    analyze_table(name)
    spark.conf.set("spark.sql.cbo.enabled", "false")
    try:
        assert planner_ndv(spark.table(name)) == {}
    finally:
        spark.conf.set("spark.sql.cbo.enabled", "true")


def test_planner_knows_the_ndv_of_an_abridged_entry_and_commits_keep_it(
    spark, new_table, analyze_table, open_table, planner_ndv, monkeypatch
):
    """Our own properties are in the file alone; those that stay survive what Spark writes."""
    monkeypatch.setattr(assemble, "MOST_WHOLE", 0)
    name = new_table("hadoop.planner.abridged")
    report = analyze_table(name)
    assert planner_ndv(spark.table(name)) == KNOWN
    append(spark, name)
    blobs = open_table(name).open().state.statistics[report.snapshot.snapshot_id].blobs
    assert [dict(blob.properties) for blob in blobs] == [{"ndv": str(c.ndv), "sidecar": "1"} for c in report.columns]
    assert analyze_table(name).rows_read == 3000
    assert planner_ndv(spark.table(name)) == KNOWN


def test_planner_uses_statistics_only_of_the_scanned_snapshot(spark, new_table, analyze_table, planner_ndv):
    """An append hides the NDV until the next analysis; the older snapshot keeps its own."""
    name = new_table("hadoop.planner.snapshots")
    before = analyze_table(name)
    append(spark, name, first=500)
    assert planner_ndv(spark.table(name)) == {}
    analyze_table(name)
    assert planner_ndv(spark.table(name)) == {**KNOWN, "id": 3500}
    older = spark.sql(f"SELECT * FROM {name} VERSION AS OF {before.snapshot.snapshot_id}")
    assert planner_ndv(older) == KNOWN


def test_analysis_after_a_dropped_column_repairs_the_planner(spark, new_table, analyze_table, planner_ndv):
    """Iceberg's planner fails over a blob of a missing field; the next run removes it."""
    name = new_table("hadoop.planner.dropped")
    analyze_table(name)
    spark.sql(f"ALTER TABLE {name} DROP COLUMN d")
    with pytest.raises(Py4JJavaError, match="NullPointerException"):
        planner_ndv(spark.table(name))
    assert analyze_table(name).committed
    assert planner_ndv(spark.table(name)) == {"id": 3000, "s": 10}
    assert "Join" in explain_join(spark, name)
    assert spark.sql(f"SELECT l.s FROM {name} l JOIN {name} r ON l.id = r.id WHERE r.id < 3").count() == 3


def test_planner_without_ranges_expects_no_rows_for_a_number(spark, new_table, analyze_table):
    """SPARK-52868, which the README warns of: numbers count as out of range, strings do not."""
    name = new_table("hadoop.planner.no_range")
    analyze_table(name)
    estimates = [
        spark.table(name).where(condition)._jdf.queryExecution().optimizedPlan().stats().rowCount().get()
        for condition in ("id = 5", "s = 's5'")
    ]
    assert [int(str(estimate)) for estimate in estimates] == [0, 300]
