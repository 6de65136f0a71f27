"""From the files of a Delta log to scan tasks, and the rows added and removed between two versions."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.delta.scan.plan import file_uri
from puffin.errors import CorruptMetadataError, SnapshotNotFound
from puffin.load import load_table
from puffin.lookup import ndv
from puffin.tables.base import SnapshotSelector
from stats_jobs import Options, analyze

CHECKPOINT = "{:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"


@pytest.fixture
def table(delta_table):
    table = delta_table()
    table.commit()
    return table


@pytest.fixture
def row(table):
    """Writes a data file of one row, or of as many values as given, and returns the ``add`` action."""
    return lambda *values, **others: table.add({"a": values, "b": values}, **others)


def plan(table, version=None):
    """The files of a version: their paths, and the ends of the paths of their deletion vectors."""
    return load_table(str(table.path)).open(SnapshotSelector(snapshot_id=version)).tasks


def changes(table, base):
    """The files to read for rows added and removed since a version: paths and deletion vectors."""
    loaded = load_table(str(table.path))
    older = loaded.open(SnapshotSelector(snapshot_id=base))
    found = loaded.open().changes_since(older.snapshot)
    return files(found.added), files(found.removed)


def files(tasks):
    return sorted(
        (task.data_file.file_path.rpartition("/")[2], *(file.file_path[-5] for file in task.delete_files))
        for task in tasks
    )


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_task_is_a_whole_file_with_its_deletion_vector(table, row):
    one = row(1, 2, 3)
    table.commit(one, row(4))
    table.commit(*table.delete_rows(one, [0, 2]))
    first, second = sorted(plan(table), key=lambda task: task.data_file.file_path)
    assert [t.data_file.file_path for t in (first, second)] == [str(table.path / f"part-{i}.parquet") for i in (1, 2)]
    assert (first.start, first.length) == (0, (table.path / "part-1.parquet").stat().st_size)
    assert (first.data_file.content, first.data_file.file_format) == ("DATA", "PARQUET")
    assert (first.data_file.record_count, second.data_file.record_count) == (3, 1)
    assert second.delete_files == ()
    (vector,) = first.delete_files
    assert (vector.content, vector.record_count, vector.content_offset) == ("POSITION_DELETES", 2, 1)


def test_plan_is_of_the_requested_version(table, row):
    one = row(1)
    table.commit(one)
    table.commit(table.remove(one), row(2))
    table.note()
    assert [files(plan(table, version)) for version in (0, 1, 2, 3, None)] == [
        [],
        [("part-1.parquet",)],
        *[[("part-2.parquet",)]] * 3,
    ]


def test_row_count_in_file_statistics_is_optional(table, row):
    table.commit(row(1, stats=None), row(2, stats="not JSON"))
    assert [task.data_file.record_count for task in plan(table)] == [0, 0]
    assert analyze(str(table.path), Options(commit=False)).columns[0].ndv == 2


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("long", "7", 7),
        ("string", "a b%/ü", "a b%/ü"),
        ("date", "2024-02-29", "2024-02-29"),
        ("decimal(5,2)", "1.50", "1.50"),
        ("boolean", "true", True),
        ("long", None, None),
        ("string", "", None),
    ],
)
def test_partition_values_come_from_the_log(delta_table, type_, text, value):
    """As text of the column's type; an empty one is null."""
    table = delta_table(types={"a": "long", "p": type_}, partitioned_by=["p"])
    table.commit(table.add({"a": [1]}, partitionValues={"p": text}))
    (task,) = plan(table)
    assert task.data_file.partition == {"1000": value}


def test_partition_columns_keep_their_order(delta_table):
    table = delta_table(types={"a": "long", "p": "long", "q": "string"}, partitioned_by=["q", "p"])
    table.commit(table.add({"a": [1]}, partitionValues={"p": "1", "q": "x"}))
    (task,) = plan(table)
    assert task.data_file.partition == {"1000": "x", "1001": 1}


def test_partition_value_of_another_type_names_the_file(delta_table):
    table = delta_table(partitioned_by=["b"])
    table.commit(table.add({"a": [1]}, partitionValues={"b": "one"}))
    with pytest.raises(CorruptMetadataError, match=r"part-1\.parquet"):
        plan(table)


def with_ids(values, ids):
    """An Arrow table whose Parquet file has field ids."""
    fields = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(ids[name])}) for name in values]
    return pa.table(list(values.values()), schema=pa.schema(fields))


