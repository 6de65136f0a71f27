"""``--keep-entries``: a run removes older entries of ours, and nothing that somebody else or another branch needs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pytest

from puffin.errors import UsageError
from puffin.lookup.planner import lookup
from puffin.lookup.question import Question
from puffin.tables.base import BlobEntry, SnapshotSelector
from stats_jobs import Options
from stats_jobs.decide import is_stale
from stats_jobs.options import IndexOptions
from tests.statistics.conftest import theta


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"value {key % 7}" for key in keys]})


def grown(table, runs: int, **options) -> None:
    for number in range(runs):
        table.append(rows(*range(1000 * (number + 1), 1000 * (number + 1) + 50)))
        table.analyze(**options)


def versions(table) -> set[int]:
    """The snapshots of an Iceberg table, or the versions of a Delta table, that have an entry."""
    state = table.state if hasattr(table, "state") else table.table.open().state
    return set(state.statistics) if state.format == "iceberg" else set(state.stored.entries)


@pytest.fixture(params=["iceberg", "delta"])
def any_table(request):
    if request.param == "delta":
        return request.getfixturevalue("delta")(rows(*range(100)))
    return request.getfixturevalue("shared")("t", rows(*range(100)))


@pytest.mark.parametrize("keep", [1, 2])
def test_run_removes_older_entries_and_the_next_one_builds_on_what_stays(any_table, keep):
    table = any_table
    table.analyze()
    grown(table, 3)
    assert len(versions(table)) == 4
    table.append(rows(*range(9000, 9100)))
    report = table.analyze(keep_entries=keep)
    assert report.entries_removed == 5 - keep
    assert len(versions(table)) == keep
    assert report.snapshot.snapshot_id in versions(table)
    table.append(rows(*range(9100, 9200)))
    report = table.analyze(keep_entries=keep)
    assert (report.rows_read, report.entries_removed, len(versions(table))) == (100, 1, keep)
    assert report.columns[0].distinct.ndv == 100 + 3 * 50 + 200
    assert table.check().current


def test_current_table_with_too_many_entries_is_stale_and_trimmed_without_reading(any_table):
    table = any_table
    table.analyze()
    grown(table, 2)
    few = Options(keep_entries=1)
    assert not is_stale(table.table, Options())
    assert is_stale(table.table, few)
    report = table.analyze(keep_entries=1)
    assert (report.rows_read, report.entries_removed, len(versions(table))) == (0, 2, 1)
    assert not is_stale(table.table, few)
    assert table.analyze(keep_entries=1).current


def test_metadata_of_a_table_stays_as_large_as_it_is(shared):
    table = shared("t", rows(*range(100)))
    sizes = []
    for number in range(3):
        table.append(rows(*range(1000 * (number + 1), 1000 * (number + 1) + 50)))
        before = len(json.dumps(table.state.document.get("statistics", [])))
        table.analyze(keep_entries=1)
        sizes.append(len(json.dumps(table.state.document["statistics"])) - before)
    assert sizes[0] > 500
    assert max(map(abs, sizes[1:])) < 20


def test_entries_of_others_and_the_nearest_of_each_tag_stay(shared, trino_analyzes):
    table = shared("t", rows(*range(100)))
    table.analyze()
    of_trino = table.state.current_snapshot_id
    trino_analyzes(table, {"k": range(100)})
    grown(table, 1)
    tagged = table.state.current_snapshot_id
    table.append(rows(1))
    table.load().manage_snapshots().create_tag(table.state.current_snapshot_id, "release").commit()
    grown(table, 2)
    grown(table, 1, keep_entries=1)
    assert versions(table) == {of_trino, tagged, table.state.current_snapshot_id}


def test_last_sketch_of_a_column_stays_though_the_snapshot_has_an_entry(shared):
    """Whose file is lost, or which has no sketch of the column."""
    for name in ("lost", "other"):
        table = shared(name, rows(*range(100)))
        table.analyze()
        entry = table.entry
        table.append(rows(1))
        if name == "lost":
            table.analyze()
            Path(table.entry.statistics_path.removeprefix("file://")).unlink()
        else:
            blob = BlobEntry("ColumnStatisticsObj", table.state.current_snapshot_id, 2, (1,), {})
            opened = table.table.open()
            opened.commit(dataclasses.replace(entry, snapshot_id=opened.snapshot.snapshot_id, blobs=(blob,)))
        table.analyze(columns=("s",), keep_entries=1)
        answer = lookup(table.table, Question(table.name, ("k",)))
        assert [column.ndv for column in answer.columns] == [100], name


def test_run_on_a_branch_leaves_the_nearest_sketches_of_the_others(shared):
    """Another engine has analyzed one column there since."""
    table = shared("t", rows(*range(100)))
    table.analyze()
    table.load().manage_snapshots().create_branch(table.state.current_snapshot_id, "dev").commit()
    table.append(rows(1))
    table.replace("Trino version 476", [theta(pa.array(range(100)), "long", 1, table.state.current_snapshot_id, {})])
    table.load().append(rows(2), branch="dev")
    table.analyze(selector=SnapshotSelector(ref="dev"), keep_entries=1)
    assert [column.ndv for column in lookup(table.table, Question(table.name, ("s",))).columns] == [7]


def test_run_without_a_commit_removes_nothing(any_table):
    table = any_table
    table.analyze()
    grown(table, 1)
    before = versions(table)
    table.append(rows(1))
    for options in ({"dry_run": True}, {"commit": False}):
        assert table.analyze(keep_entries=1, **options).entries_removed == 0
    assert versions(table) == before


def test_count_below_one_is_refused():
    with pytest.raises(UsageError, match="keep_entries: expected an integer from 1, found 0"):
        Options(keep_entries=0)
    for options in (Options, IndexOptions):
        with pytest.raises(UsageError, match="driver_bytes: expected a number of bytes from 0, found -1"):
            options(driver_bytes=-1)
