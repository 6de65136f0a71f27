"""Plans of snapshots from before a table was replaced by one whose columns have other types under the same ids."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import puffin
from puffin.load import load_table
from puffin.planning.plan import Filter, Planner
from puffin.rest_catalog.catalog import scan_of
from puffin.rest_catalog.planning_mode import CLIENT, SERVER, planning_mode
from puffin.rest_catalog.scan_request import ScanRequest
from puffin.tables.base import SnapshotSelector
from puffin.tables.state import TableState
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.hand_made_table import HandMadeTable
from tests.planning.transformed import transformed
from tests.server.iceberg_face import publish

BEFORE = 1
BUCKETS = "bucket[16]"
LONGS = struct.Struct("<q")


def replaced(root: Path, now: str, values: pa.Array, *, transform: str | None = None) -> HandMadeTable:
    """
    A table of one ``long``, 2005, which was replaced by one of another type, as Spark's CREATE OR REPLACE does it.

    The column is indexed. Its first file has bounds, or a partition if there is a ``transform``.
    """
    spec = [(1, transform)] if transform else []
    table = HandMadeTable(root, [(1, "a", "long")], spec=spec)
    bound = {} if transform else {1: LONGS.pack(2005)}
    path = table.write("before.parquet", pa.table({"a": [2005]}), {"a": 1})
    partition = (transformed(transform, "long", 2005),) if transform else ()
    table.snapshot(table.data(path, partition=partition, lower_bounds=bound, upper_bounds=bound))
    table.document["snapshots"][-1]["schema-id"] = 0
    publish(table)
    index(str(root), IndexOptions(columns=("a",)))
    table.evolve([(1, "a", now)])
    table.document["partition-specs"].append({"spec-id": 1, "fields": []})
    path = table.write("now.parquet", pa.table({"a": values}), {"a": 1})
    table.snapshot(table.data(path, spec_id=1, schema_id=1))
    table.document["snapshots"][-1]["schema-id"] = 1
    publish(table)
    index(str(root))
    return table


def files_of(table: HandMadeTable, where: Filter, snapshot_id: int | None = None) -> list[str]:
    opened = load_table(str(table.root)).open(SnapshotSelector(snapshot_id=snapshot_id))
    return [Path(task.data_file.file_path).name for task in Planner(opened).plan(where).files]


TYPES = pytest.mark.parametrize(
    ("now", "values", "text"),
    [
        ("double", pa.array([1.5]), "a = 2005"),
        ("float", pa.array([1.5], pa.float32()), "a < 2006"),
        ("decimal(9, 2)", pa.array([Decimal("1.50")], pa.decimal128(9, 2)), "a > 2004"),
        ("string", pa.array(["x"]), "a = '2005'"),
        ("timestamp", pa.array([1], pa.timestamp("us")), "a < '1970-01-02T00:00:00'"),
        ("int", pa.array([1], pa.int32()), "a = 2005"),
    ],
)


@TYPES
def test_plan_of_a_snapshot_from_before_a_replacement_keeps_what_has_another_type(
    tmp_path: Path, now: str, values: pa.Array, text: str
) -> None:
    table = replaced(tmp_path / "t", now, values)
    reference: dict[str, Any]
    for reference in ({"type": "reference", "name": "a"}, {"type": "reference", "id": 1}):
        by_spec = {"type": "eq", "left": reference, "right": {"type": "literal", "value": 2005, "data-type": "long"}}
        assert files_of(table, ScanRequest.of({"filter": by_spec}).filter, BEFORE) == ["before.parquet"]
    assert files_of(table, text, BEFORE) == ["before.parquet"]


@TYPES
def test_bounds_in_manifests_of_a_snapshot_from_before_a_replacement_are_not_shown(
    tmp_path: Path, now: str, values: pa.Array, text: str
) -> None:
    del text
    table = replaced(tmp_path / "t", now, values)
    (before,) = puffin.ndv(str(table.root), snapshot_id=BEFORE, manifests=True).columns
    assert before.summary is not None
    assert (before.summary.row_count, before.summary.min, before.summary.max) == (1, None, None)


def test_buckets_of_another_type_leave_out_no_file(tmp_path: Path) -> None:
    """The text 2005 is in another bucket than the number."""
    assert transformed(BUCKETS, "string", "2005") != transformed(BUCKETS, "long", 2005)
    table = replaced(tmp_path / "t", "string", pa.array(["x"]), transform=BUCKETS)
    assert files_of(table, "a = '2005'", BEFORE) == ["before.parquet"]


def test_pyiceberg_gets_partition_values_of_before_a_replacement_as_they_were(tmp_path: Path) -> None:
    table = replaced(tmp_path / "t", "date", pa.array([1], pa.date32()), transform="identity")
    opened = load_table(str(table.root)).open(SnapshotSelector(snapshot_id=BEFORE))
    scan = scan_of(opened, Planner(opened).plan(None), ScanRequest(of_pyiceberg=True))
    (task,) = json.loads(b"{%b}" % scan.part(0))["file-scan-tasks"]
    assert task["data-file"]["partition"] == [2005]


def test_plan_of_the_current_snapshot_of_a_replaced_table_prunes(tmp_path: Path) -> None:
    table = replaced(tmp_path / "t", "double", pa.array([1.5]))
    assert files_of(table, "a = 2.5") == []
    assert files_of(table, "a = 1.5") == ["now.parquet"]


@TYPES
def test_client_plans_a_table_whose_column_had_a_type_that_is_not_promoted(
    tmp_path: Path, state_of: Callable[[HandMadeTable], TableState], now: str, values: pa.Array, text: str
) -> None:
    del text
    mode = planning_mode(state_of(replaced(tmp_path / "t", now, values)))
    assert (mode.mode, mode.reason) == (CLIENT, "column a: the name meant another column or type before")


@pytest.mark.parametrize(
    ("before", "now"),
    [("int", "long"), ("float", "double"), ("decimal(9, 2)", "decimal(12, 2)"), ("date", "timestamp")],
)
def test_server_plans_a_table_whose_column_was_promoted(
    tmp_path: Path, state_of: Callable[[HandMadeTable], TableState], before: str, now: str
) -> None:
    table = HandMadeTable(tmp_path, [(1, "a", before)])
    table.evolve([(1, "a", now)])
    publish(table)
    assert planning_mode(state_of(table)).mode == SERVER


@pytest.fixture
def state_of() -> Callable[[HandMadeTable], TableState]:
    return lambda table: load_table(str(table.root)).open().state
