"""Commits to a Hive metastore: its lock, its own comparison, and what happens to files when it does not answer."""

from __future__ import annotations

import socket

import pyarrow as pa
import pytest
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    GetTableRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    MetaException,
    ShowLocksRequest,
    UnlockRequest,
)
from thrift.transport.TTransport import TTransportException

from puffin.errors import CommitUnknownError, ConflictError, StorageError, TableNotFound
from puffin.iceberg import sdk
from puffin.iceberg.catalogs import hive as hive_module
from puffin.load import Tables, load_table
from puffin.tables.commit import commit_statistics

ALTER = "alter_table_with_environment_context"
ROWS = pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array([1, 1], pa.int64())})


@pytest.fixture(scope="module")
def catalog(hive):
    catalog = hive.open()
    catalog.create_namespace("commits")
    return catalog


@pytest.fixture
def new_table(hive, catalog, tmp_path):
    """Makes a table with rows in files of its own."""

    def make(**properties):
        name = f"commits.{tmp_path.name}"
        properties = {"commit.status-check.num-retries": "0", **properties}
        made = catalog.create_table(name, ROWS.schema, location=tmp_path.as_uri(), properties=properties)
        made.append(ROWS)
        return load_table(name, catalog="hive", catalog_properties=hive.properties)

    return make


@pytest.fixture
def metastore(catalog):
    with catalog._create_hive_client(catalog.properties) as metastore:
        yield metastore


@pytest.fixture
def files(tmp_path):
    return lambda: {path.name for kind in ("*.metadata.json", "*.stats") for path in tmp_path.rglob(kind)}


def in_hive(metastore, table):
    return metastore.get_table_req(GetTableRequest(dbName="commits", tblName=table.name.partition(".")[2])).table


def test_commit_changes_only_the_location_of_the_hive_table(new_table, metastore, draft_of):
    table = new_table()
    before = in_hive(metastore, table)
    commit_statistics(table, draft_of(table, {"a": [1, 2]}))
    after = in_hive(metastore, table)
    assert after.parameters.pop("previous_metadata_location") == before.parameters["metadata_location"]
    assert after.parameters.pop("metadata_location") == table.open().state.metadata_location
    for parameter in ("previous_metadata_location", "metadata_location"):
        del before.parameters[parameter]
    assert after == before


def test_commit_releases_its_lock(new_table, metastore, draft_of):
    table = new_table()
    commit_statistics(table, draft_of(table, {"a": [1]}))
    assert metastore.show_locks(ShowLocksRequest(dbname="commits")).locks == []


