"""The names by which users open tables, and the errors of names that are none."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

import puffin
from puffin.delta.directory import DeltaDirectory
from puffin.errors import CorruptMetadataError, SetupError, StorageError, TableNotFound, UsageError
from puffin.iceberg.catalogs.directory import IcebergDirectory
from puffin.iceberg.catalogs.file import IcebergMetadataFile
from puffin.iceberg.catalogs.sql import IcebergSqlTable
from puffin.load import Tables, load_table
from puffin.server.service import check_catalogs
from puffin.server.settings import Settings
from puffin.tables.commit import commit_statistics
from tests.http_server import answering


@pytest.fixture
def root(tmp_path, table_document):
    """A table's directory, with a space and a percent sign in its name."""
    root = tmp_path / "my table%20x"
    (root / "metadata").mkdir(parents=True)
    (root / "metadata" / "v1.metadata.json").write_text(json.dumps(table_document(root)))
    return root


@pytest.fixture
def properties(tmp_path):
    """The properties of a SQL catalog that has the table ``db.t``."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    catalog = SqlCatalog("prod", **properties)
    catalog.create_namespace("db")
    for name in ("db.t", "db.a"):
        catalog.create_table(name, pa.schema([("a", pa.int64())]))
    return properties


@pytest.mark.parametrize("spelling", ["{}", "{}/", "file:{}", "file://{}", "file://{}/"])
def test_directory_opens_by_path_and_by_uri(root, spelling):
    table = puffin.load_table(spelling.format(root))
    assert isinstance(table, IcebergDirectory)
    assert table.open().state.current_snapshot_id == 10


def test_escapes_of_a_uri_that_names_nothing_are_explained(root):
    with pytest.raises(TableNotFound, match="no such file or directory; names are not decoded"):
        puffin.load_table(root.as_uri())
    with pytest.raises(TableNotFound, match=r"no such file or directory$"):
        puffin.load_table(f"{root}/a%20b")


@pytest.mark.parametrize("name", ["v1.metadata.json", "v2.gz.metadata.json", "whatever.json"])
def test_metadata_file_opens_that_version(root, name):
    path = root / "metadata" / name
    document = json.loads((root / "metadata" / "v1.metadata.json").read_text())
    data = json.dumps({**document, "current-snapshot-id": None}).encode()
    path.write_bytes(gzip.compress(data) if "gz" in name else data)
    for location in (str(path), f"file:{path}"):
        table = load_table(location)
        assert isinstance(table, IcebergMetadataFile)
        assert table.open().state.current_snapshot_id is None


def test_metadata_file_cannot_be_committed_to(root, draft_of):
    table = load_table(str(root / "metadata" / "v1.metadata.json"))
    with pytest.raises(UsageError, match="name the table"):
        commit_statistics(table, draft_of(table, {"a": [1]}))
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["v1.metadata.json"]
    with pytest.raises(UsageError, match="name the table"):
        table.open().commit(None)


def test_invalid_metadata_file_is_reported(tmp_path):
    (tmp_path / "data.parquet").write_bytes(b"PAR1\x00\xff")
    with pytest.raises(CorruptMetadataError, match=r"data\.parquet"):
        load_table(str(tmp_path / "data.parquet")).open()


@pytest.mark.parametrize("content", ["metadata", "data", None])
def test_directory_without_metadata_is_no_table(tmp_path, content):
    if content:
        (tmp_path / "t" / content).mkdir(parents=True)
    (tmp_path / "t").mkdir(exist_ok=True)
    with pytest.raises(TableNotFound, match="metadata"):
        load_table(str(tmp_path / "t"))


def test_delta_table_is_recognized_by_its_log(tmp_path):
    """Even beside Iceberg metadata, which another engine derives from the log."""
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "metadata").mkdir()
    assert isinstance(load_table(str(tmp_path)), DeltaDirectory)


@pytest.mark.parametrize(
    "name", ["nowhere", "nowhere/else", "a" * 5000, "nul\0byte", "file:/nowhere", "memory://nowhere/t"]
)
def test_missing_place_is_reported(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(puffin.PuffinError) as raised:
        load_table(name)
    assert isinstance(raised.value, TableNotFound) == (len(name) < 100 and "\0" not in name)


def test_path_below_a_metadata_file_is_not_found(root):
    with pytest.raises(TableNotFound):
        load_table(str(root / "metadata" / "v1.metadata.json" / "below"))


@pytest.mark.parametrize("name", ["", "file:relative", "file://host/t"])
def test_invalid_place_is_a_usage_error(name):
    with pytest.raises(UsageError):
        load_table(name)


def test_unknown_scheme_is_refused():
    with pytest.raises(puffin.PuffinError, match="nosuch"):
        load_table("nosuch://bucket/t")


# --- catalogs -----------------------------------------------------------------------------------------------------


def test_catalog_table_is_found_by_its_configured_name(properties, monkeypatch):
    for key, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{key.upper()}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it looks once, when it is imported
    table = load_table("db.t", catalog="prod")
    assert isinstance(table, IcebergSqlTable)
    assert table.open().state.uuid is not None


def test_properties_define_an_unconfigured_catalog(properties):
    assert load_table("db.t", catalog="prod", catalog_properties=properties).open().state.columns[0].name == "a"


def test_database_password_does_not_travel_to_executors(properties):
    more = {**properties, "s3.region": "eu-1", "password": "secret"}
    table = load_table("db.t", catalog="prod", catalog_properties=more)
    assert table.open().scan_context.io_properties == {"s3.region": "eu-1"}


def test_table_missing_from_the_catalog_is_not_found(properties):
    with pytest.raises(TableNotFound, match=r"db\.absent"):
        load_table("db.absent", catalog="prod", catalog_properties=properties).open()


def test_name_that_is_not_utf_8_is_in_no_catalog(properties):
    """So the shell passes on bytes of another encoding."""
    with pytest.raises(TableNotFound, match="no such table, since its name is not UTF-8"):
        load_table("db.t\udcff", catalog="prod", catalog_properties=properties).open()


@pytest.mark.parametrize("name", ["t", ".t", "db.", "db..t", "."])
def test_name_that_lacks_a_part_is_a_usage_error(properties, name):
    """A catalog's server may call a request for it a failure of its own."""
    with pytest.raises(UsageError, match=r"namespace\.table"):
        load_table(name, catalog="prod", catalog_properties=properties)


