"""The demo's tables: made by pyiceberg in a catalog, by Spark in a directory, and by deltalake in another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyiceberg.catalog import Catalog, load_catalog

from tools.jars import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_catalog(name: str, properties: dict[str, str]) -> Catalog:
    """The catalog of this name, with the namespace of TPC-H."""
    catalog = load_catalog(name, **properties)
    catalog.create_namespace_if_not_exists("tpch")
    return catalog


def build_catalog_table(catalog: Catalog, identifier: str, parquet: Path, *, snapshots: int) -> None:
    """Create the table from a Parquet file, appended in this many snapshots."""
    parts = list(_parts(parquet, snapshots))
    table = catalog.create_table(identifier, parts[0].schema)
    for part in parts:
        table.append(part)


def build_flights(spark: SparkSession, flown: pa.Table, staging: Path, snapshots: int) -> None:
    """Create ``demo.nyc.flights`` and insert in this many snapshots."""
    rows = len(flown) // snapshots + 1
    for part in range(snapshots):
        staged = staging / f"flights-{part}.parquet"
        pq.write_table(flown.slice(part * rows, rows), staged)
        frame = spark.read.parquet(str(staged))
        if part == 0:
            writer = frame.writeTo("demo.nyc.flights").using("iceberg")
            writer.tableProperty("format-version", "2").tableProperty("write.delete.mode", "merge-on-read").create()
        else:
            frame.writeTo("demo.nyc.flights").append()


def build_delta(directory: Path, parquet: Path, *, versions: int) -> None:
    """Create a Delta table from a Parquet file, appended in this many versions."""
    for part in _parts(parquet, versions):
        write_deltalake(directory, part, mode="append")


def optimizer_counts(spark: SparkSession, table: str) -> dict[str, int]:
    """The distinct counts that Spark's optimizer has for a scan of the table."""
    plan: Any = spark.table(table)._jdf
    found = plan.queryExecution().optimizedPlan().stats().attributeStats().iterator()
    counts = {}
    while found.hasNext():
        attribute = found.next()
        if attribute._2().distinctCount().isDefined():
            counts[attribute._1().name()] = int(str(attribute._2().distinctCount().get()))
    return counts


def spark_session(warehouse: Path) -> SparkSession:
    """A quiet local session with Iceberg's runtime and a file-system catalog named ``demo``."""
    import os

    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    return (
        SparkSession.builder.master("local[2]")
        .appName("demo")
        .config("spark.jars", ",".join(str(jar) for jar in jars("iceberg-runtime")))
        .config("spark.log.level", "ERROR")
        .config("spark.sql.catalog.demo.cache-enabled", "false")  # what others commit is seen at once
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.cbo.enabled", "true")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.extensions", extensions)
        .config("spark.sql.catalog.demo", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.demo.type", "hadoop")
        .config("spark.sql.catalog.demo.warehouse", f"file://{warehouse}")
        .getOrCreate()
    )


def _parts(parquet: Path, count: int) -> Iterator[pa.Table]:
    """The rows of a Parquet file in this many tables, or fewer if it has not as many row groups."""
    file = pq.ParquetFile(parquet)
    schema = pa.schema([pa.field(f.name, _plain(f.type)) for f in file.schema_arrow])
    groups = list(range(file.metadata.num_row_groups))
    for part in range(count):
        if chosen := groups[part::count]:
            yield file.read_row_groups(chosen).cast(schema)


def _plain(type_: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(type_) else type_
