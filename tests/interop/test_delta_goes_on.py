"""
Delta keeps working with a table after our commits: reading, writing, maintenance, and cleanup of its log.

Statistics are about one version and stay that, wherever the table goes from there; the next run builds on them as long
as the log tells what has changed since.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from puffin.delta.log.note import OPERATION
from puffin.errors import SnapshotNotFound
from puffin.inspection import verify
from puffin.load import load_table
from puffin.lookup import ndv
from puffin.tables.base import SnapshotSelector

TEN_DAYS = 10 * 24 * 3600  # log cleanup takes whole days


class DeltaTable:
    """A table that delta-spark writes to, by path."""

    def __init__(self, spark, path: Path, made: Path | None = None) -> None:
        self._spark = spark
        self._made = made
        self.path = str(path)
        self.log = path / "_delta_log"

    def sql(self, text: str):
        return self._spark.sql(text.replace("{t}", f"delta.`{self.path}`"))

    def create(self, properties: str = "") -> DeltaTable:
        """Create two files with 100 rows; without properties, copy a table that has the usual ones."""
        if not properties:
            shutil.copytree(self._made, self.path, copy_function=shutil.copy)  # as if just written
            return self
        self.sql(f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({properties}) AS {rows(0, 100, files=2)}")
        return self

    def append(self, first: int, end: int) -> None:
        self.sql(f"INSERT INTO {{t}} {rows(first, end)}")

    def checkpoint(self) -> None:
        jvm = self._spark._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._spark._jsparkSession, self.path)
        log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
        log.checkpoint()

    def truth(self) -> dict[str, int]:
        """Return the distinct values of each column in the rows that delta-spark reads."""
        frame = self._spark.read.format("delta").load(self.path)
        rows = frame.collect()
        return {name: len({row[name] for row in rows}) for name in frame.columns}

    @property
    def version(self) -> int:
        return max(self.versions())

    def versions(self) -> list[int]:
        """Return the versions that have a log entry."""
        return sorted(int(file.stem) for file in self.log.glob("*.json"))

    def entry(self, version: int) -> Path:
        return self.log / f"{version:020d}.json"

    def note(self, *actions: dict) -> None:
        """Append a log entry as another program does."""
        lines = [json.dumps(action) + "\n" for action in ({"commitInfo": {"operation": "OTHER NOTE"}}, *actions)]
        self.entry(self.version + 1).write_text("".join(lines))


def rows(first: int, end: int, files: int = 1) -> str:
    return f"SELECT id, concat('s', id % 30) AS s FROM range({first}, {end}, 1, {files})"


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory) -> Path:
    """A table to copy."""
    usual = "'delta.enableDeletionVectors' = 'true', 'delta.feature.domainMetadata' = 'supported'"
    usual += ", 'delta.checkpointInterval' = '100'"  # versions that bring checkpoints get no note of ours
    return Path(DeltaTable(spark, tmp_path_factory.mktemp("made") / "t").create(usual).path)


@pytest.fixture
def delta(spark, made, tmp_path) -> DeltaTable:
    """A table that does not exist yet."""
    return DeltaTable(spark, tmp_path / "t", made)


@pytest.fixture
def unchecked_vacuum(spark):
    """Allow VACUUM of any age, and let it list files in as few tasks as there are cores."""
    settings = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key in settings:
        spark.conf.unset(key)


def answers(path: str, **selector: int) -> set[tuple[str, int | None, int | None, str]]:
    return {(c.column.name, c.ndv, c.stats_snapshot_id, c.source) for c in ndv(path, **selector).columns}


def told(counts: dict[str, int | None], version: int | None, source: str) -> set:
    return {(name, count, version, source) for name, count in counts.items()}


def clean_log(delta: DeltaTable) -> None:
    """Let delta-spark clean up its log: everything in it is old, so a checkpoint removes the entries before it."""
    properties = (
        "'delta.logRetentionDuration' = 'interval 0 days'",
        "'delta.deletedFileRetentionDuration' = 'interval 0 days'",
        "'delta.enableExpiredLogCleanup' = 'true'",
    )
    old = time.time() - TEN_DAYS
    for file in delta.log.rglob("*"):
        os.utime(file, (old, old))
    delta.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({', '.join(properties)})")
    delta.checkpoint()


MERGE = """MERGE INTO {t} x USING (SELECT id + 90 AS id, 'merged' AS s FROM range(60)) y ON x.id = y.id
           WHEN MATCHED AND x.id < 95 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
WRITES = {
    "merge": (lambda t: t.sql(MERGE), "changed-files"),
    "delete": (lambda t: t.sql("DELETE FROM {t} WHERE id % 3 = 0"), "changed-files"),
    "optimize": (lambda t: t.sql("OPTIMIZE {t}"), "carried"),
    "set a property": (lambda t: t.sql("ALTER TABLE {t} SET TBLPROPERTIES ('user.key' = 'x')"), "carried"),
}


