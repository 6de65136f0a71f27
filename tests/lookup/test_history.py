"""Answers that need no reading, and what statistics said of a column over time."""

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.errors import ColumnNotFound
from puffin.lookup import Lookup, Question
from puffin.tables.base import SnapshotSelector
from stats_jobs import analyze


class Clock:
    """A clock that tests set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_cached_answer_is_given_without_reading(directory, entry_of, opened):
    """It is the object that `ndv` returned for exactly that question, while it is valid."""
    clock = Clock()
    lookup, table = Lookup(ttl_seconds=10, clock=clock), str(directory("t", entry_of(10, {1: 3})))
    assert lookup.at_hand(Question(table, ("a",))) is None
    assert opened == []
    answer = lookup.ndv(table, ["a"])
    opened.clear()
    assert lookup.at_hand(Question(table, ["a"])).answer is answer
    assert lookup.at_hand(Question(table, ("b",))) is None
    assert lookup.at_hand(Question(table, ("a",), SnapshotSelector(ref="main"))) is None
    assert lookup.counts.hits == 1
    clock.now += 10
    assert lookup.at_hand(Question(table, ("a",))) is None
    assert opened == []


def test_history_has_each_counted_snapshot_once(directory, entry_of):
    """Oldest first; an entry that keeps an older snapshot's blob adds no point."""
    table = directory(
        "t", entry_of(10, {1: 3}), entry_of(30, {1: (3, 10), 2: 8}), entry_of(40, {1: 9}), snapshots=(10, 20, 30, 40)
    )
    points = Lookup().history(str(table), "a").points
    assert [(point.snapshot.snapshot_id, point.distinct.ndv) for point in points] == [(10, 3), (40, 9)]


def test_history_follows_the_current_snapshots_ancestors(directory, entry_of):
    table = directory(
        "t", entry_of(10, {1: 3}), entry_of(20, {1: 4}), snapshots=(10, 20), **{"current-snapshot-id": 10}
    )
    assert [point.snapshot.snapshot_id for point in Lookup().history(str(table), "a").points] == [10]


def test_history_without_statistics_is_empty_and_unknown_columns_are_errors(directory):
    table = str(directory("t"))
    assert Lookup().history(table, "a").points == ()
    with pytest.raises(ColumnNotFound):
        Lookup().history(table, "nope")


def test_history_has_the_bounds_of_the_answer(tmp_path):
    """They end at the values that there can be between min and max."""
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": pa.array(range(20_000), pa.int64())}))
    analyze(table)
    (point,) = Lookup().history(table, "k").points
    (answer,) = Lookup().ndv(table, ["k"]).columns
    assert point.distinct == answer.distinct
    assert point.distinct.upper == 20_000