@pytest.mark.parametrize("mode", ["none", "name"])
def test_partition_value_of_the_log_wins_over_the_file(delta_table, mode):
    """Delta's own writer puts the column there too; where they differ, or the log has none, the log is right."""
    table = delta_table(partitioned_by=["b"])
    names, metadata = ("a", "b"), table.metadata()
    if mode != "none":
        names = ("col-a", "col-b")
        fields = json.loads(metadata["metaData"]["schemaString"])["fields"]
        for field_id, (field, name) in enumerate(zip(fields, names, strict=True), 1):
            field["metadata"] = {"delta.columnMapping.id": field_id, "delta.columnMapping.physicalName": name}
        schema = json.dumps({"type": "struct", "fields": fields})
        metadata = table.metadata(schemaString=schema, configuration={"delta.columnMapping.mode": mode})
    added = [table.add({names[0]: [1, 2]}, partitionValues={names[1]: value}) for value in ("7", "8", None)]
    for number in range(3):
        content = with_ids({names[0]: [1, 2], names[1]: [number, 50 + number]}, {names[0]: 1, names[1]: 2})
        pq.write_table(content, table.path / f"part-{number + 1}.parquet")
        added[number]["add"]["size"] = (table.path / f"part-{number + 1}.parquet").stat().st_size
    table.commit(table.protocol(2, 5), metadata, *added)
    report = analyze(str(table.path), Options(commit=False))
    assert {c.column.name: c.ndv for c in report.columns} == {"a": 2, "b": 2}


# --- where files are --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("part-1.parquet", "/t/part-1.parquet"),
        ("p=a%20b/x.parquet", "/t/p=a b/x.parquet"),
        ("p=a%252Fb/x.parquet", "/t/p=a%2Fb/x.parquet"),
        ("p=%25C3%25BC/x", "/t/p=%C3%BC/x"),
        ("p=ü☃/x", "/t/p=ü☃/x"),
        ("p=%C3%BC/x", "/t/p=ü/x"),
        ("a+b&c=d?e#f", "/t/a+b&c=d?e#f"),
        ("s3%3A//x", "/t/s3://x"),
        ("/elsewhere/a%20b", "/elsewhere/a b"),
        ("file:/elsewhere/a%20b", "file:/elsewhere/a b"),
        ("file:///elsewhere/a%2520b", "file:///elsewhere/a%20b"),
        ("s3://bucket/a%20b", "s3://bucket/a b"),
    ],
)
def test_relative_and_absolute_paths_are_resolved(path, uri):
    """Paths are percent-encoded once."""
    assert file_uri(path, "/t") == uri


def test_relative_path_works_on_any_store():
    assert file_uri("a%20b/c", "s3://bucket/t") == "s3://bucket/t/a b/c"
    assert file_uri("a", "file:///t/") == "file:///t/a"


NAMES = ["p=a b%2Fc%25d/x.parquet", "ü ☃/x?y#z.parquet", "a+b&c.parquet", "100%.parquet", "%41.parquet"]


@pytest.mark.parametrize("name", NAMES)
def test_files_with_any_name_are_read(delta_table, name):
    """In a directory with such a name, too, and by URI."""
    table = delta_table("tä%20 ble")
    table.commit(table.add({"a": [1, 2], "b": [3, 3]}, name))
    for location in (str(table.path), f"file://{table.path}", f"file:{table.path}/"):
        assert [c.ndv for c in analyze(location, Options(commit=False)).columns] == [2, 1]


def test_files_outside_the_table_are_read(delta_table, tmp_path):
    """As in a shallow clone, whose files are another table's."""
    source, clone = delta_table("the source"), delta_table("clone")
    added = source.add({"a": [1, 2], "b": [3, 3]})
    for uri in (f"file:{source.path}", f"file://{source.path}", str(source.path)):
        encoded = uri.replace(" ", "%20")
        clone.commit({"add": {**added["add"], "path": f"{encoded}/{added['add']['path']}"}})
        assert [c.ndv for c in analyze(str(clone.path), Options(commit=False, mode="full")).columns] == [2, 1]


# --- changes ----------------------------------------------------------------------------------------------------------


def test_added_and_removed_files_are_found(table, row):
    one, two = row(1), row(2)
    base = table.commit(one)
    table.commit(two)
    table.commit(table.remove(one), row(3))
    assert changes(table, base) == ([("part-2.parquet",), ("part-3.parquet",)], [("part-1.parquet",)])


