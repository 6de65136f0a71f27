"""
Jobs in separate processes race each other and other writers on every kind of table.

What has to come out: statistics of all columns, no append lost, no entry of a snapshot that is gone, no blob of a
column that is gone, and no job that gives up before its retries are spent. Rows are appended by pyiceberg, and where a
table has no catalog by Spark.

A race takes some seconds, and as many as ``PUFFIN_RACE_SECONDS`` says where that is set; ``-s`` shows who did how much.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from puffin.format import PuffinReader
from puffin.load import load_table
from puffin.lookup import ndv
from tests.interop.racing_worker import follow_orders
from tests.processes import talking
from tests.tables.committing import PATIENT

SECONDS = float(os.environ.get("PUFFIN_RACE_SECONDS", "2"))
EIGHT = tuple("abcdefgh")
ROWS = pa.table({c: pa.array([row % count for row in range(8)], pa.int64()) for count, c in enumerate(EIGHT, 1)})
# Asked for by all, so that all of them run in the process that has Spark, and the workers start once.
pytestmark = pytest.mark.usefixtures("spark")

names = (f"races{number}" for number in itertools.count())


# --- tables -------------------------------------------------------------------------------------------------------


class CatalogTable:
    """A table of a catalog, with eight columns and one snapshot."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties: dict[str, str] | None = properties
        catalog = load_catalog("races", **properties)
        namespace = next(names)
        catalog.create_namespace(namespace)
        self.name = f"{namespace}.t"
        self._catalog = catalog
        catalog.create_table(self.name, ROWS.schema, properties=PATIENT).append(ROWS)

    def load(self):
        return load_table(self.name, catalog="races", catalog_properties=self.properties)

    def count(self) -> int:
        return self._catalog.load_table(self.name).scan().count()

    def append(self) -> None:
        self._catalog.load_table(self.name).append(ROWS.slice(0, 1))

    def expire(self, snapshot_id: int) -> None:
        self._catalog.load_table(self.name).maintenance.expire_snapshots().by_id(snapshot_id).commit()

    def drop(self, column: str) -> None:
        with self._catalog.load_table(self.name).update_schema(allow_incompatible_changes=True) as update:
            update.delete_column(column)

    def appenders(self, workers: Sequence[Worker]) -> list[CatalogAppender]:
        return [CatalogAppender(worker, self) for worker in workers]


class DirectoryTable:
    """A table in a directory, with eight columns and one snapshot, that Spark writes to."""

    properties = None

    def __init__(self, spark: Any, warehouse: Path) -> None:
        self._spark = spark
        self.identifier = f"hadoop.{next(names)}.t"
        settings = ", ".join(f"'{key}' = '{value}'" for key, value in PATIENT.items())
        columns = ", ".join(f"{column} bigint" for column in EIGHT)
        spark.sql(f"CREATE TABLE {self.identifier} ({columns}) USING iceberg TBLPROPERTIES ({settings})")
        self.append(", ".join(str(tuple(row.values())) for row in ROWS.to_pylist()))
        self.name = str(warehouse.joinpath(*self.identifier.split(".")[1:]))

    def load(self):
        return load_table(self.name)

    def count(self) -> int:
        return self._spark.table(self.identifier).count()

    def append(self, rows: str = "(0, 0, 0, 0, 0, 0, 0, 0)") -> None:
        self._spark.sql(f"INSERT INTO {self.identifier} VALUES {rows}")

    def expire(self, snapshot_id: int) -> None:
        # What Spark's procedure calls too, without the jobs that it looks for files with.
        tables = self._spark._jvm.org.apache.iceberg.spark.Spark3Util
        loaded = tables.loadIcebergTable(self._spark._jsparkSession, self.identifier)
        loaded.expireSnapshots().expireSnapshotId(snapshot_id).commit()

    def drop(self, column: str) -> None:
        self._spark.sql(f"ALTER TABLE {self.identifier} DROP COLUMN {column}")

    def appenders(self, workers: Sequence[Worker]) -> list[SparkAppender]:
        return [SparkAppender(self) for _ in workers]


