"""Statistics that other engines left at a table are read, judged, restored and repaired."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import _dataframe_to_data_files

import puffin
from puffin.errors import StorageError, UnsupportedTypeError
from puffin.format import THETA_V1
from puffin.sketches.theta_sketch import ThetaSketch, merge
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.kinds import THETA, to_properties
from stats_jobs import Options
from stats_jobs.decide import is_stale
from tests.statistics.conftest import theta
from tests.statistics.made_rows import numbers

TRINO, SPARK = "Trino version 476", "Iceberg Apache Iceberg 1.12.0 (commit 0a1b2c) Spark 4.1.0"
PRESTO_MISHASHES = ("i", "r", "ds", "dl", "dt", "ts")


def said(table) -> dict[str, tuple]:
    answer = puffin.ndv(table.name, catalog="beside", catalog_properties=table.properties)
    documents = (column.to_json() for column in answer.columns)
    return {column["column"]: (column["ndv"], column["exact"], column["row-count"]) for column in documents}


def theta_of_trino(raw, snapshot_id: int, ndv: str):
    """Make a sketch of ours look as if Trino had made it of a snapshot."""
    metadata = dataclasses.replace(raw.metadata, snapshot_id=snapshot_id, properties={"ndv": ndv})
    return dataclasses.replace(raw, metadata=metadata)


def data_files(table, added: pa.Table):
    """Write data files of these rows that no snapshot lists yet."""
    loaded = table.load()
    return list(_dataframe_to_data_files(table_metadata=loaded.metadata, df=added, io=loaded.io))


def bases(report) -> dict[str, tuple[int, str]]:
    return {column.column.name: (column.ndv, column.basis) for column in report.columns}


# --- what Trino replaced is restored --------------------------------------------------------------------------------


def test_next_run_restores_what_trino_analyze_replaced(table, trino_analyzes):
    trino_analyzes(table, {"k": range(100)})
    assert said(table) == {"k": (100, False, None), "n": (3, True, 100)}
    assert is_stale(table.table, Options())
    report = table.check()
    assert (report.committed, bases(report)) == (True, {"k": (100, "full"), "n": (3, "full")})
    assert said(table) == {"k": (100, True, 100), "n": (3, True, 100)}
    table.delete("k < 40")
    assert bases(table.check())["k"] == (60, "changed-files")


def test_overlap_of_sketches_of_another_engine_is_not_exact(table, trino_analyzes):
    lookup = puffin.Lookup(catalog="beside", catalog_properties=table.properties)
    assert lookup.estimate_join(table.name, "k", table.name, "k").overlap.exact
    trino_analyzes(table, {"k": range(100)})
    lookup = puffin.Lookup(catalog="beside", catalog_properties=table.properties)
    overlap = lookup.estimate_join(table.name, "k", table.name, "k").overlap
    assert (overlap.ndv, overlap.exact) == (100, False)


def test_next_run_restores_what_trino_insert_replaced_from_the_ancestor_and_new_rows(table):
    table.append(numbers(*range(100, 110)))
    snapshot_id = table.state.current_snapshot_id
    mine = next(iter(table.state.statistics))
    extended = [
        dataclasses.replace(
            raw,
            metadata=dataclasses.replace(raw.metadata, snapshot_id=snapshot_id, properties={"ndv": "110"}),
        )
        for raw in table.stored(mine)
    ]
    table.replace(TRINO, extended)
    assert is_stale(table.table, Options())
    report = table.check()
    assert (bases(report)["k"], report.rows_read) == ((110, "added-files"), 10)
    assert said(table)["k"] == (110, True, 110)


def test_private_state_follows_sketches_that_trino_copied_after_optimize(table):
    """After OPTIMIZE every sketch of ours is in Trino's file, under the previous snapshot."""
    copied = table.stored()
    table.append(numbers(7))
    table.replace(TRINO, copied)
    report = table.check()
    assert (bases(report)["k"], report.rows_read) == ((100, "added-files"), 1)


