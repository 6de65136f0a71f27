"""Tables of SQL catalogs on SQLite: pyiceberg creates them, reads our commits and appends to them."""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config
from sqlalchemy import create_engine, event
from sqlalchemy.exc import OperationalError

from puffin.errors import (
    ColumnNotFound,
    CommitUnknownError,
    ConflictError,
    SetupError,
    SnapshotNotFound,
    StorageError,
    TableNotFound,
)
from puffin.iceberg.catalogs.named import opened_catalog, sql_database, table_of
from puffin.iceberg.catalogs.sql import IcebergSqlTable, SqlDatabase
from puffin.iceberg.sdk import list_namespaces
from puffin.load import Tables, load_table
from puffin.tables.base import SnapshotSelector
from puffin.tables.commit import commit_statistics

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64()), "b": pa.array([1, 1, 2], pa.int64())})


@pytest.fixture
def catalog(tmp_path):
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def written(catalog):
    """A table with two snapshots, written by pyiceberg."""
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    return table


@pytest.fixture
def table(catalog, written):
    return IcebergSqlTable(catalog, "db.t")


@pytest.fixture
def register(catalog, table_document, tmp_path):
    """Register a metadata document of any version as a table of the catalog."""

    def put(name: str = "v3.metadata.json", identifier: str = "db.t", **options):
        root = tmp_path / "registered"
        path = root / "metadata" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = json.dumps(table_document(root, **options)).encode()
        path.write_bytes(gzip.compress(data) if "gz" in name else data)
        catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
        catalog.register_table(identifier, f"file://{path}")
        return IcebergSqlTable(catalog, identifier)

    return put


def test_errors_call_the_table_what_the_user_does(table):
    opened = table.open()
    with pytest.raises(ColumnNotFound, match=r"^db\.t: no primitive column 'c'"):
        opened.state.select_columns(["c"])
    with pytest.raises(SnapshotNotFound, match=r"^db\.t: no snapshot 5"):
        opened.of(SnapshotSelector(snapshot_id=5)).snapshot_id  # noqa: B018 - raises
    assert opened.refreshed().state.name == "db.t"


def row(catalog, name="t") -> tuple[str, str | None]:
    """The current and the previous location in the database."""
    with catalog.engine.connect() as connection:
        query = f"SELECT metadata_location, previous_metadata_location FROM iceberg_tables WHERE table_name = '{name}'"
        return tuple(connection.exec_driver_sql(query).one())


def document(location: str) -> dict:
    data = Path(urlsplit(location).path).read_bytes()
    return json.loads(gzip.decompress(data) if "gz" in location else data)


def files(tmp_path, pattern) -> set[str]:
    return {path.name for path in tmp_path.rglob(pattern)}


# --- commits ------------------------------------------------------------------------------------------------------


def test_commit_moves_the_row_to_the_next_version(catalog, table, draft_of):
    before, _ = row(catalog)
    committed = commit_statistics(table, draft_of(table, {"a": [1, 2, 3]}))
    after, previous = row(catalog)
    assert previous == before
    assert after.rpartition("/")[2].startswith("00003-")
    assert document(after)["metadata-log"][-1]["metadata-file"] == before
    assert document(after)["statistics"][0]["statistics-path"] == committed.entry.statistics_path
    assert committed.entry.statistics_path.startswith(f"{table.open().state.location}/metadata/")


def test_pyiceberg_loads_the_table_and_appends_to_it(catalog, table, draft_of):
    entry = commit_statistics(table, draft_of(table, {"a": [1, 2, 3], "b": [1, 2]})).entry
    loaded = catalog.load_table("db.t")
    assert [b.properties["ndv"] for b in loaded.metadata.statistics[0].blob_metadata] == ["3", "2"]
    loaded.append(ROWS)
    assert catalog.load_table("db.t").scan().count() == 9
    assert table.open().state.statistics[entry.snapshot_id] == entry


