"""Large runs keep what they have read; the next run reads the rest, and writes what an uninterrupted one would."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import os
import random
import shutil
import signal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.errors import CorruptError, StorageError
from puffin.format import PuffinWriter
from puffin.index import upkeep
from puffin.index.home import IndexHome
from puffin.load import load_table
from puffin.sketches.row_counts import RowCounts
from puffin.statistics.kinds import ROW_COUNTS, SUMMARY
from puffin.statistics.private_state.upkeep import lost_state
from puffin.storage import LocalStore
from puffin.tables.leftovers import SAFETY_AGE, AgeLimit
from puffin.values.column_bounds import Bounds, Missing
from puffin.values.row_summary import RowSummary
from stats_jobs import Options, SparkStarter, analyze, steps
from stats_jobs.index import index
from stats_jobs.index_plan import IndexPlan
from stats_jobs.options import IndexOptions
from stats_jobs.partial import Partial
from stats_jobs.step_file import StepFile, StepHead, task_digest, to_blobs
from stats_jobs.target import Target
from tests.index.stored_filters import stored_filters
from tests.processes import talking

FILES = 8
LONG_AGO = datetime.timedelta(days=8)


class Killed(BaseException):
    """What ends a run, like the signal that would."""


@pytest.fixture
def small_steps(monkeypatch):
    """So that a run of a few kilobytes has steps."""
    monkeypatch.setattr(steps, "BYTES_PER_CORE", 1)
    monkeypatch.setattr(steps, "BYTES_PER_COLUMN", 1)


@pytest.fixture
def make_table(tmp_path):
    """Makes a partitioned table with a file for each value of ``p``, or appends such files to it."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    draw = random.Random(7)

    def rows(parts) -> pa.Table:
        each = [(part, draw.randrange(200), draw.choice("äbcdefg") * 30, draw.choice((1.5, math.inf, None)))
                for part in parts for _ in range(50)]  # fmt: skip
        names = ("p", "a", "s", "f")
        return pa.table({name: [row[i] for row in each] for i, name in enumerate(names)}).cast(
            pa.schema([("p", pa.int64()), ("a", pa.int64()), ("s", pa.string()), ("f", pa.float64())])
        )

    def make(*parts: int):
        content = rows(parts or range(FILES))
        if catalog.table_exists("n.t"):
            table = catalog.load_table("n.t")
        else:
            table = catalog.create_table("n.t", content.schema)
            with table.update_spec() as spec:
                spec.add_identity("p")
        table.append(content)
        return catalog.load_table("n.t")

    return make


def ours(table):
    """Return the table as the jobs load it."""
    return load_table("n.t", catalog="c", catalog_properties={"type": "sql", **table.catalog.properties})


def files_of(table, folder: str = "") -> set[Path]:
    root = Path(table.location().removeprefix("file://"), "_puffin_sidecar", folder)
    return {path for path in root.rglob("*") if path.is_file()}


def written(table, report, before: set[Path]) -> tuple[bytes, list[bytes]]:
    """Return the statistics file of a run and the parts that it wrote."""
    parts = sorted(path.read_bytes() for path in files_of(table, "parts") - before)
    return Path(report.entry.statistics_path.removeprefix("file://")).read_bytes(), parts


def run(table, options: Options) -> tuple[Any, tuple[bytes, list[bytes]]]:
    before = files_of(table, "parts")
    report = analyze(ours(table), options)
    return report, written(table, report, before)


def end_after(count: int, monkeypatch) -> None:
    """Let the next run end once it has kept so many steps."""
    put = steps.KeptSteps.put
    left = [count]

    def put_some(self, scans, partial) -> None:
        put(self, scans, partial)
        left[0] -= 1
        if left[0] == 0:
            monkeypatch.setattr(steps.KeptSteps, "put", put)
            raise Killed

    monkeypatch.setattr(steps.KeptSteps, "put", put_some)


UNCOMMITTED = Options(commit=False, partitions=True, joint=("a+s",), lg_k=9)


