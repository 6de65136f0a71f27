"""What a user may call a table, and what is said if it is none."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

import puffin
from puffin.delta.directory import DeltaDirectory
from puffin.errors import CorruptMetadataError, SetupError, TableNotFound, UsageError
from puffin.iceberg.catalogs.directory import IcebergDirectory
from puffin.iceberg.catalogs.file import IcebergMetadataFile
from puffin.iceberg.catalogs.sql import IcebergSqlTable
from puffin.load import load_table, namespace_tables
from puffin.tables.commit import commit_statistics


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
def test_a_directory_is_a_table_by_path_and_by_uri(root, spelling):
    table = puffin.load_table(spelling.format(root))
    assert isinstance(table, IcebergDirectory)
    assert table.open().state.current_snapshot_id == 10


@pytest.mark.parametrize("name", ["v1.metadata.json", "v2.gz.metadata.json", "whatever.json"])
def test_a_file_is_a_table_as_of_that_version(root, name):
    path = root / "metadata" / name
    document = json.loads((root / "metadata" / "v1.metadata.json").read_text())
    data = json.dumps({**document, "current-snapshot-id": None}).encode()
    path.write_bytes(gzip.compress(data) if "gz" in name else data)
    for location in (str(path), f"file:{path}"):
        table = load_table(location)
        assert isinstance(table, IcebergMetadataFile)
        assert table.open().state.current_snapshot_id is None


def test_a_metadata_file_is_not_committed_to(root, draft_of):
    table = load_table(str(root / "metadata" / "v1.metadata.json"))
    with pytest.raises(UsageError, match="name the table"):
        commit_statistics(table, draft_of(table, {"a": [1]}))
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["v1.metadata.json"]
    with pytest.raises(UsageError, match="name the table"):
        table.open().commit(None)


def test_a_file_that_is_no_metadata_is_called_so(tmp_path):
    (tmp_path / "data.parquet").write_bytes(b"PAR1\x00\xff")
    with pytest.raises(CorruptMetadataError, match=r"data\.parquet"):
        load_table(str(tmp_path / "data.parquet")).open()


@pytest.mark.parametrize("content", ["metadata", "data", None])
def test_a_directory_without_metadata_is_no_table(tmp_path, content):
    if content:
        (tmp_path / "t" / content).mkdir(parents=True)
    (tmp_path / "t").mkdir(exist_ok=True)
    with pytest.raises(TableNotFound, match="metadata"):
        load_table(str(tmp_path / "t"))


def test_a_delta_table_is_told_by_its_log(tmp_path):
    """Also where there is Iceberg metadata beside it, which another engine derives from the log."""
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "metadata").mkdir()
    assert isinstance(load_table(str(tmp_path)), DeltaDirectory)


@pytest.mark.parametrize(
    "name", ["nowhere", "nowhere/else", "a" * 5000, "nul\0byte", "file:/nowhere", "memory://nowhere/t"]
)
def test_a_place_where_nothing_is_is_called_so(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(puffin.PuffinError) as raised:
        load_table(name)
    assert isinstance(raised.value, TableNotFound) == (len(name) < 100 and "\0" not in name)


def test_a_metadata_file_that_is_no_directory_has_nothing_below(root):
    with pytest.raises(TableNotFound):
        load_table(str(root / "metadata" / "v1.metadata.json" / "below"))


@pytest.mark.parametrize("name", ["", "file:relative", "file://host/t"])
def test_a_name_that_cannot_be_a_place_is_wrong_usage(name):
    with pytest.raises(UsageError):
        load_table(name)


def test_a_scheme_that_nobody_knows_is_refused():
    with pytest.raises(puffin.PuffinError, match="nosuch"):
        load_table("nosuch://bucket/t")


# --- catalogs -----------------------------------------------------------------------------------------------------


def test_a_catalogs_table_is_found_by_its_configured_name(properties, monkeypatch):
    for key, value in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{key.upper()}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it looks once, when it is imported
    table = load_table("db.t", catalog="prod")
    assert isinstance(table, IcebergSqlTable)
    assert table.open().state.uuid is not None


def test_properties_make_a_catalog_that_is_not_configured(properties):
    assert load_table("db.t", catalog="prod", catalog_properties=properties).open().state.columns[0].name == "a"


def test_a_database_password_is_not_among_what_travels_to_executors(properties):
    more = {**properties, "s3.region": "eu-1", "password": "secret"}
    table = load_table("db.t", catalog="prod", catalog_properties=more)
    assert table.io_properties == {"s3.region": "eu-1"}


def test_a_table_that_the_catalog_lacks_is_not_found(properties):
    with pytest.raises(TableNotFound, match=r"db\.absent"):
        load_table("db.absent", catalog="prod", catalog_properties=properties).open()


def test_a_name_without_a_namespace_is_wrong_usage(properties):
    with pytest.raises(UsageError, match=r"namespace\.table"):
        load_table("t", catalog="prod", catalog_properties=properties)


def test_properties_without_a_catalog_are_wrong_usage(root):
    with pytest.raises(UsageError, match="--catalog"):
        load_table(str(root), catalog_properties={"uri": "x"})


@pytest.mark.parametrize("properties", [{}, {"type": "nosuch"}, {"type": "sql"}])
def test_a_catalog_that_is_not_configured_is_a_matter_of_setup(properties, monkeypatch, tmp_path):
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="absent"):
        load_table("db.t", catalog="absent", catalog_properties=properties)


def test_the_tables_of_a_namespace_are_listed_in_order(properties):
    assert namespace_tables("db", catalog="prod", catalog_properties=properties) == ["db.a", "db.t"]
    with pytest.raises(UsageError, match="nosuch"):
        namespace_tables("nosuch", catalog="prod", catalog_properties=properties)
