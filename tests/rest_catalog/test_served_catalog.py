"""A served catalog plans from memory, in parts of bounded size, and knows which tables the client plans itself."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, PrimitiveType, UUIDType

from puffin.errors import ColumnNotFound, SnapshotNotFound, TableNotFound, UnsupportedError, UsageError
from puffin.lookup import Lookup
from puffin.rest_catalog import planned_scan
from puffin.rest_catalog.catalog import ServedCatalog
from puffin.rest_catalog.names import Names, TableName
from puffin.rest_catalog.planning_mode import CLIENT, KEY, PROPERTY, REASON, SERVER
from puffin.rest_catalog.scan_request import ScanRequest
from puffin.tables.schema import reused_names
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.hand_made_table import CONTENT, HandMadeTable
from tests.server.iceberg_face import publish

TABLE = TableName(("db",), "t")
FILES = 6


@pytest.fixture
def own(tmp_path: Path) -> SqlCatalog:
    """The catalog that the tables are written through."""
    catalog = SqlCatalog("own", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(own: SqlCatalog) -> Any:
    """A table of some files, whose keys the bounds of all files span."""
    made = own.create_table("db.t", pa.schema([("k", pa.int64()), ("s", pa.string())]))
    for number in range(FILES):
        keys = [-1000, *range(number * 10, number * 10 + 10), 1000]
        made.append(pa.table({"k": keys, "s": [f"s{key}" for key in keys]}))
    return made


@pytest.fixture
def served(tmp_path: Path) -> Callable[..., ServedCatalog]:
    def make(**settings: Any) -> ServedCatalog:
        lookup = Lookup(ttl_seconds=3600, **settings)
        return ServedCatalog(lookup, Names(lookup, [f"{tmp_path}/warehouse"], has_catalog=False), lambda _: None)

    return make


def asked(key: int, **others: Any) -> ScanRequest:
    return ScanRequest.of({"filter": {"type": "eq", "term": "k", "value": key}, **others})


def paths(planned: planned_scan.PlannedScan) -> list[str]:
    parts = [json.loads(b"{%b}" % planned.part(number)) for number in range(planned.parts)]
    return [task["data-file"]["file-path"] for part in parts for task in part["file-scan-tasks"]]


def test_second_plan_of_a_snapshot_reads_no_metadata_and_no_manifest(
    table: Any, served: Callable[..., ServedCatalog], opened: list[str]
) -> None:
    index(table.location().removeprefix("file://"), IndexOptions(columns=("k",)))
    catalog, snapshot_id = served(), table.current_snapshot().snapshot_id
    assert len(paths(catalog.plan(TABLE, asked(5, **{"snapshot-id": snapshot_id})))) == 1
    assert any("/metadata/" in path for path in opened)
    opened.clear()
    assert len(paths(catalog.plan(TABLE, asked(25, **{"snapshot-id": snapshot_id})))) == 1
    assert not [path for path in opened if "/metadata/" in path]


def test_plan_of_the_current_snapshot_sees_a_commit_at_once(table: Any, served: Callable[..., ServedCatalog]) -> None:
    catalog = served()
    before = paths(catalog.plan(TABLE, asked(1000)))
    etag = catalog.load(TABLE).etag
    table.append(pa.table({"k": [1000], "s": ["new"]}))
    assert len(paths(catalog.plan(TABLE, asked(1000)))) == len(before) + 1
    assert catalog.load(TABLE).etag != etag


def test_plan_of_a_pinned_snapshot_finds_a_name_that_is_newer_than_what_is_known(
    table: Any, served: Callable[..., ServedCatalog]
) -> None:
    """Another server may have told the client."""
    catalog, pinned = served(), {"snapshot-id": table.current_snapshot().snapshot_id}
    catalog.plan(TABLE, asked(5, **pinned))
    with table.update_schema() as update:
        update.rename_column("s", "text")
    new = {"filter": {"type": "eq", "term": "text", "value": "s5"}, "stats-fields": ["text"], **pinned}
    assert paths(catalog.plan(TABLE, ScanRequest.of(new)))


def test_large_plan_comes_in_parts(
    table: Any, served: Callable[..., ServedCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = paths(served().plan(TABLE, ScanRequest()))
    monkeypatch.setattr(planned_scan, "FILES_OF_PART", 4)
    planned = served().plan(TABLE, ScanRequest())
    assert planned.parts == 2
    assert paths(planned) == whole
    assert len(whole) == FILES


def test_large_filter_makes_parts_smaller(
    table: Any, served: Callable[..., ServedCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned_scan, "_BYTES_OF_FILTERS", 400)
    values = {"type": "in", "term": "k", "values": list(range(50))}
    planned = served().plan(TABLE, ScanRequest.of({"filter": values}))
    assert planned.parts == 3
    assert len(paths(planned)) == FILES


def test_many_delete_files_make_parts_smaller(
    tmp_path: Path, served: Callable[..., ServedCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of streamed upserts apply to every older data file, and an answer names them for each of these."""
    table = HandMadeTable(tmp_path / "warehouse" / "db" / "t", [(1, "k", "long")])
    of_values = {"content": CONTENT["EQUALITY_DELETES"], "equality_ids": [1]}
    deletes = [table.data(table.root / f"e{age}", sequence_number=age, **of_values) for age in (2, 3, 4, 5)]
    files = [table.data(table.root / f"{i}", sequence_number=age) for i, age in enumerate((1, 1, 3, 1, 5, 1, 1))]
    table.snapshot(*files, *deletes)
    publish(table)
    whole = served().plan(TABLE, ScanRequest())
    monkeypatch.setattr(planned_scan, "_REFERENCES_OF_PART", 6)
    planned = served().plan(TABLE, ScanRequest())
    parts = [json.loads(b"{%b}" % planned.part(number)) for number in range(planned.parts)]
    assert [len(part["file-scan-tasks"]) for part in parts] == [1, 2, 2, 1, 1]
    assert deleted_by(parts) == deleted_by([json.loads(b"{%b}" % whole.part(0))])
    assert [*map(len, deleted_by(parts).values())] == [4, 4, 2, 4, 0, 4, 4]
    assert whole.parts == 1


