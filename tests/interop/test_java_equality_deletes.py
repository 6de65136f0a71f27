"""Rows left by the equality deletes of Iceberg's Java library are the same for us and for Spark."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from puffin.format import THETA_V1, PuffinReader
from puffin.sketches.theta_sketch import ThetaSketch


class JavaDeletes:
    """Commits equality deletes with Iceberg's own writer to a table, in files of this format."""

    def __init__(self, spark: Any, name: str, file_format: str) -> None:
        self._format = file_format
        self._jvm = spark._jvm
        self._new_array = spark.sparkContext._gateway.new_array
        self._table = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)

    def commit(self, columns: list[str], *rows: tuple[Any, ...], partition: int | None = None) -> None:
        """
        Delete the rows that equal one of these in these columns: in one partition, or without one in the whole table.
        """
        iceberg = self._jvm.org.apache.iceberg
        schema = self._table.schema().select(columns)
        ids = self._new_array(self._jvm.int, len(columns))
        for i, field in enumerate(schema.columns()):
            ids[i] = field.fieldId()
        spec = next(spec for spec in self._table.specs().values() if spec.isUnpartitioned() == (partition is None))
        writer = (
            iceberg.data.GenericFileWriterFactory.Builder(self._table)
            .deleteFileFormat(iceberg.FileFormat.fromString(self._format))
            .equalityFieldIds(ids)
            .equalityDeleteRowSchema(schema)
            .build()
            .newEqualityDeleteWriter(
                self._new_file(), spec, None if partition is None else self._record(spec.partitionType(), (partition,))
            )
        )
        for row in rows:
            writer.write(self._record(schema, row))
        writer.close()
        self._table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()

    def _new_file(self) -> Any:
        path = f"{self._table.location()}/data/{self._jvm.java.util.UUID.randomUUID()}.{self._format}"
        encryption = self._jvm.org.apache.iceberg.encryption
        no_key = encryption.EncryptionKeyMetadata.EMPTY
        return encryption.EncryptedFiles.encryptedOutput(self._table.io().newOutputFile(path), no_key)

    def _record(self, schema: Any, values: tuple[Any, ...]) -> Any:
        record = self._jvm.org.apache.iceberg.data.GenericRecord.create(schema)
        for i, value in enumerate(values):
            record.set(i, value)
        return record


@pytest.mark.parametrize(("version", "file_format"), [(2, "parquet"), (3, "parquet"), (2, "orc"), (3, "avro")])
@pytest.mark.table_kind("Equality deletes: one column, several, null keys; of a partition and of all")
@pytest.mark.table_kind("Equality deletes: several files by sequence number; the schema evolved since")
def test_we_and_spark_keep_the_same_rows(spark, open_table, analyze_table, version, file_format):
    """
    Deletes by one and by two columns, with nulls, NaN and zeros, by partition and global, beside position deletes.
    """
    name = f"hadoop.equality.{file_format}_v{version}"
    spark.sql(
        f"""CREATE TABLE {name} (row bigint, k int, s string, d double, p int) USING iceberg
            TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',
                           'write.format.default' = '{file_format}')"""
    )

    def insert(start: int, stop: int) -> None:
        spark.sql(
            f"""INSERT INTO {name} SELECT id, CAST(id % 50 AS int), IF(id % 7 = 0, NULL, concat('s', id % 11)),
                CASE id % 4 WHEN 0 THEN double('NaN') WHEN 1 THEN 0.0D WHEN 2 THEN -double('0.0') END,
                CAST(id % 3 AS int) FROM range({start}, {stop})"""
        )

    insert(0, 300)
    spark.sql(f"ALTER TABLE {name} ADD PARTITION FIELD p")
    insert(300, 600)
    deletes = JavaDeletes(spark, name, file_format)
    deletes.commit(["k"], (7,), (8,), (49,))
    deletes.commit(["s", "d"], (None, None), (None, math.nan), ("s3", 0.0), ("s4", -0.0))
    deletes.commit(["k"], (20,), (21,), partition=1)
    # Before Spark reads the deletes: its executors' cache would go on comparing them as integers.
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN k TYPE bigint")
    spark.sql(f"DELETE FROM {name} WHERE row IN (1, 2, 301, 599)")
    insert(600, 620)

    rows = spark.table(name).select("row", "k").collect()
    live = [row.row for row in rows]
    assert set(range(600, 620)) <= set(live)
    assert 300 < len(live) < 600
    report = analyze_table(name)
    assert report.rows_read == len(live)
    table = open_table(name)
    with table.open().store_for(report.entry.statistics_path).open_source(report.entry.statistics_path) as source:
        reader = PuffinReader(source)
        payloads = {
            (b.type, b.fields): payload
            for b, payload in zip(reader.file_metadata.blobs, reader.read_all(), strict=True)
        }
    assert payloads[THETA_V1, (2,)] == ThetaSketch.from_arrow(pa.array([row.k for row in rows]), "long").to_bytes()
    assert payloads[THETA_V1, (1,)] == ThetaSketch.from_arrow(pa.array(live), "long").to_bytes()
