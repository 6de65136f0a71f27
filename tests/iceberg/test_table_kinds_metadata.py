"""
Old metadata, and metadata newer than we know: analyzed, committed to, and read by Iceberg's Java library.

A table that Iceberg 0.9 wrote has no manifest lists, one schema and one spec; what its documents may lack besides is
taken away here. What is unknown stands in documents made by hand, beside real data files and manifests.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import puffin
from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.load import load_table
from puffin.tables.base import SnapshotSelector
from stats_jobs import Options, analyze
from tests.table_directory import publish

OLD_TABLE = Path(__file__).parents[2] / "fixtures" / "tables-iceberg-0.9" / "t_unlisted.tar.gz"
CHANGED = {"statistics", "partition-statistics", "metadata-log", "last-updated-ms"}


@pytest.fixture
def old(golden_tables):
    """The directory of the table that Iceberg 0.9 wrote, at the path in its metadata."""
    with tarfile.open(OLD_TABLE) as archive:
        archive.extractall("/", filter="data")
    directory = golden_tables.parent / "v1" / "t_unlisted"
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def java(spark):
    """Loads a table with Iceberg's Java library, by its directory or as of a metadata file."""
    tables = spark._jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
    return lambda place: tables.load(str(place))


def version(directory: Path, number: int) -> dict:
    return json.loads((directory / "metadata" / f"v{number}.metadata.json").read_text())


def ndvs(report) -> dict[str, int]:
    return {column.column.name: column.ndv for column in report.columns}


def bases(report) -> set[str]:
    return {column.basis for column in report.columns}


def ndvs_in_java(table) -> dict[int, int]:
    """The NDVs of the current snapshot's entry by field id, as Java reads them."""
    (entry,) = [e for e in table.statisticsFiles() if e.snapshotId() == table.currentSnapshot().snapshotId()]
    return {blob.fields()[0]: int(dict(blob.properties())["ndv"]) for blob in entry.blobMetadata()}


# --- without manifest lists ---------------------------------------------------------------------------------------


@pytest.mark.table_kind("No manifest lists", "1")
def test_snapshots_without_manifest_lists_are_built_on_one_after_the_other(old):
    first, second, third = version(old, 5)["snapshots"]
    reports = [
        analyze(str(old), Options(selector=SnapshotSelector(snapshot_id=snapshot["snapshot-id"])))
        for snapshot in (first, second, third)
    ]
    assert [bases(report) for report in reports] == [{"full"}, {"added-files"}, {"added-files"}]
    assert [(report.rows_read, report.files_read) for report in reports] == [(200, 2), (100, 1), (100, 1)]
    assert ndvs(reports[1]) == {"id": 300, "p": 2, "renamed": 10, "nothing": 0, "late": 0}
    assert ndvs(reports[2]) == {"id": 400, "p": 2, "renamed": 10, "nothing": 0, "late": 30}
    in_full = analyze(str(old), Options(mode="full", partitions=True))
    assert [c.distinct for c in in_full.columns] == [c.distinct for c in reports[2].columns]
    assert in_full.partitions.count == 2
    of_one = puffin.ndv(str(old), ["id", "late"], partitions=["p=x"])
    assert [column.ndv for column in of_one.columns] == [200, 0]


def test_unlisted_manifests_give_counts_and_bounds_of_columns(old):
    answer = puffin.ndv(str(old), ["id", "renamed", "nothing"], manifests=True)
    summaries = [column.summary for column in answer.columns]
    assert [(s.row_count, s.null_count, s.min, s.max) for s in summaries] == [
        (400, 0, 0, 399),
        (400, 0, 0.0, 2.25),
        (400, 400, None, None),
    ]


@pytest.mark.table_kind("No manifest lists", "1")
def test_java_continues_with_a_table_without_manifest_lists(spark, old, java):
    """Java's snapshots have lists: a delete comes from the manifests of both, and Spark agrees with our answers."""
    analyze(str(old), Options(partitions=True))
    table = java(old)
    assert table.currentSnapshot().manifestListLocation() is None
    assert ndvs_in_java(table) == {1: 400, 2: 2, 3: 10, 5: 0, 6: 30}
    expressions = spark._jvm.org.apache.iceberg.expressions.Expressions
    table.newDelete().deleteFromRowFilter(expressions.equal("p", "x")).commit()
    assert table.currentSnapshot().manifestListLocation() is not None
    report = analyze(str(old), Options(partitions=True))
    assert bases(report) == {"changed-files"}
    rows = spark.read.format("iceberg").load(str(old)).toArrow()
    assert ndvs(report) == {name: len(rows[name].drop_null().unique()) for name in rows.column_names}
    assert rows.num_rows == 200
    assert list(ndvs_in_java(java(old)).values()) == list(ndvs(report).values())


