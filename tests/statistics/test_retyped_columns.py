"""Columns that had another type at an old snapshot, as after Spark's CREATE OR REPLACE, which keeps field ids."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

import puffin
from puffin.errors import UnsupportedError
from puffin.load import load_table
from puffin.lookup.status import table_status
from puffin.tables.base import SnapshotSelector
from stats_jobs import Options, analyze
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.hand_made_table import HandMadeTable
from tests.server.iceberg_face import publish
from tests.statistics.made_rows import numbers

TAG = SnapshotSelector(ref="v1")


@pytest.fixture
def replaced(shared):
    """A table whose column n is a string, with a tag of a snapshot at which it was a number."""
    table = shared("t", numbers(0, 1, 2))
    table.load().manage_snapshots().create_tag(table.state.current_snapshot_id, "v1").commit()
    table.analyze(joint=("k+n",))
    with table.load().update_schema(allow_incompatible_changes=True) as schema:
        schema.update_column("n", StringType())
    table.load().overwrite(pa.table({"k": [0, 1], "n": ["a", "b"]}))
    return table


@pytest.mark.parametrize("mode", ["auto", "full"])
def test_tag_is_analyzed_without_a_column_that_had_another_type_there(replaced, caplog, mode):
    (column,) = replaced.analyze(selector=TAG, mode=mode).columns
    assert (column.column.name, column.ndv) == ("k", 3)
    assert "column n is left out: of type long at snapshot" in caplog.text
    assert [column.ndv for column in replaced.analyze().columns] == [2, 2]


@pytest.mark.parametrize("options", [{"columns": ("n",)}, {"joint": ("k+n",)}])
def test_column_that_had_another_type_is_refused_if_it_is_named(replaced, options):
    with pytest.raises(UnsupportedError, match=r"column n: of type long at snapshot \d+, now string"):
        replaced.analyze(selector=TAG, **options)


@pytest.fixture
def parted(tmp_path):
    """A directory table with a partition of n = 1 and one of n = 2 at tag v1, whose n is a string now."""
    table = HandMadeTable(tmp_path, [(1, "k", "long"), (2, "n", "long")], spec=[(2, "identity")])
    files = []
    for n in (1, 2):
        path = table.write(f"{n}.parquet", pa.table({"k": [n, 10 * n], "n": [n, n]}), {"k": 1, "n": 2})
        files.append(table.data(path, partition=(n,), record_count=2))
    table.snapshot(*files)
    table.evolve([(1, "k", "long"), (2, "n", "string")])
    path = table.write("a.parquet", pa.table({"k": [5], "n": ["a"]}), {"k": 1, "n": 2})
    table.snapshot(table.data(path, partition=("a",), schema_id=1, record_count=1))
    for snapshot, schema_id in zip(table.document["snapshots"], (0, 1), strict=True):
        snapshot["schema-id"] = schema_id
    table.document["refs"] = {"v1": {"snapshot-id": 1, "type": "tag"}}
    publish(table)
    return table


@pytest.mark.parametrize(("where", "rows"), [({"where": "k >= 0"}, 4), ({"partitions": ["p0=2"]}, 2)])
def test_partitions_of_a_tag_have_the_type_that_their_column_had_then(parted, caplog, where, rows):
    name = str(parted.root)
    report = analyze(load_table(name), Options(selector=TAG, partitions=True))
    assert [(column.column.name, column.ndv) for column in report.columns] == [("k", 4)]
    assert "no partition statistics file: p0 had another type at snapshot 1" in caplog.text
    assert puffin.ndv(name, ["k"], ref="v1", **where).columns[0].ndv == rows
    assert puffin.ndv(name, ["k"], ref="v1", where="n = '2'").columns[0].ndv == 4  # no text is a number
    again = analyze(load_table(name), Options(selector=TAG, partitions=True))
    assert not again.committed


def test_estimate_at_a_tag_does_not_compare_partitions_of_another_type(parted):
    assert puffin.estimate(str(parted.root), where="n = '2'", ref="v1").rows.upper == 4


@pytest.mark.parametrize("moved", ["a branch", "the current snapshot"])
def test_head_is_analyzed_without_a_column_that_has_another_type_there(parted, caplog, moved):
    if moved == "a branch":
        parted.document["refs"]["v1"]["type"] = "branch"
    else:
        parted.document["current-snapshot-id"] = 1
    publish(parted)
    table = load_table(str(parted.root))
    selector = SnapshotSelector(snapshot_id=1)
    assert [column.column.name for column in analyze(table, Options(selector=selector)).columns] == ["k"]
    assert "column n is left out: of type long at snapshot 1, now string" in caplog.text
    with pytest.raises(UnsupportedError, match="column n: of type long at snapshot 1, now string"):
        analyze(table, Options(selector=selector, columns=("n",)))


def test_rolled_back_table_is_up_to_date_without_a_column_of_another_type(tmp_path, parted):
    name = str(parted.root)
    parted.document["partition-specs"][0]["fields"] = []
    publish(parted)
    index(name, IndexOptions(columns=("k", "n")))
    parted.document["current-snapshot-id"] = 1
    publish(parted)
    analyze(load_table(name), Options())
    status = table_status(name, load_table(name).open())
    assert (status.columns_missing, status.index_files_missing, status.bytes_to_read) == ((), 0, 0)
    with pytest.raises(UnsupportedError, match="column n: of type long at snapshot 1, now string"):
        index(name, IndexOptions(columns=("n",)))


@pytest.mark.parametrize(
    ("before", "values", "now", "low", "high", "where"),
    [
        ("int", pa.array([1, 2], pa.int32()), "long", 1, 2, "n > 2"),
        ("float", pa.array([0.1, 0.7], pa.float32()), "double", 0.10000000149011612, 0.699999988079071, "n > 0.7"),
        ("date", pa.array([0, 1], pa.date32()), "timestamp", "1970-01-01", "1970-01-02", "n > '1970-01-02T00:00:00'"),
    ],
)
def test_bounds_stay_when_a_type_is_promoted(tmp_path, before, values, now, low, high, where):
    table = HandMadeTable(tmp_path, [(1, "n", before)])
    table.snapshot(table.data(table.write("a.parquet", pa.table({"n": values}), {"n": 1}), record_count=2))
    publish(table)
    analyze(load_table(str(tmp_path)), Options())
    table.document = {**load_table(str(tmp_path)).open().state.document}
    table.evolve([(1, "n", now)])
    publish(table)
    (answer,) = puffin.ndv(str(tmp_path), ["n"]).columns
    midnight = "T00:00:00.000000" if before == "date" else 0
    assert (answer.summary.min, answer.summary.max) == (low + midnight, high + midnight)
    assert puffin.estimate(str(tmp_path), where=where).rows.upper == 0
