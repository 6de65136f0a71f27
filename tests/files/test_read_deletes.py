"""Rows that a delete file names are left out, by the sequence-number rule, in any row group."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptDataFileError, CorruptMetadataError, FileNotFound
from puffin.files.parquet import parquet_file
from puffin.sketches.theta_sketch import ThetaSketch
from tests.without_disk import rewrite

IDS = {"id": 1}


def longs(*values):
    return ThetaSketch.from_arrow(pa.array(values, pa.int64()), "long")


@pytest.fixture
def table(make_table):
    return make_table([(1, "id", "long")], version=3)


def ten_rows(table, name, first=0, **options):
    return table.write(name, pa.table({"id": list(range(first, first + 10))}), IDS, **options)


# --- position delete files ----------------------------------------------------------------------------------------


def test_position_deletes_of_one_file_affect_only_its_rows(table):
    a, b = ten_rows(table, "a.parquet"), ten_rows(table, "b.parquet", 10)
    deletes = table.position_deletes("d.parquet", [(a, 0), (a, 9), (a, 3)])
    table.snapshot(table.data(a), table.data(b), deletes)
    answer = table.read()
    assert answer.sketches["id"] == longs(1, 2, 4, 5, 6, 7, 8, *range(10, 20))
    assert answer.rows == 17
    assert [len(task.delete_files) for task in table.plan()] == [1, 0]


def test_position_deletes_of_a_partition_apply_to_each_named_file(table):
    a, b, c = (ten_rows(table, f"{i}.parquet", 10 * i) for i in range(3))
    deletes = table.position_deletes("d.parquet", [(a, 1), (b, 2), (b, 3)], of_one_file=False)
    table.snapshot(*map(table.data, (a, b, c)), deletes)
    answer = table.read()
    assert answer.sketches["id"] == longs(*(set(range(30)) - {1, 12, 13}))
    assert [len(task.delete_files) for task in table.plan()] == [1, 1, 1]


def test_position_deletes_apply_only_within_their_partition_and_spec(make_table):
    table = make_table([(1, "id", "long"), (2, "p", "double")], spec=[(2, "identity")])
    a = ten_rows(table, "a.parquet")
    everywhere = [(a, 0)]
    same = table.position_deletes("1.parquet", everywhere, of_one_file=False, partition=(math.nan,))
    other = table.position_deletes("2.parquet", everywhere, of_one_file=False, partition=(1.0,))
    null = table.position_deletes("3.parquet", everywhere, of_one_file=False, partition=(None,))
    table.snapshot(table.data(a, partition=(math.nan,)), same, other, null)
    (task,) = table.plan()
    assert [delete.file_path for delete in task.delete_files] == [same["file_path"]]
    assert table.read("id").rows == 9


def test_several_delete_files_add_up(table):
    a = ten_rows(table, "a.parquet")
    first = table.position_deletes("1.parquet", [(a, 1), (a, 2)])
    second = table.position_deletes("2.parquet", [(a, 2), (a, 3)], of_one_file=False, sequence_number=5)
    table.snapshot(table.data(a), first, second)
    assert table.read().sketches["id"] == longs(0, *range(4, 10))


def test_deletes_of_the_same_sequence_number_apply_and_older_ones_do_not(table):
    for of_one_file in (True, False):
        a = ten_rows(table, "a.parquet")
        same = table.position_deletes("same.parquet", [(a, 1)], of_one_file=of_one_file, sequence_number=4)
        older = table.position_deletes("older.parquet", [(a, 2)], of_one_file=of_one_file, sequence_number=3)
        table.snapshot(table.data(a, sequence_number=4), same, older)
        assert table.read().sketches["id"] == longs(0, *range(2, 10))


def test_inherited_sequence_number_is_the_manifests(table):
    a = ten_rows(table, "a.parquet")
    table.snapshot()
    table.snapshot()  # the next snapshot and its manifests have sequence number 3
    older = table.position_deletes("older.parquet", [(a, 2)], sequence_number=2)
    inherited = table.position_deletes("inherited.parquet", [(a, 3)], sequence_number=None)
    table.snapshot(table.data(a, sequence_number=None), older, inherited)
    assert table.read().sketches["id"] == longs(0, 1, 2, *range(4, 10))


def test_referenced_data_file_scopes_position_deletes_without_bounds(table):
    a, b = ten_rows(table, "a.parquet"), ten_rows(table, "b.parquet", 10)
    deletes = table.position_deletes("d.parquet", [(a, 0)], of_one_file=False, referenced_data_file=str(a))
    table.snapshot(table.data(a), table.data(b), deletes)
    assert [len(task.delete_files) for task in table.plan()] == [1, 0]
    assert table.read().rows == 19


@pytest.mark.parametrize("ids", [None, {"path": 2147483546, "position": 2147483545}], ids=["by name", "by id"])
def test_delete_file_columns_are_found_by_id_or_else_by_name(table, ids):
    a = ten_rows(table, "a.parquet")
    entry = table.position_deletes("d.parquet", [(a, 0)])
    names = ids or ["file_path", "pos"]
    rows = pa.table([pa.array([str(a)]).dictionary_encode(), pa.array([4])], names=list(names))
    table.write("d.parquet", rows, ids)
    table.snapshot(table.data(a), entry)
    assert table.read().sketches["id"] == longs(0, 1, 2, 3, *range(5, 10))


def test_deleting_all_rows_leaves_empty_sketches(table):
    a = ten_rows(table, "a.parquet", row_group_size=3)
    table.snapshot(table.data(a), table.position_deletes("d.parquet", [(a, i) for i in range(10)]))
    answer = table.read()
    assert answer.sketches["id"] == longs()
    assert answer.rows == 0


def test_deletes_apply_when_only_constants_are_read(make_table):
    table = make_table([(1, "id", "long"), (2, "d", "long", 7)])
    a = ten_rows(table, "a.parquet", row_group_size=4)
    table.snapshot(table.data(a), table.position_deletes("d.parquet", [(a, 1), (a, 5)]))
    answer = table.read("d")
    assert (answer.sketches["d"], answer.rows) == (longs(7), 8)
    table.snapshot(table.data(a), table.position_deletes("d.parquet", [(a, i) for i in range(10)]))
    assert table.read("d").sketches["d"] == longs()


# --- deletion vectors ---------------------------------------------------------------------------------------------


def test_deletion_vector_supersedes_position_deletes(table):
    a = ten_rows(table, "a.parquet")
    table.snapshot(
        table.data(a),
        table.position_deletes("1.parquet", [(a, 1), (a, 2)]),
        table.position_deletes("2.parquet", [(a, 3)], of_one_file=False, sequence_number=9),
        table.vector("v.puffin", a, [1, 8]),
    )
    answer = table.read()
    assert answer.sketches["id"] == longs(0, 2, 3, 4, 5, 6, 7, 9)
    assert answer.rows == 8


def test_deletion_vector_older_than_its_data_file_does_not_apply(table):
    a = ten_rows(table, "a.parquet")
    vector = table.vector("v.puffin", a, [1, 8], sequence_number=3)
    table.snapshot(table.data(a, sequence_number=4), vector)
    assert table.read().rows == 10
    table.snapshot(table.data(a, sequence_number=3), vector)
    assert table.read().rows == 8


def test_two_deletion_vectors_of_one_data_file_are_refused(table):
    a = ten_rows(table, "a.parquet")
    table.snapshot(table.data(a), table.vector("v.puffin", a, [1]), table.vector("w.puffin", a, [2]))
    with pytest.raises(CorruptMetadataError, match=r"a\.parquet: expected one deletion vector.*w\.puffin"):
        table.read()


def test_deletion_vector_of_another_cardinality_is_corrupt(table):
    a = ten_rows(table, "a.parquet")
    table.snapshot(table.data(a), table.vector("v.puffin", a, [1, 8], record_count=3))
    with pytest.raises(CorruptDataFileError, match=r"v\.puffin.*cardinality.*expected 3, found 2"):
        table.read()


@pytest.mark.parametrize("field", ["referenced_data_file", "content_offset", "content_size_in_bytes"])
def test_deletion_vector_without_its_location_is_corrupt_metadata(table, field):
    a = ten_rows(table, "a.parquet")
    table.snapshot(table.data(a), table.vector("v.puffin", a, [1], **{field: None}))
    with pytest.raises(CorruptMetadataError, match=r"v\.puffin: a deletion vector without"):
        table.plan()


# --- row positions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offsets", [True, False], ids=["split offsets", "bytes"])
@pytest.mark.parametrize("target", [1, 300, 1000, 2000])
def test_positions_count_from_the_start_of_the_file_in_every_piece(table, offsets, target):
    values = list(range(30))
    a = table.write("a.parquet", pa.table({"id": values}), IDS, row_group_size=7)
    metadata = pq.read_metadata(a)
    begins = [metadata.row_group(i).column(0).dictionary_page_offset for i in range(metadata.num_row_groups)]
    deleted = {0, 6, 7, 13, 20, 28, 29}
    table.snapshot(
        table.data(a, split_offsets=begins if offsets else None),
        table.position_deletes("d.parquet", [(a, i) for i in deleted]),
    )
    answer = table.read(target_bytes=target)
    assert answer.sketches["id"] == longs(*(set(values) - deleted))
    assert answer.rows == 23
    if target == 1:
        assert answer.pieces == (metadata.num_row_groups if offsets else a.stat().st_size)


def test_wrong_split_offsets_and_sizes_lose_no_row(table):
    a = table.write("a.parquet", pa.table({"id": list(range(100))}), IDS, row_group_size=7)
    for wrong in ({"split_offsets": [0, 5, 10**9, 77]}, {"file_size_in_bytes": 500}, {"file_size_in_bytes": 10**4}):
        table.snapshot(table.data(a, **wrong))
        for target in (100, 10**9):
            assert table.read(target_bytes=target).rows == 100


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    row_group_size=st.integers(1, 40),
    deleted=st.sets(st.integers(0, 99), min_size=1),
    is_vector=st.booleans(),
    target=st.integers(150, 3000),
    batch_rows=st.integers(1, 50),
)
def test_every_live_row_is_read_once_in_any_pieces_and_batches(
    make_table, monkeypatch, row_group_size, deleted, is_vector, target, batch_rows
):
    monkeypatch.setattr(parquet_file, "MAX_BATCH_ROWS", batch_rows)
    table = make_table([(1, "id", "long")], version=3)
    a = table.write("a.parquet", pa.table({"id": list(range(100))}), IDS, row_group_size=row_group_size)
    delete = table.vector("v", a, deleted) if is_vector else table.position_deletes("d", [(a, i) for i in deleted])
    table.snapshot(table.data(a), delete)
    answer = table.read(target_bytes=target)
    assert answer.sketches["id"] == longs(*(set(range(100)) - deleted))
    assert answer.rows == 100 - len(deleted)
    group_bytes = pq.read_metadata(a)
    assert answer.bytes_read == sum(
        group_bytes.row_group(i).column(0).total_compressed_size for i in range(group_bytes.num_row_groups)
    )


# --- broken files -------------------------------------------------------------------------------------------------


def test_missing_delete_file_is_named(table):
    a = ten_rows(table, "a.parquet")
    table.snapshot(table.data(a), table.position_deletes("d.parquet", [(a, 1)]))
    (table.root / "d.parquet").unlink()
    with pytest.raises(FileNotFound, match=r"d\.parquet"):
        table.read()


def test_content_that_is_no_base64_is_corrupt(table):
    a = ten_rows(table, "a.parquet")
    entry = table.position_deletes("d.parquet", [(a, 1)])
    table.snapshot(table.data(a), entry | {"file_path": "data:application/octet-stream;base64,A"})
    with pytest.raises(CorruptDataFileError, match=r"a\.parquet: expected a readable deletion vector"):
        table.read()


@pytest.mark.parametrize("kind", ["position", "vector"])
def test_truncated_delete_file_is_corrupt_and_named(table, kind):
    a = ten_rows(table, "a.parquet")
    entry = table.vector("d", a, [1, 2]) if kind == "vector" else table.position_deletes("d", [(a, 1), (a, 2)])
    table.snapshot(table.data(a), entry)
    whole = (table.root / "d").read_bytes()
    end = entry["content_offset"] + entry["content_size_in_bytes"] if kind == "vector" else len(whole)
    for length in range(0, end, 7):
        rewrite(table.root / "d", whole[:length])
        with pytest.raises(CorruptDataFileError, match=r"/d: expected a readable delete file") as caught:
            table.read()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "rows",
    [
        {"file_path": ["a"]},
        {"pos": [1]},
        {"file_path": [1], "pos": [1]},
        {"file_path": ["{a}"], "pos": [-1]},
        {"file_path": ["{a}"], "pos": ["1"]},
        {"file_path": ["{a}"], "pos": pa.array([None], pa.int64())},
        {"file_path": [["{a}"]], "pos": [1]},
    ],
)
def test_delete_file_with_other_columns_is_corrupt(table, rows):
    a = ten_rows(table, "a.parquet")
    entry = table.position_deletes("d.parquet", [(a, 1)])
    paths = [str(a) if v == "{a}" else v for v in rows.get("file_path", [])]
    table.write("d.parquet", pa.table(rows | ({"file_path": paths} if paths else {})))
    table.snapshot(table.data(a), entry)
    with pytest.raises(CorruptDataFileError, match=r"d\.parquet: expected a readable delete file"):
        table.read()