def test_commit_of_a_user_without_a_name_takes_the_lock(new_table, draft_of, monkeypatch):
    """As in a container that runs as any number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    table, lock, asked = new_table(), Client.lock, []
    draft = draft_of(table, {"a": [1]})
    monkeypatch.setattr("os.getuid", lambda: 54321)
    monkeypatch.setattr(Client, "lock", lambda client, request: asked.append(request) or lock(client, request))
    assert commit_statistics(table, draft).attempts == 1
    assert [request.user for request in asked] == ["54321"]


def test_commit_waits_for_a_held_lock(new_table, metastore, draft_of, monkeypatch):
    """pyiceberg, Iceberg and Hive itself take the same lock."""
    table = new_table()
    lock = metastore.lock(exclusive(table))
    check_lock, looks = Client.check_lock, []

    def look(client, request):
        looks.append(request)
        if len(looks) == 2:
            metastore.unlock(UnlockRequest(lockid=lock.lockid))
        return check_lock(client, request)

    monkeypatch.setattr(Client, "check_lock", look)
    assert commit_statistics(table, draft_of(table, {"a": [1]})).attempts == 1
    assert len(looks) >= 2


def test_lock_that_is_never_released_is_a_conflict_and_leaves_no_files(
    new_table, metastore, draft_of, monkeypatch, files
):
    table = new_table()
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    before = files()
    monkeypatch.setattr(hive_module, "_LOCK_SECONDS", 0.1)
    lock = metastore.lock(exclusive(table))
    with pytest.raises(ConflictError, match="lock"):
        base.commit(entry)
    assert files() == before
    metastore.unlock(UnlockRequest(lockid=lock.lockid))
    assert metastore.show_locks(ShowLocksRequest(dbname="commits")).locks == []


def test_table_whose_writers_take_no_lock_is_not_locked(new_table, metastore, draft_of):
    table = new_table(**{"engine.hive.lock-enabled": "false"})
    lock = metastore.lock(exclusive(table))
    assert commit_statistics(table, draft_of(table, {"a": [1]})).attempts == 1
    metastore.unlock(UnlockRequest(lockid=lock.lockid))


def test_metastore_comparison_catches_writers_without_a_lock(new_table, catalog, draft_of, monkeypatch, files):
    """The append comes between our look and our change."""
    table = new_table(**{"engine.hive.lock-enabled": "false"})
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    alter = getattr(Client, ALTER)

    def append_first(*arguments):
        monkeypatch.undo()
        catalog.load_table(table.name).append(ROWS)
        return alter(*arguments)

    monkeypatch.setattr(Client, ALTER, append_first)
    with pytest.raises(ConflictError, match="another writer"):
        base.commit(entry)
    state = table.open().state
    assert len(state.snapshots) == 2
    logged = {state.metadata_location, *(e["metadata-file"] for e in state.document["metadata-log"])}
    assert {name for name in files() if name.endswith(".json")} == {name.rpartition("/")[2] for name in logged}


@pytest.mark.parametrize("answer", [TTransportException(message="gone"), MetaException("The table has been modified")])
def test_completed_change_is_found_whatever_the_answer(new_table, draft_of, monkeypatch, answer):
    """The connection breaks, or the client repeats what the metastore has already done."""
    table = new_table()
    alter = getattr(Client, ALTER)

    def alter_and_fail(*arguments):
        alter(*arguments)
        raise answer

    monkeypatch.setattr(Client, ALTER, alter_and_fail)
    assert commit_statistics(table, draft_of(table, {"a": [1]})).attempts == 1
    assert len(table.open().state.statistics) == 1


def test_unclear_answer_keeps_the_files_if_nothing_is_found(new_table, draft_of, monkeypatch, files):
    table = new_table()
    before = files()

    def fail(*_):
        raise MetaException("the database is down\nat Some.java")

    monkeypatch.setattr(Client, ALTER, fail)
    with pytest.raises(CommitUnknownError, match=r"^[^\n]*the database is down[^\n]*$"):
        commit_statistics(table, draft_of(table, {"a": [1]}))
    assert len(files() - before) == 2


def test_failure_before_the_change_deletes_the_files(new_table, draft_of, monkeypatch, files):
    table = new_table()
    before = files()

    def fail(*_):
        raise TTransportException(message="gone")

    monkeypatch.setattr(Client, "lock", fail)
    with pytest.raises(StorageError, match="gone"):
        commit_statistics(table, draft_of(table, {"a": [1]}))
    assert files() == before


def test_locations_are_listed_without_calls_that_hive_4_lacks(new_table, hive, monkeypatch):
    table = new_table()
    for name in ("get_table", "get_table_objects_by_name"):
        monkeypatch.delattr(Client, name)
    listed = Tables("hive", hive.properties).versions_of_namespace("commits")
    assert listed[table.name] == table.open().state.metadata_location


def test_unreachable_metastore_is_named_as_such():
    properties = {"type": "hive", "uri": "thrift://127.0.0.1:1"}
    with pytest.raises(StorageError, match=r"db\.t: catalog 'off' failed"):
        load_table("db.t", catalog="off", catalog_properties=properties).open()


def test_silent_metastore_times_out(monkeypatch):
    """It accepts connections and never answers; neither a table nor a list of tables hangs."""
    monkeypatch.setattr(sdk, "METASTORE_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        properties = {"type": "hive", "uri": f"thrift://127.0.0.1:{silent.getsockname()[1]}"}
        with pytest.raises(StorageError, match=r"db\.t: catalog 'silent' failed: .*time"):
            load_table("db.t", catalog="silent", catalog_properties=properties).open()
        for _ in range(2):  # the second time over a connection made anew
            with pytest.raises(StorageError, match=r"namespace db: catalog 'silent' failed: .*time"):
                Tables("silent", properties).of_namespace("db")


def test_missing_table_is_not_found(hive, catalog):
    with pytest.raises(TableNotFound, match=r"commits\.absent"):
        load_table("commits.absent", catalog="hive", catalog_properties=hive.properties).open()


def exclusive(table) -> LockRequest:
    component = LockComponent(
        type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname="commits", tablename=table.name.partition(".")[2]
    )
    return LockRequest(component=[component], user="somebody", hostname="elsewhere")
