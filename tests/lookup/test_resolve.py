"""Which statistics answer for a column of a snapshot depends on ancestry and on the rows behind a sketch."""

from __future__ import annotations

import pytest

from puffin.errors import ColumnNotFound, SnapshotNotFound, UnsupportedTypeError
from puffin.lookup import Question, lookup
from puffin.statistics.ancestry import _Extensions
from puffin.tables.base import SnapshotSelector


def answers(table, *columns, **selector):
    """Column, ndv, the snapshot whose rows were counted, and the source."""
    answer = lookup(table, Question(table.name, columns or ("a",), SnapshotSelector(**selector)))
    return [(c.column.name, c.ndv, c.stats_snapshot_id, c.source) for c in answer.columns]


def with_parents(document, parents):
    """The document with other parents; None removes one."""
    for snapshot in document["snapshots"]:
        snapshot.pop("parent-snapshot-id", None)
        if (parent := parents.get(snapshot["snapshot-id"])) is not None:
            snapshot["parent-snapshot-id"] = parent
    return document


def test_snapshots_own_entry_wins(table_of, entry_of):
    table = table_of(entry_of(10, {1: 3}), entry_of(20, {1: 4}), snapshots=(10, 20))
    assert answers(table) == [("a", 4, 20, "snapshot")]


def test_ancestor_answers_if_the_snapshot_has_no_statistics(table_of, entry_of):
    table = table_of(entry_of(10, {1: 3}), entry_of(20, {1: 4}), snapshots=(10, 20, 30, 40))
    assert answers(table) == [("a", 4, 20, "ancestor")]


def test_each_column_uses_its_own_nearest_entry(table_of, entry_of):
    table = table_of(entry_of(10, {1: 3, 2: 9}), entry_of(20, {1: 4}), snapshots=(10, 20))
    assert answers(table, "c", "b", "a") == [
        ("c", None, None, "missing"),
        ("b", 9, 10, "ancestor"),
        ("a", 4, 20, "snapshot"),
    ]


def test_kept_blob_is_as_old_as_its_own_snapshot(table_of, entry_of):
    """The entry of 30 kept a from 10, that of 20 computed it: the rows of 20 are nearer."""
    table = table_of(entry_of(20, {1: 4}), entry_of(30, {1: (3, 10)}), snapshots=(10, 20, 30))
    assert answers(table) == [("a", 4, 20, "ancestor")]
    table = table_of(entry_of(30, {1: (3, 10)}), snapshots=(10, 20, 30))
    assert answers(table) == [("a", 3, 10, "ancestor")]


def test_nearest_entry_wins_among_blobs_of_the_same_snapshot(table_of, entry_of):
    """It was written last: another engine may have corrected it."""
    entries = entry_of(30, {1: (3, 10)}), entry_of(20, {1: (5, 10)}), entry_of(10, {1: 6})
    assert answers(table_of(*entries, snapshots=(10, 20, 30))) == [("a", 3, 10, "ancestor")]


def test_blob_of_an_expired_snapshot_is_older_than_every_known_one(table_of, entry_of):
    kept = entry_of(30, {1: (3, 5)})
    assert answers(table_of(kept, snapshots=(20, 30))) == [("a", 3, 5, "ancestor")]
    assert answers(table_of(kept, entry_of(20, {1: 4}), snapshots=(20, 30))) == [("a", 4, 20, "ancestor")]


def test_walk_ends_at_expired_parents(table_of, entry_of):
    """An expired snapshot's entry is nobody's ancestor, though its id is still named."""
    table = table_of(entry_of(10, {1: 3}), snapshots=(20, 30))
    table.document["snapshots"][0]["parent-snapshot-id"] = 10
    assert answers(table) == [("a", None, None, "missing")]


def test_circular_parents_end_the_walk(table_of, entry_of):
    table = table_of(entry_of(40, {1: 3}), snapshots=(10, 20, 40))
    with_parents(table.document, {10: 20, 20: 10})
    assert answers(table, snapshot_id=20) == [("a", None, None, "missing")]


def test_statistics_of_another_branch_are_ignored(table_of, entry_of):
    """Both children of 10 have their own statistics and those of 10."""
    table = table_of(entry_of(10, {1: 3, 2: 8}), entry_of(30, {1: 5}), snapshots=(10, 20, 30))
    with_parents(table.document, {20: 10, 30: 10})
    table.document["current-snapshot-id"] = 20
    table.document["refs"] = {
        "main": {"snapshot-id": 20, "type": "branch"},
        "dev": {"snapshot-id": 30, "type": "branch"},
    }
    assert answers(table) == [("a", 3, 10, "ancestor")]
    assert answers(table, ref="main") == [("a", 3, 10, "ancestor")]
    assert answers(table, "a", "b", ref="dev") == [("a", 5, 30, "snapshot"), ("b", 8, 10, "ancestor")]


def test_statistics_of_a_rolled_back_snapshot_are_ignored(table_of, entry_of):
    table = table_of(entry_of(10, {1: 3}), entry_of(20, {1: 4}), snapshots=(10, 20))
    table.document["current-snapshot-id"] = 10
    assert answers(table) == [("a", 3, 10, "snapshot")]


