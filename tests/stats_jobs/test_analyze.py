"""The job as a Python call, in a session of the caller's."""

import pytest

from puffin import ndv
from puffin.errors import ColumnNotFound, TableNotFound, UsageError
from puffin.tables.load import load_table
from stats_jobs import Options, SparkStarter, analyze


@pytest.fixture(scope="module")
def table(spark, warehouse):
    """The path of a table with one column of three values and one of nulls."""
    spark.sql("CREATE TABLE hadoop.jobs.t (id bigint, empty string) USING iceberg")
    spark.sql("INSERT INTO hadoop.jobs.t VALUES (1, NULL), (2, NULL), (3, NULL), (3, NULL)")
    return str(warehouse / "jobs" / "t")


def test_a_table_by_its_name_in_the_callers_session(spark, table):
    """It is computed, committed, looked up again, and the session goes on."""
    report = analyze(table, Options(mode="full"), spark)
    assert report.committed
    assert [c.ndv for c in report.columns] == [3, 0]
    assert [c.ndv for c in ndv(table).columns] == [3, 0]
    assert spark.sql("SELECT 1").count() == 1


def test_tables_share_a_starter(spark, table):
    """Starting is paid once, and our packages are shipped to the executors."""
    with SparkStarter(spark) as starter:
        first = analyze(load_table(table), Options(mode="full"), starter)
        again = analyze(table, Options(mode="full"), starter)
        (shipped,) = starter.context.parallelize([0], 1).map(_shipped_packages).collect()
    assert first.session_seconds > again.session_seconds
    assert again.columns == first.columns
    assert {"puffin/__init__.py", "puffin/tables/iceberg_read.py", "stats_jobs/execute.py"} <= set(shipped)


def test_a_dry_run_writes_nothing(spark, table, warehouse):
    before = sorted(p.name for p in (warehouse / "jobs" / "t" / "metadata").iterdir())
    report = analyze(table, Options(mode="full", dry_run=True), spark)
    assert (report.committed, report.entry) == (False, None)
    assert sorted(p.name for p in (warehouse / "jobs" / "t" / "metadata").iterdir()) == before


def test_a_file_without_a_commit_leaves_the_metadata_as_it_is(spark, table):
    before = load_table(table).load().metadata_location
    report = analyze(table, Options(mode="full", commit=False), spark)
    assert not report.committed
    assert report.entry is not None
    assert load_table(table).load().metadata_location == before


def test_what_cannot_be_done_starts_no_spark(table, tmp_path):
    """A wrong name or option is told before anything is started."""
    with pytest.raises(TableNotFound):
        analyze(str(tmp_path / "absent"))
    with pytest.raises(ColumnNotFound):
        analyze(table, Options(columns=("absent",)))
    with pytest.raises(UsageError, match="mode: expected one of auto, full, found 'fast'"):
        Options(mode="fast")
    with pytest.raises(UsageError, match="a metadata file cannot be committed to"):
        analyze(load_table(table).load().metadata_location, Options(mode="full"))


def _shipped_packages(_):
    # Runs on an executor, which imports from the archives on its path.
    import sys
    import zipfile

    archives = [path for path in sys.path if "puffin-sidecar-" in path]
    return [name for archive in archives for name in zipfile.ZipFile(archive).namelist()]