@pytest.fixture
def sql_table(tmp_path):
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    return CatalogTable({"type": "sql", "uri": uri, "warehouse": warehouse})


@pytest.fixture
def rest_table(rest_catalog):
    return CatalogTable(rest_catalog)


@pytest.fixture
def directory_table(spark, warehouse):
    return DirectoryTable(spark, warehouse)


@pytest.fixture(params=["directory", "sql", "rest"])
def table(request):
    """One of each kind."""
    return request.getfixturevalue(f"{request.param}_table")


# --- who races ----------------------------------------------------------------------------------------------------


class Worker:
    """A process that follows orders; see ``racing_worker.py``."""

    def __init__(self) -> None:
        self._process, self._pipe = talking(follow_orders)

    def order(self, table: CatalogTable | DirectoryTable, do: str, **options: Any) -> None:
        self.tell({"do": do, "table": table.name, "catalog": table.properties, **options})

    def tell(self, what: object) -> None:
        self._pipe.send(what)

    def expect(self, word: str) -> None:
        assert self.answer() == word

    def answer(self) -> Any:
        return self._pipe.recv()

    def end(self) -> None:
        self._process.kill()
        self._process.join()


class CatalogAppender:
    """A process that appends one row at a time with pyiceberg."""

    def __init__(self, worker: Worker, table: CatalogTable) -> None:
        self._worker = worker
        worker.order(table, "append", seconds=SECONDS)
        worker.expect("ready")

    def start(self) -> None:
        self._worker.tell("go")

    def account(self) -> dict[str, Any]:
        return self._worker.answer()


class SparkAppender(threading.Thread):
    """A thread that appends one row at a time with Spark."""

    def __init__(self, table: DirectoryTable) -> None:
        super().__init__()
        self._table = table
        self._rows = self._conflicts = 0
        self._is_done = False

    def run(self) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                self._table.append()
                self._rows += 1
            except Exception as exc:  # whose class is Spark's own, whatever the reason
                if "CommitFailed" not in str(exc):
                    raise
                self._conflicts += 1
        self._is_done = True

    def account(self) -> dict[str, Any]:
        self.join()
        assert self._is_done, "a failure that is no conflict"
        return {"rows": self._rows, "conflicts": self._conflicts}


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    """Eight processes."""
    started = [Worker() for _ in EIGHT]
    yield started
    for worker in started:
        worker.end()


# --- races --------------------------------------------------------------------------------------------------------


def test_concurrent_jobs_of_different_columns_all_count(table, workers):
    """Eight at once, each for another column of one snapshot."""
    for worker, column in zip(workers, EIGHT, strict=True):
        worker.order(table, "analyze", columns=[column])
    for worker in workers:
        worker.expect("ready")
    for worker in workers:
        worker.tell("go")
    reports = [worker.answer() for worker in workers]
    assert [report.get("committed") for report in reports] == [True] * len(EIGHT), reports
    assert sum(report["attempts"] for report in reports) > len(EIGHT), "they did not meet"
    state = table.load().open().state
    (entry,) = state.statistics.values()
    assert [(blob.fields, blob.properties["ndv"]) for blob in entry.blobs] == [((i,), str(i)) for i in range(1, 9)]
    check_files(table)


