"""
Every catalog with every format version: a table is analyzed, looked up, written to by another engine, analyzed again.

pyiceberg makes tables and appends to them where it can. It cannot write format version 3, which is asserted; such
tables are Spark's. Where Spark has no way to the catalog either (no driver, no AWS), the table gets there by its
metadata file: registered, and after an append that Spark made through the REST catalog, registered anew.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
import yaml

import puffin
import stats_jobs
from puffin.autopilot.look import Watcher
from puffin.errors import ConflictError
from puffin.load import Tables, load_table
from puffin.policy.document import parse_policy
from puffin.tables.commit import commit_statistics
from tests.tables.committing import PATIENT, race

RACING = tuple("abcd")
SERVERS = ("sqlite", "postgres", "rest", "glue", "hive")
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
FIRST = pa.table({"a": [1, 2, 3, 4], "b": ["x", "y", "x", "y"]}, schema=SCHEMA)
SECOND = pa.table({"a": [4, 5], "b": ["y", "z"]}, schema=SCHEMA)


def check_statistics_go_on(name, append, **catalog) -> None:
    """Analyze, look up, append, look up, analyze what was appended, look up, remove the first entry."""

    def counts() -> list[tuple[int | None, str]]:
        return [(column.ndv, column.source) for column in puffin.ndv(name, ["a", "b"], **catalog).columns]

    first = stats_jobs.analyze(name, stats_jobs.Options(), **catalog)
    assert (first.committed, first.mode, first.rows_read) == (True, "full", 4)
    assert counts() == [(4, "snapshot"), (2, "snapshot")]
    append()
    assert counts() == [(4, "ancestor"), (2, "ancestor")]
    second = stats_jobs.analyze(name, stats_jobs.Options(), **catalog)
    assert (second.committed, second.mode, second.rows_read) == (True, "incremental", 2)
    assert counts() == [(5, "snapshot"), (3, "snapshot")]
    state = load_table(name, **catalog).open().state
    assert set(state.statistics) == {snapshot for _, snapshot in state.history}
    third = stats_jobs.analyze(name, stats_jobs.Options(keep_entries=1), **catalog)
    assert (third.committed, third.rows_read, third.entries_removed) == (True, 0, 1)
    assert counts() == [(5, "snapshot"), (3, "snapshot")]
    assert set(load_table(name, **catalog).open().state.statistics) == {state.current_snapshot_id}


def make_in_spark(spark, name: str, version: int) -> None:
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
    spark.sql(f"CREATE TABLE {name} (a bigint, b string) USING iceberg TBLPROPERTIES ('format-version' = '{version}')")
    append_in_spark(spark, name, FIRST)


def append_in_spark(spark, name: str, rows: pa.Table) -> None:
    values = ", ".join(f"({row['a']}, '{row['b']}')" for row in rows.to_pylist())
    spark.sql(f"INSERT INTO {name} VALUES {values}")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_statistics_stay_current_in_the_file_system(spark, warehouse, version):
    make_in_spark(spark, f"hadoop.cells.v{version}", version)
    location = str(warehouse / "cells" / f"v{version}")
    check_statistics_go_on(location, lambda: append_in_spark(spark, f"hadoop.cells.v{version}", SECOND))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_statistics_stay_current_in_catalogs_that_pyiceberg_writes_to(server, version):
    catalog, name = server.open(), f"cells.v{version}"
    catalog.create_namespace_if_not_exists("cells")
    catalog.create_table(name, SCHEMA, properties={"format-version": str(version)}).append(FIRST)
    assert catalog.load_table(name).metadata.format_version == version
    assert name in Tables(server.name, server.properties).of_namespace("cells")
    check_statistics_go_on(
        name,
        lambda: catalog.load_table(name).append(SECOND),
        catalog=server.name,
        catalog_properties=server.properties,
    )
    assert len(catalog.load_table(name).metadata.statistics) == 1
    assert sorted(catalog.load_table(name).scan().to_arrow()["a"].to_pylist()) == [1, 2, 3, 4, 4, 5]


@pytest.mark.parametrize("server", ["rest", "hive"], indirect=True)
def test_statistics_stay_current_for_version_3_in_catalogs_that_spark_opens(spark_rest, hive, server):
    spark_rest.conf.set("spark.sql.catalog.hive", "org.apache.iceberg.spark.SparkCatalog")
    spark_rest.conf.set("spark.sql.catalog.hive.cache-enabled", "false")
    for key, value in hive.properties.items():
        spark_rest.conf.set(f"spark.sql.catalog.hive.{key}", value)
    make_in_spark(spark_rest, f"{server.name}.cells.v3", 3)
    check_pyiceberg_refuses(server, "cells.v3")
    check_statistics_go_on(
        "cells.v3",
        lambda: append_in_spark(spark_rest, f"{server.name}.cells.v3", SECOND),
        catalog=server.name,
        catalog_properties=server.properties,
    )


@pytest.mark.parametrize("server", ["sqlite", "postgres", "glue"], indirect=True)
def test_statistics_stay_current_for_version_3_in_other_catalogs(spark_rest, rest, warehouse, server):
    catalog, by_way = server.open(), f"by_way.{server.name}"
    make_in_spark(spark_rest, f"hadoop.cells.v3_{server.name}", 3)
    catalog.create_namespace_if_not_exists("cells")
    made = load_table(str(warehouse / "cells" / f"v3_{server.name}")).open().state.metadata_location
    catalog.register_table("cells.v3", Path(made).as_uri())
    check_pyiceberg_refuses(server, "cells.v3")

    def append() -> None:
        rest.open().create_namespace_if_not_exists("by_way")
        rest.open().register_table(by_way, catalog.load_table("cells.v3").metadata_location)
        append_in_spark(spark_rest, f"rest.{by_way}", SECOND)
        appended = rest.open().load_table(by_way).metadata_location
        catalog.drop_table("cells.v3")
        catalog.register_table("cells.v3", appended)

    check_statistics_go_on("cells.v3", append, catalog=server.name, catalog_properties=server.properties)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_autopilot_asks_only_for_tables_that_a_list_shows_changed(server, tmp_path, monkeypatch):
    """A REST catalog lists names only, so every table is asked for."""
    catalog = server.open()
    catalog.create_namespace_if_not_exists("watched")
    for name in ("watched.a", "watched.b"):
        catalog.create_table(name, SCHEMA).append(FIRST)
    place = {"name": server.name, "properties": dict(server.properties), "namespaces": ["watched"]}
    watcher = Watcher(parse_policy(yaml.safe_dump({"catalogs": [place]}), str(tmp_path / "policy.yaml")))
    asked: list[str] = []
    load = Tables.load
    monkeypatch.setattr(Tables, "load", lambda tables, name: asked.append(name) or load(tables, name))

    def look() -> tuple[list[str], list[int | None]]:
        asked.clear()
        seen = watcher.look()
        return sorted(asked), [each.status.snapshot_id for each in seen]

    everything, (a, b) = look()
    assert everything == ["watched.a", "watched.b"]
    assert look() == (everything if server.name == "rest" else [], [a, b])
    catalog.load_table("watched.b").append(SECOND)
    again, (same, changed) = look()
    assert again == (everything if server.name == "rest" else ["watched.b"])
    assert (same, changed) == (a, catalog.load_table("watched.b").metadata.current_snapshot_id)
    assert changed != b


def check_pyiceberg_refuses(server, name: str) -> None:
    """Check what pyiceberg refuses of version 3: writing rows, and metadata unless the server writes it."""
    catalog = server.open()
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        catalog.load_table(name).append(SECOND)
    if server.name != "rest":
        with pytest.raises(NotImplementedError, match="Writing V3 is not yet supported"):
            catalog.create_table(f"{name}_of_pyiceberg", SCHEMA, properties={"format-version": "3"})
        with pytest.raises(NotImplementedError, match="Writing V3 is not yet supported"):
            catalog.load_table(name).transaction().set_properties({"a": "b"}).commit_transaction()


@pytest.mark.parametrize("server", ["glue", "hive"], indirect=True)
def test_earlier_append_is_a_conflict_and_leaves_no_files(server, draft_of, tmp_path):
    catalog, name = server.open(), f"conflicts.{server.name}"
    catalog.create_namespace_if_not_exists("conflicts")
    catalog.create_table(name, SCHEMA, location=tmp_path.as_uri()).append(FIRST)
    table = load_table(name, catalog=server.name, catalog_properties=server.properties)
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    catalog.load_table(name).append(SECOND)
    before = {*tmp_path.rglob("*")}
    with pytest.raises(ConflictError, match="another writer"):
        base.commit(entry)
    assert {*tmp_path.rglob("*")} == before


@pytest.fixture
def raced(server):
    """The name of a table with one row, in the catalog opened under the name ``races``."""
    catalog = server.open("races")
    catalog.create_namespace_if_not_exists("races")
    rows = pa.table({column: pa.array([1], pa.int64()) for column in RACING})
    catalog.create_table("races.t", rows.schema, properties=PATIENT).append(rows)
    yield "races.t"
    state = load_table("races.t", catalog="races", catalog_properties=server.properties).open().state
    (entry,) = state.statistics.values()
    assert [(blob.fields[0], blob.properties["ndv"]) for blob in entry.blobs] == [(i, str(i)) for i in range(1, 5)]
    assert len(state.document["metadata-log"]) == 1 + len(RACING)


@pytest.mark.parametrize("server", ["postgres"], indirect=True)
def test_concurrent_commits_of_processes_all_succeed(server, raced):
    race(raced, dict(server.properties), RACING)


@pytest.mark.parametrize("server", ["glue", "hive"], indirect=True)
def test_concurrent_commits_of_threads_all_succeed(server, raced, draft_of):
    together = Barrier(len(RACING))

    def commit(number: int) -> None:
        table = load_table(raced, catalog="races", catalog_properties=server.properties)
        draft = draft_of(table, {RACING[number]: range(number + 1)})
        together.wait()
        commit_statistics(table, draft)

    with ThreadPoolExecutor(len(RACING)) as pool:
        list(pool.map(commit, range(len(RACING))))
