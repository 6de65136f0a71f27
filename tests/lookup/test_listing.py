"""Lists of the tables that have statistics, in a catalog and below directories."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import load_catalog

from puffin.errors import UsageError
from puffin.load import Tables
from puffin.lookup import Lookup


def test_listing_finds_analyzed_tables_below_a_directory(directory, entry_of, tmp_path):
    analyzed = directory("db/analyzed", entry_of(10, {1: (3, 10)}), snapshots=(10, 20, 30))
    directory("db/bare")
    directory("db/empty", snapshots=())
    broken = directory("db/broken", entry_of(10, {1: 3}))
    (broken.root / "metadata" / "v1.metadata.json").write_text("{")
    (listed,) = Lookup().tables(roots=[str(tmp_path)])
    assert listed.to_json() == {
        "table": str(analyzed),
        "format": "iceberg",
        "snapshot-id": 30,
        "statistics-snapshot-id": 10,
        "snapshots-behind": 2,
    }


def test_listing_shows_the_newest_statistics_of_any_column(directory, entry_of, tmp_path):
    directory("t", entry_of(10, {1: 3}), entry_of(20, {2: 3, 1: (3, 10)}), snapshots=(10, 20, 30))
    (listed,) = Lookup().tables(roots=[str(tmp_path)])
    assert (listed.statistics_snapshot_id, listed.snapshots_behind) == (20, 1)


def test_listing_does_not_follow_links_and_hidden_directories(directory, tmp_path):
    table = directory("elsewhere/t")
    directory("root/_hidden/t")
    directory("root/.hidden/t")
    (tmp_path / "root" / "link").symlink_to(table.root.parent)
    (tmp_path / "root" / "metadata").mkdir()
    assert list(Tables().below(str(tmp_path / "root"))) == []
    assert list(Tables().below(str(table))) == [str(table)]
    assert list(Tables().below(str(tmp_path / "absent"))) == []


def test_tables_below_a_root_are_loaded_as_by_their_names(directory, tmp_path):
    directory("iceberg")
    (tmp_path / "delta/_delta_log").mkdir(parents=True)
    loaded = {name: type(load()) for name, load in Tables().tables_below(str(tmp_path))}
    assert loaded == {name: type(Tables().load(name)) for name in loaded}
    assert {kind.__name__ for kind in loaded.values()} == {"IcebergDirectory", "DeltaDirectory"}


def test_listing_opens_tables_only_as_they_are_requested(directory, entry_of, tmp_path, opened):
    for number in range(5):
        directory(f"t{number}", entry_of(10, {1: 3}))
    tables = Lookup().tables(roots=[str(tmp_path)])
    assert opened == []
    next(tables)
    assert len(opened) == 2
    assert len(list(Lookup().tables(roots=[str(tmp_path)], limit=3))) == 3


def test_listing_finds_analyzed_tables_of_a_catalog(directory, entry_of, tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    catalog = load_catalog("prod", **properties)
    for namespace, name in (("one", "t"), ("one", "u"), ("two", "t")):
        catalog.create_namespace_if_not_exists(namespace)
        table = directory(f"{namespace}/{name}", entry_of(10, {1: 3}))
        catalog.register_table(f"{namespace}.{name}", f"file://{table}/metadata/v1.metadata.json")
    lookup = Lookup(catalog="prod", catalog_properties=properties)
    assert [each.table for each in lookup.tables()] == ["one.t", "one.u", "two.t"]
    assert [each.table for each in lookup.tables(["two"])] == ["two.t"]
    with pytest.raises(UsageError, match="no namespace 'absent'"):
        list(lookup.tables(["two", "absent"]))
    with pytest.raises(UsageError, match="found directories"):
        lookup.tables(roots=["/"])


def test_namespaces_need_a_catalog():
    assert list(Lookup().tables()) == []
    with pytest.raises(UsageError, match="need a catalog"):
        Lookup().tables(["db"])
