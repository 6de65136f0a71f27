"""Refreshing a table whose metadata did not change returns the same state, for every kind of table."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from puffin.errors import PuffinError
from puffin.load import load_table
from puffin.tables.base import SnapshotSelector
from puffin.tables.commit import commit_statistics

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def delta(tmp_path):
    write_deltalake(tmp_path / "delta", ROWS)
    return tmp_path / "delta"


@pytest.fixture
def directory(tmp_path, table_document):
    path = tmp_path / "t" / "metadata" / "v1.metadata.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(table_document(tmp_path / "t")))
    return tmp_path / "t"


@pytest.fixture
def by_catalog(tmp_path):
    """A table of a SQL catalog: ours, and pyiceberg's."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = load_catalog("prod", **properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    return load_table("db.t", catalog="prod", catalog_properties=properties), table


def test_directory_state_is_reused_until_a_commit(directory, draft_of):
    table = load_table(str(directory))
    opened = table.open()
    assert opened.refreshed().state is opened.state
    commit_statistics(table, draft_of(table, {"a": [1]}))
    newer = opened.refreshed()
    assert newer.state.statistics
    assert newer.refreshed(SnapshotSelector(snapshot_id=10)).state is newer.state


def test_replaced_version_file_of_a_directory_is_noticed(directory):
    table = load_table(str(directory))
    opened = table.open()
    path = directory / "metadata" / "v1.metadata.json"
    path.write_text(path.read_text().replace("9c12d441", "aaaaaaaa") + " ")
    assert opened.refreshed().state.uuid != opened.state.uuid


def test_metadata_file_never_changes(directory):
    table = load_table(str(directory / "metadata" / "v1.metadata.json"))
    opened = table.open()
    assert opened.refreshed().state is opened.state


def test_sql_catalog_state_is_reused_until_a_commit(by_catalog):
    table, written = by_catalog
    opened = table.open()
    assert opened.refreshed().state is opened.state
    written.append(ROWS)
    assert len(opened.refreshed().state.snapshots) == 2


def test_delta_state_is_reused_until_a_commit(delta, draft_of):
    table = load_table(str(delta))
    opened = table.open()
    assert opened.refreshed().state is opened.state
    write_deltalake(delta, ROWS, mode="append")
    newer = opened.refreshed()
    assert (newer.state.current_snapshot_id, newer.refreshed()) == (1, newer)
    assert newer.refreshed().state is newer.state
    commit_statistics(table, draft_of(table, {"a": [1]}))
    assert 1 in newer.refreshed().state.statistics


def test_delta_statistics_without_a_note_in_the_log_are_noticed(delta, draft_of):
    """The entry files count, and the note is only a hint."""
    table = load_table(str(delta))
    opened = table.open()
    commit_statistics(table, draft_of(table, {"a": [1]}))
    (delta / "_delta_log" / f"{1:020d}.json").unlink()
    assert opened.refreshed().state.statistics


def test_delta_state_is_of_the_requested_version(delta):
    write_deltalake(delta, ROWS.append_column("b", ROWS["a"]), mode="append", schema_mode="merge")
    table = load_table(str(delta))
    opened = table.open()
    older = opened.refreshed(SnapshotSelector(snapshot_id=0))
    assert [column.name for column in older.state.columns] == ["a"]
    assert older.refreshed(SnapshotSelector(snapshot_id=0)) is older


def test_delta_table_reduced_to_a_checkpoint_is_refreshed(delta):
    DeltaTable(delta).create_checkpoint()
    (delta / "_delta_log" / f"{0:020d}.json").unlink()
    table = load_table(str(delta))
    opened = table.open()
    assert opened.refreshed().state.current_snapshot_id == opened.state.current_snapshot_id == 0


@pytest.mark.parametrize("kind", ["delta", "directory"])
def test_dropped_table_is_not_found(request, kind):
    path = request.getfixturevalue(kind)
    table = load_table(str(path))
    opened = table.open()
    shutil.rmtree(path)
    with pytest.raises(PuffinError):
        opened.refreshed()