def test_notes_and_metadata_change_nothing(table, row):
    base = table.commit(row(1))
    table.note()
    table.commit(table.metadata())
    assert changes(table, base) == ([], [])


def test_moved_rows_are_not_read(table, row):
    """However much was rewritten; rows added before a compaction are read from their first file."""
    one, two = row(1), row(2)
    base = table.commit(one)
    table.commit(two)
    table.commit(table.remove(one, dataChange=False), table.remove(two, dataChange=False), row(1, 2, dataChange=False))
    assert changes(table, base) == ([("part-2.parquet",)], [])


def test_rows_moved_before_removal_are_read_from_their_last_file(table, row):
    one, compacted = row(1), row(1, dataChange=False)
    base = table.commit(one)
    table.commit(table.remove(one, dataChange=False), compacted)
    table.commit(table.remove(compacted))
    assert changes(table, base) == ([], [("part-2.parquet",)])


def test_rows_added_and_removed_in_between_are_not_read(table, row):
    """Nor are rows that were removed and restored."""
    one, two = row(1), row(2)
    base = table.commit(one)
    table.commit(two)
    table.commit(table.remove(two))
    table.commit(table.remove(one))
    table.commit(one)
    assert changes(table, base) == ([], [])


def test_file_added_twice_and_removed_once_counts_as_added(table, row):
    one = row(1)
    base = table.version
    table.commit(one)
    table.commit(table.remove(one))
    table.commit(one)
    assert changes(table, base) == ([("part-1.parquet",)], [])


def test_file_added_again_with_other_statistics_is_no_change(table, row):
    one = row(1)
    base = table.commit(one)
    table.commit({"add": {**one["add"], "dataChange": False, "stats": None}})
    assert changes(table, base) == ([], [])
    assert files(plan(table)) == [("part-1.parquet",)]


def test_file_with_deleted_rows_is_in_both_lists(table, row):
    """Each time with the deletes of that version; intermediate ones do not count."""
    one = row(*range(10))
    base = table.commit(one)
    first = table.delete_rows(one, [0])  # number 2
    table.commit(*first)
    table.commit(*table.delete_rows(first[1], [0, 1]))  # number 3
    assert changes(table, base) == ([("part-1.parquet", "3")], [("part-1.parquet",)])
    assert changes(table, base + 1) == ([("part-1.parquet", "3")], [("part-1.parquet", "2")])


def test_only_deleted_rows_are_read_and_counted(table, row):
    """The job reads two rows of a hundred."""
    one = row(*range(100))
    table.commit(one)
    analyze(str(table.path))
    first = table.delete_rows(one, [0])
    table.commit(*first)
    table.commit(*table.delete_rows(first[1], [0, 1]))
    report = analyze(str(table.path))
    assert [(c.basis, c.ndv) for c in report.columns] == [("changed-files", 98)] * 2
    assert report.rows_read == 2


def test_restored_rows_are_those_that_were_deleted(table, row):
    one = row(*range(100))
    table.commit(one)
    first = table.delete_rows(one, range(7))
    table.commit(*first)
    analyze(str(table.path))
    table.commit(table.remove(first[1]), one)
    report = analyze(str(table.path))
    assert [(c.basis, c.ndv) for c in report.columns] == [("changed-files", 100)] * 2
    assert report.rows_read == 7


def test_sparse_removal_is_completed_from_the_addition(delta_table):
    """Partition values and size are optional; the addition may precede or follow the base."""
    table = delta_table(partitioned_by=["b"])
    one = table.add({"a": [1]}, partitionValues={"b": "7"})
    two = table.add({"a": [2]}, partitionValues={"b": "8"})
    base = table.commit(one)
    moved = table.add({"a": [2]}, partitionValues={"b": "8"}, dataChange=False)
    table.commit(two)
    table.commit(table.remove(two, dataChange=False), moved)
    little = [{"remove": {"path": each["add"]["path"], "dataChange": True}} for each in (one, moved)]
    table.commit(*little)
    loaded = load_table(str(table.path))
    older = loaded.open(SnapshotSelector(snapshot_id=base))
    found = loaded.open().changes_since(older.snapshot)
    assert [task.data_file.partition for task in found.removed] == [{"1000": 7}, {"1000": 8}]
    assert [task.length for task in found.removed] == [each["add"]["size"] for each in (one, moved)]


