"""Many processes commit to one table at the same moment: all succeed, and no work is lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from puffin.iceberg.commit.patch import version_of
from puffin.load import load_table
from tests.table_directory import publish
from tests.tables.committing import PATIENT, race

COLUMNS = tuple("abcd")


@pytest.fixture
def sql_table(tmp_path):
    """A table with one row in a SQL catalog: the catalog, and its properties."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = SqlCatalog("races", **properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([(c, pa.int64()) for c in COLUMNS]), properties=PATIENT)
    table.append(pa.table({column: pa.array([1], pa.int64()) for column in COLUMNS}))
    return catalog, properties


def check_statistics(state, root: Path, columns: int) -> None:
    """Check that every column has its own count, and that every statistics file once belonged to an entry."""
    (entry,) = state.statistics.values()
    assert [(b.fields, b.properties["ndv"]) for b in entry.blobs] == [((i,), str(i)) for i in range(1, columns + 1)]
    # Files of attempts that lost are deleted; those of entries that were replaced are left for clean.
    assert len(list(root.rglob("metadata/*.stats"))) == columns
    assert list(root.rglob("*.tmp")) == []


def test_directory_keeps_the_statistics_of_all(table_document, tmp_path):
    root = tmp_path / "t"
    publish(root, table_document(root, columns=COLUMNS, properties=PATIENT))
    race(str(root), None, COLUMNS)
    state = load_table(str(root)).open().state
    check_statistics(state, root, len(COLUMNS))
    versions = {path.name for path in root.rglob("*.metadata.json")}
    assert versions == {f"v{i}.metadata.json" for i in range(1, len(COLUMNS) + 2)}
    assert state.metadata_location.endswith(f"/v{len(versions)}.metadata.json")
    assert len(StaticTable.from_metadata(state.metadata_location).metadata.statistics) == 1


def test_sql_catalog_keeps_the_statistics_of_all(sql_table, tmp_path):
    catalog, properties = sql_table
    race("db.t", properties, COLUMNS)
    state = load_table("db.t", catalog="races", catalog_properties=properties).open().state
    check_statistics(state, tmp_path, len(COLUMNS))
    logged = [*(e["metadata-file"] for e in state.document["metadata-log"]), state.metadata_location]
    assert [version_of(location) for location in logged] == list(range(2 + len(COLUMNS)))
    assert {path.as_uri() for path in tmp_path.rglob("*.metadata.json")} == set(logged)
    assert catalog.load_table("db.t").scan().count() == 1


def test_no_append_is_lost_among_statistics_commits(sql_table, tmp_path):
    catalog, properties = sql_table
    race("db.t", properties, ("a", "append", "b", "append", "c"))
    assert catalog.load_table("db.t").scan().count() == 1 + 2
    state = load_table("db.t", catalog="races", catalog_properties=properties).open().state
    check_statistics(state, tmp_path, 3)