@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.table_kind("No manifest lists", "2 3", "upgraded")
@pytest.mark.table_kind("One schema, one spec, no `schema-id`, no refs, no uuid", "2 3", "upgraded")
def test_upgrade_keeps_snapshots_without_manifest_lists(old, java, format_version):
    """Java upgrades and reads our commit; it fails to write further snapshots with or without us."""
    analyze(str(old), Options(selector=SnapshotSelector(snapshot_id=version(old, 5)["snapshots"][1]["snapshot-id"])))
    table = java(old)
    table.updateProperties().set("format-version", str(format_version)).commit()
    assert bases(analyze(str(old))) == {"added-files"}
    assert version(old, 8)["format-version"] == format_version
    assert ndvs_in_java(java(old)) == {1: 400, 2: 2, 3: 10, 5: 0, 6: 30}


def test_manifest_with_an_unknown_partition_spec_is_corrupt(old):
    """Without a list only the manifest names its spec, by default the first one."""
    (path, *_) = version(old, 5)["snapshots"][-1]["manifests"]
    data = Path(path).read_bytes()
    Path(path).write_bytes(data.replace(b"partition-spec-id\x020", b"partition-spec-id\x02x"))
    with pytest.raises(CorruptMetadataError, match=r"m0\.avro: not an Iceberg manifest: expected a partition-spec-id"):
        analyze(str(old))
    Path(path).write_bytes(data.replace(b"partition-spec-id\x020", b"partition-spec-xx\x020"))
    assert ndvs(analyze(str(old)))["id"] == 400
    Path(path).write_bytes(b"Obj\x01\x02")
    with pytest.raises(CorruptMetadataError, match=r"m0\.avro: expected an Avro file"):
        analyze(str(old), Options(mode="full"))


def test_table_without_manifest_lists_works_in_a_sql_catalog(old, java, tmp_path):
    """pyiceberg cannot read such metadata, so the test writes the catalog's row."""
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    catalog = SqlCatalog("old", **properties)
    row = ("old", "db", "t", f"{old}/metadata/v5.metadata.json")
    with catalog.engine.begin() as connection:
        columns = "catalog_name, table_namespace, table_name, metadata_location, iceberg_type"
        connection.exec_driver_sql(f"INSERT INTO iceberg_tables ({columns}) VALUES {(*row, 'TABLE')}")
    table = load_table("db.t", catalog="old", catalog_properties={"type": "sql", **properties})
    assert analyze(table).committed
    assert ndvs_in_java(java(table.open().state.metadata_location)) == {1: 400, 2: 2, 3: 10, 5: 0, 6: 30}


# --- what old documents lack --------------------------------------------------------------------------------------

OLD_DOCUMENTS = {
    "as Iceberg 0.9 wrote it": lambda _: None,
    "one partition spec alone": lambda document: [document.pop(k) for k in ("partition-specs", "default-spec-id")],
    "partition fields without ids": lambda document: [
        document.pop("partition-specs"),
        document.pop("default-spec-id"),
        document["partition-spec"][0].pop("field-id"),
    ],
    "no uuid": lambda document: document.pop("table-uuid"),
    "no logs": lambda document: [document.pop(k) for k in ("snapshot-log", "metadata-log")],
    "snapshots without summaries": lambda document: [s.pop("summary") for s in document["snapshots"]],
    "no properties": lambda document: document.pop("properties"),
}


@pytest.mark.parametrize("change", OLD_DOCUMENTS.values(), ids=OLD_DOCUMENTS)
@pytest.mark.table_kind("One schema, one spec, no `schema-id`, no refs, no uuid", "1")
def test_old_documents_are_committed_to_and_read_by_java(old, java, change):
    document = version(old, 5)
    change(document)
    (old / "metadata" / "v5.metadata.json").write_text(json.dumps(document))
    (old / "metadata" / ".v5.metadata.json.crc").unlink()
    report = analyze(str(old), Options(partitions=True))
    assert (report.committed, report.rows_read) == (True, 400)
    committed = version(old, 6)
    assert {k: v for k, v in committed.items() if k not in CHANGED} == {
        k: v for k, v in document.items() if k not in CHANGED
    }
    assert ndvs_in_java(java(old / "metadata" / "v6.metadata.json")) == {1: 400, 2: 2, 3: 10, 5: 0, 6: 30}


