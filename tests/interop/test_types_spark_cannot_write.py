"""
Types that Spark does not write: uuid, time, fixed, and nanosecond timestamps.

The tables are pyiceberg's in a SQL catalog, and for version 3, which pyiceberg does not write, Iceberg Java's with a
data file of Arrow's. Arrow counts the truth; the sketches must be those that Java makes of Iceberg's own single-value
serialization.
"""

from __future__ import annotations

import datetime
import json
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, NestedField, TimeType, UUIDType

from puffin.load import load_table
from puffin.lookup import Question, lookup

ROWS = 600
UUIDS = [uuid.UUID(int=(i % 70) * 0x1234567890ABCDEF1234567890) for i in range(ROWS)]
TIMES = [datetime.time(i % 24, i % 60, i % 7, i % 11) for i in range(ROWS)]
FIXED = [(i % 90 * 1_000_003).to_bytes(5, "big") for i in range(ROWS)]
NANOSECONDS = [(i % 40 - 20) * 1_234_567_890_123_456_789 // 7 for i in range(ROWS)]


def with_nulls(values: list) -> list:
    return [None if i % 13 == 5 else value for i, value in enumerate(values)]


@pytest.fixture(scope="module")
def java_sketch(spark):
    """Return the bytes of Java's sketch of values, given as text or bytes, of an Iceberg type."""
    iceberg = spark._jvm.org.apache.iceberg
    sketches = iceberg.shaded.org.apache.datasketches.theta

    def make(type_: str, values) -> bytes:
        iceberg_type = iceberg.types.Types.fromPrimitiveString(type_)
        sketch = sketches.UpdateSketch.builder().build()
        for value in set(values):
            if isinstance(value, bytes):
                sketch.update(value)
            else:
                literal = iceberg.expressions.Literal.of(value).to(iceberg_type)
                sketch.update(bytes(literal.toByteBuffer().array()))
        return bytes(sketch.compact().toByteArray())

    return make


def assert_looked_up(table, truth: dict[str, int]) -> None:
    answer = lookup(table, Question(table.name))
    assert {column.column.name: column.ndv for column in answer.columns} == truth
    assert all(column.distinct.exact for column in answer.columns)


def test_uuid_time_and_fixed_in_a_sql_catalog_match_java(analyze_table, java_sketch, stored_payloads, tmp_path):
    fields = {"u": UUIDType(), "t": TimeType(), "f": FixedType(5)}
    schema = Schema(*(NestedField(i, name, type_) for i, (name, type_) in enumerate(fields.items(), 1)))
    rows = pa.table(
        {
            "u": pa.array(with_nulls([value.bytes for value in UUIDS]), pa.binary(16)),
            "t": pa.array(with_nulls(TIMES), pa.time64("us")),
            "f": pa.array(with_nulls(FIXED), pa.binary(5)),
        }
    )
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    catalog = SqlCatalog("types", **properties)
    catalog.create_namespace("db")
    catalog.create_table("db.t", schema).append(rows)

    table = load_table("db.t", catalog="types", catalog_properties=properties)
    assert analyze_table(table).committed
    assert_looked_up(table, {name: len(set(rows[name].drop_null().to_pylist())) for name in fields})
    assert stored_payloads(table) == {
        1: java_sketch("uuid", [str(value) for value in with_nulls(UUIDS) if value is not None]),
        2: java_sketch("time", [value.isoformat("microseconds") for value in with_nulls(TIMES) if value is not None]),
        3: java_sketch("fixed[5]", [value for value in with_nulls(FIXED) if value is not None]),
    }


@pytest.mark.parametrize("type_", ["timestamp_ns", "timestamptz_ns"])
def test_version_3_nanoseconds_match_java(spark, analyze_table, java_sketch, stored_payloads, tmp_path, type_):
    zone = {"timestamp_ns": None, "timestamptz_ns": "UTC"}[type_]
    values = pa.array(with_nulls(NANOSECONDS), pa.timestamp("ns", zone))
    table = load_table(str(java_table(spark, tmp_path / "t", type_, values)))
    assert analyze_table(table).committed
    assert_looked_up(table, {"n": len(values.drop_null().unique())})
    texts = [str(np.datetime64(value, "ns")) for value in with_nulls(NANOSECONDS) if value is not None]
    assert stored_payloads(table) == {1: java_sketch(type_, [text + ("+00:00" if zone else "") for text in texts])}


def java_table(spark, directory: Path, type_: str, values: pa.Array) -> Path:
    """Let Iceberg Java create a version 3 table of one column, and append a file of these values."""
    iceberg = spark._jvm.org.apache.iceberg
    field = {"id": 1, "name": "n", "required": False, "type": type_}
    schema = iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": [field]}))
    spec = iceberg.PartitionSpec.unpartitioned()
    tables = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
    table = tables.create(schema, spec, {"format-version": "3"}, str(directory))
    file = directory / "data.parquet"
    arrow_field = pa.field("n", values.type, metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([values], schema=pa.schema([arrow_field])), file)
    described = iceberg.DataFiles.builder(spec).withPath(str(file)).withFormat("parquet").withRecordCount(len(values))
    table.newAppend().appendFile(described.withFileSizeInBytes(file.stat().st_size).build()).commit()
    return directory
