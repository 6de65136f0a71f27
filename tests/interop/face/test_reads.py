"""What Spark does beyond plain scans has the same answers from both catalogs; what cannot be right is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.interop.face.conftest import FAST, OWN, PLANNED_BY_SERVER

STEPS = (
    "CREATE TABLE {t} (row bigint, k int, s string, d double, st struct<n: int>) USING iceberg PARTITIONED BY (k)",
    *(
        f"""INSERT INTO {{t}} SELECT id, CAST(id % 3 AS int), IF(id % 5 = 0, NULL, concat('s', id % 7)), id / 4,
            named_struct('n', CAST(id % 6 AS int)) FROM range({start}, {start + 30}, 1, 1)"""
        for start in (0, 30)
    ),
    "ALTER TABLE {t} CREATE TAG first",
    "DELETE FROM {t} WHERE row % 10 = 1",
    "ALTER TABLE {t} CREATE BRANCH other",
    "INSERT INTO {t}.branch_other VALUES (900, 1, 'other', 0.5D, NULL)",
    "ALTER TABLE {t} RENAME COLUMN s TO text",
    "INSERT INTO {t} VALUES (901, 7, 's3', -1D, NULL)",
)
LINEAGE = (
    "CREATE TABLE {t} (row bigint, s string) USING iceberg TBLPROPERTIES ('format-version' = '3')",
    *(f"INSERT INTO {{t}} SELECT id, concat('s', id) FROM range({n}, {n + 10}, 1, 1)" for n in (0, 10)),
    "UPDATE {t} SET s = 'changed' WHERE row = 3",
)


@pytest.fixture(scope="module")
def reads(make_table: Callable[..., str]) -> str:
    return make_table("face.reads", *STEPS)


@pytest.fixture(scope="module")
def first_snapshot(face: Any, reads: str) -> tuple[int, Any]:
    """Its id, and a moment between its commit and that of the next."""
    snapshots = face.sql("SELECT snapshot_id, committed_at FROM {t}.snapshots ORDER BY committed_at", reads).collect()
    return snapshots[0].snapshot_id, snapshots[0].committed_at


@pytest.mark.parametrize(
    "query",
    [
        "SELECT min(d), max(d), min(row), max(text), min(k) FROM {t}",
        "SELECT count(text), count(d), count(st.n) FROM {t}",
        "SELECT count(*) FROM {t}",
        "SELECT count(*) FROM {t} WHERE k = 1",
        "SELECT k, count(*), max(d) FROM {t} GROUP BY k",
        "SELECT count(*) FROM (SELECT * FROM {t} LIMIT 3)",
        "SELECT row FROM {t} ORDER BY row DESC LIMIT 4",
        "SELECT st, row FROM {t} WHERE st.n = 4",
        "SELECT st.n FROM {t} WHERE st IS NULL OR st.n > 4",
        "SELECT row FROM {t} WHERE upper(text) = 'S3'",
        "SELECT row FROM {t} WHERE d < double('Infinity') AND d NOT IN (double('-Infinity'), 5D)",
        "SELECT row, _file, _pos, _partition, _spec_id FROM {t} WHERE k = 2 AND row > 40",
        "SELECT row FROM {t} WHERE k IN (SELECT CAST(id AS int) FROM range(2))",
        "SELECT content, file_path, record_count, partition FROM {t}.files",
        "SELECT * FROM {t}.snapshots",
        "SELECT * FROM {t}.partitions",
        "SELECT file_path, partition FROM {t}.all_data_files",
        "SELECT * FROM {t}.refs",
        "SELECT * FROM {t}.changes",
        "SELECT row, s FROM {t} VERSION AS OF {id} WHERE s = 's3'",
        "SELECT row, s FROM {t} TIMESTAMP AS OF '{at}' WHERE s IS NULL",
        "SELECT row, s FROM {t} VERSION AS OF 'first' WHERE s LIKE 's3%' AND k = 0",
        "SELECT row, text FROM {t} VERSION AS OF 'other' WHERE k = 1 OR row = 5",
        "SELECT row, text FROM {t}.branch_other WHERE k = 1 AND d < 5",
        "SELECT row, s FROM {t}.tag_first WHERE row BETWEEN 20 AND 40",
    ],
)
def test_query_has_the_answer_of_the_own_catalog(face: Any, reads: str, first_snapshot: Any, query: str) -> None:
    snapshot_id, moment = first_snapshot
    assert face.planner(reads) == PLANNED_BY_SERVER
    assert face.rows(query.replace("{id}", str(snapshot_id)).replace("{at}", str(moment)), reads)


def test_branch_is_filtered_by_the_new_name_of_a_column(face: Any, reads: str) -> None:
    """Where Iceberg's own planning looks for the name in the older schema of the branch, and fails."""
    query = "SELECT row, text FROM {t}.branch_other WHERE text = 'other' OR row = 5"
    with pytest.raises(Exception, match="Cannot find field 'text'"):
        face.sql(query, reads, OWN).collect()
    assert sorted(row.row for row in face.sql(query, reads, FAST).collect()) == [5, 900]


