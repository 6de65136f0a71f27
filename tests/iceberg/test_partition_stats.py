"""The partition statistics file: its rows from manifests, its bytes in Parquet, its entry in table metadata."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.update import TableUpdate, update_table_metadata

from puffin.errors import (
    CorruptMetadataError,
    FileNotFound,
    StorageError,
    UnsupportedTableError,
    UsageError,
)
from puffin.iceberg.commit.partition_stats import (
    partition_statistics,
    unified_partition_type,
    write_partition_statistics,
)
from puffin.iceberg.commit.patch import (
    PartitionStatisticsEntry,
    partition_statistics_update,
    with_partition_statistics,
)
from puffin.storage import store_for
from tests.bound import bound
from tests.iceberg.partition_files import partition_statistics_entry, read_partition_statistics

FIELDS = [(1, "id", "long"), (2, "cat", "string"), (3, "ts", "timestamp"), (4, "share", "double")]
DELETED = 2
HERE = Path("/nowhere")


def statistics_of(table) -> pa.Table:
    return partition_statistics(bound(table.state()))


def rows(table, *columns: str) -> list[tuple]:
    """The rows: partition values in the order of their fields, then these columns."""
    return [
        (*row["partition"].values(), *(row[column] for column in columns)) for row in statistics_of(table).to_pylist()
    ]


def deletes(table, content: int, partition: tuple, records: int, **fields):
    return table.data(HERE, content=content, partition=partition, record_count=records, **fields)


def data(table, partition: tuple, records: int = 1, size: int = 10, **fields):
    return table.data(HERE, partition=partition, record_count=records, file_size_in_bytes=size, **fields)


@pytest.fixture
def table(make_table):
    """A table partitioned by ``cat``."""
    return make_table(FIELDS, version=3, spec=[(2, "identity")])


def test_files_are_added_up_by_partition_and_kind(table):
    """Rows in deletion vectors count as position deletes, and the vectors separately."""
    table.snapshot(
        data(table, ("b",), 5, 100),
        data(table, ("a",), 1, 10),
        data(table, ("b",), 7, 50),
        deletes(table, 1, ("b",), 3),
        deletes(table, 1, ("b",), 4, file_format="PUFFIN", referenced_data_file="f"),
        deletes(table, 2, ("b",), 2),
        deletes(table, 2, ("b",), 6),
    )
    assert statistics_of(table).to_pylist() == [
        {
            "partition": {"p0": "a"},
            "spec_id": 0,
            "data_record_count": 1,
            "data_file_count": 1,
            "total_data_file_size_in_bytes": 10,
            "position_delete_record_count": 0,
            "position_delete_file_count": 0,
            "dv_count": 0,
            "equality_delete_record_count": 0,
            "equality_delete_file_count": 0,
            "total_record_count": None,
            "last_updated_at": 1000,
            "last_updated_snapshot_id": 1,
        },
        {
            "partition": {"p0": "b"},
            "spec_id": 0,
            "data_record_count": 12,
            "data_file_count": 2,
            "total_data_file_size_in_bytes": 150,
            "position_delete_record_count": 7,
            "position_delete_file_count": 1,
            "dv_count": 1,
            "equality_delete_record_count": 8,
            "equality_delete_file_count": 2,
            "total_record_count": None,
            "last_updated_at": 1000,
            "last_updated_snapshot_id": 1,
        },
    ]


def test_rows_are_sorted_by_partition_with_nulls_first_and_then_by_spec(make_table):
    table = make_table(FIELDS, spec=[(2, "identity"), (3, "day")])
    table.document["partition-specs"].append({"spec-id": 1, "fields": table.document["partition-specs"][0]["fields"]})
    partitions = [("b", 1), (None, 2), ("é", None), ("b", -1), (None, None), ("", 0), ("z", 0)]
    table.snapshot(
        *(data(table, p, spec_id=1) for p in partitions), *(data(table, p, spec_id=0) for p in reversed(partitions[:2]))
    )
    order = [(cat, None if day is None else str(day), spec) for cat, day, spec in rows(table, "spec_id")]
    assert order == [
        (None, None, 1),
        (None, "1970-01-03", 0),
        (None, "1970-01-03", 1),
        ("", "1970-01-01", 1),
        ("b", "1969-12-31", 1),
        ("b", "1970-01-02", 0),
        ("b", "1970-01-02", 1),
        ("z", "1970-01-01", 1),
        ("é", None, 1),
    ]


def test_minus_zero_precedes_zero_and_all_nans_are_one_last_value(make_table):
    table = make_table(FIELDS, spec=[(4, "identity")])
    values = [math.nan, 0.0, math.inf, -0.0, -math.nan, -1.5, 0.0]
    table.snapshot(*(data(table, (value,)) for value in values))
    assert [(str(value), files) for value, files in rows(table, "data_file_count")] == [
        ("-1.5", 1),
        ("-0.0", 1),
        ("0.0", 2),
        ("inf", 1),
        ("nan", 2),
    ]


def test_partition_whose_last_file_was_deleted_has_a_row_of_zeros(table):
    """In the snapshot that deleted it, while the manifests say so; that snapshot updated it last."""
    table.snapshot(data(table, ("a",)), data(table, ("b",)))
    table.snapshot(data(table, ("a",), status=DELETED), data(table, ("b",), status=0))
    assert rows(table, "data_record_count", "data_file_count", "last_updated_snapshot_id") == [
        ("a", 0, 0, 2),
        ("b", 1, 1, 2),
    ]


def test_partition_was_updated_by_the_youngest_remaining_snapshot(table):
    """Of those that added its files; an older partition has none left."""
    for _ in (1, 2):
        table.snapshot()
    manifests = [
        table._manifest(snapshot_id, 0, False, [data(table, (partition,)) for partition in partitions])
        for snapshot_id, partitions in {2: "bc", 1: "ab", 0: "ad"}.items()
    ]
    table.document["snapshots"][1]["manifest-list"] = table._manifest_list(2, manifests)
    assert rows(table, "last_updated_at", "last_updated_snapshot_id") == [
        ("a", 1000, 1),
        ("b", 2000, 2),
        ("c", 2000, 2),
        ("d", None, None),
    ]


def test_snapshot_without_files_has_no_rows(table):
    table.snapshot()
    assert statistics_of(table).num_rows == 0
    assert write(table).file_size_in_bytes > 0


def test_tuples_of_other_specs_have_null_in_missing_fields(make_table):
    table = make_table(FIELDS, spec=[(2, "identity")])
    table.document["partition-specs"] += [
        {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1001, "name": "b", "transform": "bucket[4]"}]},
        {"spec-id": 2, "fields": []},
    ]
    table.snapshot(data(table, ("a",)), data(table, (3,), spec_id=1), data(table, (), spec_id=2))
    assert rows(table, "spec_id") == [(None, None, 2), (None, 3, 1), ("a", None, 0)]


def spec(spec_id: int, *fields: tuple) -> dict:
    names = ("source-id", "field-id", "name", "transform")
    return {"spec-id": spec_id, "fields": [dict(zip(names, field, strict=True)) for field in fields]}


def unified(table, *specs: dict) -> list[tuple]:
    table.document["partition-specs"] = list(specs)
    return [(field.field_id, field.name, field.type) for field in unified_partition_type(table.state())]


def test_unified_type_has_every_field_of_every_spec_under_its_newest_name(table):
    assert unified(
        table,
        spec(2, (3, 1002, "day", "day"), (1, 1001, "bucket_of_id", "bucket[4]")),
        spec(0, (2, 1000, "cat", "identity"), (1, 1001, "id_bucket", "bucket[4]")),
        spec(1, (3, 1002, "ts_day", "day")),
    ) == [(1000, "cat", "string"), (1001, "bucket_of_id", "int"), (1002, "day", "date")]


def test_field_that_version_1_dropped_keeps_its_type(table):
    """Its transform is ``void`` from then on."""
    dropped = spec(1, (3, 1000, "ts_day", "void"), (2, 1001, "never", "void"))
    assert unified(table, spec(0, (3, 1000, "ts", "day")), dropped) == [
        (1000, "ts_day", "date"),
        (1001, "never", "string"),
    ]
    assert unified(table, dropped, spec(2, (3, 1000, "again", "day"))) == [
        (1000, "again", "date"),
        (1001, "never", "string"),
    ]


def test_field_has_the_newest_type_of_its_column_while_a_schema_has_it(make_table):
    table = make_table([(1, "id", "int"), (2, "cat", "string")], spec=[(1, "identity"), (2, "identity"), (9, "day")])
    table.evolve([(1, "id", "long")])
    assert [(field.field_id, field.type) for field in unified_partition_type(table.state())] == [
        (1000, "long"),
        (1001, "string"),
    ]


def test_field_of_an_earlier_spec_may_have_a_source_that_its_transform_does_not_take_now(table):
    """As after CREATE OR REPLACE, which keeps the field ids of names."""
    earlier = spec(0, (2, 1000, "cat_day", "day"), (4, 1001, "share_bucket", "bucket[4]"))
    assert unified(table, earlier, spec(1, (1, 1002, "id", "identity"))) == [
        (1000, "cat_day", "date"),
        (1001, "share_bucket", "int"),
        (1002, "id", "long"),
    ]


def test_fields_that_cannot_be_unified_are_refused(table):
    with pytest.raises(UnsupportedTableError, match=r"id 1000 means day of column 3 in one spec and hour of column 3"):
        unified(table, spec(0, (3, 1000, "p", "hour")), spec(1, (3, 1000, "p", "day")))
    with pytest.raises(UnsupportedTableError, match="'zorder' is not known"):
        unified(table, spec(0, (3, 1000, "p", "zorder")))
    with pytest.raises(CorruptMetadataError, match="not a partition spec: expected a key 'transform', found none"):
        unified(table, {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "p"}]})


def test_table_that_was_never_partitioned_is_refused(make_table):
    table = make_table(FIELDS)
    table.snapshot(data(table, ()))
    assert unified_partition_type(table.state()) == ()
    with pytest.raises(UsageError, match="expected a partitioned table"):
        statistics_of(table)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_columns_have_the_ids_order_and_types_of_the_spec(make_table, version):
    """From version 3 on vectors are counted separately, and no count may be missing."""
    table = make_table(FIELDS, version=version, spec=[(2, "identity"), (3, "day")])
    table.snapshot(data(table, ("a", 1)))
    entry = write(table)
    schema = pq.ParquetFile(entry.statistics_path).schema_arrow
    counts = ["int64", "int32", *(["int32"] if version == 3 else []), "int64", "int32"]
    assert [str(field.type) for field in schema] == [
        "struct<p0: string, p1: date32[day]>",
        *("int32", "int64", "int32", "int64"),
        *counts,
        *("int64", "int64", "int64"),
    ]
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in schema]
    assert ids == [1, 2, 3, 4, 5, 6, 7, *([13] if version == 3 else []), 8, 9, 10, 11, 12]
    nullable = {i for i, field in zip(ids, schema, strict=True) if field.nullable}
    assert nullable == ({10, 11, 12} if version == 3 else {6, 7, 8, 9, 10, 11, 12})
    assert [int(field.metadata[b"PARQUET:field_id"]) for field in schema.field("partition").type] == [1000, 1001]
    assert all(field.nullable for field in schema.field("partition").type)


def test_manifest_with_fewer_files_than_its_list_says_is_corrupt(table, monkeypatch):
    whole = table._manifest

    def overwritten(*args):
        manifest = whole(*args)
        whole(*args[:-1], args[-1][:1])
        return manifest

    monkeypatch.setattr(table, "_manifest", overwritten)
    table.snapshot(data(table, ("a",)), data(table, ("a",)))
    with pytest.raises(CorruptMetadataError, match=r"manifest-1-0-False\.avro: expected 2 entries, found 1"):
        statistics_of(table)


def test_encrypted_manifest_is_refused(table):
    table.manifest_key_metadata = b"key"
    table.snapshot(data(table, ("a",)))
    with pytest.raises(UnsupportedTableError, match="expected an unencrypted manifest"):
        statistics_of(table)


def test_partition_value_of_another_type_is_corrupt(table):
    """The manifests have strings where the metadata says long."""
    table.snapshot(data(table, ("a",)))
    table.document["schemas"][0]["fields"][1]["type"] = "long"
    with pytest.raises(CorruptMetadataError, match="a partition value is not of its type"):
        statistics_of(table)
    table.document["schemas"][0]["fields"][1]["type"] = "decimal(9,2)"
    with pytest.raises(CorruptMetadataError, match=r"manifest-1-0-False.avro: .*expected a decimal\(9,2\)"):
        statistics_of(table)


def write(table, **stores):
    opened = bound(table.state())
    writing = bound(table.state(), **stores)
    return write_partition_statistics(partition_statistics(opened), writing, opened.snapshot.snapshot_id)


def test_file_is_written_beside_the_metadata_under_icebergs_naming(make_table, tmp_path):
    """The entry has the size of the file."""
    table = make_table(FIELDS, spec=[(2, "identity")], properties={"write.metadata.path": f"{tmp_path}/elsewhere/"})
    table.snapshot(data(table, ("a",)))
    entries = [write(table), write(table)]
    uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    for entry in entries:
        assert re.fullmatch(rf"{tmp_path}/elsewhere/partition-stats-1-{uuid}\.parquet", entry.statistics_path)
        assert (entry.snapshot_id, entry.file_size_in_bytes) == (1, Path(entry.statistics_path).stat().st_size)
    assert entries[0] != entries[1]
    assert pq.read_metadata(entries[0].statistics_path).metadata[b"created-by"] == b"puffin-sidecar"
    del table.document["properties"]["write.metadata.path"]
    assert write(table).statistics_path.startswith(f"{table.root}/metadata/partition-stats-1-")


def test_failed_write_leaves_nothing(table, monkeypatch):
    table.snapshot(data(table, ("a",)))

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        write(table)
    assert list(table.root.glob("metadata/*")) == []


def test_written_rows_are_read_back(make_table):
    """With types and field ids."""
    table = make_table([*FIELDS, (5, "u", "uuid")], version=3, spec=[(2, "identity"), (4, "identity"), (3, "identity")])
    table.document["partition-specs"][0]["fields"].append(
        {"source-id": 5, "field-id": 1003, "name": "u", "transform": "identity"}
    )
    table.snapshot(data(table, ("a", 0.5, 1, b"u" * 16)), data(table, (None, -0.0, -1, None)))
    written = statistics_of(table)
    read = read_partition_statistics(write(table), table.state(), store_for)
    assert read.equals(written)
    assert read.schema.equals(written.schema, check_metadata=True)


def test_older_file_is_read_in_the_tables_current_form(make_table):
    """By field id: renamed, reordered, of a wider type, without the new field; version 2 counted no vectors."""
    table = make_table([(1, "id", "int"), (2, "cat", "string")], spec=[(1, "identity"), (2, "identity")])
    table.snapshot(data(table, (7, "a")))
    entry = write(table)
    table.document["format-version"] = 3
    table.evolve([(1, "id", "long"), (2, "cat", "string"), (3, "new", "date")])
    table.document["partition-specs"].append(
        spec(1, (2, 1001, "category", "identity"), (1, 1000, "number", "identity"), (3, 1002, "day", "day"))
    )
    (row,) = read_partition_statistics(entry, table.state(), store_for).to_pylist()
    assert row["partition"] == {"number": 7, "category": "a", "day": None}
    assert (row["data_file_count"], row["dv_count"]) == (1, 0)


def test_file_that_is_no_partition_statistics_is_corrupt(table, tmp_path):
    table.snapshot()
    path = tmp_path / "f.parquet"
    for content in (b"", b"PAR1", _parquet(pa.table({"a": [1]})), _parquet(pa.table({"spec_id": ["x"]}))):
        path.write_bytes(content)
        with pytest.raises(CorruptMetadataError, match=r"f\.parquet: expected a partition statistics file"):
            read_partition_statistics(PartitionStatisticsEntry(1, str(path), len(content)), table.state(), store_for)
    with pytest.raises(UnsupportedTableError, match="in Parquet"):
        read_partition_statistics(PartitionStatisticsEntry(1, "f.avro", 1), table.state(), store_for)
    with pytest.raises(FileNotFound):
        read_partition_statistics(PartitionStatisticsEntry(1, "/no.parquet", 1), table.state(), store_for)


def _parquet(content: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(content, sink)
    return sink.getvalue()


ENTRY = PartitionStatisticsEntry(10, "new.parquet", 7)
AS_JSON = {"snapshot-id": 10, "statistics-path": "new.parquet", "file-size-in-bytes": 7}


def test_entry_replaces_those_of_its_snapshot_and_changes_nothing_else(table_document, tmp_path):
    older = {"snapshot-id": 9, "statistics-path": "older", "file-size-in-bytes": 1, "unknown": "stays"}
    replaced = [AS_JSON | {"statistics-path": path} for path in "ab"]
    document = table_document(tmp_path) | {"partition-statistics": [replaced[0], older, replaced[1]], "x": 1}
    patched = with_partition_statistics(document, ENTRY)
    assert patched == document | {"partition-statistics": [older, AS_JSON]}
    assert len(document["partition-statistics"]) == 3
    assert with_partition_statistics(table_document(tmp_path), ENTRY)["partition-statistics"] == [AS_JSON]
    assert partition_statistics_entry(patched, 10) == ENTRY


def test_rest_update_has_the_effect_of_the_patch(table_document, tmp_path):
    """pyiceberg applies it, as it does when it sends updates."""
    document = with_partition_statistics(table_document(tmp_path, snapshots=[10]), PartitionStatisticsEntry(10, "a", 1))
    update = TypeAdapter(TableUpdate).validate_python(partition_statistics_update(ENTRY))
    updated = update_table_metadata(TableMetadataV2.model_validate(document), (update,))
    assert [entry.model_dump(by_alias=True) for entry in updated.partition_statistics] == [AS_JSON]


def test_entry_of_a_snapshot_is_found(table_document, tmp_path):
    """The first of several; none if there is none."""
    document = table_document(tmp_path)
    assert partition_statistics_entry(document, 10) is None
    document["partition-statistics"] = [AS_JSON, AS_JSON | {"statistics-path": "second"}]
    assert partition_statistics_entry(document, 10) == ENTRY
    assert partition_statistics_entry(document, 11) is None


@pytest.mark.parametrize("wrong", [{}, AS_JSON | {"statistics-path": 5}, AS_JSON | {"file-size-in-bytes": "7"}, 5])
def test_entry_of_another_form_is_corrupt(table_document, tmp_path, wrong):
    with pytest.raises(CorruptMetadataError, match="not a list of partition statistics entries"):
        partition_statistics_entry(table_document(tmp_path) | {"partition-statistics": [wrong]}, 10)
