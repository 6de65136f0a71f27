"""What a statistics file contains: which blobs it keeps, which it drops, and in what order."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from puffin.format import DISTRIBUTION_V1, PARTITION_SKETCHES_V1, ROW_COUNTS_V1, THETA_V1, BlobMetadata, RawBlob
from puffin.sketches.partition_sketches import PartitionSketchesBuilder
from puffin.sketches.row_counts import RowCountsBuilder
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.assemble import ColumnStatistics, assemble, choose_retained, companion_blobs, sketch_blobs
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.kinds import PARTITION_SKETCHES, ROW_COUNTS, SUMMARY, THETA
from puffin.statistics.private_state.blobs import KeptBlob
from puffin.statistics.private_state.manifest import BlobKey, Part, StoredKey
from puffin.statistics.retained import RetainedBlob, with_entries
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary

SNAPSHOT = Snapshot(10, None, 7, 0, "append", None)
NOTED = {"puffin-sidecar.type": "long", "puffin-sidecar.reading": "1"}
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
    return with_entries(listed(*raws), raws, "puffin-sidecar 0.2.0")


def ours(*fields: int, **options) -> RawBlob:
    """A sketch of ours, which needs no maker's mark."""
    return raw(*fields, **{"properties": NOTED, **options})


def kept(*candidates: RetainedBlob, computed=(), current=range(100)) -> list[RawBlob]:
    chosen = choose_retained(candidates, [10], set(current) - set(computed))
    return [blob.raw for blob in chosen]


def column(field_id: int, name: str = "c") -> Column:
    return Column(field_id, name, "long", (field_id,), (None,))


def computed(*field_ids: int):
    return sketch_blobs([statistics(i) for i in field_ids], SNAPSHOT, None)


def statistics(field_id: int, size: int | None = None, beside=None, **options) -> ColumnStatistics:
    values = pa.array(range(field_id if size is None else size), pa.int64())
    sketch = ThetaSketch.from_arrow(values, "long")
    return ColumnStatistics(column(field_id), {THETA: sketch, **(beside or {})}, **options)


# --- computed blobs -----------------------------------------------------------------------------------------------


def test_summary_is_a_property_of_the_table_entry_only():
    summary = ColumnSummary(9, 1, None, 0, 2, 64)
    others = statistics(4, 3)
    with_it = sketch_blobs([statistics(3, 3, {SUMMARY: RowSummary.of(summary, "long")}), others], SNAPSHOT, None)
    without = sketch_blobs([statistics(3, 3), others], SNAPSHOT, None)
    assert [SketchProperties(blob.properties).summary for blob in with_it] == [summary, None]
    assert [blob.payload for blob in with_it] == [blob.payload for blob in without]
    assert [blob.properties["ndv"] for blob in with_it] == ["3", "3"]
    assert SketchProperties(assemble(with_it, []).entries[0].properties).summary == summary


def test_computed_blob_describes_one_field_of_the_snapshot():
    (blob,) = computed(3)
    assert (blob.type, blob.fields, blob.snapshot_id, blob.sequence_number) == (THETA_V1, (3,), 10, 7)
    assert ThetaSketch.from_bytes(blob.payload).ndv == 3
    assert blob.properties["ndv"] == "3"


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 100_000])
def test_ndv_is_digits_and_properties_are_short(size):
    """Every later metadata file repeats them."""
    one = statistics(1, size)
    (blob,) = sketch_blobs([one], SNAPSHOT, None)
    assert blob.properties["ndv"].isdecimal()
    assert int(blob.properties["ndv"]) == int(one.values[THETA].estimate)
    assert sum(len(key) + len(value) for key, value in blob.properties.items()) < 200


def test_sketch_mentions_partition_sketches_which_stay_private():
    builder = PartitionSketchesBuilder(9)
    for i in range(3):
        builder.add((0, str(i)), MAX_THETA, np.array([5], np.uint64))
    columns = [statistics(1), statistics(2, beside={PARTITION_SKETCHES: builder.compact()})]
    blobs = sketch_blobs(columns, SNAPSHOT, None)
    assert [SketchProperties(blob.properties).partitions for blob in blobs] == [None, 3]
    contents = assemble(blobs, [], companion_blobs(columns, SNAPSHOT))
    assert [b.fields for b in contents.entries] == [(1,), (2,)]
    assert [b.fields for b in contents.blobs] == [(1,), (2,)]
    (private,) = contents.private.new
    made = private.make()
    assert (made.type, made.fields, made.compression_codec) == (PARTITION_SKETCHES_V1, (2,), "zstd")
    assert not contents.private.kept


def test_new_sketch_refers_to_private_blobs_that_are_already_stored():
    counts = RowCountsBuilder(10).compact()
    stored = KeptBlob(BlobKey(ROW_COUNTS_V1, 1, 7), StoredKey(Part("p", 10, 5), 5), "s3://b/t/_puffin_sidecar")
    one = statistics(1, beside={ROW_COUNTS: counts}, kept={ROW_COUNTS: stored})
    (private,) = companion_blobs([one], SNAPSHOT).kept.values()
    assert private == dataclasses.replace(stored, key=BlobKey(ROW_COUNTS_V1, 1, 10))
    without = companion_blobs([statistics(1, kept={ROW_COUNTS: stored})], SNAPSHOT)
    assert without.omitted == {BlobKey(type_, 1, 10) for type_ in (ROW_COUNTS_V1, DISTRIBUTION_V1)}
    assert not without.kept


