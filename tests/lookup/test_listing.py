"""Lists of the tables that have statistics, in a catalog and below directories."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import load_catalog

from puffin.errors import StorageError, UsageError
from puffin.load import Tables
from puffin.lookup import Lookup
from puffin.lookup.places import Place
from puffin.lookup.status import status
from puffin.storage import LocalStore


def names_below(root):
    return [each.name for each in Tables().tables_below(str(root))]


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
    assert names_below(tmp_path / "root") == []
    assert names_below(table) == [str(table)]
    assert names_below(tmp_path / "absent") == []


def test_tables_below_a_root_are_loaded_as_by_their_names(directory, tmp_path):
    directory("iceberg")
    (tmp_path / "delta/_delta_log").mkdir(parents=True)
    loaded = {each.name: type(each.load()) for each in Tables().tables_below(str(tmp_path))}
    assert loaded == {name: type(Tables().load(name)) for name in loaded}
    assert {kind.__name__ for kind in loaded.values()} == {"IcebergDirectory", "DeltaDirectory"}


def test_table_below_several_roots_is_listed_once(directory, tmp_path):
    table = directory("db/t")
    roots = (str(tmp_path), str(table.root.parent), f"{tmp_path}/./db")
    assert [each.name for each in Lookup().listed(roots=roots)] == [str(table)]
    assert [each.table for each in status(Place(roots=roots))] == [str(table)]


def test_directory_that_cannot_be_listed_hides_no_table(directory, entry_of, tmp_path, locked, caplog):
    """It has its error, as does a table whose metadata cannot be listed."""
    table = directory("z/t", entry_of(10, {1: 3}))
    locked(tmp_path / "lost+found")
    locked(directory("hidden").root / "metadata")
    found = {each.name: each for each in Tables().tables_below(str(tmp_path))}
    errors = {name: str(each.error) for name, each in found.items() if each.error is not None}
    assert sorted(found) == [str(tmp_path / name) for name in ("hidden", "lost+found", "z/t")]
    assert errors == {
        str(tmp_path / "hidden"): f"{tmp_path}/hidden/metadata: Permission denied",
        str(tmp_path / "lost+found"): f"{tmp_path}/lost+found: Permission denied",
    }
    with pytest.raises(StorageError, match="Permission denied"):
        found[str(tmp_path / "lost+found")].load()
    assert list(Lookup().table_names(roots=[str(tmp_path)])) == [str(table)]
    assert f"skipped tables: {tmp_path}/lost+found: Permission denied" in caplog.messages


@pytest.mark.parametrize(("most", "is_cut"), [(3, True), (4, False)])
def test_search_of_too_many_directories_tells_that_there_are_more(directory, tmp_path, most, is_cut):
    """The root and two directories, of which the table is in the second; the third is farther down."""
    directory("lake/b/t")
    (tmp_path / "lake/a").mkdir()
    *_, last = Tables().tables_below(str(tmp_path / "lake"), most)
    said = f"{tmp_path}/lake: expected at most 3 directories, found more; name those that the tables are in"
    assert (last.name, last.is_cut) == (str(tmp_path / "lake" if is_cut else tmp_path / "lake/b/t"), is_cut)
    assert str(last.error) == (said if is_cut else "None")


def test_search_ends_if_the_root_cannot_be_listed_any_more(tmp_path, monkeypatch):
    """Each of many directories of a store that is down would take its time."""
    asked = []

    def directories(self, uri):
        asked.append(uri)
        if len(asked) > 1:
            raise StorageError(f"{uri}: no answer")
        return ["a", "b", "c"]

    monkeypatch.setattr(LocalStore, "directories", directories)
    with pytest.raises(StorageError, match=f"{tmp_path}: no answer"):
        list(Tables().tables_below(str(tmp_path)))
    assert asked == [str(tmp_path), f"{tmp_path}/a", str(tmp_path)]


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


def test_catalog_that_does_not_answer_hides_no_directory(directory, tmp_path):
    properties = {"type": "rest", "uri": "http://127.0.0.1:9"}
    lookup = Lookup(catalog="prod", catalog_properties=properties, locations=True)
    table = directory("lake/t")
    listed = list(lookup.listed(roots=[str(tmp_path / "lake")]))
    assert [(each.name, each.error is None) for each in listed] == [(str(table), True), ("prod", False)]
    with pytest.raises(StorageError, match="'prod' failed"):
        list(lookup.listed())


def test_namespaces_need_a_catalog():
    assert list(Lookup().tables()) == []
    with pytest.raises(UsageError, match="need a catalog"):
        Lookup().tables(["db"])
