"""The job as a Python call in a session of the caller's."""

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from puffin import ndv
from puffin.errors import ColumnNotFound, TableNotFound, UnsupportedError, UsageError
from puffin.format import ROW_COUNTS_V1, PuffinReader
from puffin.load import load_table
from puffin.storage import LocalStore
from stats_jobs import Options, SparkStarter, analyze


@pytest.fixture(scope="module")
def table(spark, warehouse):
    """The path of a table with one column of three values and one of nulls."""
    spark.sql("CREATE TABLE hadoop.jobs.t (id bigint, empty string) USING iceberg")
    spark.sql("INSERT INTO hadoop.jobs.t VALUES (1, NULL), (2, NULL), (3, NULL), (3, NULL)")
    return str(warehouse / "jobs" / "t")


def test_analyze_computes_and_commits_in_the_callers_session(spark, table):
    """Statistics can be looked up afterwards, and the session continues."""
    report = analyze(table, Options(mode="full"), spark)
    assert report.committed
    assert [c.ndv for c in report.columns] == [3, 0]
    assert [c.ndv for c in ndv(table).columns] == [3, 0]
    assert spark.sql("SELECT 1").count() == 1


def test_tables_share_a_spark_starter(spark, table):
    """Spark starts once, and ships our packages to the executors."""
    options = Options(mode="full", driver_bytes=0)
    with SparkStarter(spark) as starter:
        first = analyze(load_table(table), options, starter)
        again = analyze(table, options, starter)
        (shipped,) = starter.cluster.context.parallelize([0], 1).map(_shipped_packages).collect()
    assert first.session_seconds > again.session_seconds
    assert again.columns == first.columns
    assert {"puffin/__init__.py", "puffin/files/task_reader.py", "stats_jobs/execute.py"} <= set(shipped)


def test_small_work_runs_without_spark_and_gives_the_same_result(spark, table):
    def sketches(report):
        with LocalStore().open_source(report.entry.statistics_path) as source:
            reader = PuffinReader(source)
            return [(blob.type, blob.fields) for blob in reader.file_metadata.blobs], reader.read_all()

    with SparkStarter() as never_started:
        here = analyze(table, Options(mode="full", commit=False), never_started)
        with pytest.raises(UsageError, match="expected it to be started"):
            _ = never_started.cluster.context
    there = analyze(table, Options(mode="full", commit=False, driver_bytes=0), spark)
    assert (here.session_seconds, there.session_seconds > 0) == (0, True)
    assert sketches(here) == sketches(there)


def test_dry_run_writes_nothing(spark, table, warehouse):
    before = sorted(p.name for p in (warehouse / "jobs" / "t" / "metadata").iterdir())
    report = analyze(table, Options(mode="full", dry_run=True), spark)
    assert (report.committed, report.entry) == (False, None)
    assert report.needs is not None
    assert report.to_json()["needs"] == report.needs.to_json()
    assert sorted(p.name for p in (warehouse / "jobs" / "t" / "metadata").iterdir()) == before


def test_dry_run_reports_the_columns_of_the_run(tmp_path):
    unique = pa.array(range(200_000, 220_002))  # their sketch estimates 20,496, more than there are rows
    deltalake.write_deltalake(tmp_path, pa.table({"unique": unique}))
    dry = analyze(str(tmp_path), Options(dry_run=True))
    assert dry.columns[0].ndv == 20_002
    assert dry.columns == analyze(str(tmp_path)).columns


def test_run_without_commit_leaves_the_metadata_unchanged(spark, table):
    before = load_table(table).open().state.metadata_location
    report = analyze(table, Options(mode="full", commit=False), spark)
    assert not report.committed
    assert report.entry is not None
    assert load_table(table).open().state.metadata_location == before


@pytest.fixture
def growing(spark, warehouse, request):
    """A table with one file of three values, its path, and a function that inserts."""
    name = f"hadoop.jobs.{request.node.name[:40]}"
    spark.sql(f"CREATE TABLE {name} (id bigint, s string) USING iceberg")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return str(warehouse / "jobs" / name.rpartition(".")[2]), lambda sql: spark.sql(sql.format(t=name))


def bases(report):
    return {c.column.name: (c.ndv, c.basis) for c in report.columns}


