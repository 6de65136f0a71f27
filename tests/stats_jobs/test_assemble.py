"""What goes into a statistics file: which blobs stay, which go, and in what order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from puffin.format import PARTITION_SKETCHES_V1, ROW_COUNTS_V1, THETA_V1, BlobMetadata, RawBlob
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry
from puffin.tables.blob_properties import partitions_of, summary_of
from puffin.tables.column_summary import ColumnSummary
from puffin.tables.partition_sketches import PartitionSketchesBuilder
from puffin.theta import MAX_THETA, ThetaSketch
from stats_jobs.assemble import RetainedBlob, assemble, choose_retained, companion_blobs, sketch_blobs, with_entries

SNAPSHOT = Snapshot(10, None, 7, 0, "append", None)
KLL = "presto-kll-sketch-bytes-v1"


def raw(*fields: int, type_: str = THETA_V1, stored: bytes = b"x", offset: int = 4, **options) -> RawBlob:
    described = {"snapshot_id": 10, "sequence_number": 7, **options}
    metadata = BlobMetadata(type=type_, fields=fields, offset=offset, length=len(stored), **described)
    return RawBlob(metadata=metadata, stored=stored)


def listed(*raws: RawBlob) -> StatisticsEntry:
    """A table's entry that lists these blobs."""
    blobs = (b.metadata for b in raws)
    entries = tuple(BlobEntry(b.type, b.snapshot_id, b.sequence_number, b.fields, b.properties) for b in blobs)
    return StatisticsEntry(10, "s3://b/old.stats", 100, 50, entries)


def retained(*raws: RawBlob) -> list[RetainedBlob]:
    return with_entries(listed(*raws), raws)


def kept(*candidates: RetainedBlob, computed=(), current=range(100)) -> list[RawBlob]:
    chosen = choose_retained(candidates, snapshot_id=10, computed=set(computed), current_fields=set(current))
    return [blob.raw for blob in chosen]


def column(field_id: int, name: str = "c") -> Column:
    return Column(field_id, name, "long", (field_id,), (None,))


def computed(*field_ids: int):
    sketches = {i: ThetaSketch.from_arrow(pa.array(range(i), pa.int64()), "long") for i in field_ids}
    return sketch_blobs(sketches, [column(i) for i in field_ids], SNAPSHOT, lg_k=12, codec=None)


# --- computed blobs -----------------------------------------------------------------------------------------------


def test_a_summary_stands_beside_its_sketch_in_the_properties_and_nowhere_else():
    summary = ColumnSummary(9, 1, None, 0, 2, 64)
    sketches = {i: ThetaSketch.from_arrow(pa.array(range(3), pa.int64()), "long") for i in (3, 4)}
    columns = [column(3), column(4)]
    with_it = sketch_blobs(sketches, columns, SNAPSHOT, lg_k=12, codec=None, summaries={3: summary})
    without = sketch_blobs(sketches, columns, SNAPSHOT, lg_k=12, codec=None)
    assert [summary_of(blob.properties) for blob in with_it] == [summary, None]
    assert [blob.payload for blob in with_it] == [blob.payload for blob in without]
    assert [blob.properties["ndv"] for blob in with_it] == ["3", "3"]
    assert summary_of(assemble(with_it, []).entries[0].properties) == summary


def test_a_computed_blob_is_about_one_field_of_the_snapshot():
    (blob,) = computed(3)
    assert (blob.type, blob.fields, blob.snapshot_id, blob.sequence_number) == (THETA_V1, (3,), 10, 7)
    assert ThetaSketch.from_bytes(blob.payload).ndv == 3
    assert blob.properties["ndv"] == "3"


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 100_000])
def test_ndv_is_digits_and_the_properties_are_short(size):
    """They are repeated in every later metadata file."""
    sketch = ThetaSketch.from_arrow(pa.array(range(size), pa.int64()), "long")
    (blob,) = sketch_blobs({1: sketch}, [column(1)], SNAPSHOT, lg_k=12, codec=None)
    assert blob.properties["ndv"].isdecimal()
    assert int(blob.properties["ndv"]) == int(sketch.estimate)
    assert sum(len(key) + len(value) for key, value in blob.properties.items()) < 200


def test_a_sketch_tells_of_sketches_by_partition_and_they_stand_in_the_footer_alone():
    sketches = {i: ThetaSketch.from_arrow(pa.array(range(i), pa.int64()), "long") for i in (1, 2)}
    builder = PartitionSketchesBuilder(9)
    for i in range(3):
        builder.add((0, str(i)), MAX_THETA, np.array([5], np.uint64))
    partitions, columns = {2: builder.compact()}, [column(1), column(2)]
    blobs = sketch_blobs(sketches, columns, SNAPSHOT, lg_k=12, codec=None, partitions=partitions)
    blobs += companion_blobs(PARTITION_SKETCHES_V1, partitions, columns, SNAPSHOT)
    assert [partitions_of(blob.properties) for blob in blobs] == [None, 3, None]
    contents = assemble(blobs, [])
    assert [(b.type, b.fields) for b in contents.blobs][2:] == [(PARTITION_SKETCHES_V1, (2,))]
    assert [b.fields for b in contents.entries] == [(1,), (2,)]
    assert contents.blobs[2].compression_codec == "zstd"


# --- what stays ---------------------------------------------------------------------------------------------------