def test_changelog_view_is_the_same(face: Any, reads: str) -> None:
    views = []
    for catalog in (OWN, FAST):
        face.sql(
            f"CALL {{c}}.system.create_changelog_view(table => '{reads}', changelog_view => 'changes_{catalog}')",
            reads,
            catalog,
        )
        views.append(sorted(map(repr, face.spark.table(f"changes_{catalog}").collect())))
    assert views[0] == views[1] != []


def test_join_prunes_partitions_at_run_time(face: Any, reads: str, make_table: Callable[..., str]) -> None:
    other = make_table(
        "face.dimension",
        "CREATE TABLE {t} (k int, name string) USING iceberg",
        "INSERT INTO {t} VALUES (0, 'zero'), (1, 'one'), (7, 'seven')",
    )
    query = f"SELECT a.* FROM {{t}} a JOIN hadoop.{other} b ON a.k = b.k WHERE b.name = 'seven'"
    assert "dynamicpruning" in plan_of(face.sql(query, reads, FAST))
    assert [row.row for row in face.rows(query, reads)] == [901]


def test_storage_partitioned_join_needs_no_exchange(face: Any, reads: str) -> None:
    settings = {
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.iceberg.planning.preserve-data-grouping": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
    }
    query = "SELECT a.row, b.row AS other FROM {t} a JOIN {t} b ON a.k = b.k AND a.row = b.row + 3"
    with configured(face.spark, settings):
        assert "Exchange" not in plan_of(face.sql(query, reads, FAST))
        assert len(face.rows(query, reads)) > 10


def test_row_ids_are_those_of_the_own_catalog(face: Any, make_table: Callable[..., str]) -> None:
    lineage = make_table("face.lineage", *LINEAGE)
    assert face.planner(lineage) == PLANNED_BY_SERVER
    rows = face.rows("SELECT row, s, _row_id FROM {t} WHERE row < 15", lineage)
    assert len({row._row_id for row in rows}) == 15


def test_column_that_a_plan_cannot_carry_is_refused(face: Any, make_table: Callable[..., str]) -> None:
    lineage = make_table("face.lineage", *LINEAGE)
    with pytest.raises(Exception, match=r"cannot carry _last_updated_sequence_number.*own catalog"):
        face.sql("SELECT row, _last_updated_sequence_number FROM {t}", lineage, FAST).collect()


def test_stream_fails_loudly_until_the_table_is_taken_back(face: Any, make_table: Callable[..., str]) -> None:
    """Iceberg 1.12.0 does not read streams of tables whose scans the server plans."""
    create = "CREATE TABLE {t} (row bigint) USING iceberg"
    name = make_table("face.stream", create, "INSERT INTO {t} SELECT id FROM range(10)")
    with pytest.raises(Exception, match="FileIO is not available"):
        stream(face.spark, name, "served")
    face.sql("ALTER TABLE {t} SET TBLPROPERTIES ('puffin-sidecar.scan-planning-mode' = 'client')", name)
    stream(face.spark, name, "taken_back")
    assert face.spark.table("taken_back").count() == 10


def test_namespaces_and_tables_are_listed(face: Any, reads: str) -> None:
    assert reads.partition(".")[0] in [row.namespace for row in face.spark.sql(f"SHOW NAMESPACES IN {FAST}").collect()]
    assert "reads" in [row.tableName for row in face.spark.sql(f"SHOW TABLES IN {FAST}.face").collect()]


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def stream(spark: Any, name: str, query: str) -> None:
    rows = spark.readStream.table(f"{FAST}.{name}").writeStream
    rows.format("memory").queryName(query).trigger(availableNow=True).start().awaitTermination()


@contextmanager
def configured(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)
