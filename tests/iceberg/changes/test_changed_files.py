"""Data files added and removed between two snapshots, whatever manifests and snapshots lie between."""

import pytest

from puffin.errors import FileNotFound, SnapshotNotFound, UnsupportedTableError
from puffin.iceberg.scan.changes import changes_between
from tests.bound import bound

UNPARTITIONED = 1


def test_append_is_added_and_opens_one_manifest_and_two_lists(history):
    for i in range(200):
        history.commit("append", [history.data(f"{i}")])
    history.commit("append", [history.data("new")])
    assert len(history.manifests) == 201
    assert history.changed(200, 201) == (["new"], [])
    assert history.opened == ["snap-200.avro", "snap-201.avro", "manifest-200-0-False.avro"]


def test_tasks_equal_those_of_a_plan(history):
    history.commit("append", [history.data("a")])
    history.commit("append", [history.data("b", p=7, split_offsets=[4, 50])])
    assert history.changes(1, 2).added == history.table.plan()[1:]


def test_deleted_and_overwritten_files_are_removed(history):
    a, b = history.data("a"), history.data("b")
    history.commit("append", [a, b, history.data("c")])
    history.commit("delete", remove=[a])
    history.commit("overwrite", [history.data("d")], remove=[b])
    assert history.changed(1, 2) == ([], ["a"])
    assert history.changed(2, 3) == (["d"], ["b"])
    assert history.changed(1, 3) == (["d"], ["a", "b"])


def test_files_in_a_merged_manifest_are_not_changed(history):
    for name in "abc":
        history.commit("append", [history.data(name)])
    history.commit("append", [history.data("d")], rewrite=True)
    assert history.changed(3, 4) == (["d"], [])


def test_snapshot_does_not_differ_from_itself_and_opens_nothing(history):
    history.commit("append", [history.data("a")])
    assert history.changed(1, 1) == ([], [])
    assert history.opened == []


# --- runs ---------------------------------------------------------------------------------------------------------


def test_replace_snapshots_change_nothing_and_are_not_opened(history):
    a, b = history.data("a"), history.data("b")
    history.commit("append", [a, b])
    history.commit("replace", [history.data("ab")], remove=[a, b])
    history.commit("replace", rewrite=True)
    assert history.changed(1, 3) == ([], [])
    assert history.opened == []


@pytest.mark.parametrize(("added", "changed"), [(6, (["ab"], ["a"])), (5, ([], []))])
def test_replace_snapshot_that_adds_more_rows_than_it_removes_changes_rows(history, added, changed):
    """When Iceberg's Java compacts a file that is listed twice, it reads both listings and removes one."""
    a = history.data("a")
    history.commit("append", [a, history.listed_again(a)])
    history.commit("replace", [history.data("ab")], remove=[a])
    counts = {"deleted-records": "10", "removed-position-deletes": "5", "added-records": str(added)}
    history.snapshots[1]["summary"] |= counts
    assert history.changed(1, 2) == changed


def test_rows_compacted_between_runs_are_added_and_removed_in_different_files(history):
    a, ab = history.data("a"), history.data("ab")
    history.commit("append", [history.data("b")])
    history.commit("append", [a])
    history.commit("replace", [ab], remove=[a])
    history.commit("delete", remove=[ab])
    assert history.changed(1, 4) == (["a"], ["ab"])


def test_file_added_by_one_run_and_removed_by_a_later_one_is_neither(history):
    a = history.data("a")
    history.commit("append", [history.data("b")])
    history.commit("append", [a])
    history.commit("replace", rewrite=True)
    history.commit("overwrite", [history.data("c")], remove=[a])
    assert history.changed(1, 4) == (["c"], [])


def test_snapshot_without_an_operation_may_change_rows(history):
    history.commit("append", [history.data("a")])
    history.commit("append", [history.data("b")])
    del history.snapshots[1]["summary"]
    assert history.changed(1, 2) == (["b"], [])


def test_unrelated_snapshot_is_refused(history):
    for name in "abcd":
        history.commit("append", [history.data(name)])
    state = history.table.state()
    with pytest.raises(SnapshotNotFound, match="no snapshot 3 among the ancestors of 2"):
        history.changes(3, 2)
    assert history.snapshots.pop(1)["snapshot-id"] == 2
    with pytest.raises(SnapshotNotFound, match="no snapshot 1 among the ancestors of 4"):
        history.changes(1, 4)
    with pytest.raises(SnapshotNotFound, match="no snapshot 2 among the ancestors of 4"):
        changes_between(bound(history.table.state(), 4), state.snapshot(2))
    assert history.changed(3, 4) == (["d"], [])


# --- paths that come back -----------------------------------------------------------------------------------------


def test_file_removed_and_added_again_is_not_changed(history):
    a = history.data("a")
    history.commit("append", [a, history.data("b")])
    history.commit("delete", remove=[a])
    history.commit("append", [a])
    assert history.changed(1, 3) == ([], [])
    assert history.changed(2, 3) == (["a"], [])


def test_deletes_older_than_a_readded_file_no_longer_apply(history):
    a = history.data("a")
    history.commit("append", [a])
    history.commit("delete", [history.position_deletes("d", (a, [1]))])
    history.commit("delete", remove=[a])
    history.commit("append", [a])
    assert history.changed(2, 4) == (["a"], ["a[d]"])
    assert history.changed(1, 4) == ([], [])


def test_overwritten_file_cannot_be_compared(history):
    """Its earlier content is gone."""
    a = history.data("a")
    history.commit("append", [a, history.data("b")])
    history.commit("delete", remove=[a])
    for change in ({"file_size_in_bytes": 101}, {"record_count": 11}):
        history.commit("append", [a | change])
        with pytest.raises(FileNotFound, match=r"/a: expected the file of 100 bytes and 10 rows .* found one of 10"):
            history.changes(1, len(history.snapshots))
        history.commit("delete", remove=[a])


# --- format versions ----------------------------------------------------------------------------------------------


def test_version_1_is_compared_without_sequence_numbers(make_history):
    history = make_history(version=1)
    a = history.data("a")
    history.commit("append", [a, history.data("b")])
    history.commit("overwrite", [history.data("c")], remove=[a])
    assert history.changed(1, 2) == (["c"], ["a"])


def test_version_1_files_are_the_same_after_an_upgrade(make_history):
    history = make_history(version=1)
    a = history.data("a")
    history.commit("append", [a, history.data("b")])
    history.commit("append", [history.data("c")])
    history.upgrade()
    history.commit("overwrite", [history.data("d")], remove=[a])
    assert history.changed(2, 3) == (["d"], ["a"])
    assert "manifest-1-0-False.avro" not in history.opened


@pytest.mark.table_kind("No manifest lists", "1")
def test_unlisted_manifests_are_compared_like_listed_ones(make_history):
    """Before, after, and on both sides."""
    history = make_history(version=1)
    a = history.data("a")
    history.commit("append", [a, history.data("b", spec_id=UNPARTITIONED)])
    history.commit("append", [history.data("c")])
    history.commit("overwrite", [history.data("d")], remove=[a])
    for unlisted in (1, 3, 2):
        history.unlist(unlisted)
        assert history.changed(1, 2) == (["c"], [])
        assert history.changed(2, 3) == (["d"], ["a"])
        assert history.changed(1, 3) == (["c", "d"], ["a"])


def test_unreadable_manifest_is_refused_by_name(history):
    history.commit("append", [history.data("a")])
    history.commit("append", [history.data("b.lance", file_format="LANCE")])
    with pytest.raises(UnsupportedTableError, match=r"b\.lance: data files of format LANCE"):
        history.changes(1, 2)