def test_append_in_between_is_not_lost(catalog, table, written, draft_of):
    draft = draft_of(table, {"a": [1, 2, 3]})
    snapshot_id = draft.snapshot_id
    write = draft.write

    def write_and_lose(state, existing):
        entry = write(state, existing)
        if catalog.load_table("db.t").scan().count() == 6:
            catalog.load_table("db.t").append(ROWS)
        return entry

    draft.write = write_and_lose
    assert commit_statistics(table, draft, sleep=lambda _: None).attempts == 2
    assert catalog.load_table("db.t").scan().count() == 9
    assert set(table.open().state.statistics) == {snapshot_id}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_format_version_can_be_committed_to(register, draft_of, catalog, version):
    """Version 3 too, which pyiceberg itself does not write."""
    table = register(version=version)
    commit_statistics(table, draft_of(table, {"a": [1, 2]}))
    loaded = catalog.load_table("db.t")
    assert loaded.format_version == version
    assert loaded.metadata.statistics[0].blob_metadata[0].properties["ndv"] == "2"
    assert loaded.metadata.statistics[0].blob_metadata[0].sequence_number == (0 if version == 1 else 1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_unknown_fields_survive_a_commit(register, draft_of, catalog, version):
    unknown = {"deep": [1.5, 2**70, -0.0, None, "é\ud800"]}
    table = register(version=version)
    before = {**document(row(catalog)[0]), "unknown": unknown}
    before["snapshots"][0]["unknown"] = unknown
    Path(urlsplit(row(catalog)[0]).path).write_text(json.dumps(before))
    commit_statistics(table, draft_of(table, {"a": [1, 2]}))
    after = document(row(catalog)[0])
    changed = {"statistics", "metadata-log", "last-updated-ms"}
    assert {k: v for k, v in after.items() if k not in changed} == {k: v for k, v in before.items() if k not in changed}


@pytest.mark.parametrize(
    ("name", "following"),
    [
        ("v3.metadata.json", "00004-"),
        ("00041-8a7e.metadata.json", "00042-"),
        ("99999-8a7e.metadata.json", "100000-"),
        ("exported.metadata.json", "00001-"),
    ],
)
def test_next_version_is_numbered_one_up_whatever_the_last_ones_name(register, draft_of, catalog, name, following):
    table = register(name)
    commit_statistics(table, draft_of(table, {"a": [1]}))
    assert row(catalog)[0].rpartition("/")[2].startswith(following)


@pytest.mark.parametrize("base", ["v3.metadata.json", "v3.gz.metadata.json"])
@pytest.mark.parametrize("codec", [None, "gzip", "none"])
@pytest.mark.table_kind("Compressed metadata, in either spelling", "2")
def test_metadata_compression_follows_the_table_or_the_previous_file(register, draft_of, catalog, base, codec):
    table = register(base, properties={"write.metadata.compression-codec": codec} if codec else {})
    commit_statistics(table, draft_of(table, {"a": [1]}))
    assert row(catalog)[0].endswith(".gz.metadata.json") == (codec == "gzip" or (codec is None and "gz" in base))
    assert len(table.open().state.statistics) == 1


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.table_kind("`write.metadata.path`")
def test_metadata_and_statistics_follow_the_tables_paths(register, draft_of, catalog, tmp_path, version):
    table = register(version=version, properties={"write.metadata.path": f"file://{tmp_path}/elsewhere/"})
    entry = commit_statistics(table, draft_of(table, {"a": [1]})).entry
    for location in (row(catalog)[0], entry.statistics_path):
        assert location.rpartition("/")[0] == f"file://{tmp_path}/elsewhere"
    assert files(tmp_path / "elsewhere", "*.stats")


def test_superseded_metadata_is_deleted_if_the_table_says_so(register, draft_of, tmp_path):
    table = register(
        properties={
            "write.metadata.previous-versions-max": "1",
            "write.metadata.delete-after-commit.enabled": "true",
        }
    )
    for values in ({"a": [1]}, {"b": [1]}, {"c": [1]}):
        commit_statistics(table, draft_of(table, values))
    assert {name.partition("-")[0] for name in files(tmp_path, "*.metadata.json")} == {"00005", "00006"}


def test_namespaces_have_levels(catalog, register, draft_of):
    table = register(identifier="a.b.t")
    commit_statistics(table, draft_of(table, {"a": [1]}))
    assert len(catalog.load_table(("a", "b", "t")).metadata.statistics) == 1


def test_namespace_that_is_dropped_while_they_are_listed_hides_no_other(catalog, monkeypatch):
    for name in ("dropped", "stays"):
        catalog.create_namespace(name)
    list_level = SqlCatalog.list_namespaces

    def list_and_drop(self, namespace=()):
        found = list_level(self, namespace)
        if not namespace:
            self.drop_namespace("dropped")
        return found

    monkeypatch.setattr(SqlCatalog, "list_namespaces", list_and_drop)
    assert "stays" in list_namespaces(catalog)


def test_same_table_of_another_catalog_in_the_database_is_unchanged(catalog, written, tmp_path, draft_of):
    other = SqlCatalog("other", **catalog.properties)
    other.create_namespace("db")
    other.register_table("db.t", written.metadata_location)
    table = IcebergSqlTable(catalog, "db.t")
    commit_statistics(table, draft_of(table, {"a": [1]}))
    assert other.load_table("db.t").metadata_location == written.metadata_location


# --- races and failures -------------------------------------------------------------------------------------------


def test_moved_row_is_a_conflict_and_leaves_nothing(catalog, table, draft_of, tmp_path):
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    catalog.load_table("db.t").append(ROWS)
    current, before = row(catalog), files(tmp_path, "*.metadata.json")
    with pytest.raises(ConflictError):
        base.commit(entry)
    assert (row(catalog), files(tmp_path, "*.metadata.json")) == (current, before)


def test_dropped_table_is_not_found(catalog, table, draft_of, tmp_path):
    draft = draft_of(table, {"a": [1]})
    catalog.drop_table("db.t")
    with pytest.raises(TableNotFound, match=r"db\.t"):
        commit_statistics(table, draft)
    assert files(tmp_path, "*.stats") == set()


def test_locked_database_is_a_conflict_and_leaves_nothing(catalog, table, draft_of, tmp_path):
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    before = files(tmp_path, "*.metadata.json")
    catalog.engine = create_engine(catalog.properties["uri"], connect_args={"timeout": 0.01})
    with sqlite3.connect(tmp_path / "catalog.db") as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ConflictError, match="locked"):
            base.commit(entry)
        other.rollback()
    assert files(tmp_path, "*.metadata.json") == before
    base.commit(entry)


