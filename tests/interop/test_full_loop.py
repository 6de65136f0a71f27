"""
The whole loop on tables that Spark wrote with deletes: analyze, commit, look up, and plan.

Every format version in the file-system catalog; Spark counts the truth.
"""

from __future__ import annotations

import pytest

from puffin.lookup import Question, lookup
from puffin.tables.base import SnapshotSelector

FLAT = ["id", "k", "s", "day"]
NESTED = ["st.x", "st.deep.y"]
TABLES = {
    "hadoop.loop.v1": (1, "copy-on-write", set()),
    "hadoop.loop.v2": (2, "merge-on-read", {"PARQUET"}),
    "hadoop.loop.v3": (3, "merge-on-read", {"PUFFIN"}),
}


@pytest.fixture(scope="module", params=TABLES)
def table(spark, request):
    """A partitioned table with two appends and a delete: position deletes in v2, deletion vectors in v3."""
    name = request.param
    version, deletes, formats = TABLES[name]
    spark.sql(
        f"""CREATE TABLE {name} (id bigint, k int, s string, day date, st struct<x: int, deep: struct<y: string>>)
            USING iceberg PARTITIONED BY (bucket(2, day))
            TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = '{deletes}')"""
    )
    for first in (0, 1500):
        spark.sql(
            f"""INSERT INTO {name} SELECT id, CAST(id % 17 AS int), nullif(concat('s', id % 400), 's7'),
                date_add(DATE'2024-01-01', CAST(id % 5 AS int)),
                IF(id % 10 = 0, NULL, named_struct('x', CAST(id % 90 AS int), 'deep', named_struct('y', left(id, 2))))
                FROM range({first}, {first + 1500})"""
        )
    spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0 OR k = 3 OR s = 's20'")
    assert {row.file_format for row in spark.table(f"{name}.delete_files").collect()} == formats
    return name


@pytest.mark.table_kind("Position deletes, deletion vectors, both after an upgrade", "2 3")
def test_table_is_analyzed_committed_looked_up_and_planned_with(
    spark, table, open_table, analyze_table, count_distinct, planner_ndv, java_statistics
):
    truth = count_distinct(spark.table(table), [*FLAT, *NESTED])
    assert 0 < truth["id"] < 3000
    report = analyze_table(table)
    assert report.committed
    assert report.rows_read == spark.table(table).count()

    answer = lookup(open_table(table), Question(table))
    assert {column.column.name: column.ndv for column in answer.columns} == truth
    assert {column.source for column in answer.columns} == {"snapshot"}
    assert planner_ndv(spark.table(table)) == {name: truth[name] for name in FLAT}
    names = {column.column.field_id: column.column.name for column in answer.columns}
    java = java_statistics(table)[answer.snapshot_id]
    assert {names[blob.fields[0]]: blob.sketch.retained for blob in java.blobs} == truth


def test_columns_without_hashable_bytes_are_skipped(spark, analyze_table, planner_ndv):
    """A variant is in the same files; lists and maps have elements, not values."""
    name = "hadoop.loop.variant"
    spark.sql(
        f"""CREATE TABLE {name} (id bigint, v variant, li array<int>, m map<string, int>) USING iceberg
            TBLPROPERTIES ('format-version' = '3')"""
    )
    spark.sql(f"INSERT INTO {name} SELECT id, parse_json('{{}}'), array(1, 2), map('a', 1) FROM range(9)")
    assert [(column.column.name, column.ndv) for column in analyze_table(name).columns] == [("id", 9)]
    assert planner_ndv(spark.table(name)) == {"id": 9}


@pytest.mark.table_kind("Initial defaults", "3")
def test_column_added_with_a_default_has_it_in_earlier_rows(spark, analyze_table, count_distinct, planner_ndv):
    """In version 3 old files lack the column, and readers fill in its ``initial-default``."""
    name = "hadoop.loop.defaults"
    spark.sql(f"CREATE TABLE {name} (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    spark.sql(f"INSERT INTO {name} SELECT id FROM range(5)")
    iceberg = spark._jvm.org.apache.iceberg
    evolved = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    string, default = iceberg.types.Types.StringType.get(), iceberg.expressions.Literal.of("early")
    evolved.updateSchema().addColumn("era", string, None, default).commit()
    spark.sql(f"INSERT INTO {name} VALUES (5, 'late'), (6, NULL)")
    truth = count_distinct(spark.table(name), ["id", "era"])
    assert truth["era"] == 2
    analyze_table(name)
    assert planner_ndv(spark.table(name)) == truth

    first = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").first().snapshot_id
    old = spark.sql(f"SELECT * FROM {name} VERSION AS OF {first}")
    assert old.columns == ["id"]
    report = analyze_table(name, selector=SnapshotSelector(snapshot_id=first))
    assert [(each.column.name, each.ndv) for each in report.columns] == [("id", 5), ("era", 0)]
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH side AS OF VERSION {first}")
    side = spark.sql(f"SELECT DISTINCT era FROM {name} VERSION AS OF 'side'")
    assert [row.era for row in side.collect()] == ["early"]  # the end of a branch is not old
    report = analyze_table(name, selector=SnapshotSelector(snapshot_id=first))
    assert [(each.column.name, each.ndv) for each in report.columns] == [("id", 5), ("era", 1)]
