"""Spark keeps working with a table after our commit: reading, writing, maintenance, and its own statistics."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import pytest

from puffin.lookup import Question, lookup

FOUR_DAYS = 4 * 24 * 3600  # remove_orphan_files leaves files of the last three alone


@pytest.fixture
def analyzed(spark, analyze_table):
    """Makes a table of two files, 400 rows, analyzes the given columns, and returns its name."""

    def make(name: str, **options) -> str:
        name = f"hadoop.goes_on.{name}"
        spark.sql(
            f"""CREATE TABLE {name} (id bigint, s string, d date) USING iceberg
                TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"""
        )
        append(spark, name, 0, 400)
        analyze_table(name, **options)
        return name

    return make


def append(spark, name: str, first: int, end: int) -> None:
    spark.sql(
        f"""INSERT INTO {name} SELECT id, concat('s', id % 30), date_add(DATE'2024-01-01', CAST(id % 9 AS int))
            FROM range({first}, {end}, 1, 2)"""
    )


def call(spark, procedure: str, name: str, *arguments: str) -> dict:
    named = ", ".join((f"table => '{name}'", *arguments))
    return spark.sql(f"CALL hadoop.system.{procedure}({named})").first().asDict()


def answers(table) -> dict[str, tuple[int, str]]:
    return {c.column.name: (c.ndv, c.source) for c in lookup(table, Question(table.name)).columns}


def test_spark_reads_appends_and_deletes(spark, analyzed, open_table, analyze_table):
    """A delete adds only delete files; the entry of the earlier snapshot survives both."""
    name = analyzed("writes")
    entries = open_table(name).open().state.statistics
    append(spark, name, 400, 600)
    spark.sql(f"DELETE FROM {name} WHERE id % 2 = 0")
    assert spark.table(f"{name}.delete_files").count() > 0
    assert (spark.table(name).count(), spark.sql(f"SELECT sum(id) FROM {name}").first()[0]) == (300, 90_000)
    assert open_table(name).open().state.statistics == entries
    assert answers(open_table(name)) == {"id": (400, "ancestor"), "s": (30, "ancestor"), "d": (9, "ancestor")}
    analyze_table(name)
    assert answers(open_table(name)) == {"id": (300, "snapshot"), "s": (15, "snapshot"), "d": (9, "snapshot")}


def test_sparks_statistics_of_other_columns_are_kept(spark, analyzed, analyze_table, java_statistics, planner_ndv):
    name = analyzed("kept", commit=False)
    call(spark, "compute_table_stats", name, "columns => array('s', 'd')")
    (by_spark,) = java_statistics(name).values()
    analyze_table(name, columns=("id", "s"), mode="full")
    (both,) = java_statistics(name).values()
    assert list(both.listed) == [blob.fields for blob in both.blobs] == [(1,), (2,), (3,)]
    kept, theirs = both.blobs[2], by_spark.blobs[1]
    marked = {**theirs.properties, "puffin-sidecar.writer": by_spark.file_properties["created-by"]}
    assert dataclasses.replace(kept, offset=theirs.offset) == dataclasses.replace(theirs, properties=marked)
    assert ["puffin-sidecar.type" in blob.properties for blob in both.blobs] == [True, True, False]
    assert [blob.sketch.estimate for blob in both.blobs] == [400, 30, 9]
    assert planner_ndv(spark.table(name)) == {"id": 400, "s": 30, "d": 9}


def test_sparks_later_statistics_replace_ours(spark, analyzed, analyze_table, open_table, java_statistics, planner_ndv):
    """Its procedure replaces the entry with the columns it was asked for; our next run completes it."""
    name = analyzed("replaced")
    call(spark, "compute_table_stats", name, "columns => array('s')")
    (by_spark,) = java_statistics(name).values()
    assert [(blob.fields, blob.sketch.estimate) for blob in by_spark.blobs] == [((2,), 30)]
    assert answers(open_table(name)) == {"id": (None, "missing"), "s": (30, "snapshot"), "d": (None, "missing")}
    assert analyze_table(name).committed
    assert planner_ndv(spark.table(name)) == {"id": 400, "s": 30, "d": 9}


def test_lookup_uses_ancestor_statistics_after_a_rewrite(spark, analyzed, open_table, analyze_table, planner_ndv):
    """A replace snapshot has the same rows, so its ancestor answers until it is analyzed itself."""
    name = analyzed("rewritten")
    rewritten = call(spark, "rewrite_data_files", name, "options => map('rewrite-all', 'true')")
    assert rewritten["rewritten_data_files_count"] >= 2
    assert answers(open_table(name)) == {"id": (400, "ancestor"), "s": (30, "ancestor"), "d": (9, "ancestor")}
    assert planner_ndv(spark.table(name)) == {}
    analyze_table(name)
    assert planner_ndv(spark.table(name)) == {"id": 400, "s": 30, "d": 9}


def test_expiring_a_snapshot_removes_only_its_statistics(spark, analyzed, open_table, analyze_table, planner_ndv):
    name = analyzed("expired")
    (old,) = open_table(name).open().state.statistics.values()
    append(spark, name, 400, 600)
    new = analyze_table(name).entry
    expired = call(spark, "expire_snapshots", name, "older_than => now()", "retain_last => 1")
    assert expired["deleted_statistics_files_count"] == 1
    assert list(open_table(name).open().state.statistics.values()) == [new]
    assert (Path(old.statistics_path).exists(), Path(new.statistics_path).exists()) == (False, True)
    assert planner_ndv(spark.table(name)) == {"id": 600, "s": 30, "d": 9}


def test_orphan_removal_keeps_the_committed_statistics_file(
    spark, analyzed, open_table, analyze_table, java_statistics
):
    """The file of a run without a commit is an orphan; both files are old enough to be removed."""
    name = analyzed("orphans")
    orphan = analyze_table(name, mode="full", commit=False).entry.statistics_path
    (entry,) = open_table(name).open().state.statistics.values()
    then = time.time() - FOUR_DAYS
    for path in Path(open_table(name).name).rglob("*"):
        os.utime(path, (then, then))
    removed = [row[0] for row in spark.sql(f"CALL hadoop.system.remove_orphan_files(table => '{name}')").collect()]
    assert [path.removeprefix("file:") for path in removed] == [orphan]
    assert not Path(orphan).exists()
    assert java_statistics(name)[entry.snapshot_id].path == entry.statistics_path