def test_database_locked_at_commit_is_a_conflict_too(catalog, table, draft_of, tmp_path):
    """A reader blocks the commit but not the update before it; SQLite has written nothing then."""
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    before = row(catalog), files(tmp_path, "*.metadata.json")
    catalog.engine = create_engine(catalog.properties["uri"], connect_args={"timeout": 0.01})
    with sqlite3.connect(tmp_path / "catalog.db") as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM iceberg_tables").fetchone()
        with pytest.raises(ConflictError, match="locked"):
            base.commit(entry)
        reader.rollback()
    assert (row(catalog), files(tmp_path, "*.metadata.json")) == before
    base.commit(entry)
    assert table.open().state.statistics[entry.snapshot_id] == entry


def test_other_database_failure_is_no_conflict_and_leaves_nothing(catalog, table, draft_of, tmp_path):
    """A retry would not help."""
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    before = files(tmp_path, "*.metadata.json")
    with catalog.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE iceberg_tables RENAME TO gone")
    with pytest.raises(StorageError, match="no such table"):
        base.commit(entry)
    assert files(tmp_path, "*.metadata.json") == before
    with pytest.raises(StorageError, match="no such table"):
        table.open()


def test_failure_of_the_commit_itself_is_unclear_and_keeps_the_metadata(catalog, table, draft_of, tmp_path):
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    before = files(tmp_path, "*.metadata.json")

    def lose_the_connection(_):
        raise OperationalError("COMMIT", {}, Exception("server closed the connection unexpectedly"))

    event.listen(catalog.engine, "commit", lose_the_connection)
    with pytest.raises(CommitUnknownError, match="server closed the connection"):
        base.commit(entry)
    assert len(files(tmp_path, "*.metadata.json") - before) == 1


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
def test_aborted_transaction_is_a_conflict(catalog, table, draft_of, state):
    """PostgreSQL reports a lost race by its SQLSTATE, sometimes only at commit."""
    base = table.open()
    entry = draft_of(table, {"a": [1]}).write(base, [])
    cause = Exception("could not serialize access")
    cause.sqlstate = state

    def give_up(_):
        raise OperationalError("COMMIT", {}, cause)

    event.listen(catalog.engine, "commit", give_up)
    with pytest.raises(ConflictError, match="serialize"):
        base.commit(entry)


def test_metadata_deleted_during_a_read_is_read_again(catalog, table, draft_of, monkeypatch):
    old = row(catalog)[0]
    locate = table._location

    def locate_and_lose():
        location = locate()
        if location == old:
            catalog.load_table("db.t").append(ROWS)
            Path(urlsplit(old).path).unlink()
        return location

    monkeypatch.setattr(table, "_location", locate_and_lose)
    assert table.open().state.metadata_location == row(catalog)[0]


def sql_properties(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}", **more}


def test_a_table_is_found_without_pyicebergs_catalog(written, tmp_path):
    database = sql_database("prod", sql_properties(tmp_path))
    assert isinstance(database, SqlDatabase)
    assert table_of(database, "prod", "db.t").open().state.metadata_location == written.metadata_location


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"pool_pre_ping": "true"}, id="more-than-a-database"),
        pytest.param({"type": ""}, id="no-kind"),
        pytest.param({"uri": "sqlite:////no/such/directory/catalog.db"}, id="no-database"),
        pytest.param({"uri": "sqlite://"}, id="no-tables"),
        pytest.param({"uri": "nosuchdialect://host/db"}, id="no-driver"),
    ],
)
def test_pyiceberg_opens_catalogs_that_are_more_or_less_than_a_database(written, tmp_path, properties):
    assert sql_database("prod", sql_properties(tmp_path, **properties)) is None