def test_first_sketch_names_a_private_home_other_than_the_default():
    contents = assemble(computed(3, 2), retained(ours(1)), home="s3://b/home")
    said = [entry.properties.get("puffin-sidecar.home") for entry in contents.entries]
    assert said == ["s3://b/home", None, None]
    moved = dataclasses.replace(contents.blobs[0], stored=b"x")
    again = assemble([], with_entries(listed(moved), [moved], None), home=None)
    assert "puffin-sidecar.home" not in again.entries[0].properties


# --- what stays ---------------------------------------------------------------------------------------------------


def test_other_columns_are_kept_and_computed_ones_replaced():
    a, b = ours(1), ours(2)
    assert kept(*retained(a, b), computed=[1]) == [b]


def test_dropped_fields_are_left_out():
    a, gone = ours(1), ours(9)
    assert kept(*retained(a, gone), current=[1]) == [a]


def test_only_theta_sketches_of_one_field_are_kept():
    """pyiceberg, Presto, Trino and Spark each fail over one of the others."""
    a, others = (
        ours(1),
        [raw(2, type_=KLL), raw(type_="table-histogram"), raw(), raw(2, 3), raw(3, type_=ROW_COUNTS_V1)],
    )
    assert kept(*retained(a, *others)) == [a]


def test_unlisted_sketch_is_dropped():
    """It is not among the table's statistics; an entry lists every sketch of its file."""
    a, unlisted = ours(1), ours(2)
    assert with_entries(listed(a), [a, unlisted], None) == retained(a)


def test_kept_blob_keeps_the_properties_of_its_entry():
    """Its own snapshot and sequence number, and the properties of the table's metadata, not those of the file."""
    stored = raw(2, snapshot_id=5, sequence_number=3, properties={**NOTED, "ndv": "2", "more": "x"})
    said = BlobEntry(THETA_V1, 5, 3, (2,), {**NOTED, "ndv": "2"})
    entry = StatisticsEntry(10, "s3://b/old.stats", 100, 50, (said,))
    contents = assemble(computed(1), with_entries(entry, [stored], None))
    assert contents.blobs[1] == stored
    assert contents.entries[1] == said


@pytest.mark.parametrize(
    ("properties", "created_by", "marks"),
    [
        (NOTED, "Trino version 476", {}),
        ({"puffin-sidecar.type": "long"}, "puffin-sidecar 0.1.0", {"puffin-sidecar.writer": ""}),
        ({"puffin-sidecar.type": "long"}, "Trino version 476", {"puffin-sidecar.writer": ""}),
        ({}, "Trino version 476", {"puffin-sidecar.writer": "Trino version 476"}),
        ({}, "puffin-sidecar 0.1.0", {"puffin-sidecar.writer": ""}),
        ({}, None, {"puffin-sidecar.writer": ""}),
        ({"puffin-sidecar.writer": "presto-0.287"}, "Trino version 476", {}),
    ],
    ids=[
        "ours",
        "of our type",
        "of our type in Trino's file",
        "Trino's",
        "carried without a mark",
        "nobody's",
        "carried with a mark",
    ],
)
def test_carried_sketch_keeps_the_name_of_its_maker(properties, created_by, marks):
    stored = raw(1, properties=properties)
    (carried,) = with_entries(listed(stored), [stored], created_by)
    assert carried.entry.properties == carried.raw.metadata.properties == {**properties, **marks}


# --- never two for one field --------------------------------------------------------------------------------------


def test_first_entrys_sketch_of_a_field_wins():
    mine, theirs = ours(1, stored=b"mine"), ours(1, stored=b"theirs")
    assert kept(*retained(mine), *retained(theirs)) == [mine]


def test_sketch_of_newer_rows_wins_over_a_carried_one():
    old, new = ours(1, snapshot_id=5, sequence_number=3), ours(1, snapshot_id=8, sequence_number=6)
    assert kept(*retained(old), *retained(new)) == [new]
    assert kept(*retained(new), *retained(old)) == [new]


def test_snapshots_own_sketch_wins_in_version_1():
    """All sequence numbers of version 1 are 0."""
    old, new = ours(1, snapshot_id=5, sequence_number=0), ours(1, snapshot_id=10, sequence_number=0)
    assert kept(*retained(old), *retained(new)) == [new]


def test_sketch_of_the_nearest_ancestor_wins_in_version_1():
    old, new = (retained(ours(1, snapshot_id=of, sequence_number=0)) for of in (5, 8))
    for candidates in ([*old, *new], [*new, *old]):
        assert choose_retained(candidates, [10, 8, 5], {1}) == new


# --- order --------------------------------------------------------------------------------------------------------


def test_sketches_are_ordered_by_field_and_equal_the_entrys():
    old = retained(ours(4), raw(1, type_=KLL), ours(2))
    contents = assemble(computed(3, 1), choose_retained(old, [10], {*range(9)} - {1, 3}))
    fields = [blob.fields if hasattr(blob, "fields") else blob.metadata.fields for blob in contents.blobs]
    assert fields == [entry.fields for entry in contents.entries] == [(1,), (2,), (3,), (4,)]
    assert {entry.type for entry in contents.entries} == {THETA_V1}