@pytest.mark.parametrize("current", [{"current-snapshot-id": -1}, {"current-snapshot-id": None}, {}], ids=str)
@pytest.mark.table_kind("No snapshot yet", "1")
def test_old_documents_without_a_snapshot_have_nothing_to_compute(old, current):
    document = version(old, 1)
    document.pop("current-snapshot-id")
    (old / "metadata" / "v5.metadata.json").write_text(json.dumps({**document, **current}))
    report = analyze(str(old))
    assert (report.snapshot, report.committed, ndvs(report)["id"]) == (None, False, None)
    assert not (old / "metadata" / "v6.metadata.json").exists()


@pytest.mark.table_kind("A snapshot without files", "1")
def test_snapshot_without_manifests_field_is_corrupt_and_an_empty_one_is_empty(old):
    document = version(old, 5)
    for manifests in (None, []):
        document["snapshots"][-1]["manifests"] = manifests
        (old / "metadata" / "v5.metadata.json").write_text(json.dumps(document))
        if manifests is None:
            with pytest.raises(CorruptMetadataError, match="expected manifest-list or manifests, found neither"):
                analyze(str(old))
    assert set(ndvs(analyze(str(old))).values()) == {0}


# --- what is unknown ----------------------------------------------------------------------------------------------


@pytest.fixture(params=[1, 2, 3], ids="v{}".format)
def unknown(request, make_table):
    """A table of each version with one file, and an unknown field in every object of its document."""
    format_version = request.param
    table = make_table(
        [(1, "id", "long"), (2, "p", "string")], version=format_version, spec=[(2, "identity"), (1, "foo[3]")]
    )
    rows = pa.table({"id": pa.array([1, 2, 2], pa.int64()), "p": ["x", "x", "x"]})
    file = table.write("data/a.parquet", rows, {"id": 1, "p": 2})
    table.snapshot(table.data(file, partition=("x", 7)))
    document = table.document
    (snapshot,) = document["snapshots"]
    future = {"of": ["another", 1.5, None, True, "\ud83d\ude00 \u00fc"], "": {}}
    document["schemas"][0] |= {"x-schema": future}
    document["partition-specs"][0] |= {"x-spec": future}
    snapshot |= {"schema-id": 0, "x-snapshot": future}
    if format_version == 1:
        del snapshot["sequence-number"]
        document |= {"schema": document["schemas"][0], "partition-spec": document["partition-specs"][0]["fields"]}
    else:
        document["last-sequence-number"] = 1
    if format_version > 2:
        snapshot |= {"first-row-id": 0, "added-rows": 3}
        document["next-row-id"] = 3
    document |= {
        "last-column-id": 2,
        "last-partition-id": 1001,
        "default-spec-id": 0,
        "default-sort-order-id": 4,
        "sort-orders": [
            {"order-id": 0, "fields": []},
            {
                "order-id": 4,
                "x-order": future,
                "fields": [{"transform": "foo[3]", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}],
            },
        ],
        "refs": {"main": {"snapshot-id": 1, "type": "branch", "x-ref": future}},
        "requirements": [{"type": "assert-something-new", "of": future}],
        "x-table": future,
    }
    return table


@pytest.mark.parametrize("extension", [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"])
@pytest.mark.table_kind("Unknown transforms, sort orders and fields anywhere in the metadata")
@pytest.mark.table_kind("Compressed metadata, in either spelling")
def test_unknown_fields_are_kept_and_java_reads_the_table(unknown, java, extension):
    """In plain and compressed metadata, spelled as before; unknown transforms are no obstacle."""
    directory = unknown.root / "metadata"
    directory.mkdir()
    data = json.dumps(unknown.document).encode()
    (directory / f"v1{extension}").write_bytes(gzip.compress(data) if "gz" in extension else data)
    report = analyze(str(unknown.root))
    assert (report.committed, ndvs(report)) == (True, {"id": 2, "p": 1})
    data = (directory / f"v2{extension}").read_bytes()
    committed = json.loads(gzip.decompress(data) if "gz" in extension else data)
    expected = {**unknown.document, **{key: committed[key] for key in CHANGED & committed.keys()}}
    assert json.dumps({k: committed[k] for k in expected}) == json.dumps(expected)
    assert set(committed) - set(unknown.document) == {"statistics", "metadata-log"}
    table = java(unknown.root)
    assert ndvs_in_java(table) == {1: 2, 2: 1}
    assert [field.transform().toString() for field in table.spec().fields()] == ["identity", "foo[3]"]


@pytest.mark.table_kind("Unknown transforms, sort orders and fields anywhere in the metadata")
def test_unknown_transform_is_refused_by_name_for_partitions(unknown):
    publish(unknown.root, unknown.document)
    with pytest.raises(UnsupportedTableError, match=r"partition transform 'foo\[3\]' is not known"):
        analyze(str(unknown.root), Options(partitions=True))
    analyze(str(unknown.root))
    assert puffin.ndv(str(unknown.root), ["id"]).columns[0].ndv == 2
