"""Statistics in Iceberg's own REST catalog are committed, found by other engines, and merged when jobs collide."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import puffin
from puffin.errors import ConflictError, SnapshotNotFound
from puffin.load import load_table
from puffin.tables.commit import commit_statistics

COLUMNS = tuple("abcd")
ROWS = pa.table({column: pa.array(range(10), pa.int64()) for column in COLUMNS})


@pytest.fixture(scope="module")
def catalog(rest_catalog):
    catalog = load_catalog("rest", **rest_catalog)
    catalog.create_namespace("commits")
    return catalog


@pytest.fixture
def new_table(catalog, rest_catalog):
    """Makes a table with a snapshot of ten rows, and returns it as the job opens it."""

    def make(name: str, **properties):
        table = catalog.create_table(f"commits.{name}", ROWS.schema, properties=properties)
        table.append(ROWS)
        return lambda: load_table(f"commits.{name}", catalog="rest", catalog_properties=rest_catalog)

    return make


def columns(table) -> dict[int, str]:
    (entry,) = table.open().state.statistics.values()
    return {blob.fields[0]: blob.properties["ndv"] for blob in entry.blobs}


def test_statistics_are_committed_and_looked_up(new_table, rest_catalog, draft_of, catalog):
    table = new_table("plain")()
    committed = commit_statistics(table, draft_of(table, {"a": [1, 2], "b": [1]}))
    assert committed.attempts == 1
    assert urlsplit(committed.entry.statistics_path).path.startswith(
        urlsplit(table.open().state.location).path + "/metadata/"
    )
    answer = puffin.ndv("commits.plain", ["b", "a"], catalog="rest", catalog_properties=rest_catalog)
    assert [column.ndv for column in answer.columns] == [1, 2]
    loaded = catalog.load_table("commits.plain")
    loaded.append(ROWS)
    assert loaded.scan().count() == 20
    assert columns(table) == {1: "2", 2: "1"}


def test_second_job_keeps_the_columns_of_the_first(new_table, draft_of):
    table = new_table("second")()
    for values in ({"c": [1]}, {"a": [1, 2]}):
        commit_statistics(table, draft_of(table, values))
    assert columns(table) == {1: "2", 3: "1"}


def test_concurrent_jobs_on_different_columns_converge(new_table, draft_of):
    """The server accepts every commit without comparing; in the end every column is there."""
    open_table = new_table("converging", **{"commit.retry.num-retries": "20", "commit.retry.max-wait-ms": "400"})
    together = Barrier(len(COLUMNS))

    def job(number: int) -> None:
        table = open_table()
        draft = draft_of(table, {COLUMNS[number]: range(number + 1)})
        write, turns = draft.write, iter([together.wait])

        def write_together(state, existing):
            entry = write(state, existing)
            next(turns, int)()
            return entry

        draft.write = write_together
        commit_statistics(table, draft)

    with ThreadPoolExecutor(len(COLUMNS)) as pool:
        list(pool.map(job, range(len(COLUMNS))))
    assert columns(open_table()) == {1: "1", 2: "2", 3: "3", 4: "4"}


def test_version_3_table_can_be_committed_to(spark_rest, rest_catalog, draft_of):
    """Only pyiceberg refuses; Iceberg in Spark reads the entry afterwards."""
    spark_rest.sql("CREATE NAMESPACE IF NOT EXISTS rest.three_commits")
    spark_rest.sql(
        "CREATE TABLE rest.three_commits.t (a bigint, b string) USING iceberg TBLPROPERTIES ('format-version' = '3')"
    )
    spark_rest.sql("INSERT INTO rest.three_commits.t VALUES (1, 'x'), (2, 'y')")
    table = load_table("three_commits.t", catalog="rest", catalog_properties=rest_catalog)
    commit_statistics(table, draft_of(table, {"a": [1, 2]}))
    spark_table = spark_rest._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark_rest._jsparkSession, "rest.three_commits.t"
    )
    (statistics,) = spark_table.statisticsFiles()
    assert statistics.path() == table.open().state.statistics[statistics.snapshotId()].statistics_path
    assert statistics.blobMetadata()[0].properties()["ndv"] == "2"


def test_schema_change_during_the_run_is_a_conflict(new_table, draft_of, catalog):
    """A dropped column must not get a blob, because Spark's planner would fail."""
    table = new_table("schema")()
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    with catalog.load_table("commits.schema").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("a")
    with pytest.raises(ConflictError):
        base.commit(entry)
    assert table.open().state.statistics == {}


def test_snapshot_expired_during_the_run_gets_no_entry(new_table, draft_of, catalog):
    """The server does not check the snapshot, and expiry would never remove the entry."""
    table = new_table("expired")()
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    loaded = catalog.load_table("commits.expired")
    loaded.append(ROWS)
    loaded.maintenance.expire_snapshots().by_id(entry.snapshot_id).commit()
    with pytest.raises(SnapshotNotFound):
        base.commit(entry)
    assert table.open().state.statistics == {}