def test_sketch_that_trino_extended_past_unseen_changes_is_ignored(table):
    """Trino's INSERT adds to the nearest sketch, whatever another engine appended in between."""
    table.append(numbers(*range(100, 150)))
    with (
        table.load().transaction() as transaction,
        transaction.update_snapshot(
            {"engine-name": "trino", "trino_query_id": "20261122_080000_00001_abcde"}
        ).fast_append() as append,
    ):
        for file in data_files(table, numbers(*range(150, 160))):
            append.append_data_file(file)
    snapshot_id = table.state.current_snapshot_id
    extended = [theta_of_trino(raw, snapshot_id, "110") for raw in table.stored(min(table.state.statistics))]
    table.replace(TRINO, extended)
    assert said(table)["k"] == (100, True, 100)  # of the ancestor that we analyzed
    report = table.check()
    assert (bases(report)["k"], report.rows_read) == ((160, "added-files"), 60)


# --- entries that pyiceberg cannot load are repaired -----------------------------------------------------------------


def test_run_that_reads_nothing_repairs_the_entries_that_pyiceberg_cannot_load(table):
    table.append(numbers(*range(100, 120)))
    table.analyze()
    table.list_sizes_of_presto(table.entry_of_parent.snapshot_id)
    with pytest.raises(ValidationError, match="presto-sum-data-size-bytes-v1"):
        table.load()
    assert is_stale(table.table, Options())
    report = table.check()
    assert (report.committed, report.entries_repaired, report.rows_read) == (True, 1, 0)
    assert len(table.state.statistics) == 2
    assert table.check().current
    table.delete("k < 50")
    assert bases(table.check()) == {"k": (70, "changed-files"), "n": (3, "changed-files")}


def test_computing_run_repairs_other_entries_in_the_same_commit(table):
    table.append(numbers(1000))
    table.list_sizes_of_presto(*table.state.statistics)
    versions = len(table.state.document["metadata-log"])
    report = table.analyze(mode="full")
    assert report.entries_repaired == 1
    assert len(table.state.document["metadata-log"]) == versions + 1
    table.check()


def test_entry_whose_file_is_gone_is_repaired_in_metadata_only(table):
    table.append(numbers(1000))
    table.analyze()
    old = next(s for s in table.state.statistics if s != table.state.current_snapshot_id)
    table.list_sizes_of_presto(*table.state.statistics)
    (table.private.parent / "metadata" / table.state.statistics[old].statistics_path.rpartition("/")[2]).unlink()
    assert table.analyze().entries_repaired == 2
    assert {blob.type for blob in table.state.statistics[old].blobs} == {THETA_V1}
    table.load()
    assert table.analyze().current


def test_dry_run_and_run_without_commit_repair_nothing(table):
    table.list_sizes_of_presto(*table.state.statistics)
    for options in ({"dry_run": True}, {"commit": False}):
        assert table.analyze(**options).entries_repaired == 0
    assert any(blob.type != THETA_V1 for blob in table.entry.blobs)


# --- whose hashes are these? ----------------------------------------------------------------------------------------


def test_presto_sketches_are_neither_built_on_nor_joined(shared, presto_rows, presto_analyzes):
    """Lookups pass on what Presto said as Presto's; the next run reads every row."""
    table = shared("presto", presto_rows(range(1000)))
    presto_analyzes(table)
    with pytest.raises(ValidationError, match="presto-sum-data-size-bytes-v1"):
        table.load()
    assert said(table)["i"] == (1000, False, None)
    lookup = puffin.Lookup(catalog="beside", catalog_properties=table.properties)
    for name in PRESTO_MISHASHES:
        with pytest.raises(UnsupportedTypeError, match="resto"):
            lookup.estimate_join(table.name, name, table.name, name)
    report = table.check()
    assert {c.basis for c in report.columns} == {"full"}
    table.append(presto_rows(range(1000)))
    assert {c.ndv for c in table.check().columns if c.column.name not in ("b", "s")} == {1000}
    table.delete("l < 6172839450500")
    report = table.check()
    assert {c.ndv for c in report.columns if c.column.name != "b"} == {500}
    assert {c.basis for c in report.columns} == {"changed-files"}
    twin = puffin.Lookup(catalog="beside", catalog_properties=table.properties)
    assert twin.estimate_join(table.name, "i", table.name, "i").join_rows == 2000