def test_other_columns_stay_and_computed_ones_are_replaced():
    a, b = raw(1), raw(2)
    assert kept(*retained(a, b), computed=[1]) == [b]


def test_fields_that_the_schema_lacks_go():
    a, gone, half_gone, unknown = raw(1), raw(9), raw(1, 9, type_="pairs"), raw(9, type_=KLL)
    assert kept(*retained(a, gone, half_gone, unknown), current=[1]) == [a]


def test_blobs_of_unknown_types_stay_beside_a_computed_one_of_the_same_field():
    unknown = raw(1, type_=KLL)
    assert kept(*retained(raw(1), unknown), computed=[1]) == [unknown]


@pytest.mark.parametrize("type_", [ROW_COUNTS_V1, PARTITION_SKETCHES_V1])
def test_what_is_ours_beside_a_sketch_stays_with_it(type_):
    """Beside the sketch of other rows it would be taken for something of those."""
    a, beside_a, b, beside_b, older = raw(1), raw(1, type_=type_), raw(2), raw(2, type_=type_), raw(2, snapshot_id=9)
    of_older = raw(2, type_=type_, snapshot_id=9)
    assert kept(*retained(a, beside_a, b, beside_b), computed=[1]) == [b, beside_b]
    assert kept(*retained(b, beside_b), *retained(older, of_older)) == [b, beside_b]


def test_blobs_about_no_field_stay_unless_they_are_sketches():
    """A sketch of nothing makes Spark's planner fail, which looks at the first field."""
    table_wide = raw(type_="table-histogram")
    assert kept(*retained(raw(), table_wide)) == [table_wide]


def test_several_blobs_of_one_unknown_type_and_field_stay():
    """They may be about partitions, say: nobody here knows."""
    blobs = [raw(1, type_=KLL, properties={"partition": str(i)}) for i in range(3)]
    assert kept(*retained(*blobs)) == blobs


def test_a_blob_that_two_files_have_stays_once_wherever_it_stood():
    first, copy = raw(1, type_=KLL, offset=4), raw(1, type_=KLL, offset=99)
    assert kept(*retained(first), *retained(copy)) == [first]


def test_a_sketch_that_the_entry_does_not_list_goes():
    """It is none of the table's statistics; and the entry has every sketch of the file."""
    a, unlisted = raw(1), raw(2)
    assert with_entries(listed(a), [a, unlisted]) == retained(a)


def test_blobs_of_other_types_are_in_the_footer_only_even_if_the_entry_had_them():
    """pyiceberg cannot load a table whose entry names their type."""
    unknown = raw(1, type_=KLL)
    contents = assemble(computed(2), retained(unknown))
    assert contents.blobs[1:] == (unknown,)
    assert [entry.fields for entry in contents.entries] == [(2,)]


def test_a_retained_blob_keeps_what_the_entry_said_of_it():
    """Its own snapshot and sequence number, and the properties in the table's metadata, not those in the file."""
    stored = raw(2, snapshot_id=5, sequence_number=3, properties={"ndv": "2", "more": "x"})
    said = BlobEntry(THETA_V1, 5, 3, (2,), {"ndv": "2"})
    entry = StatisticsEntry(10, "s3://b/old.stats", 100, 50, (said,))
    contents = assemble(computed(1), with_entries(entry, [stored]))
    assert contents.blobs[1] is stored
    assert contents.entries[1] == said


# --- never two for one field --------------------------------------------------------------------------------------


def test_of_two_sketches_of_a_field_the_first_entrys_stays():
    mine, theirs = raw(1, stored=b"mine"), raw(1, stored=b"theirs")
    assert kept(*retained(mine), *retained(theirs)) == [mine]


def test_a_sketch_of_newer_rows_wins_over_one_that_was_carried():
    old, new = raw(1, snapshot_id=5, sequence_number=3), raw(1, snapshot_id=8, sequence_number=6)
    assert kept(*retained(old), *retained(new)) == [new]
    assert kept(*retained(new), *retained(old)) == [new]


def test_in_version_1_a_sketch_of_the_snapshot_itself_wins():
    """There all sequence numbers are 0."""
    old, new = raw(1, snapshot_id=5, sequence_number=0), raw(1, snapshot_id=10, sequence_number=0)
    assert kept(*retained(old), *retained(new)) == [new]


def test_a_sketch_of_one_field_wins_over_one_of_several():
    pair, single = raw(1, 2), raw(1)
    assert kept(*retained(pair, single)) == [single]


def test_a_sketch_of_several_fields_goes_with_its_first_field():
    """Spark takes it for one of the first field."""
    pair = raw(1, 2)
    assert kept(*retained(pair), computed=[2]) == [pair]
    assert kept(*retained(pair), computed=[1]) == []


# --- order --------------------------------------------------------------------------------------------------------


def test_sketches_come_first_by_field_and_are_those_of_the_entry():
    unknown = raw(1, type_=KLL)
    old = [raw(4), unknown, raw(2)]
    contents = assemble(
        computed(3, 1), choose_retained(retained(*old), snapshot_id=10, computed={1, 3}, current_fields=range(9))
    )
    fields = [blob.fields if hasattr(blob, "fields") else blob.metadata.fields for blob in contents.blobs]
    assert fields == [(1,), (2,), (3,), (4,), (1,)]
    assert [entry.fields for entry in contents.entries] == fields[:4]
    assert contents.blobs[-1] is unknown
    assert {entry.type for entry in contents.entries} == {THETA_V1}