@pytest.mark.parametrize("more", [{}, {"type": ""}, {"pool_pre_ping": "true"}], ids=["sql", "inferred", "pyiceberg's"])
def test_a_lookup_makes_no_database(tmp_path, more):
    """SQLite would make the file of a mistyped URI, and pyiceberg the tables in it."""
    with pytest.raises(SetupError, match=r"catalog 'new' cannot be used: its database /.*/catalog.db does not exist"):
        load_table("db.t", catalog="new", catalog_properties=sql_properties(tmp_path, **more))
    with pytest.raises(SetupError, match="does not exist"):
        Tables("new", sql_properties(tmp_path, **more)).namespaces()
    assert list(tmp_path.iterdir()) == []


def test_a_lookup_makes_no_tables_in_a_database(tmp_path):
    file = tmp_path / "catalog.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    before = file.read_bytes()
    with pytest.raises(
        SetupError, match=r"expected the tables of a catalog in its database, found .*iceberg_tables: check"
    ):
        load_table("db.t", catalog="new", catalog_properties=sql_properties(tmp_path))
    assert file.read_bytes() == before


def test_tables_of_a_new_catalog_are_made_if_the_user_says_so(tmp_path):
    with pytest.raises(TableNotFound, match="no such table in catalog 'new'"):
        load_table(
            "db.t", catalog="new", catalog_properties=sql_properties(tmp_path, init_catalog_tables="true")
        ).open()


def test_table_with_a_dot_in_its_own_name_is_said_to_be_out_of_reach(tmp_path):
    properties = sql_properties(tmp_path, init_catalog_tables="true")
    for name, said in (
        ("db.t", "catalog 'new'; puffin status --catalog new shows"),
        ("db.x.y", "catalog 'new'; a table with a dot in its own name cannot"),
    ):
        with pytest.raises(TableNotFound, match=f"^{name}: no such table in {said}"):
            load_table(name, catalog="new", catalog_properties=properties).open()


def test_database_in_memory_is_always_new(tmp_path):
    with pytest.raises(TableNotFound, match="no such table in catalog 'new'"):
        load_table("db.t", catalog="new", catalog_properties=sql_properties(tmp_path, uri="sqlite://")).open()


def test_database_that_cannot_be_opened_is_a_setup_error(tmp_path):
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(SetupError, match=r"catalog 'new' cannot be used: .*unable to open database file"):
        load_table("db.t", catalog="new", catalog_properties=sql_properties(tmp_path))


def test_database_that_another_process_holds_is_not_taken_for_a_wrong_one(catalog, tmp_path):
    uri = f"{catalog.properties['uri']}?timeout=0.01"
    with sqlite3.connect(tmp_path / "catalog.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageError, match=r"^catalog 'prod' failed: .*database is locked: try again$"):
            load_table("db.t", catalog="prod", catalog_properties=sql_properties(tmp_path, uri=uri))
        other.rollback()


def test_name_of_a_catalog_that_its_database_does_not_know_is_a_setup_error(written, tmp_path):
    """pyiceberg finds nothing by another name, and calls that no error."""
    uri = sql_properties(tmp_path)["uri"]
    with pytest.raises(SetupError, match=r"^catalog 'other' cannot be used: .* found only those of 'prod': name the"):
        Tables("other", {"uri": uri}).namespaces()
    SqlCatalog("other", uri=uri).create_namespace("db")
    assert Tables("other", {"uri": uri}).of_namespace("db") == []


@pytest.mark.parametrize(("configured", "asks_first"), [("false", False), ("true", True), (None, True)])
def test_whether_a_connection_is_tried_first_is_the_users_choice(
    written, tmp_path, monkeypatch, configured, asks_first
):
    """Some databases and proxies cannot answer the question."""
    lines = [f"    {key}: '{value}'" for key, value in sql_properties(tmp_path).items() if key != "type"]
    lines += [] if configured is None else [f"    pool_pre_ping: '{configured}'"]
    (tmp_path / ".pyiceberg.yaml").write_text("\n".join(["catalog:", "  prod:", *lines]))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it reads the file when it is imported
    assert opened_catalog("prod", {}).engine.pool._pre_ping is asks_first