@pytest.mark.parametrize("columns", [["b", "a"], ["a"]])
def test_sketches_of_other_partitions_answer_for_none_of_now(delta_table, columns):
    """Fields of partitions have numbers by their order, so values would be compared with those of another column."""
    table = delta_table(partitioned_by=["a", "b"])
    one = table.add({"a": [1]}, partitionValues={"a": "1", "b": "2"})
    table.commit(one)
    analyze(str(table.path), Options(partitions=True))
    assert [answer.ndv for answer in ndv(str(table.path), partitions=["a=1"]).columns] == [1, 1]
    two = table.add({"a": [1]}, partitionValues={"a": "1", "b": "2"})
    table.commit(table.metadata(partitionColumns=columns), table.remove(one), two)
    answers = ndv(str(table.path), partitions=["a=1"]).columns
    assert [(answer.ndv, "partition columns as in version 2" in answer.reason) for answer in answers] == [
        (None, True)
    ] * 2


def mapped(table, names, **others):
    """Metadata that maps columns, whose names now are given by those that they have in files."""
    fields = [
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": field_id, "delta.columnMapping.physicalName": physical},
        }
        for field_id, (physical, name) in enumerate(names.items(), 1)
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    return table.metadata(schemaString=schema, configuration={"delta.columnMapping.mode": "name"}, **others)


def test_sketches_of_a_partition_column_answer_under_its_new_name(delta_table):
    table = delta_table(partitioned_by=["b"])
    one = table.add({"a": [1]}, partitionValues={"b": "2"})
    table.commit(table.protocol(2, 5), mapped(table, {"a": "a", "b": "b"}), one)
    analyze(str(table.path), Options(partitions=True))
    table.commit(mapped(table, {"a": "a", "b": "c"}, partitionColumns=["c"]))
    assert [answer.ndv for answer in ndv(str(table.path), partitions=["c=2"]).columns] == [1, 1]


@pytest.mark.parametrize("analyzed_while_mapped", [True, False])
def test_statistics_are_right_after_the_table_stopped_to_map_columns(table, analyzed_while_mapped):
    """Spark moves all rows to files with the names that columns have now; another column may have had them before."""
    one = table.add({"a": [1, 2, 3], "b": [7, 7, 7]})
    table.commit(one)
    analyze(str(table.path))
    table.commit(table.protocol(2, 5), mapped(table, {"a": "b", "b": "a"}))
    if analyzed_while_mapped:
        assert [(c.column.name, c.ndv, c.basis) for c in analyze(str(table.path)).columns] == [
            ("b", 3, "carried"),
            ("a", 1, "carried"),
        ]
    moved = table.add({"b": [1, 2, 3], "a": [7, 7, 7]}, dataChange=False)
    table.commit(table.metadata({"b": "long", "a": "long"}), table.remove(one, dataChange=False), moved)
    table.commit(table.add({"b": [4], "a": [7]}))
    assert [c.ndv for c in ndv(str(table.path)).columns] == [None, None]
    report = analyze(str(table.path))
    assert [(c.column.name, c.ndv, c.basis) for c in report.columns] == [("b", 4, "full"), ("a", 1, "full")]
    table.commit(table.add({"b": [5], "a": [8]}))
    assert [(c.ndv, c.basis) for c in analyze(str(table.path)).columns] == [(5, "added-files"), (2, "added-files")]


def test_removal_of_an_unknown_file_cannot_be_read(table, row):
    base = table.commit(row(1))
    table.commit({"remove": {"path": "other.parquet", "dataChange": True}})
    with pytest.raises(SnapshotNotFound, match=rf"other\.parquet: expected in the log .* removed after version {base}"):
        changes(table, base)


@pytest.mark.parametrize("data_change", [True, False])
def test_removal_in_another_spelling_removes_nothing(table, data_change):
    """deltalake encodes what is not ASCII when it removes a file of Spark's; no engine takes that for the file."""
    one = table.add({"a": [1, 2, 3], "b": [7, 7, 7]}, "é.parquet")
    one["add"]["path"], encoded = "é.parquet", one["add"]["path"]
    table.commit(one)
    analyze(str(table.path))
    removal = table.remove(one, dataChange=data_change)
    removal["remove"]["path"] = encoded
    table.commit(removal, table.add({"a": [1, 2, 3], "b": [7, 7, 7]}, dataChange=data_change))
    assert len(plan(table)) == 2
    assert [(c.ndv, c.basis) for c in analyze(str(table.path)).columns] == [(3, "full"), (1, "full")]
    assert [c.summary.row_count for c in ndv(str(table.path)).columns] == [6, 6]
    table.commit(table.remove(one), table.add({"a": [4], "b": [7]}))
    assert [(c.ndv, c.basis) for c in analyze(str(table.path)).columns] == [(4, "changed-files"), (1, "changed-files")]


