"""
Everybody writes to one Delta table at once: two processes of deltalake, two threads of delta-spark, two of our jobs.

Every writer of rows has a partition of its own, so that what another one commits is no reason for it to fail (deltalake
takes it for one where files were removed), and keeps account of its rows. What is asked is whether we are such a
reason, and whether what we say is right.

The race takes 3 seconds, and as many as ``DELTA_RACE_SECONDS`` says where that is set: 60 were enough for everybody to
meet everybody. ``-s`` shows who did how much.

A log entry has to be put by whoever is first. deltalake and we do that with ``link``; delta-spark looks whether there
is one and renames. On a local disk that is safe among the threads of one JVM only: in between another process may put
its own, and that commit is lost. So here delta-spark gets a log store that links too.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from puffin.delta.statistics.documents import decode_entry
from puffin.format import PuffinReader
from puffin.inspection import verify
from puffin.lookup import ndv
from puffin.storage import LocalStore
from stats_jobs import Options, analyze
from tests.interop.at_length.delta_racers import analyze_column, analyze_repeatedly, write
from tests.processes import at_once, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = float(os.environ.get("DELTA_RACE_SECONDS", "3"))
EIGHT = tuple("abcdefgh")

LINKING_LOG_STORE = """
package puffin.tests;

import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

public class LinkingLogStore extends io.delta.storage.HDFSLogStore {
    public LinkingLogStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf) throws java.io.IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        List lines = new ArrayList();
        while (actions.hasNext()) {
            lines.add(actions.next());
        }
        java.nio.file.Path target = Paths.get(path.toUri().getPath(), new String[0]);
        java.nio.file.Path staged = target.resolveSibling("." + UUID.randomUUID() + ".tmp");
        Files.write(staged, lines, new OpenOption[0]);
        try {
            Files.createLink(target, staged);
        } finally {
            Files.delete(staged);
        }
    }
}
"""


@pytest.fixture(scope="module")
def delta_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The Spark session, whose Delta log entries are hard-linked into place while the fixture lasts."""
    jvm = spark._jvm
    thread = jvm.Thread.currentThread()
    before = thread.getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()  # Spark's own compiler of generated code
    compiler.setParentClassLoader(before)
    compiler.cook(LINKING_LOG_STORE)
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.delta.logStore.file.impl", "puffin.tests.LinkingLogStore")
    thread.setContextClassLoader(compiler.getClassLoader())
    yield spark
    conf.remove("spark.delta.logStore.file.impl")
    thread.setContextClassLoader(before)
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


class SparkWriter(threading.Thread):
    """A thread that writes to its own partition with delta-spark, and counts what the processes count."""

    def __init__(self, spark: SparkSession, table: Path, name: str) -> None:
        super().__init__(name=name)
        self._spark = spark
        self._table = table
        self._next_id = 0
        self.deadline = 0.0
        self.rows: dict[int, int] = {}
        self.commits = 0
        self.failures: list[tuple[str, int, int, str]] = []

    def run(self) -> None:
        while time.monotonic() < self.deadline:
            self.append() if self.name == "spark-append" or self.commits % 2 == 0 else self.delete()

    def append(self) -> None:
        new = {id_: id_ % 7 for id_ in range(self._next_id, self._next_id + 20)}
        self._next_id += len(new)
        columns = (f"'{self.name}' AS w", "id", "id % 7 AS k", f"concat('{self.name}-', id DIV 3) AS s")
        frame = self._spark.range(min(new), max(new) + 1, 1, 1).selectExpr(*columns)
        if self._try("append", lambda: frame.write.format("delta").mode("append").save(str(self._table))):
            self.rows |= new

    def delete(self) -> None:
        k = self.commits // 2 % 7
        statement = f"DELETE FROM delta.`{self._table}` WHERE w = '{self.name}' AND k = {k}"
        if self._try("delete", lambda: self._spark.sql(statement)):
            self.rows = {id_: value for id_, value in self.rows.items() if value != k}

    def _try(self, operation: str, write: Callable[[], object]) -> bool:
        before = versions(self._table)[-1]
        try:
            write()
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is told in the end
            self.failures.append((operation, before, versions(self._table)[-1], repr(exc)))
            return False
        self.commits += 1
        return True


def versions(table: Path) -> list[int]:
    """Return the versions that have a log entry, in order."""
    return sorted(int(p.name[:20]) for p in (table / "_delta_log").iterdir() if re.fullmatch(r"\d{20}\.json", p.name))