@pytest.mark.parametrize("writer", ["puffin-sidecar 0.1.0", TRINO])
def test_sketch_that_claims_to_be_ours_without_a_note_is_not_trusted(shared, presto_rows, presto_analyzes, writer):
    """These have our properties, but are built on Presto's and count every value twice."""
    table = shared("merged", presto_rows(range(1000)))
    presto_analyzes(table)
    theirs = {raw.metadata.fields: raw.stored for raw in table.stored() if raw.metadata.type == THETA_V1}
    ours = table.analyze(commit=False).entry
    merged = []
    for raw in table.stored_in(ours):
        if raw.metadata.fields in theirs:
            pair = [ThetaSketch.from_bytes(stored) for stored in (theirs[raw.metadata.fields], raw.stored)]
            properties = to_properties({THETA: merge(pair)}, raw.metadata.properties["puffin-sidecar.type"])
            del properties["puffin-sidecar.reading"]
            described = {"snapshot_id": raw.metadata.snapshot_id, "sequence_number": 1, "properties": properties}
            payload = merge(pair).to_bytes()
            merged.append(puffin.Blob(type=THETA_V1, fields=raw.metadata.fields, payload=payload, **described))
    table.replace(writer, merged)
    assert said(table)["i"] == (2000, False, None)
    lookup = puffin.Lookup(catalog="beside", catalog_properties=table.properties)
    with pytest.raises(UnsupportedTypeError, match="does not say who wrote it"):
        lookup.estimate_join(table.name, "i", table.name, "i")
    report = table.check()
    assert {c.basis for c in report.columns} == {"full"}
    assert said(table)["i"] == (1000, True, 1000)


def test_sketch_that_lacks_table_values_is_detected_whatever_its_file_says(shared):
    """Trino copies blobs that Presto made: the file names Trino, but the hashes are Presto's."""
    table = shared("copied", numbers(*range(100)))
    snapshot_id = table.state.current_snapshot_id
    table.analyze(commit=False)
    wrong = ThetaSketch.from_arrow(pa.array(range(1000, 1100), pa.int64()), "long")
    table.analyze()
    blobs = [
        puffin.Blob(
            type=THETA_V1, fields=(1,), snapshot_id=snapshot_id, sequence_number=1, payload=wrong.to_bytes(),
            properties={"ndv": "100"},
        )
    ]  # fmt: skip
    table.replace(TRINO, blobs)
    for path in table.private.iterdir():
        if path.is_file():
            path.unlink()
    lookup = puffin.Lookup(catalog="beside", catalog_properties=table.properties)
    with pytest.raises(UnsupportedTypeError, match="lacks the hash of 0"):
        lookup.estimate_join(table.name, "k", table.name, "k")
    report = table.check()
    assert {c.basis for c in report.columns} == {"full"}


def test_sketch_whose_file_may_not_be_read_keeps_no_run_from_reading_the_table(shared, monkeypatch):
    """Another engine wrote it where only that engine may read."""
    table = shared("guarded", numbers(*range(100)))
    table.replace(TRINO, [theta(pa.array(range(100), pa.int64()), "long", 1, table.state.current_snapshot_id, {})])
    guarded = table.entry.statistics_path
    table.append(numbers(1000))
    open_source = puffin.storage.LocalStore.open_source

    def guard(store, uri):
        if uri == guarded:
            raise StorageError(f"{uri}: Permission denied")
        return open_source(store, uri)

    monkeypatch.setattr(puffin.storage.LocalStore, "open_source", guard)
    assert bases(table.analyze(columns=("k",))) == {"k": (101, "full")}


def test_sketch_that_cannot_be_checked_now_is_neither_built_on_nor_joined(shared, monkeypatch):
    """A store that once does not give a manifest says nothing of the sketch, which has other values than the table."""
    table = shared("busy", numbers(*range(100)))
    blob = theta(pa.array(range(1000, 1100), pa.int64()), "long", 1, table.state.current_snapshot_id, {})
    table.replace(TRINO, [blob])
    lookup = puffin.Lookup(catalog="beside", catalog_properties=table.properties)
    open_source = puffin.storage.LocalStore.open_source
    failed = []

    def busy(store, uri):
        if uri.endswith("-m0.avro") and not failed:
            failed.append(uri)
            raise StorageError(f"{uri}: 503 Slow Down")
        return open_source(store, uri)

    with monkeypatch.context() as patch:
        patch.setattr(puffin.storage.LocalStore, "open_source", busy)
        with pytest.raises(StorageError, match="503 Slow Down"):
            table.analyze(columns=("k",))
        failed.clear()
        with pytest.raises(StorageError, match="503 Slow Down"):
            lookup.estimate_join(table.name, "k", table.name, "k")
    assert bases(table.analyze(columns=("k",))) == {"k": (100, "full")}


