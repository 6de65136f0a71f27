"""Commits to a SQL catalog in PostgreSQL, whose transactions wait for each other instead of failing at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from puffin.errors import ConflictError, StorageError
from puffin.load import Tables, load_table
from puffin.tables.commit import commit_statistics

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def name(postgres, tmp_path):
    catalog = postgres.open()
    catalog.create_namespace_if_not_exists("commits")
    catalog.create_table(f"commits.{tmp_path.name}", ROWS.schema, location=tmp_path.as_uri()).append(ROWS)
    return f"commits.{tmp_path.name}"


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_commit_that_waited_for_a_winner_is_a_conflict(postgres, name, draft_of, tmp_path, isolation):
    """The database finds the row changed, or aborts the transaction."""
    option = f"&options=-c%20default_transaction_isolation={isolation.replace(' ', '%5C%20')}"
    uri = postgres.properties["uri"]
    properties = {**postgres.properties, "uri": uri + option}
    table = load_table(name, catalog="postgres", catalog_properties=properties)
    assert table._catalog.engine.connect().execute(text("SHOW transaction_isolation")).scalar() == isolation
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    engine = create_engine(uri)
    with engine.connect() as other, ThreadPoolExecutor(1) as pool:
        move(other, name)
        committing = pool.submit(table.commit, base, entry)
        wait_for_a_waiting_one(engine)
        other.commit()
        with pytest.raises(ConflictError):
            committing.result(timeout=30)
    assert not list(tmp_path.rglob("00002-*"))


def test_connection_that_breaks_early_commits_nothing(postgres, name, draft_of, tmp_path):
    table = load_table(name, catalog="postgres", catalog_properties=postgres.properties)
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    engine = create_engine(postgres.properties["uri"])
    with engine.connect() as other, ThreadPoolExecutor(1) as pool:
        move(other, name)
        committing = pool.submit(table.commit, base, entry)
        wait_for_a_waiting_one(engine)
        other.execute(text(WAITING.replace("count(*)", "pg_terminate_backend(pid)")))
        with pytest.raises(StorageError, match="connection"):
            committing.result(timeout=30)
        other.rollback()
    assert table.open().state.metadata_location == base.state.metadata_location
    assert not list(tmp_path.rglob("00002-*"))


@pytest.mark.parametrize("more", [{}, {"echo": "false"}])
def test_connection_that_the_database_ended_while_it_was_idle_is_replaced(postgres, name, draft_of, more):
    """As while a run computes for hours; ``echo`` has pyiceberg open the catalog."""
    tables = Tables("postgres", {**postgres.properties, **more})
    table, engine = tables.load(name), create_engine(postgres.properties["uri"])
    draft = draft_of(table, {"a": [1, 2]})
    assert name in tables.of_namespace("commits")
    with engine.connect() as other:
        other.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle'"))
    assert commit_statistics(table, draft).attempts == 1
    assert name in tables.of_namespace("commits")


def move(connection, name: str) -> None:
    """Commit something else, all but the last step."""
    change = "UPDATE iceberg_tables SET metadata_location = metadata_location || '?' WHERE table_name = :name"
    connection.execute(text(change), {"name": name.partition(".")[2]})


def wait_for_a_waiting_one(engine) -> None:
    for _ in range(300):
        with engine.connect() as connection:
            if connection.execute(text(WAITING)).scalar():
                return
        threading.Event().wait(0.05)
    pytest.fail("nobody waits")