def deleted_by(parts: list[Any]) -> dict[str, list[str]]:
    """The delete files of each data file."""
    return {
        task["data-file"]["file-path"]: [
            part["delete-files"][place]["file-path"] for place in task.get("delete-file-references", ())
        ]
        for part in parts
        for task in part["file-scan-tasks"]
    }


def test_filter_is_echoed_as_residual(table: Any, served: Callable[..., ServedCatalog]) -> None:
    (task, *_) = json.loads(b"{%b}" % served().plan(TABLE, asked(5)).part(0))["file-scan-tasks"]
    assert task["residual-filter"] == {"type": "eq", "term": "k", "value": 5}
    (task, *_) = json.loads(b"{%b}" % served().plan(TABLE, ScanRequest()).part(0))["file-scan-tasks"]
    assert task["residual-filter"] is True


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"filter": {"type": "eq", "term": "gone", "value": 1}}, ColumnNotFound),
        ({"filter": {"type": "eq", "term": "k", "value": "one"}}, UsageError),
        ({"filter": {"type": "like", "term": "k", "value": 1}}, UsageError),
        ({"filter": None}, UsageError),
        ({"snapshot-id": 1}, SnapshotNotFound),
        ({"stats-fields": ["gone"]}, ColumnNotFound),
    ],
)
def test_request_that_cannot_be_planned_is_an_error(
    table: Any, served: Callable[..., ServedCatalog], body: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        served().plan(TABLE, ScanRequest.of(body))


def test_missing_table_is_not_found(served: Callable[..., ServedCatalog]) -> None:
    with pytest.raises(TableNotFound):
        served().load(TABLE)


def test_service_plans_an_ordinary_table(table: Any, served: Callable[..., ServedCatalog]) -> None:
    assert served().load(TABLE).config == {KEY: SERVER}


def test_property_gives_a_table_back_to_the_client(table: Any, served: Callable[..., ServedCatalog]) -> None:
    catalog = served()
    etag = catalog.load(TABLE).etag
    with table.transaction() as changes:
        changes.set_properties({PROPERTY: CLIENT})
    loaded = catalog.load(TABLE)
    assert loaded.config[KEY] == CLIENT
    assert loaded.config[REASON]
    assert loaded.etag != etag


def test_client_plans_a_table_whose_name_means_another_column_now(
    table: Any, served: Callable[..., ServedCatalog]
) -> None:
    with table.update_schema() as change:
        change.rename_column("s", "t")
    assert served().load(TABLE).config[KEY] == SERVER
    with table.update_schema() as change:
        change.rename_column("k", "s")
    assert served().load(TABLE).config[KEY] == CLIENT


@pytest.mark.parametrize("type_", [DoubleType(), UUIDType()])
def test_client_plans_a_table_partitioned_by_values_whose_order_is_unclear(
    own: SqlCatalog, served: Callable[..., ServedCatalog], type_: PrimitiveType
) -> None:
    made = own.create_table("db.t", Schema(NestedField(1, "x", type_)))
    with made.update_spec() as change:
        change.add_field("x", IdentityTransform())
    assert served().load(TABLE).config[KEY] == CLIENT


def test_reused_name_excludes_no_file(table: Any, served: Callable[..., ServedCatalog]) -> None:
    """A client that pins a snapshot may mean the column of then or that of now."""
    old = table.current_snapshot().snapshot_id
    swap_names(table)
    request = ScanRequest.of({"snapshot-id": old, "filter": {"type": "eq", "term": "k", "value": 10_000}})
    assert len(paths(served().plan(TABLE, request))) == FILES
    by_new_name = {"type": "eq", "term": "x", "value": 10_000}
    assert paths(served().plan(TABLE, ScanRequest.of({"snapshot-id": old, "filter": by_new_name}))) == []


def test_name_of_before_the_newest_snapshot_excludes_no_file(table: Any, served: Callable[..., ServedCatalog]) -> None:
    """A client may have loaded the table long ago: pyiceberg pins no snapshot, and tests rows by the ids of then."""
    swap_names(table)
    table.append(pa.table({"x": [5], "k": ["s5"]}))
    by_old_name = ScanRequest.of({"filter": {"type": "eq", "term": "k", "value": "s-1"}})
    assert len(paths(served().plan(TABLE, by_old_name))) == FILES + 1


def test_name_between_that_of_the_snapshot_and_that_of_now_is_found(
    table: Any, served: Callable[..., ServedCatalog]
) -> None:
    """A client may have loaded the table while the column had it."""
    catalog, pinned = served(), {"snapshot-id": table.current_snapshot().snapshot_id}
    for before, after in (("s", "t"), ("t", "u")):
        with table.update_schema() as update:
            update.rename_column(before, after)
    for others in (pinned, {}):
        found = [
            paths(
                catalog.plan(TABLE, ScanRequest.of({"filter": {"type": "eq", "term": name, "value": "s5"}, **others}))
            )
            for name in "stu"
        ]
        assert 0 < len(found[0]) < FILES
        assert found[0] == found[1] == found[2]
    with pytest.raises(ColumnNotFound):
        catalog.plan(TABLE, ScanRequest.of({"filter": {"type": "is-null", "term": "v"}}))


def test_name_of_a_partition_that_meant_another_column_is_refused(
    table: Any, served: Callable[..., ServedCatalog]
) -> None:
    """Spark does not test rows where its filter selects whole partitions. pyiceberg does."""
    with table.update_spec() as change:
        change.add_field("k", IdentityTransform(), "by_key")
    swap_names(table)
    request = ScanRequest.of({"filter": {"type": "eq", "term": "k", "value": "s-1"}})
    with pytest.raises(UnsupportedError, match=r"column k: .* load the table again"):
        served().plan(TABLE, request)
    assert len(paths(served().plan(TABLE, dataclasses.replace(request, of_pyiceberg=True)))) == FILES
    by_new_name = ScanRequest.of({"filter": {"type": "eq", "term": "x", "value": 10_000}})
    assert paths(served().plan(TABLE, by_new_name)) == []


def test_names_of_all_schemas_are_compared_once(
    table: Any, served: Callable[..., ServedCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table may have thousands of schemas, and a client asks for a plan each time it reads."""
    with table.update_spec() as change:
        change.add_field("k", IdentityTransform(), "by_key")
    compared = []

    def counted(schemas: Any, *, case_sensitive: bool) -> dict[str, set[int]]:
        compared.append(case_sensitive)
        return reused_names(schemas, case_sensitive=case_sensitive)

    monkeypatch.setattr("puffin.tables.state.reused_names", counted)
    catalog = served()
    for key in (1, 2, 3):
        catalog.load(TABLE)
        assert len(paths(catalog.plan(TABLE, asked(key)))) == FILES
    assert sorted(compared) == [False, True]


def swap_names(table: Any) -> None:
    """Give the name ``k`` to the column ``s``."""
    for before, after in (("k", "x"), ("s", "k")):
        with table.update_schema() as change:
            change.rename_column(before, after)


def test_any_case_of_two_names_excludes_no_file(table: Any, served: Callable[..., ServedCatalog]) -> None:
    """pyiceberg takes the last of columns that differ in case alone, even if another one has the very name."""
    with table.update_schema() as change:
        change.add_column("K", LongType())
    for name in ("k", "K"):
        request = ScanRequest.of({"case-sensitive": False, "filter": {"type": "is-null", "term": name}})
        assert len(paths(served().plan(TABLE, request))) == FILES