@pytest.mark.parametrize("maker", [TRINO, SPARK])
def test_complete_sketch_of_a_known_engine_is_built_on_and_keeps_its_maker(shared, trino_analyzes, maker):
    table = shared("theirs", numbers(*range(100)))
    report = table.analyze(commit=False, columns=("k",))
    blobs = [
        dataclasses.replace(raw, metadata=dataclasses.replace(raw.metadata, properties={"ndv": "100"}))
        for raw in table.stored_in(report.entry)
    ]
    for path in table.private.rglob("*.*"):
        path.unlink()
    table.replace(maker, blobs)
    assert bases(table.analyze(columns=("k",))) == {"k": (100, "carried")}
    for last in (100, 101):
        table.append(numbers(last))
        report = table.analyze(columns=("k",))
        assert (bases(report), report.rows_read) == ({"k": (last + 1, "added-files")}, 1)
        (blob,) = report.entry.blobs
        assert SketchProperties(blob.properties).provenance.writer == maker
        assert table.analyze(columns=("k",)).current
    table.delete("k < 50")
    assert bases(table.analyze(columns=("k",))) == {"k": (52, "full")}
    assert SketchProperties(table.entry.blobs[0].properties).provenance.writer is None


def test_carried_sketch_keeps_the_mark_of_its_maker(shared, presto_rows, presto_analyzes):
    table = shared("carried", presto_rows(range(1000)))
    presto_analyzes(table)
    table.analyze(columns=("l",))
    writers = {blob.fields[0]: SketchProperties(blob.properties).provenance.writer for blob in table.entry.blobs}
    assert writers.pop(3) is None
    assert set(writers.values()) == {"presto-0.287-b8952fa"}
    table.append(presto_rows(range(10)))
    table.analyze(columns=("l",))
    assert {SketchProperties(b.properties).provenance.writer for b in table.entry.blobs} == {
        None,
        "presto-0.287-b8952fa",
    }
    assert {c.basis for c in table.check().columns} == {"full", "carried"}


# --- bounds that say how large a sketch is --------------------------------------------------------------------------


def test_bounds_of_an_extended_sketch_use_its_real_size(shared):
    values = pa.table({"k": pa.array(range(20_000), pa.int64())})
    table = shared("small", values)
    table.analyze(lg_k=8)
    first = table.stored()
    table.append(pa.table({"k": pa.array([1], pa.int64())}))
    snapshot_id = table.state.current_snapshot_id
    extended = [
        dataclasses.replace(
            raw, metadata=dataclasses.replace(raw.metadata, snapshot_id=snapshot_id, properties={"ndv": "20500"})
        )
        for raw in first
    ]
    table.replace(TRINO, extended)
    answer = puffin.ndv(table.name, catalog="beside", catalog_properties=table.properties).columns[0]
    assert answer.source == "snapshot"
    assert answer.distinct.lower <= 20_000 <= answer.distinct.upper
    assert answer.distinct.upper - answer.distinct.lower > 20_000 * 0.2  # 0.0625 times 20,000 with 4096 entries
    assert not answer.distinct.exact


def test_ndv_never_exceeds_the_number_of_non_null_rows(shared):
    over = 0
    for first in range(0, 60_000, 10_000):
        values = pa.table({"k": pa.array([*range(first, first + 10_000), None], pa.int64())})
        table = shared(f"unique{first}", values)
        (column,) = table.analyze().columns
        with puffin.storage.LocalStore().open_source(table.entry.statistics_path) as source:
            raw = puffin.PuffinReader(source).read_all()
        over += ThetaSketch.from_bytes(raw[0]).ndv > 10_000
        assert column.ndv <= 10_000
        assert column.distinct.lower < column.distinct.upper
        assert not column.distinct.exact
        assert int(table.entry.blobs[0].properties["ndv"]) == column.ndv == said(table)["k"][0]
    assert over, "none of the sketches estimates more values than there are: the test proves nothing"
