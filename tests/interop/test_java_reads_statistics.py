"""Iceberg's Java library reads our statistics files and finds what we say is in them."""

from __future__ import annotations

import math

import pytest

from puffin.format import THETA_V1, PuffinReader
from puffin.sketches.theta_sketch import ThetaSketch

TABLE = "hadoop.java_reads.t"
COLUMNS = ["many", "few", "one", "none", "st.x"]
NOMINAL_ENTRIES = 4096


@pytest.fixture(scope="module")
def table(spark):
    """A table with a column for each form of sketch (estimating, exact, single item, empty), and a nested column."""
    spark.sql(f"CREATE TABLE {TABLE} (many bigint, few string, one date, none double, st struct<x: int>) USING iceberg")
    spark.sql(
        f"""INSERT INTO {TABLE} SELECT id, concat('v', id % 50), DATE'2024-02-29', CAST(NULL AS double),
            named_struct('x', CAST(id % 7 AS int)) FROM range(9000)"""
    )
    return TABLE


@pytest.fixture(scope="module", params=["none", "zstd"])
def analyzed(table, request, analyze_table, open_table, java_statistics):
    """The report of a run, its entry, and the entry as Java reads it."""
    report = analyze_table(table, mode="full", codec=request.param)
    snapshot_id = report.snapshot.snapshot_id
    return report, open_table(table).open().state.statistics[snapshot_id], java_statistics(table)[snapshot_id]


def test_java_opens_the_file_with_the_sizes_of_the_entry(analyzed):
    """Wrong sizes make Iceberg's reader fail; right ones lead to a footer that names its writer."""
    _, entry, java = analyzed
    assert java.path == entry.statistics_path
    assert java.file_properties["created-by"].startswith("puffin-sidecar ")


def test_java_and_our_reader_describe_every_blob_alike(analyzed, open_table):
    _, entry, java = analyzed
    with open_table(TABLE).open().store_for(java.path).open_source(java.path) as source:
        reader = PuffinReader(source, file_size=entry.file_size_in_bytes, footer_size=entry.file_footer_size_in_bytes)
        ours = list(zip(reader.file_metadata.blobs, reader.read_all(), strict=True))
    assert [
        (b.type, b.fields, b.snapshot_id, b.sequence_number, b.offset, b.length, b.codec, b.properties, b.payload)
        for b in java.every_blob
    ] == [
        (
            *(b.type, b.fields, b.snapshot_id, b.sequence_number),
            *(b.offset, b.length, b.compression_codec, dict(b.properties), payload),
        )
        for b, payload in ours
    ]
    assert [b.type for b in java.every_blob] == [THETA_V1] * len(COLUMNS)


def test_java_finds_the_blobs_that_the_entry_lists(analyzed):
    """One for each column, nested ones too, with equal properties in the table metadata and the file."""
    report, _, java = analyzed
    assert [column.column.name for column in report.columns] == COLUMNS
    assert {blob.fields: blob.properties for blob in java.blobs} == java.listed
    assert list(java.listed) == [(column.column.field_id,) for column in report.columns]


def test_java_estimates_equal_the_properties_and_the_report(analyzed):
    report, _, java = analyzed
    estimates = [math.floor(blob.sketch.estimate) for blob in java.blobs]
    assert estimates == [int(blob.properties["ndv"]) for blob in java.blobs]
    assert estimates == [column.ndv for column in report.columns]
    assert estimates[1:] == [50, 1, 0, 7]


def test_java_sketches_are_ordered_and_retain_as_many_hashes_as_ours(analyzed):
    _, _, java = analyzed
    ours = [ThetaSketch.from_bytes(blob.payload).retained for blob in java.blobs]
    assert [blob.sketch.retained for blob in java.blobs] == ours == [NOMINAL_ENTRIES, 50, 1, 0, 7]
    assert all(blob.sketch.ordered for blob in java.blobs)


def test_java_serializes_each_sketch_to_our_bytes(analyzed):
    _, _, java = analyzed
    for blob in java.blobs:
        assert blob.sketch.image == blob.payload, f"field {blob.fields}"
