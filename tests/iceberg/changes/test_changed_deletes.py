"""Data files with deleted rows are on both sides, and found without opening more files than needed."""

import struct

import pyarrow as pa
import pytest

from puffin.errors import CorruptDataFileError, CorruptMetadataError, FileNotFound


def opened_manifests(history):
    return [name for name in history.opened if name.startswith("manifest-")]


def bounds(lowest, highest):
    lower, upper = ({1: struct.pack("<q", id_)} for id_ in (lowest, highest))
    return {"lower_bounds": lower, "upper_bounds": upper, "value_counts": {1: 10}, "null_value_counts": {1: 0}}


def test_file_with_new_deletes_is_on_both_sides_with_the_deletes_of_each(history):
    a = history.data("a")
    old = history.vector("old", a, [1])
    history.commit("append", [a, history.data("b")])
    history.commit("delete", [old])
    history.commit("delete", [history.vector("new", a, [1, 2])], remove=[old])
    assert history.changed(1, 2) == (["a[old]"], ["a"])
    assert history.changed(2, 3) == (["a[new]"], ["a[old]"])
    assert history.changed(1, 3) == (["a[new]"], ["a"])


def test_changed_file_keeps_its_unchanged_deletes(history):
    a = history.data("a")
    history.commit("append", [a, history.position_deletes("0", (a, [0]))])
    history.commit("delete", [history.position_deletes("1", (a, [1]))])
    history.commit("delete", [history.position_deletes("2", (a, [2]))], rewrite=True)
    history.commit("delete", [history.vector("v", a, [0, 1, 2, 3])])
    assert history.changed(1, 2) == (["a[0 1]"], ["a[0]"])
    assert history.changed(2, 3) == (["a[0 1 2]"], ["a[0 1]"])
    assert history.changed(3, 4) == (["a[v]"], ["a[0 1 2]"])


def test_deletes_of_the_same_commit_as_their_file_apply_and_may_be_removed(history):
    a = history.data("a")
    delete = history.position_deletes("d", (a, [0]))
    history.commit("append", [history.data("b")])
    history.commit("append", [a, delete])
    history.commit("overwrite", remove=[delete])
    assert history.changed(1, 2) == (["a[d]"], [])
    assert history.changed(2, 3) == (["a"], ["a[d]"])


def test_removed_file_has_the_deletes_of_its_time(history):
    a = history.data("a")
    delete = history.vector("d", a, [1])
    history.commit("append", [a, history.data("b")])
    history.commit("delete", [delete])
    history.commit("overwrite", [history.data("c")], remove=[a, delete])
    history.commit("append", [history.data("e")])
    assert history.changed(2, 3) == (["c"], ["a[d]"])
    assert history.changed(2, 4) == (["c", "e"], ["a[d]"])


def test_partition_deletes_concern_only_the_files_they_name(history):
    files = [history.data(name) for name in "0123"]
    history.commit("append", files)
    history.commit("delete", [history.position_deletes("d", (files[0], [1]), (files[2], [3, 4]))])
    assert history.changed(1, 2) == (["0[d]", "2[d]"], ["0", "2"])
    assert history.opened.count("d") == 1
    assert [len(task.delete_files) for task in history.table.plan()] == [1, 1, 1, 1]


def test_deletion_vectors_in_one_puffin_file_are_distinguished(history):
    files = [history.data(name) for name in "ab"]
    of_a, of_b = (history.vector("v", file, [1]) | {"content_offset": i} for i, file in enumerate(files))
    history.commit("append", files)
    history.commit("delete", [of_a, of_b])
    history.commit("overwrite", remove=[of_b])
    assert history.changed(2, 3) == (["b"], ["b[v]"])


# --- equality deletes ---------------------------------------------------------------------------------------------


def test_equality_deletes_concern_every_older_file_of_their_partition(history):
    a, b = history.data("a", p=0), history.data("b", p=1)
    history.commit("append", [a, b])
    history.commit("overwrite", [history.data("c", p=0), history.equality_deletes("e", a, [3])])
    assert history.changed(1, 2) == (["a[e]", "c"], ["a"])


def test_global_equality_deletes_concern_every_older_file(history):
    history.commit("append", [history.data("a", p=0), history.data("b", p=1), history.data("c", spec_id=1)])
    history.commit("delete", [history.equality_deletes("e", history.data("c", spec_id=1), [3])])
    assert history.changed(1, 2) == (["a[e]", "b[e]", "c[e]"], ["a", "b", "c"])


def test_file_with_old_equality_deletes_keeps_them_on_both_sides(history):
    a = history.data("a")
    history.commit("append", [a, history.data("b")])
    history.commit("delete", [history.equality_deletes("e", a, [3])])
    history.commit("delete", [history.vector("v", a, [1])])
    assert history.changed(2, 3) == (["a[e v]"], ["a[e]"])