def test_changes_without_log_entries_are_unknown(table, row):
    """The job then reads all rows, and says why."""
    table.commit(row(1))
    analyze(str(table.path))  # its note is version 2
    table.commit(row(2))
    (table.log / CHECKPOINT.format(3)).write_text(
        "\n".join(
            line for v in (0, 1, 3) for line in table.entry(v).read_text().splitlines() if "commitInfo" not in line
        )
    )
    for version in range(3):
        table.entry(version).unlink()
    table.commit(row(3))
    report = analyze(str(table.path))
    assert [(c.basis, c.ndv) for c in report.columns] == [("full", 3)] * 2
    assert "no log entry of version 2" in report.columns[0].reason


@pytest.mark.parametrize("after", [[], ["a"], ["b"], ["b", "a"]])
@pytest.mark.parametrize("before", [[], ["a"], ["a", "b"]])
def test_statistics_are_right_after_partition_columns_changed(delta_table, before, after):
    """As an overwrite with ``overwriteSchema`` changes them, and RESTORE changes them back."""
    table = delta_table(types=dict.fromkeys("abc", "long"), partitioned_by=before)

    def row(value, partitioned_by):
        data = {name: [value] for name in "abc" if name not in partitioned_by}
        return table.add(data, partitionValues=dict.fromkeys(partitioned_by, str(value)))

    one = row(1, before)
    table.commit(one)
    analyze(str(table.path))
    metadata = next(
        action for line in table.entry(0).read_text().splitlines() if "metaData" in (action := json.loads(line))
    )
    metadata["metaData"]["partitionColumns"] = after
    table.commit(metadata, table.remove(one), row(4, after))
    report = analyze(str(table.path))
    basis = "changed-files" if before == after else "full"
    assert [(c.ndv, c.basis) for c in report.columns] == [(1, basis)] * 3


@pytest.mark.parametrize("after", ["string", "timestamp_ntz"])
def test_sketches_by_partition_are_right_after_a_partition_column_changed_its_type(delta_table, after):
    table = delta_table(types={"k": "long", "p": "date"}, partitioned_by=["p"])
    one = table.add({"k": [*range(9)]}, partitionValues={"p": "2024-01-01"})
    table.commit(one)
    analyze(str(table.path), Options(partitions=True))
    text = {"string": "2024-01-01", "timestamp_ntz": "2024-01-01 00:00:00"}[after]
    two = table.add({"k": [1, 2]}, partitionValues={"p": text})
    table.commit(table.metadata(types={"k": "long", "p": after}), table.remove(one), two)
    assert analyze(str(table.path), Options(partitions=True)).partitions.count == 1
    answer = ndv(str(table.path), ["k"], where="p is not null")
    assert (answer.columns[0].ndv, answer.columns[0].distinct.exact) == (2, True)


def test_later_version_is_no_ancestor(table, row):
    table.commit(row(1))
    loaded = load_table(str(table.path))
    older, newer = loaded.open(SnapshotSelector(snapshot_id=0)), loaded.open()
    with pytest.raises(SnapshotNotFound, match="expected a version before 0, found 1"):
        older.changes_since(newer.snapshot)


def test_vacuumed_file_is_read_from_its_compaction(table, row):
    """A file added since the statistics and compacted since may be gone: the job reads all live rows."""
    table.commit(row(1))
    analyze(str(table.path))
    two = row(2)
    table.commit(two)
    table.commit(table.remove(two, dataChange=False), row(2, dataChange=False))
    (table.path / "part-2.parquet").unlink()
    report = analyze(str(table.path))
    assert [c.ndv for c in report.columns] == [2, 2]
    assert {c.basis for c in report.columns} == {"full"}


def test_moved_table_finds_its_files(table, row, tmp_path):
    table.commit(row(1, 2))
    shutil.move(table.path, tmp_path / "elsewhere")
    assert [c.ndv for c in analyze(str(tmp_path / "elsewhere"), Options(commit=False)).columns] == [2, 2]
