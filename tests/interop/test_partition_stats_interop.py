"""
Our partition statistics equal those of Iceberg's own procedure, and each side reads the other's file.

The tables are partitioned by several transforms, anew in between, and have live, deleted and rewritten files.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from urllib.parse import unquote_plus

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.iceberg.commit.partition_stats import (
    partition_statistics,
    write_partition_statistics,
)
from puffin.iceberg.commit.patch import (
    PartitionStatisticsEntry,
    version_of,
    with_partition_statistics,
)
from puffin.iceberg.metadata.document import encode_document
from puffin.iceberg.scan.manifest_lists import manifests_of
from puffin.iceberg.scan.manifests import live_files_of
from puffin.load import load_table
from puffin.values.partition_tuples import PartitionKey, partition_key
from puffin.values.transforms import partition_value, result_type, to_partition_value
from tests.iceberg.partition_files import partition_statistics_entry, read_partition_statistics

COUNTS = (
    *("specId", "dataRecordCount", "dataFileCount", "totalDataFileSizeInBytes", "positionDeleteRecordCount"),
    *("positionDeleteFileCount", "dvCount", "equalityDeleteRecordCount", "equalityDeleteFileCount", "totalRecords"),
    *("lastUpdatedAt", "lastUpdatedSnapshotId"),
)


def java_bytes(data):
    return lambda jvm: jvm.java.nio.ByteBuffer.wrap(data)


def java_number(text):
    return lambda jvm: jvm.java.math.BigDecimal(text)


# Type, and partition values of three files. Longs are none that an int can hold, of which py4j would make an int; and
# there is no fixed, which Java writes into a manifest with a length before it.
VALUES = {
    "boolean": ("boolean", True, False, None),
    "int": ("int", 7, -7, None),
    "long": ("long", 2**40, -(2**40), None),
    "double": ("double", 1e22, -0.0, None),
    "small": ("double", 0.000123, float("nan"), None),
    "decimal": ("decimal(9,2)", java_number("1.10"), java_number("-12345.67"), None),
    "tiny": ("decimal(38,10)", java_number("0.0000000012"), java_number("0E-10"), None),
    "date": ("date", 19724, -1, None),
    "time": ("time", 80_000_000_100, 79_980_000_000, None),
    "ts": ("timestamp", 1_704_164_645_500_000, -86_400_000_000, None),
    "tsz": ("timestamptz", 1_704_164_645_000_001, -3_600_000_001, None),
    "ns": ("timestamp_ns", 1_704_164_645_500_000_010, -(10**12) - 1, None),
    "nsz": ("timestamptz_ns", 1_704_164_645_000_000_000, -(10**12), None),
    "string": ("string", "a b~*/ü=%+", "", None),
    "uuid": ("uuid", *(lambda jvm, n=n: jvm.java.util.UUID(n, 1 - n) for n in (-(2**40), 2**40)), None),
    "binary": ("binary", java_bytes(b"\xfb\xff"), java_bytes(b""), None),
}
TRANSFORMED = [
    ("ts", "year", 54, -1, None),
    ("date", "month", 648, -1, None),
    ("tsz", "day", 19724, -1, None),
    ("ns", "hour", 473379, -1, None),
    ("uuid", "bucket[16]", 3, 0, None),
    ("string", "truncate[3]", "a b", "ü", None),
    ("int", "void", None, None, None),
]


@pytest.fixture(scope="module", params=[2, 3], ids="version-{}".format)
def table(spark, request):
    """The name of a table with a history."""
    name = f"hadoop.partition_stats.v{request.param}"
    create(spark, name, request.param)
    insert(spark, name, 0, 12)
    spark.sql(f"ALTER TABLE {name} DROP PARTITION FIELD bucket(3, id)")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD truncate(price, 500)")
    insert(spark, name, 6, 20)
    spark.sql(f"DELETE FROM {name} WHERE id IN (1, 2, 8, 9)")
    add_equality_deletes(spark, name)
    spark.sql(f"DELETE FROM {name} WHERE cat = 'c1'")
    return name


def test_our_rows_equal_those_of_icebergs_file(spark, table, open_table):
    """Both compute them from scratch, for any transform and kind of delete."""
    opened = open_table(table)
    ours = partition_statistics(opened.open())
    theirs = computed_by_java(spark, table, opened)
    assert ours["partition"].to_pylist() == theirs["partition"].to_pylist()
    assert rows(ours) == rows(theirs)
    assert {row["spec_id"] for row in ours.to_pylist()} == {0, 2}
    for column in ("position_delete_record_count", "equality_delete_record_count"):
        assert any(ours[column].to_pylist())
    assert 0 in ours["data_file_count"].to_pylist()
    most: Counter[PartitionKey] = Counter()
    for file in (task.data_file for task in opened.open().tasks):
        most[partition_key(file.spec_id, file.partition)] += file.record_count
    found = {partition_key(each.spec_id, each.partition): each.upper for each in opened.open().partition_rows()}
    assert {key: upper for key, upper in found.items() if upper} == most


def test_iceberg_reads_our_file_as_its_own(spark, table, open_table):
    """It finds the same rows, and Spark still reads the table that refers to the file."""
    opened = open_table(table)
    computed_by_java(spark, table, opened)
    expected = rows_in_java(spark, loaded(spark, table))
    entry = commit_ours(opened)
    assert partition_files_in_java(spark, table) == [(entry.statistics_path, entry.file_size_in_bytes)]
    assert rows_in_java(spark, loaded(spark, table)) == expected
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == 16


def test_iceberg_updates_our_file_incrementally(spark, open_table):
    """It adds a later snapshot's changes to our rows, and gets what we compute for that snapshot."""
    name = "hadoop.partition_stats.updated"  # of one spec: with several, Iceberg 1.12 fails to add up rows
    create(spark, name, 3)
    insert(spark, name, 0, 4)
    opened = open_table(name)
    commit_ours(opened)
    insert(spark, name, 2, 6)
    ours = partition_statistics(opened.open())
    assert rows(ours) == rows(computed_by_java(spark, name, opened))
    assert len(partition_files_in_java(spark, name)) == 2