def test_equality_deletes_outside_a_files_bounds_do_not_concern_it(history):
    a = history.data("a", **bounds(0, 9))
    history.commit("append", [a])
    history.commit("delete", [history.equality_deletes("e", a, [100]) | bounds(100, 100)])
    history.commit("delete", [history.vector("v", a, [1])])
    assert history.changed(1, 2) == ([], [])
    assert history.changed(2, 3) == (["a[v]"], ["a"])


def test_append_to_a_table_with_equality_deletes_opens_only_its_manifest(history):
    a = history.data("a")
    history.commit("append", [a])
    history.commit("delete", [history.equality_deletes("e", a, [3])])
    history.commit("append", [history.data("b")])
    assert history.changed(2, 3) == (["b"], [])
    assert opened_manifests(history) == ["manifest-2-0-False.avro"]


# --- what is opened -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vector", "bounds", "reference"])
def test_only_older_manifests_of_the_deletes_spec_are_opened(history, kind):
    files = [history.data(f"{i}") for i in range(9)]
    history.commit("append", [history.data("other", spec_id=1)])
    for file in files:
        history.commit("append", [file])
    delete = history.vector("d", files[3], [0]) if kind == "vector" else history.position_deletes("d", (files[3], [0]))
    if kind == "reference":
        delete |= {"referenced_data_file": delete["lower_bounds"][2147483546].decode(), "lower_bounds": None}
    history.commit("delete", [delete])
    history.commit("append", [history.data("younger")])
    history.commit("overwrite", [history.data("last")], remove=[delete])
    assert history.changed(10, 11) == (["3[d]"], ["3"])
    expected = ["manifest-10-0-True.avro", *(f"manifest-{i}-0-False.avro" for i in range(1, 10))]
    assert history.opened == ["snap-10.avro", "snap-11.avro", *expected]
    history.opened.clear()
    assert history.changed(12, 13) == (["3", "last"], ["3[d]"])
    assert opened_manifests(history)[2:] == ["manifest-13-0-False.avro", *expected[1:]]


def test_manifests_of_other_specs_are_not_opened(history):
    a = history.data("a", spec_id=1)
    history.commit("append", [history.data("b")])
    history.commit("append", [a])
    history.commit("delete", [history.vector("d", a, [0])])
    assert history.changed(2, 3) == (["a[d]"], ["a"])
    assert opened_manifests(history) == ["manifest-2-1-True.avro", "manifest-1-1-False.avro"]


def test_deletes_whose_file_has_another_spec_are_refused(history):
    a = history.data("a")
    history.commit("append", [a])
    history.commit("delete", [history.vector("d", a, [0]) | {"spec_id": 1, "partition": ()}])
    with pytest.raises(CorruptMetadataError, match=r"/d: expected deletes of the partition of their data file"):
        history.changes(1, 2)


def test_deletes_of_a_removed_file_are_not_searched_in_younger_manifests(history):
    """Writers that drop deletes do this: no remaining file is as old as they are."""
    a = history.data("a")
    delete = history.position_deletes("d", (a, [1]))
    history.commit("append", [a])
    history.commit("delete", [delete])
    history.commit("delete", remove=[a])
    history.commit("append", [history.data("b")])
    history.commit("append", [history.data("c")], remove=[delete])
    assert history.changed(4, 5) == (["c"], [])
    assert opened_manifests(history) == [f"manifest-{name}.avro" for name in ("1-0-True", "4-0-True", "5-0-False")]


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "youngest first"])
def test_youngest_delete_about_a_file_bounds_its_age(history, order):
    a = history.data("a")
    old, new = (history.position_deletes(name, (a, [1])) for name in ("old", "new"))
    history.commit("append", [a])
    history.commit("delete", [old])
    history.commit("delete", remove=[a])
    history.commit("append", [a])
    history.commit("delete", [new])
    history.manifests = history.manifests[::order]
    history.commit("append")
    history.commit("overwrite", remove=[old, new])
    assert history.changed(6, 7) == (["a"], ["a[new]"])


def test_deletes_older_than_the_added_files_are_not_opened(history):
    a = history.data("a")
    history.commit("append", [a, history.vector("d", a, [1])])
    history.commit("append", [history.data("b")])
    assert history.changed(1, 2) == (["b"], [])
    assert opened_manifests(history) == ["manifest-2-0-False.avro"]


def test_rewritten_delete_manifests_without_new_deletes_open_no_data_manifest(history):
    a, b = history.data("a"), history.data("b")
    history.commit("append", [a, b])
    history.commit("delete", [history.vector("d", a, [1])])
    history.commit("delete", [history.position_deletes("e", (b, [1]))])
    history.rewrite_delete_manifests()
    history.commit("append")
    assert history.changed(3, 4) == ([], [])
    assert [name[-10:] for name in opened_manifests(history)] == ["-True.avro"] * 4