def test_statistics_stay_correct_after_every_delta_operation(delta, analyze_table):
    """After each write they still describe their version, and a run brings them up to date from there."""
    table = load_table(delta.create().path)
    report = analyze_table(table)
    known = delta.truth()
    assert report.committed
    for step, (do, basis) in WRITES.items():
        about = report.snapshot.snapshot_id
        do(delta)
        assert answers(delta.path) == told(known, about, "ancestor"), step
        assert verify(report.entry.statistics_path).errors == (), step
        report, known = analyze_table(table), delta.truth()
        assert {column.basis for column in report.columns} == {basis}, step
        assert report.committed, step
        assert (report.files_read == 0) is (basis == "carried"), step
        assert answers(delta.path) == told(known, report.snapshot.snapshot_id, "snapshot"), step
    history = [row.operation for row in delta.sql("DESCRIBE HISTORY {t}").collect()]
    assert history[::2] == [OPERATION] * (1 + len(WRITES))  # newest first, each after what it is about

    delta.checkpoint()
    assert answers(delta.path) == told(known, report.snapshot.snapshot_id, "snapshot")
    again = analyze_table(table)
    assert (again.current, again.committed, again.entry) == (True, False, report.entry)


def test_statistics_survive_log_cleanup(delta, analyze_table):
    """Log cleanup removes the entries that tell what changed, so a run reads all rows."""
    table = load_table(delta.create().path)
    about = analyze_table(table).snapshot.snapshot_id
    delta.append(100, 150)
    clean_log(delta)
    assert delta.versions() == [delta.version]
    assert answers(delta.path) == told({"id": 100, "s": 30}, about, "ancestor")
    (entry,) = load_table(delta.path).open().state.statistics.values()
    assert verify(entry.statistics_path).valid
    assert not delta.sql("DESCRIBE HISTORY {t}").isEmpty()
    with pytest.raises(SnapshotNotFound):
        ndv(delta.path, snapshot_id=about)

    anew = analyze_table(table)
    assert {(column.basis, column.ndv) for column in anew.columns} == {("full", 150), ("full", 30)}
    assert "no log entry of version" in str(anew.columns[0].reason)
    delta.append(150, 170)
    assert {(c.column.name, c.basis, c.ndv) for c in analyze_table(table).columns} == {
        ("id", "added-files", 170),
        ("s", "added-files", 30),
    }
    assert delta.truth() == {"id": 170, "s": 30}


def test_vacuumed_files_are_not_needed(delta, analyze_table, unchecked_vacuum):
    """VACUUM deletes rows to subtract, so all rows are read; its own log notes change nothing."""
    table = load_table(delta.create().path)
    before = analyze_table(table)
    delta.sql("DELETE FROM {t} WHERE id < 50")  # all rows of one of its files
    deleted = delta.version
    delta.sql("VACUUM {t} RETAIN 0 HOURS")
    assert delta.version > deleted
    assert verify(before.entry.statistics_path).valid
    assert answers(delta.path) == told({"id": 100, "s": 30}, 0, "ancestor")
    report = analyze_table(table)
    assert {(c.column.name, c.basis, c.ndv) for c in report.columns} == {("id", "full", 50), ("s", "full", 30)}
    assert (report.snapshot.snapshot_id, report.rows_read) == (deleted, 50)
    assert answers(delta.path) == told(delta.truth(), deleted, "snapshot")


def test_second_run_commits_nothing(delta, analyze_table):
    table = load_table(delta.create().path)
    first = analyze_table(table)
    files = sorted(delta.log.rglob("*"))
    second = analyze_table(table)
    assert (second.committed, second.current, second.entry, second.files_read) == (False, True, first.entry, 0)
    assert sorted(delta.log.rglob("*")) == files


def test_notes_of_other_programs_keep_statistics_current(delta, analyze_table):
    """Versions of only commitInfo, txn and domainMetadata equal the version before them, also by number."""
    table = load_table(delta.create().path)
    first = analyze_table(table)
    delta.note()
    delta.note({"txn": {"appId": "other", "version": 3}})
    delta.note({"domainMetadata": {"domain": "com.example.other", "configuration": "{}", "removed": False}})
    assert delta.version == 4
    counts = {column.column.name: column.ndv for column in first.columns}
    assert answers(delta.path) == told(counts, 0, "snapshot")
    for note in (1, 3, 4):
        assert answers(delta.path, snapshot_id=note) == told(counts, 0, "ancestor")
        assert analyze_table(table, selector=SnapshotSelector(snapshot_id=note)).current
    for mode in ("auto", "incremental"):
        assert analyze_table(table, mode=mode).entry == first.entry
    delta.append(100, 110)
    report = analyze_table(table, mode="incremental")
    assert {column.basis for column in report.columns} == {"added-files"}
    assert (report.files_read, report.rows_read, report.mode) == (1, 10, "incremental")
    assert delta.truth() == {c.column.name: c.ndv for c in report.columns} == {"id": 110, "s": 30}