def test_next_run_reads_the_rest_and_writes_the_same_bytes(small_steps, make_table, monkeypatch):
    table = make_table()
    whole, expected = run(table, UNCOMMITTED)
    assert (whole.files_read, files_of(table, "progress")) == (FILES, set())
    done = random.Random().randrange(1, FILES + 1)
    for first in (done // 2, done - done // 2):  # a run that dies, and one that dies when it goes on with that
        if first:
            end_after(first, monkeypatch)
            with contextlib.suppress(Killed):
                analyze(ours(table), UNCOMMITTED)
    again, found = run(table, UNCOMMITTED)
    assert again.files_read == FILES - done
    assert again.bytes_read < whole.bytes_read
    assert found == expected
    assert files_of(table, "progress") == set()


def test_executors_read_in_steps_too(spark, small_steps, make_table, monkeypatch):
    """Spark is left running for the next run."""
    table, here = make_table(1, 2), Options(commit=False)
    there = dataclasses.replace(here, driver_bytes=0)
    _, expected = run(table, here)
    with SparkStarter(spark) as starter:
        end_after(1, monkeypatch)
        with contextlib.suppress(Killed):
            analyze(ours(table), there, starter)
        before = files_of(table, "parts")
        report = analyze(ours(table), there, starter)
    assert (report.files_read, written(table, report, before)) == (1, expected)


def _die(connection, properties) -> None:
    steps.BYTES_PER_CORE = steps.BYTES_PER_COLUMN = 1
    put = steps.KeptSteps.put
    kept = []

    def put_until_killed(self, scans, partial) -> None:
        put(self, scans, partial)
        kept.append(scans)
        if len(kept) == 6:
            os.kill(os.getpid(), signal.SIGKILL)

    steps.KeptSteps.put = put_until_killed
    analyze("n.t", catalog="c", catalog_properties=properties)
    connection.send("not killed")


def run_until_killed(job, table) -> None:
    """Let a job that kills itself run in a process of its own."""
    process, _ = talking(job, {"type": "sql", **table.catalog.properties})
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def test_killed_process_leaves_what_the_next_run_need_not_read(small_steps, make_table):
    table = make_table()
    run_until_killed(_die, table)
    report = analyze(ours(table), Options(commit=False))
    assert report.files_read == FILES - 6


def test_steps_serve_a_later_snapshot_with_other_statistics_left_out(small_steps, make_table, monkeypatch):
    """Files that came since are read; other columns, or another size, have steps of their own."""
    table = make_table()
    end_after(5, monkeypatch)
    with contextlib.suppress(Killed):
        analyze(ours(table), UNCOMMITTED)
    table = make_table(1, 100)
    plain = dataclasses.replace(UNCOMMITTED, lg_k=10)
    other, _ = run(table, plain)
    later, found = run(table, UNCOMMITTED)
    again, expected = run(table, UNCOMMITTED)
    assert (other.files_read, later.files_read, again.files_read) == (FILES + 2, FILES + 2 - 5, FILES + 2)
    assert found == expected


def test_step_with_a_file_that_is_gone_is_left_to_clean(small_steps, make_table, monkeypatch):
    table = make_table()
    end_after(FILES, monkeypatch)
    with contextlib.suppress(Killed):
        analyze(ours(table), UNCOMMITTED)
    table.delete("p = 3")
    report = analyze(ours(table := make_table(4)), UNCOMMITTED)
    assert report.files_read == 1
    (left,) = files_of(table, "progress")
    opened = ours(table)
    now = datetime.datetime.now(datetime.timezone.utc)
    assert [str(left)] == [each.file.uri.removeprefix("file://") for each in _leftovers(opened, now + LONG_AGO)]
    assert _leftovers(opened, now) == []


def _leftovers(table, now: datetime.datetime) -> list[Any]:
    return list(lost_state(table.open(), AgeLimit(now, SAFETY_AGE), None).files)


@pytest.mark.parametrize("harm", ["cut", "flipped", "old", "another file"])
def test_broken_or_old_steps_are_read_again(harm, small_steps, make_table, monkeypatch, caplog):
    table = make_table()
    _, expected = run(table, UNCOMMITTED)
    end_after(4, monkeypatch)
    with contextlib.suppress(Killed):
        analyze(ours(table), UNCOMMITTED)
    victim = sorted(files_of(table, "progress"))[0]
    data = bytearray(victim.read_bytes())
    if harm == "cut":
        victim.write_bytes(data[:-9])
    elif harm == "another file":
        victim.write_bytes(expected[0])
    elif harm == "flipped":
        data[random.Random().randrange(8, 400)] ^= 64
        victim.write_bytes(data)
    else:
        os.utime(victim, (0, 0))
    again, found = run(table, UNCOMMITTED)
    assert (again.files_read, found) == (FILES - 3, expected)
    assert victim.exists() == (harm != "old")
    assert ("cannot be used" in caplog.text) == (harm != "old")


def test_index_reads_what_it_lacks_of_the_files_of_steps(small_steps, make_table, monkeypatch):
    table = make_table()
    index(ours(table), IndexOptions(columns=("a",)))
    table = make_table(*range(FILES))
    monkeypatch.setattr(steps, "MOST_STEPS", FILES)
    end_after(4, monkeypatch)
    with contextlib.suppress(Killed):
        analyze(ours(table))
    has = files_in_index(table)
    assert has > FILES
    done = analyze(ours(table))
    assert done.files_read == 2 * FILES - 4 * 2
    assert (done.index.files_read, done.index.files_indexed) == (2 * FILES - has, 2 * FILES)


def files_in_index(table) -> int:
    return len(IndexHome.of(ours(table).open()).read().paths)


def _die_in_index(connection, properties) -> None:
    steps.BYTES_PER_CORE = steps.BYTES_PER_COLUMN = 1
    published = IndexPlan.published
    count = iter(range(1, FILES))

    def published_until_killed(self, built) -> IndexPlan:
        plan = published(self, built)
        if next(count) == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return plan

    IndexPlan.published = published_until_killed
    index("n.t", IndexOptions(columns=("a", "s")), catalog="c", catalog_properties=properties)
    connection.send("not killed")


def test_killed_index_run_leaves_an_index_that_the_next_run_completes(small_steps, make_table):
    table = make_table()
    run_until_killed(_die_in_index, table)
    assert files_in_index(table) == 6
    done = index(ours(table))
    assert (done.files_read, done.files_indexed) == (FILES - 6, FILES)
    found = stored_filters(ours(table))
    shutil.rmtree(Path(table.location().removeprefix("file://"), "_puffin_sidecar", "index"))
    index(ours(table), IndexOptions(columns=("a", "s")))
    assert stored_filters(ours(table)) == found


def test_step_whose_filters_cannot_be_published_is_caught_up_at_the_end(small_steps, make_table, monkeypatch, caplog):
    table = make_table()
    index(ours(table), IndexOptions(columns=("a",)))
    table = make_table(*range(FILES))
    commit, failures = upkeep.commit, iter([StorageError("the disk is full")])

    def failing_once(*args):
        for failure in failures:
            raise failure
        return commit(*args)

    monkeypatch.setattr(upkeep, "commit", failing_once)
    done = analyze(ours(table))
    assert (done.files_read, done.index.files_indexed) == (2 * FILES, 2 * FILES)
    assert [record.message for record in caplog.records] == [
        "n.t: the index is caught up at the end of the run only: the disk is full"
    ]


def test_run_without_values_keeps_nothing(small_steps, make_table, monkeypatch):
    """Values of all columns stand in a step."""
    table = make_table()
    kept = []
    monkeypatch.setattr(steps.KeptSteps, "put", lambda *_: kept.append(True))
    analyze(ours(table), Options(commit=False, no_values=("s",)))
    analyze(ours(table), Options(dry_run=True))
    assert kept == []


def test_small_runs_look_for_nothing(make_table, monkeypatch):
    table = make_table(1, 2)
    monkeypatch.setattr(LocalStore, "directories", lambda *_: pytest.fail("looked"))
    target = Target.of(ours(table).open(), (), Options())
    assert target.kept_steps() is not None
    analyze(ours(table), Options(commit=False))


def test_run_that_finds_no_steps_digests_no_files(small_steps, make_table, monkeypatch):
    """It would take a minute of a run that reads a million files."""
    table = make_table(1, 2)
    monkeypatch.setattr(steps, "MOST_STEPS", 1)
    monkeypatch.setattr(steps, "task_digest", lambda _: pytest.fail("digested"))
    analyze(ours(table), Options(commit=False))


def test_store_that_takes_no_steps_does_not_fail_the_run(small_steps, make_table, monkeypatch, caplog):
    """Once a step could not be kept, later ones are not even digested."""
    digested = []
    monkeypatch.setattr(steps, "task_digest", lambda task: digested.append(task) or task_digest(task))
    monkeypatch.setattr(steps, "MOST_STEPS", FILES)
    table = make_table()
    home = Path(table.location().removeprefix("file://"), "_puffin_sidecar")
    home.mkdir()
    (home / "progress").write_bytes(b"")
    assert analyze(ours(table), Options(commit=False)).files_read == FILES
    assert (caplog.text.count("is not kept for another run"), len(digested)) == (1, 1)


@pytest.mark.parametrize("low", [-1, "ä\ud800", b"\x00\xff", -math.inf, 0.1, True, Missing.UNKNOWN, Missing.NO_VALUE])
def test_step_file_keeps_every_value_exactly(low):
    summary = RowSummary(rows=3, nulls=None, nans=2, total_bytes=1 << 70, bounds=Bounds(low, low), is_loose=True)
    counts = ROW_COUNTS.start().compact()
    partial = Partial({1: {SUMMARY: summary, ROW_COUNTS: counts}}, {2: {SUMMARY: summary}}, mapped=frozenset((1,)))
    blobs = list(to_blobs(StepHead({"x": ["y"]}, partial.mapped), partial, 5))
    with PuffinWriter(sink := BytesIO()) as writer:
        for blob in blobs:
            writer.add(blob)
        writer.finish()
    file = StepFile(sink.getvalue())
    wanted = {(field_id, kind.name): kind for field_id in (1, 2) for kind in (SUMMARY, ROW_COUNTS)}
    found = file.partial(wanted, dict)
    assert (found.added[1][SUMMARY], found.removed, found.mapped) == (summary, {2: {SUMMARY: summary}}, partial.mapped)
    assert isinstance(found.added[1][ROW_COUNTS], RowCounts)
    assert file.head() == StepHead({"x": ["y"]}, frozenset((1,)))


@pytest.mark.parametrize("tasks", [None, 5, "y", [["y"]]])
def test_step_file_whose_tasks_are_no_digests_is_broken(tasks):
    """A run compares them with its own before it checks the file as a whole."""
    with PuffinWriter(sink := BytesIO()) as writer:
        for blob in to_blobs(StepHead({"x": tasks}), Partial(), 5):
            writer.add(blob)
        writer.finish()
    with pytest.raises(CorruptError, match="not the file of a step"):
        StepFile(sink.getvalue()).head()