def test_past_snapshot_uses_its_own_ancestors(table_of, entry_of):
    table = table_of(*(entry_of(s, {1: s}) for s in (10, 20, 30)), snapshots=(10, 20, 30))
    assert answers(table, snapshot_id=20) == [("a", 20, 20, "snapshot")]
    assert answers(table, as_of_ms=2500) == [("a", 20, 20, "snapshot")]
    assert answers(table, as_of_ms=2000) == [("a", 20, 20, "snapshot")]
    with pytest.raises(SnapshotNotFound, match=r"as old as 1970-01-01T00:00:00\.999"):
        answers(table, as_of_ms=999)


@pytest.mark.parametrize("selector", [{"snapshot_id": 99}, {"ref": "nosuch"}])
def test_missing_snapshot_is_reported(table_of, selector):
    with pytest.raises(SnapshotNotFound, match=r"99|nosuch"):
        answers(table_of(), **selector)


def test_first_of_several_entries_for_one_snapshot_counts(table_of, entry_of):
    """As in Spark; duplicates break the rules, but some catalogs wrote them."""
    table = table_of(entry_of(10, {1: 3}), entry_of(10, {1: 4, 2: 5}))
    assert answers(table, "a", "b") == [("a", 3, 10, "snapshot"), ("b", None, None, "missing")]


@pytest.mark.parametrize("current", [None, -1])
def test_table_without_a_snapshot_has_no_statistics(table_of, entry_of, current):
    table = table_of(entry_of(10, {1: 3}), snapshots=())
    table.document["current-snapshot-id"] = current
    answer = lookup(table, Question(table.name))
    assert answer.snapshot_id is None
    assert [(c.column.name, c.ndv, c.source) for c in answer.columns] == [(n, None, "missing") for n in "abc"]


def test_missing_column_is_reported(table_of):
    with pytest.raises(ColumnNotFound, match="'d'"):
        answers(table_of(), "d")


def test_unhashable_column_is_refused_by_name_and_skipped_by_default(table_of):
    table = table_of()
    table.document["schemas"][0]["fields"][1]["type"] = "variant"
    with pytest.raises(UnsupportedTypeError, match="variant"):
        answers(table, "b")
    assert [c.column.name for c in lookup(table, Question(table.name)).columns] == ["a", "c"]


@pytest.mark.parametrize("other", [{"type": "ndv"}, {"fields": [1, 2]}, {"fields": []}, {"fields": [2, 1]}])
def test_blobs_of_other_types_or_several_columns_are_ignored(table_of, entry_of, other):
    entry = entry_of(10, {1: 3})
    entry["blob-metadata"][0] |= other
    assert answers(table_of(entry)) == [("a", None, None, "missing")]


@pytest.mark.parametrize(("allowed", "ndv"), [(0, None), (1, None), (2, 3), (3, 3)])
def test_statistics_older_than_allowed_are_missing(table_of, entry_of, allowed, ndv):
    """Two of the four snapshots since changed no rows."""
    table = table_of(entry_of(10, {1: 3}), snapshots=(10, 20, 30, 40, 50))
    for snapshot in table.document["snapshots"]:
        if snapshot["snapshot-id"] in (20, 40):
            snapshot["summary"]["operation"] = "replace"
    answer = lookup(table, Question(table.name, ("a",), max_staleness=allowed)).columns[0]
    assert answer.ndv == ndv
    assert answer.source == ("missing" if ndv is None else "ancestor")


def test_current_statistics_are_never_too_old(table_of, entry_of):
    table = table_of(entry_of(20, {1: 3}), snapshots=(10, 20))
    assert lookup(table, Question(table.name, ("a",), max_staleness=0)).columns[0].ndv == 3


def test_statistics_of_an_expired_snapshot_are_older_than_any_limit(table_of, entry_of):
    """Nobody knows how many changes lie between."""
    table = table_of(entry_of(20, {1: (3, 5)}), snapshots=(10, 20))
    assert lookup(table, Question(table.name, ("a",))).columns[0].ndv == 3
    assert lookup(table, Question(table.name, ("a",), max_staleness=1000)).columns[0].source == "missing"


@pytest.mark.parametrize("has_analyzed", [True, False])
def test_each_of_many_sketches_that_trino_extended_is_looked_at_once(table_of, entry_of, monkeypatch, has_analyzed):
    """Trino's INSERT writes an entry for each snapshot; if the first has none, no sketch is sure to be whole."""
    ids = tuple(range(1, 101))
    table = table_of(*(entry_of(id_, {1: id_}) for id_ in (ids if has_analyzed else ids[1:])), snapshots=ids)
    for snapshot in table.document["snapshots"][1:]:
        snapshot["summary"] = {"operation": "append", "trino_query_id": "q", "added-records": "1"}
    for entry in table.document["statistics"]:
        entry["blob-metadata"][0]["properties"] = {"ndv": entry["blob-metadata"][0]["properties"]["ndv"]}
    looks = []
    base_of = _Extensions._base_of
    monkeypatch.setattr(_Extensions, "_base_of", lambda *args: looks.append(1) or base_of(*args))
    assert answers(table) == [("a", 100, 100, "snapshot")]
    assert len(looks) <= len(ids)
