"""The NDV of some partitions comes from the nearest partition sketches, with few reads, or is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from puffin.format import PARTITION_SKETCHES_V1, PuffinReader
from puffin.lookup import PartitionMatch, Question, lookup
from puffin.statistics import stored_blobs

SPECS = [{"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "b", "transform": "identity"}]}]
ONE, TWO, THREE = ((0, f'{{"1000":{value}}}') for value in (1, 2, 3))
VALUES = {ONE: range(10), TWO: range(5, 20), THREE: range(100, 3000)}


@pytest.fixture
def table(table_of):
    """Makes a table partitioned by the identity of column b."""
    return lambda *entries, **options: table_of(*entries, **{"partition-specs": SPECS}, **options)


def asked(table, *columns, partitions=(), where=None, **options):
    return lookup(table, Question(table.name, columns or ["a"], partitions=partitions, where=where, **options))


def test_one_partition_has_its_own_ndv(table, by_partition):
    answer = asked(table(by_partition(10, {1: VALUES})), partitions=["b=2"])
    assert answer.to_json() == {
        "table": "t",
        "format": "iceberg",
        "snapshot-id": 10,
        "partitions": {"matched": 1, "of": 3, "granularity": "partition"},
        "columns": [
            {
                "column": "a",
                "field-id": 1,
                "type": "long",
                "ndv": 15,
                "lower": 15,
                "upper": 15,
                "exact": True,
                "stats-snapshot-id": 10,
                "source": "snapshot",
                **dict.fromkeys(("row-count", "null-count", "nan-count", "min", "max", "avg-bytes")),
                "snapshots-behind": 0,
                "records-added": 0,
                "records-deleted": 0,
            }
        ],
    }


@pytest.mark.parametrize(
    ("partitions", "where", "matched", "ndv"),
    [
        (["b=1", "b=2"], None, 2, 20),
        ([], "b <= 2", 2, 20),
        (["b=1", "b=2"], "b >= 2", 1, 15),
        (["b=1"], "a > 7", 1, 10),
        ([], "a > 7 and b = 2", 1, 15),
    ],
)
def test_several_partitions_are_united_and_combined_with_a_filter(table, by_partition, partitions, where, matched, ndv):
    answer = asked(table(by_partition(10, {1: VALUES})), partitions=partitions, where=where)
    assert answer.partitions == PartitionMatch(matched, 3)
    assert answer.columns[0].ndv == ndv


def test_large_partition_has_the_bounds_of_its_small_sketch(table, by_partition):
    distinct = asked(table(by_partition(10, {1: VALUES})), partitions=["b=3"]).columns[0].distinct
    assert not distinct.exact
    assert distinct.lower <= 2900 <= distinct.upper
    assert 0.1 < (distinct.upper - distinct.lower) / 2900 < 0.2


@pytest.mark.parametrize(("partitions", "where"), [(["b=7"], None), ([], "b = 7"), (["b=null"], None)])
def test_empty_selection_has_no_value(table, by_partition, partitions, where):
    answer = asked(table(by_partition(10, {1: VALUES})), partitions=partitions, where=where)
    assert answer.partitions == PartitionMatch(0, 3)
    assert (answer.columns[0].ndv, answer.columns[0].distinct.exact) == (0, True)


def test_answer_without_partitions_does_not_mention_them(table, by_partition):
    answer = asked(table(by_partition(10, {1: VALUES})))
    assert answer.partitions is None
    assert "partitions" not in answer.to_json()


def test_column_without_partition_sketches_is_missing_and_opens_no_file(table, entry_of):
    looked_up = table(entry_of(10, {1: 3}))
    answer = asked(looked_up, partitions=["b=1"])
    assert (answer.columns[0].source, answer.partitions) == ("missing", PartitionMatch(None, None))
    assert looked_up.files.opened == []


def test_table_without_a_snapshot_has_no_partitions(table):
    assert asked(table(snapshots=()), where="b = 1").partitions == PartitionMatch(None, None)


def test_nearest_ancestor_with_partition_sketches_answers(table, by_partition, entry_of):
    """A newer entry without any is skipped."""
    entries = by_partition(10, {1: VALUES}), by_partition(20, {1: {ONE: range(3)}}), entry_of(30, {1: 9})
    looked_up = table(*entries, snapshots=(10, 20, 30))
    answer = asked(looked_up, partitions=["b=1"])
    (column,) = answer.columns
    assert (column.ndv, column.stats_snapshot_id, column.source) == (3, 20, "ancestor")
    assert answer.partitions == PartitionMatch(1, 1)
    assert [Path(uri).name for uri in looked_up.files.opened] == ["20.stats", "version-hint.text"]


def test_distance_is_measured_to_the_counted_rows(table, by_partition):
    """A statistics file may keep sketches of an older snapshot than its own."""
    looked_up = table(
        by_partition(20, {1: VALUES}), by_partition(30, {1: {ONE: range(3)}}, of=10), snapshots=(10, 20, 30)
    )
    (column,) = asked(looked_up, partitions=["b=1"]).columns
    assert (column.ndv, column.stats_snapshot_id) == (10, 20)


def test_partitions_are_counted_where_the_nearest_rows_are(table, by_partition):
    looked_up = table(
        by_partition(10, {1: VALUES, 3: VALUES}), by_partition(20, {3: {ONE: range(4)}}), snapshots=(10, 20)
    )
    answer = asked(looked_up, "a", "c", partitions=["b=1"])
    assert [(c.ndv, c.source) for c in answer.columns] == [(10, "ancestor"), (4, "snapshot")]
    assert answer.partitions == PartitionMatch(1, 1)


def test_old_statistics_can_be_refused(table, by_partition):
    looked_up = table(by_partition(10, {1: VALUES}), snapshots=(10, 20, 30))
    assert asked(looked_up, partitions=["b=1"], max_staleness=2).columns[0].ndv == 10
    assert asked(looked_up, partitions=["b=1"], max_staleness=1).columns[0].source == "missing"


def test_several_columns_cost_one_manifest_read_and_two_part_reads(table, by_partition, monkeypatch):
    monkeypatch.setattr(stored_blobs, "SMALL_FILE", -1)
    looked_up = table(by_partition(10, {1: VALUES, 2: VALUES, 3: VALUES}))
    assert [c.ndv for c in asked(looked_up, "a", "c", partitions=["b=1"]).columns] == [10, 10]
    assert [Path(uri).name for uri in looked_up.files.opened] == ["10.stats", "version-hint.text"]
    assert len(looked_up.files.reads) == 3  # the manifest, and of the part its footer and the blobs


@pytest.mark.parametrize("damage", ["missing", "footer", "payload", "unlisted"])
def test_unreadable_file_falls_back_to_an_ancestor(table, by_partition, damage):
    broken = by_partition(20, {1: VALUES} if damage != "unlisted" else {2: VALUES})
    path = Path(broken["part"])
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "footer":
        path.write_bytes(data[:-4] + b"PFA2")
    elif damage == "payload":
        (blob,) = (b for b in PuffinReader(bytes(data)).file_metadata.blobs if b.type == PARTITION_SKETCHES_V1)
        data[blob.offset + 8 : blob.end] = bytes(blob.length - 8)
        path.write_bytes(data)
    else:
        broken["blob-metadata"][0]["fields"] = [1]  # of which no part has anything
    looked_up = table(by_partition(10, {1: {ONE: range(3)}}), broken, snapshots=(10, 20))
    (column,) = asked(looked_up, partitions=["b=1"]).columns
    assert (column.ndv, column.stats_snapshot_id) == (3, 10)
