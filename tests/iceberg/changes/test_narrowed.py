"""Only the deleted rows of a file are read, and nothing for the side that gained no rows."""

import dataclasses

import pyarrow as pa
import pytest

from puffin.files import formats
from puffin.files.formats import DataFiles
from puffin.files.rows import Wants
from puffin.files.task_reader import TaskReader
from puffin.storage import store_for
from puffin.tables.changes import Changes
from puffin.tables.scan_task import ScanBatch, ScanContext
from tests.sent import sent


@pytest.fixture
def deleted_from(make_table):
    """A file of the numbers to 1000 in ten row groups, with positions deleted first, and more of them later."""

    def make(*positions):
        table = make_table([(1, "n", "long")])
        path = table.write("1.parquet", pa.table({"n": list(range(1000))}), {"n": 1}, row_group_size=100)
        deletes = []
        for number, at in enumerate(positions):
            deletes.append(table.position_deletes(f"d{number}.parquet", [(path, i) for i in at]))
            table.snapshot(table.data(path), *deletes)
        before, after = (table.plan(snapshot["snapshot-id"]) for snapshot in table.document["snapshots"][-2:])
        return table, Changes(added=after, removed=before)

    return make


def read(table, tasks):
    """The values of the rows of these tasks, passed through JSON, and the number of batches."""
    state = table.state()
    batch = ScanBatch(
        columns=state.columns,
        tasks=tasks,
        context=ScanContext(state.partition_specs, state.name_mapping, {}),
    )
    batch = sent(batch)
    assert batch.tasks == tasks
    files = DataFiles(store_for)
    found = [live for each_row in (True, False) for task in batch.tasks
             for live in TaskReader(batch, files, Wants(each_row=each_row)).read(task) if live.columns]  # fmt: skip
    values = [value for live in found for value in live.columns[1].array.to_pylist()]
    assert sum(live.count for live in found) == len(values)
    assert values[: len(values) // 2] == values[len(values) // 2 :]
    return values[: len(values) // 2], len(found) // 2


def test_only_deleted_rows_and_their_row_groups_are_read(deleted_from):
    table, changes = deleted_from([5, 250], [5, 7, 250, 251])
    fewer = changes.narrowed
    assert read(table, fewer.removed) == ([7, 251], 2)
    assert read(table, changes.removed)[1] == 10


def test_file_is_not_opened_for_the_side_without_new_rows(deleted_from, monkeypatch):
    table, changes = deleted_from([5], [7])
    opened = []
    open_data_file = formats.open_data_file
    monkeypatch.setattr(formats, "open_data_file", lambda *file: opened.append(file) or open_data_file(*file))
    assert read(table, changes.narrowed.added) == ([], 0)
    assert {file.content for file, _ in opened} == {"POSITION_DELETES"}


def test_restored_rows_are_read_on_the_other_side(deleted_from):
    table, changes = deleted_from([5], [7])
    fewer = Changes(added=changes.removed, removed=changes.added).narrowed
    assert (read(table, fewer.added)[0], read(table, fewer.removed)[0]) == ([7], [])


def test_added_and_removed_files_are_read_whole(deleted_from):
    _, changes = deleted_from([5], [7])
    for one_sided in (Changes(changes.added, ()), Changes((), changes.removed)):
        assert one_sided.narrowed == one_sided


def test_files_listed_twice_or_with_equality_deletes_are_not_narrowed(deleted_from):
    _, changes = deleted_from([5], [7])
    twice = Changes(changes.added * 2, changes.removed)
    assert twice.narrowed == twice
    (task,) = changes.added
    file = dataclasses.replace(task.delete_files[0], content="EQUALITY_DELETES")
    by_value = Changes((dataclasses.replace(task, delete_files=(file,)),), changes.removed)
    assert by_value.narrowed == by_value
