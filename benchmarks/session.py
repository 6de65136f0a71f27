"""The Spark session that Spark's own engines and ours share, with Delta, Iceberg and a catalog in ``.bench/``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.run import HOME
from tools.jars import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "bench"
NAMESPACE = "db"
WAREHOUSE = HOME / "warehouse"


@contextlib.contextmanager
def spark_session(cores: int) -> Iterator[SparkSession]:
    """A quiet local session that runs this many tasks at once."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").appName("benchmarks")
    for key, value in _settings().items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def iceberg_jar() -> Path:
    """Iceberg's runtime for the Spark that is installed; fetched if need be."""
    (jar,) = jars("iceberg-runtime")
    return jar


def _settings() -> dict[str, str]:
    return {
        "spark.jars": ",".join(map(str, [iceberg_jar(), *jars("delta")])),
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "6g",
        "spark.local.dir": str(HOME / "spark"),
        "spark.sql.warehouse.dir": str(HOME / "spark-warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": f"file://{WAREHOUSE}",
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",  # what we commit is seen at once
    }