def operation(table: Path, version: int) -> str:
    """Return the operation that the log has for a version."""
    lines = (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return next(json.loads(line)["commitInfo"]["operation"] for line in lines if line.startswith('{"commitInfo"'))


def is_note(table: Path, version: int) -> bool:
    return operation(table, version) == "PUFFIN SIDECAR STATISTICS"


def removes_files(table: Path, version: int) -> bool:
    """Whether a version makes deltalake give up: even on an append, and whatever its partition."""
    return '{"remove":' in (table / "_delta_log" / f"{version:020d}.json").read_text()


def check_entries(table: Path) -> None:
    """Check that every entry names a complete, matching statistics file, and that there are no other files."""
    directory = table / "_delta_log" / "_puffin_sidecar"
    named = set()
    for path in directory.glob("[0-9]*.json"):
        version, generation = map(int, path.stem.split("-"))
        entry = decode_entry(path.read_bytes(), str(path), version, generation).entry
        named.add(entry.statistics_path)
        file = directory / entry.statistics_path
        with LocalStore().open_source(str(file)) as source:
            reader = PuffinReader(source)
            listed = [(b.fields, b.snapshot_id, dict(b.properties)) for b in reader.file_metadata.blobs]
        assert [(b.fields, b.snapshot_id, dict(b.properties)) for b in entry.blobs] == listed[: len(entry.blobs)]
        assert file.stat().st_size == entry.file_size_in_bytes
    assert {path.name for path in directory.glob("*.stats")} == named
    assert not list(table.rglob("*.tmp"))
    assert [error for path in directory.glob("*.stats") for error in verify(str(path)).errors] == []


def payloads(path: str) -> dict[tuple[str | int, ...], bytes]:
    """Return the payloads of a statistics file by type and fields."""
    with LocalStore().open_source(path) as source:
        reader = PuffinReader(source)
        blobs = reader.file_metadata.blobs
        return {(b.type, *b.fields): payload for b, payload in zip(blobs, reader.read_all(blobs), strict=True)}


@pytest.fixture
def race_table(delta_spark: SparkSession, tmp_path: Path) -> Path:
    """A table with deletion vectors and a checkpoint every ten versions."""
    table = tmp_path / "race"
    delta_spark.sql(
        f"CREATE TABLE delta.`{table}` (w string, id bigint, k bigint, s string) USING delta PARTITIONED BY (w) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '10')"
    )
    return table


def test_writers_and_statistics_jobs_do_not_disturb_each_other(
    delta_spark: SparkSession, race_table: Path, count_distinct: Callable[..., dict[str, int]]
) -> None:
    spark_writers = [SparkWriter(delta_spark, race_table, name) for name in ("spark-append", "spark-rewrite")]
    names = ("append", "rewrite")
    options = Options(columns=("w", "id")), Options(columns=("k", "s"), mode="full")
    spark_writers[1].append()  # the JVM's first ones take as long as ten others
    spark_writers[1].delete()
    table = str(race_table)
    with (
        started(write, [(table, name, SECONDS) for name in names]) as writers,
        started(analyze_repeatedly, [(table, each, SECONDS) for each in options]) as analyses,
    ):
        writers.go()
        analyses.go()
        for thread in spark_writers:
            thread.deadline = time.monotonic() + SECONDS
            thread.start()
        accounts = dict(zip(names, writers.results(SECONDS + 60), strict=True))
        jobs = analyses.results(SECONDS + 60)
        for thread in spark_writers:
            thread.join()
    for writer in spark_writers:
        accounts[writer.name] = {"commits": writer.commits, "failures": writer.failures, "rows": writer.rows}
    made = versions(race_table)
    tally(race_table, accounts, jobs)

    # Nobody failed because of us, and nobody's work is lost.
    for name, account in accounts.items():
        for what, before, after, reason in account["failures"]:
            others = [version for version in range(before + 1, after + 1) if removes_files(race_table, version)]
            assert others, (name, what, reason)
    assert made == list(range(len(made)))
    rows = delta_spark.read.format("delta").load(str(race_table)).select("w", "id", "k").collect()
    expected = [(name, int(id_), k) for name, account in accounts.items() for id_, k in account["rows"].items()]
    assert sorted(map(tuple, rows)) == sorted(expected)

    # The statistics jobs came through, and what they left is whole and right.
    assert [job["failures"] for job in jobs] == [[], []]
    assert all(job["reports"] for job in jobs)
    check_entries(race_table)
    check_entries_are_right(delta_spark, race_table, count_distinct)
    last = analyze(str(race_table))
    full = analyze(str(race_table), Options(mode="full", commit=False))
    assert last.entry is not None
    assert full.entry is not None
    assert payloads(last.entry.statistics_path) == payloads(full.entry.statistics_path)
    exact = count_distinct(delta_spark.read.format("delta").load(str(race_table)), ["w", "id", "k", "s"])
    for answer in ndv(str(race_table)).columns:
        assert answer.distinct is not None
        assert answer.source == "snapshot"
        assert answer.distinct.lower <= exact[answer.column.name] <= answer.distinct.upper
        assert answer.ndv == exact[answer.column.name] or not answer.distinct.exact


def test_blind_appends_never_fail_because_of_us(tmp_path: Path) -> None:
    """Only our commits could get in the way of a writer that only appends."""
    import pyarrow as pa
    from deltalake import write_deltalake

    table = tmp_path / "appends"
    columns = pa.table({"w": pa.array([""]), "id": pa.array([0]), "k": pa.array([0]), "s": pa.array([""])})
    # No version of the race is one at which an engine would write a checkpoint, which gets no note.
    write_deltalake(table, columns, configuration={"delta.checkpointInterval": "10000"})
    names = ("one", "two", "three")
    options = Options(columns=("id",)), Options(columns=("s",), mode="full")
    with (
        started(write, [(str(table), name, SECONDS / 2) for name in names]) as writers,
        started(analyze_repeatedly, [(str(table), each, SECONDS / 2) for each in options]) as analyses,
    ):
        writers.go()
        analyses.go()
        accounts = dict(zip(names, writers.results(SECONDS + 60), strict=True))
        jobs = analyses.results(SECONDS + 60)
    tally(table, accounts, jobs)
    assert [account["failures"] for account in accounts.values()] == [[]] * 3
    assert [job["failures"] for job in jobs] == [[], []]
    made = versions(table)
    assert made == list(range(len(made)))
    committed = sum(report["committed"] for job in jobs for report in job["reports"])
    assert sum(is_note(table, version) for version in made) == committed
    answers = analyze(str(table)).columns
    rows = 1 + sum(len(account["rows"]) for account in accounts.values())
    assert {c.column.name: c.ndv for c in answers if c.column.name in ("w", "k")} == {"w": 3, "k": 7}
    (ids,) = (c.distinct for c in answers if c.column.name == "id")
    assert ids.exact
    assert ids.ndv == max(len(account["rows"]) for account in accounts.values()) < rows
    check_entries(table)


def check_entries_are_right(spark: SparkSession, table: Path, count_distinct: Callable[..., dict[str, int]]) -> None:
    """Check the answers given during the race for a few versions against those versions."""
    directory = table / "_delta_log" / "_puffin_sidecar"
    analyzed = sorted({int(path.stem.split("-")[0]) for path in directory.glob("[0-9]*.json")})
    for version in analyzed[:: max(1, len(analyzed) // 3)]:
        frame = spark.read.format("delta").option("versionAsOf", version).load(str(table))
        answers = [
            c for c in ndv(str(table), snapshot_id=version).columns if c.source == "snapshot" and c.distinct.exact
        ]
        exact = count_distinct(frame, [answer.column.name for answer in answers])
        assert {answer.column.name: answer.ndv for answer in answers} == exact, version


def tally(table: Path, accounts: dict[str, Any], jobs: Sequence[dict[str, Any]]) -> None:
    """Print who did how much."""
    made = versions(table)
    lines = [f"\n{len(made)} versions, {sum(is_note(table, v) for v in made)} of them notes"]
    for name, account in accounts.items():
        failures = [f"{what} on version {before}: {reason}" for what, before, _, reason in account["failures"]]
        lines.append(f"{name}: {account['commits']} commits, {len(account['rows'])} rows, {len(failures)} failures")
        lines += failures
    for job in jobs:
        committed = [report for report in job["reports"] if report["committed"]]
        attempts = sum(report["attempts"] for report in committed)
        bases = Counter(column["basis"] for report in job["reports"] for column in report["columns"])
        lines.append(
            f"job: {len(job['reports'])} runs, {len(committed)} commits in {attempts} attempts, "
            f"{len(job['failures'])} failures, {dict(bases)}"
        )
    sys.stdout.write("\n".join([*lines, ""]))


def test_concurrent_jobs_of_one_version_merge_their_columns(tmp_path: Path) -> None:
    """Eight jobs at once, each for another column of a table without statistics or field ids."""
    import pyarrow as pa
    from deltalake import write_deltalake

    table = tmp_path / "eight"
    write_deltalake(table, pa.table({c: [row % count for row in range(8)] for count, c in enumerate(EIGHT, 1)}))
    reports = at_once(analyze_column, [(str(table), column) for column in EIGHT])
    assert [(r["snapshot-id"], r["committed"]) for r in reports] == [(0, True)] * 8
    answers = ndv(str(table), snapshot_id=0).columns
    assert [(a.column.name, a.ndv, a.source) for a in answers] == [(c, i, "snapshot") for i, c in enumerate(EIGHT, 1)]
    generations = {path.name for path in (table / "_delta_log" / "_puffin_sidecar").glob("0-*.json")}
    assert generations == {f"0-{generation}.json" for generation in range(8)}
    assert sum(report["attempts"] for report in reports) > 8, "they did not meet"
    made = versions(table)
    assert made == list(range(9))
    assert all(is_note(table, version) for version in made[1:])
    check_entries(table)