# --- files that are listed twice ----------------------------------------------------------------------------------

KINDS = ["vector", "one file", "partition"]


@pytest.fixture(params=KINDS)
def deletes(history, request):
    """Makes deletes of a kind about these rows of a data file."""

    def make(name, data, positions):
        if request.param == "vector":
            return history.vector(name, data, positions)
        return history.position_deletes(name, (data, positions), of_partition=request.param == "partition")

    return make


def test_deletes_apply_to_every_listing_of_their_file(history, deletes):
    a = history.data("a")
    history.commit("append", [a, history.listed_again(a)])
    history.commit("append", [history.listed_again(a), history.data("b")])
    history.commit("delete", [deletes("d", a, [1])])
    assert history.changed(2, 3) == (["a[d]"] * 3, ["a"] * 3)


def test_deletes_apply_to_an_old_listing_beside_one_added_with_them(history, deletes):
    a = history.data("a")
    history.commit("append", [a])
    history.commit("overwrite", [history.listed_again(a), deletes("d", a, [1])])
    assert history.changed(1, 2) == (["a[d]"] * 2, ["a"])


def test_deletes_apply_to_an_old_listing_beside_a_rewritten_one(history, deletes):
    a, b = history.data("a"), history.data("b")
    history.commit("append", [a])
    history.commit("append", [history.listed_again(a), b])
    history.commit("overwrite", [deletes("d", a, [1])], remove=[b])
    assert history.changed(2, 3) == (["a[d]"] * 2, ["a", "a", "b"])


def test_deletes_apply_to_the_remaining_listing(history, deletes):
    a = history.data("a")
    again = history.listed_again(a)
    history.commit("append", [a])
    history.commit("append", [again])
    history.commit("overwrite", [deletes("d", a, [1])], remove=[again])
    assert history.changed(2, 3) == (["a[d]"], ["a", "a"])
    history.commit("overwrite", remove=[a])
    assert history.changed(3, 4) == ([], ["a[d]"])


def test_deletes_do_not_apply_to_a_younger_listing(history, deletes):
    a = history.data("a")
    delete = deletes("d", a, [1])
    history.commit("append", [a])
    history.commit("delete", [delete])
    history.commit("append", [history.listed_again(a)])
    history.commit("overwrite", remove=[delete])
    assert history.changed(2, 3) == (["a"], [])
    assert history.changed(3, 4) == (["a"], ["a[d]"])


@pytest.mark.parametrize("other", [{"spec_id": 1, "partition": ()}, {"partition": (7,)}], ids=["spec", "partition"])
def test_partition_deletes_do_not_apply_to_a_listing_in_another_partition(history, other):
    a = history.data("a")
    history.commit("append", [a])
    history.commit("append", [history.listed_again(a, **other)])
    history.commit("delete", [history.position_deletes("d", (a, [1]), of_partition=True)])
    assert history.changed(2, 3) == (["a[d]"], ["a"])


def test_file_listed_in_another_partition_instead_has_changed(history):
    """A missing column has the value of its partition."""
    a = history.data("a")
    moved = history.listed_again(a, partition=(7,))
    history.commit("append", [a])
    history.commit("overwrite", [moved], remove=[a])
    assert history.changed(1, 2) == (["a"], ["a"])
    assert history.changes(1, 2).narrowed == history.changes(1, 2)


# --- delete files of a partition ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [None, {"path": 2147483546, "position": 2147483545}], ids=["by name", "by id"])
def test_paths_in_a_delete_file_are_found_by_id_or_else_by_name(history, ids):
    a, b = history.data("a"), history.data("b")
    history.commit("append", [a, b])
    history.commit("delete", [history.position_deletes("d", (a, [1]), (b, [1]))])
    paths = pa.array([a["file_path"]] * 3).dictionary_encode()
    history.table.write("d", pa.table([paths, pa.array([4, 5, 6])], names=list(ids or ["file_path", "pos"])), ids)
    assert history.changed(1, 2) == (["a[d]"], ["a"])


@pytest.mark.parametrize("content", [b"", b"PAR1 not Parquet PAR1"], ids=["empty", "other"])
def test_missing_or_broken_delete_file_is_named(history, content):
    a, b = history.data("a"), history.data("b")
    history.commit("append", [a, b])
    history.commit("delete", [history.position_deletes("d", (a, [1]), (b, [1]))])
    (history.table.root / "d").write_bytes(content)
    with pytest.raises(CorruptDataFileError, match="/d: expected a readable delete file"):
        history.changes(1, 2)
    (history.table.root / "d").unlink()
    with pytest.raises(FileNotFound, match="/d"):
        history.changes(1, 2)