@pytest.mark.table_kind("Every transform, every type of source", "3")
def test_partitions_of_every_type_are_named_and_read_alike(spark, tmp_path):
    """Two tuples of values and one of nulls, under identity of every type and every other transform."""
    table = table_of_every_type(spark, tmp_path / "t")
    opened = load_table(str(tmp_path / "t")).open()
    state = opened.state
    spec, types = state.partition_specs[0], state.source_types
    manifests = manifests_of(opened, opened.snapshot)
    files = {file.file_path: file for each in manifests for file in live_files_of(each, opened.store_for)}
    for task in elements(table.newScan().planFiles()):
        file = files.pop(task.file().location())
        parts = (part.split("=") for part in table.spec().partitionToPath(task.file().partition()).split("/"))
        named = {unquote_plus(name): unquote_plus(text) for name, text in parts}
        for field in spec:
            transform, source = field["transform"], types[field["source-id"]]
            value = partition_value(result_type(transform, source), file.partition[field["field-id"]])
            read = to_partition_value(transform, source, named[field["name"]])
            assert read == value or str(read) == str(value) == "nan", field["name"]
    assert files == {}

    entry = spark._jvm.org.apache.iceberg.PartitionStatsHandler.computeAndWriteStatsFile(table)
    theirs = PartitionStatisticsEntry(entry.snapshotId(), entry.path(), entry.fileSizeInBytes())
    ours = partition_statistics(opened)
    assert rows(ours) == rows(read_partition_statistics(theirs, state, opened.store_for))
    table.updatePartitionStatistics().setPartitionStatistics(entry).commit()
    expected = rows_in_java(spark, table)
    commit_ours(load_table(str(tmp_path / "t")))
    table.refresh()
    assert rows_in_java(spark, table) == expected