def test_properties_without_a_catalog_are_a_usage_error(root):
    with pytest.raises(UsageError, match=r"^catalog_properties need a catalog$"):
        load_table(str(root), catalog_properties={"uri": "x"})


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, r"^no catalog .absent. is configured: pass --catalog-property uri=.* or .*PYICEBERG_CATALOG__"),
        ({"type": "nosuch"}, "^catalog 'absent' cannot be used: .*nosuch"),
        ({"type": "sql"}, "^catalog 'absent' is configured without a uri: pass --catalog-property uri="),
    ],
)
def test_unconfigured_catalog_is_a_setup_error(properties, message, monkeypatch, tmp_path):
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=message):
        load_table("db.t", catalog="absent", catalog_properties=properties)


def test_rest_catalog_that_does_not_answer_now_is_no_setup_error():
    """A server starts beside it, whether it is busy or not there."""

    def ask(url: str) -> None:
        properties = {"uri": url}
        with pytest.raises(StorageError, match=r"^catalog 'prod' failed, try again: "):
            load_table("db.t", catalog="prod", catalog_properties=properties)
        check_catalogs(Settings(catalog="prod", catalog_properties=properties))

    with answering(lambda _: (503, {}, b"busy")) as url:
        ask(url)
    ask(url)


def test_tables_of_a_namespace_are_listed_in_order(properties):
    assert Tables("prod", properties).of_namespace("db") == ["db.a", "db.t"]
    with pytest.raises(UsageError, match="nosuch"):
        Tables("prod", properties).of_namespace("nosuch")