def test_later_runs_read_only_what_changed(growing):
    table, sql = growing
    first = analyze(table)
    assert (first.mode, bases(first)) == ("full", {"id": (3, "full"), "s": (3, "full")})
    assert {c.reason for c in first.columns} == {"no earlier statistics of the column"}
    sql("INSERT INTO {t} VALUES (3, 'd'), (4, NULL)")
    added = analyze(table)
    assert (added.mode, bases(added)) == ("incremental", {"id": (4, "added-files"), "s": (4, "added-files")})
    assert (added.rows_read, added.columns[0].reason) == (2, None)
    sql("DELETE FROM {t} WHERE id = 4")
    less = analyze(table)
    assert (less.mode, bases(less)) == ("incremental", {"id": (3, "changed-files"), "s": (4, "changed-files")})
    again = analyze(table)
    assert (again.current, again.committed, again.files_read) == (True, False, 0)
    assert bases(again) == {"id": (3, "carried"), "s": (4, "carried")}


def test_other_columns_are_carried_along(growing, private_payloads):
    """With their snapshot and row counts, so that a later run can build on them."""
    table, sql = growing
    first = analyze(table)
    sql("INSERT INTO {t} VALUES (4, 'd')")
    report = analyze(table, Options(columns=("id",)))
    assert [(b.fields, b.snapshot_id) for b in report.entry.blobs] == [
        ((1,), report.snapshot.snapshot_id),
        ((2,), first.snapshot.snapshot_id),
    ]
    assert private_payloads(load_table(table), report.entry, ROW_COUNTS_V1).keys() == {1, 2}
    sql("DELETE FROM {t} WHERE id = 1")
    assert bases(analyze(table)) == {"id": (3, "changed-files"), "s": (3, "changed-files")}


def test_delete_without_row_counts_means_a_full_run(growing):
    table, sql = growing
    analyze(table, Options(row_counts=False))
    sql("INSERT INTO {t} VALUES (4, 'd')")
    assert bases(analyze(table, Options(row_counts=False)))["id"] == (4, "added-files")
    sql("DELETE FROM {t} WHERE id = 1")
    report = analyze(table)
    assert bases(report)["id"] == (3, "full")
    assert "no row counts" in report.columns[0].reason


def test_incremental_mode_fails_instead_of_reading_everything(growing):
    table, sql = growing
    with pytest.raises(UnsupportedError, match="column id: expected earlier statistics to build on"):
        analyze(table, Options(mode="incremental"))
    assert load_table(table).open().state.statistics == {}
    analyze(table)
    sql("INSERT INTO {t} VALUES (4, 'd')")
    assert analyze(table, Options(mode="incremental")).committed


def test_broken_statistics_file_is_computed_again(growing, caplog):
    table, sql = growing
    path = Path(analyze(table).entry.statistics_path.removeprefix("file:"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    sql("INSERT INTO {t} VALUES (4, 'd')")
    report = analyze(table)
    assert (report.committed, bases(report)["id"]) == (True, (4, "full"))
    assert str(path) in report.columns[0].reason
    assert str(path) in caplog.text


def test_only_a_promoted_column_is_computed_in_full(growing):
    table, sql = growing
    sql("ALTER TABLE {t} ADD COLUMN k int")
    sql("INSERT INTO {t} VALUES (4, 'd', 7)")
    analyze(table)
    sql("ALTER TABLE {t} ALTER COLUMN k TYPE bigint")
    sql("INSERT INTO {t} VALUES (5, 'e', 8)")
    report = analyze(table)
    assert (report.mode, bases(report)) == (
        "full",
        {"id": (5, "added-files"), "s": (5, "added-files"), "k": (2, "full")},
    )
    assert "of type int" in report.columns[2].reason


def test_invalid_requests_start_no_spark(table, tmp_path):
    """Wrong names and options are reported before anything starts."""
    with pytest.raises(TableNotFound):
        analyze(str(tmp_path / "absent"))
    with pytest.raises(ColumnNotFound):
        analyze(table, Options(columns=("absent",)))
    with pytest.raises(UsageError, match="mode: expected one of auto, full, incremental, found 'fast'"):
        Options(mode="fast")
    with pytest.raises(UsageError, match="a metadata file cannot be committed to"):
        analyze(load_table(table).open().state.metadata_location, Options(mode="full"))


def _shipped_packages(_):
    # Runs on an executor, which imports from the archives on its path.
    import sys
    import zipfile

    archives = [path for path in sys.path if "puffin-sidecar-" in path]
    return [name for archive in archives for name in zipfile.ZipFile(archive).namelist()]