def table_of_every_type(spark, directory):
    """A table of Iceberg Java whose files exist only in manifests."""
    iceberg, jvm = spark._jvm.org.apache.iceberg, spark._jvm
    ids = {name: i for i, name in enumerate(VALUES, 1)}
    columns = [
        {"id": ids[name], "name": name, "required": False, "type": type_} for name, (type_, *_) in VALUES.items()
    ]
    fields = [(name, "identity", *values) for name, (_, *values) in VALUES.items()]
    spec_fields = [
        {"source-id": ids[source], "field-id": 1000 + i, "name": f"{source}~{transform}", "transform": transform}
        for i, (source, transform, *_) in enumerate([*fields, *TRANSFORMED])
    ]
    schema = iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": columns}))
    spec = iceberg.PartitionSpecParser.fromJson(schema, json.dumps({"spec-id": 0, "fields": spec_fields}))
    tables = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
    table = tables.create(schema, spec, {"format-version": "3"}, str(directory))
    append = table.newAppend()
    for number, tuple_ in enumerate(zip(*(values for _, _, *values in [*fields, *TRANSFORMED]), strict=True)):
        partition = iceberg.PartitionData(spec.partitionType())
        for position, value in enumerate(tuple_):
            partition.set(position, value(jvm) if callable(value) else value)
        file = iceberg.DataFiles.builder(spec).withPath(f"/nowhere/{number}").withFormat("parquet")
        append.appendFile(file.withRecordCount(1).withFileSizeInBytes(9).withPartition(partition).build())
    append.commit()
    return table


def create(spark, name, version):
    spark.sql(
        f"""CREATE TABLE {name} (id bigint, cat string, price decimal(9, 2), ts timestamp) USING iceberg
            PARTITIONED BY (cat, bucket(3, id), days(ts)) TBLPROPERTIES (
            'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',
            'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"""
    )


def insert(spark, name, start, stop):
    spark.sql(
        f"""INSERT INTO {name} SELECT id, if(id % 4 = 3, NULL, concat('c', id % 4)), CAST(id AS decimal(9, 2)) / 2,
            timestamp'1969-12-31 22:00:00' + make_interval(0, 0, 0, 0, id) FROM range({start}, {stop}, 1, 1)"""
    )


def add_equality_deletes(spark, name):
    """Delete two ids by equality, in a file that exists."""
    table = loaded(spark, name)
    path = f"{table.location()}/data/equality-deletes.parquet"
    id_field = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([4, 12])], pa.schema([id_field])), path)
    field_ids = spark._sc._gateway.new_array(spark._jvm.int, 1)
    field_ids[0] = 1
    file = (
        spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        .ofEqualityDeletes(field_ids)
        .withPath(path)
        .withFormat("PARQUET")
        .withFileSizeInBytes(Path(path).stat().st_size)
        .withPartitionPath("cat=c0/ts_day=1970-01-01/price_trunc_500=5.00")
        .withRecordCount(2)
        .build()
    )
    table.newRowDelta().addDeletes(file).commit()


def computed_by_java(spark, name, opened):
    """Return the rows of the current snapshot's file that the procedure wrote, read by us."""
    spark.sql(f"CALL hadoop.system.compute_partition_stats('{name.removeprefix('hadoop.')}')")
    state = opened.open().state
    entry = partition_statistics_entry(state.document, state.current_snapshot_id)
    return read_partition_statistics(entry, state, opened.open().store_for)


def commit_ours(opened):
    """Write our file of the current snapshot, and commit a version that refers only to it."""
    state = opened.open().state
    statistics = partition_statistics(opened.open())
    entry = write_partition_statistics(statistics, opened.open(), state.current_snapshot_id)
    version = version_of(state.metadata_location) + 1
    document = encode_document(with_partition_statistics(state.document, entry), compress=False)
    opened.open().store_for(opened.name).put_if_absent(f"{opened.name}/metadata/v{version}.metadata.json", document)
    return entry


def rows(statistics):
    """Return the rows sorted and as text, in which any NaN equals another and -0.0 differs from 0.0."""
    return sorted(map(str, statistics.to_pylist()))


def loaded(spark, name):
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)


def partition_files_in_java(spark, name):
    return [(file.path(), file.fileSizeInBytes()) for file in loaded(spark, name).partitionStatisticsFiles()]


def rows_in_java(spark, table):
    """Return the rows of the current snapshot's file as Iceberg's scan reads them."""
    any_class = spark._jvm.java.lang.Class.forName("java.lang.Object")
    found = []
    for row in elements(table.newPartitionStatisticsScan().scan()):
        partition = tuple(str(row.partition().get(i, any_class)) for i in range(row.partition().size()))
        found.append((partition, *(getattr(row, count)() for count in COUNTS)))
    return sorted(found, key=str)


def elements(iterable):
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