def test_appends_and_jobs_do_not_disturb_each_other(table, workers):
    """Four append and two analyze, over and over."""
    jobs = workers[4:6]
    for job, options in zip(jobs, ({"columns": ["a", "b"]}, {"columns": ["c"], "mode": "full"}), strict=True):
        job.order(table, "jobs", seconds=SECONDS, **options)
        job.expect("ready")
    appenders = table.appenders(workers[:4])
    for appender in appenders:
        appender.start()
    for job in jobs:
        job.tell("go")
    accounts = [appender.account() for appender in appenders]
    runs = [job.answer()["runs"] for job in jobs]
    show(table, accounts, runs)

    assert table.count() == ROWS.num_rows + sum(account["rows"] for account in accounts)
    assert all(account["rows"] for account in accounts)
    errors = [run for run in itertools.chain(*runs) if "error" in run]
    if isinstance(table, DirectoryTable):
        # Spark looks whether a version exists and renames then, which on a local disk replaces what came in between:
        # ours, if anybody's. The job sees that it is not there, and says so.
        errors = [run for run in errors if "does not have it" not in run["says"]]
    assert errors == []
    assert all(any(run["committed"] for run in of_one if "error" not in run) for of_one in runs)
    check_files(table)
    snapshots = table.load().open().state.snapshots
    assert len(snapshots) == 1 + sum(account["rows"] for account in accounts)


def start_and_pause(worker: Worker, table: CatalogTable | DirectoryTable, where: str, columns: Sequence[str]) -> None:
    worker.order(table, "analyze", columns=columns, pause=where)
    worker.expect("ready")
    worker.tell("go")
    worker.expect("paused")


# In the middle of computing; and when the table has been looked at for the last time before the commit.
MOMENTS = ["scan_context", "new_statistics_file"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_snapshot_that_expires_during_a_run_gets_no_entry(table, workers, moment):
    analyzed = table.load().open().state.current_snapshot_id
    start_and_pause(workers[0], table, moment, ["a"])
    table.append()
    table.expire(analyzed)
    workers[0].tell("go on")
    answer = workers[0].answer()
    # Iceberg's expiry deletes files too, so that it may be one of these that is missed first.
    assert answer["error"] in ("SnapshotNotFound", "FileNotFound"), answer
    state = table.load().open().state
    assert analyzed not in state.snapshots
    assert state.statistics == {}
    assert statistics_files(state) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_column_dropped_during_a_run_gets_no_blob(table, workers, moment):
    """Spark's planner fails over a blob of a missing column."""
    start_and_pause(workers[0], table, moment, ["a", "b"])
    table.drop("b")
    workers[0].tell("go on")
    assert workers[0].answer().get("committed")
    (entry,) = table.load().open().state.statistics.values()
    assert [blob.fields for blob in entry.blobs] == [(1,)]
    if table.properties is None:
        (answer,) = ndv(table.name, ["a"]).columns
        assert (answer.ndv, answer.source) == (1, "snapshot")
    check_files(table)


# --- checks -------------------------------------------------------------------------------------------------------


def check_files(table: CatalogTable | DirectoryTable) -> None:
    """Check that each entry's snapshot exists, and that its file is complete and matches the entry."""
    state = table.load().open().state
    named = set()
    for snapshot_id, entry in state.statistics.items():
        assert snapshot_id in state.snapshots
        path = Path(entry.statistics_path.removeprefix("file://"))
        reader = PuffinReader(path.read_bytes(), file_size=entry.file_size_in_bytes)
        assert [(b.fields, dict(b.properties)) for b in reader.file_metadata.blobs[: len(entry.blobs)]] == [
            (b.fields, dict(b.properties)) for b in entry.blobs
        ]
        named.add(path.name)
    assert named <= {path.name for path in statistics_files(state)}


def statistics_files(state: Any) -> list[Path]:
    return sorted(Path(state.location.removeprefix("file://").removeprefix("file:")).rglob("*.stats"))


def show(
    table: CatalogTable | DirectoryTable, accounts: list[dict[str, Any]], runs: list[list[dict[str, Any]]]
) -> None:
    """Print who did how much."""
    lines = [f"\n{type(table).__name__} {(table.properties or {}).get('type', '')}: appenders {accounts}"]
    for of_one in runs:
        committed = [run for run in of_one if run.get("committed")]
        errors = dict(Counter(f"{run['error']}: {run['says']}" for run in of_one if "error" in run))
        attempts = sum(run["attempts"] for run in committed)
        lines.append(f"job: {len(of_one)} runs, {len(committed)} commits in {attempts} attempts, errors {errors}")
    sys.stdout.write("\n".join([*lines, ""]))