def test_older_version_has_its_own_schema_and_the_nearest_earlier_statistics(delta, analyze_table):
    table = load_table(delta.create().path)
    delta.append(100, 120)
    delta.sql("ALTER TABLE {t} ADD COLUMN late int")
    delta.sql("INSERT INTO {t} SELECT 1000, 'new', 7")
    oldest = analyze_table(table, selector=SnapshotSelector(snapshot_id=0))
    newest = analyze_table(table)
    assert [column.ndv for column in oldest.columns] == [100, 30]
    assert [column.ndv for column in newest.columns] == [121, 31, 1]
    assert [column.basis for column in newest.columns] == ["added-files", "added-files", "full"]
    assert answers(delta.path, snapshot_id=0) == told({"id": 100, "s": 30}, 0, "snapshot")
    assert answers(delta.path, snapshot_id=1) == told({"id": 100, "s": 30}, 0, "ancestor")
    assert answers(delta.path, snapshot_id=2) == {
        *told({"id": 100, "s": 30}, 0, "ancestor"),
        *told({"late": None}, None, "missing"),
    }
    assert answers(delta.path, snapshot_id=3) == told({"id": 121, "s": 31, "late": 1}, 3, "snapshot")
    between = analyze_table(table, selector=SnapshotSelector(snapshot_id=1))
    assert [(column.ndv, column.basis) for column in between.columns] == [(120, "added-files"), (30, "added-files")]
    assert answers(delta.path) == told({"id": 121, "s": 31, "late": 1}, 3, "snapshot")


def test_file_times_order_versions_without_in_commit_timestamps(spark, delta, analyze_table):
    """A file older than the previous one counts as a millisecond younger, as in delta-spark."""
    table = load_table(delta.create().path)
    for first in (100, 110):
        delta.append(first, first + 10)
    for version in range(3):
        analyze_table(table, selector=SnapshotSelector(snapshot_id=version))
    start = int(time.time()) - 5 * 3600
    for version, seconds in enumerate((0, 60, 30)):
        os.utime(delta.entry(version), (start + seconds, start + seconds))
    expected = {0: (0, 100), 59_999: (0, 100), 60_000: (1, 110), 60_001: (2, 120), 90_000: (2, 120)}
    found = {after: ndv(delta.path, ["id"], as_of_ms=start * 1000 + after) for after in expected}
    assert {after: (answer.snapshot_id, answer.columns[0].ndv) for after, answer in found.items()} == expected
    assert {answer.columns[0].source for answer in found.values()} == {"snapshot"}
    for after in (60_000, 60_001):
        assert read_as_of(spark, delta, start * 1000 + after).count() == expected[after][1]
    with pytest.raises(SnapshotNotFound, match="no version is that old"):
        ndv(delta.path, as_of_ms=start * 1000 - 1)


def test_in_commit_timestamps_win_over_file_times(spark, delta, analyze_table):
    """Our notes have them too, so that delta-spark's next timestamp is later."""
    table = load_table(delta.create("'delta.enableInCommitTimestamps' = 'true'").path)
    analyze_table(table)
    delta.append(100, 110)
    analyze_table(table)
    for file in delta.log.glob("*.json"):
        os.utime(file, (0, 0))
    times = [committed_at(delta, version) for version in delta.versions()]
    assert times == sorted(set(times))
    assert len(times) == 4
    # Versions 1 and 3 are notes: the table is then what it was before them.
    found = [ndv(delta.path, ["id"], as_of_ms=at) for at in times]
    assert [(answer.snapshot_id, answer.columns[0].ndv) for answer in found] == [(0, 100), (0, 100), (2, 110), (2, 110)]
    assert ndv(delta.path, ["id"], as_of_ms=times[2] - 1).snapshot_id == 0
    assert read_as_of(spark, delta, times[2] - 1).count() == 100
    assert read_as_of(spark, delta, times[2]).count() == 110
    with pytest.raises(SnapshotNotFound, match="no version is that old"):
        ndv(delta.path, as_of_ms=times[0] - 1)


def read_as_of(spark, delta: DeltaTable, at_ms: int):
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.timezone.utc)
    return spark.read.format("delta").option("timestampAsOf", at.isoformat(" ", "milliseconds")).load(delta.path)


def committed_at(delta: DeltaTable, version: int) -> int:
    return json.loads(delta.entry(version).read_text().partition("\n")[0])["commitInfo"]["inCommitTimestamp"]
