"""
Spark with its cost-based optimizer: the row counts of optimized plans.

Once with what Spark's own ``ANALYZE TABLE ... FOR ALL COLUMNS`` finds in the Parquet files, histograms included, and
once as a reader of the Iceberg tables, which brings our numbers of distinct values from the statistics file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.estimates.engine import SPARK_ANALYZE, SPARK_OURS, Engine, Estimate
from benchmarks.estimates.questions import Question
from benchmarks.estimates.suite import WAREHOUSE, Suite
from benchmarks.run import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALOG = "estimates"
_SETTINGS = {
    "spark.sql.cbo.enabled": "true",
    "spark.sql.statistics.histogram.enabled": "true",
    f"spark.sql.catalog.{_CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
    f"spark.sql.catalog.{_CATALOG}.type": "hadoop",
    f"spark.sql.catalog.{_CATALOG}.warehouse": f"file://{WAREHOUSE}",
    f"spark.sql.catalog.{_CATALOG}.cache-enabled": "false",
}


class _SparkPlans(Engine):
    """Row counts of plans over the tables below a namespace."""

    def __init__(self, spark: SparkSession, namespace: str) -> None:
        super().__init__()
        for key, value in _SETTINGS.items():
            spark.conf.set(key, value)
        self._spark = spark
        self._namespace = namespace

    def estimate(self, question: Question) -> Estimate | None:
        frame = self._spark.sql(question.to_sql(lambda table: f"{self._namespace}.{table}"))
        rows = frame._jdf.queryExecution().optimizedPlan().stats().rowCount()
        if rows.isEmpty():
            self.miss("only bytes in the plan, no rows")
            return None
        return Estimate(float(str(rows.get())))


class SparkAnalyze(_SparkPlans):
    """With its own statistics and histograms."""

    name = SPARK_ANALYZE

    def __init__(self, spark: SparkSession, suite: Suite) -> None:
        super().__init__(spark, f"spark_catalog.{suite.name}")
        say(f"{suite.name}: Spark analyzes all columns")
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {self._namespace}")
        for name, table in suite.tables.items():
            full_name = f"{self._namespace}.{name}"
            spark.sql(f"CREATE TABLE IF NOT EXISTS {full_name} USING parquet LOCATION 'file://{table.directory}/data'")
            spark.sql(f"ANALYZE TABLE {full_name} COMPUTE STATISTICS FOR ALL COLUMNS")


class SparkWithOurs(_SparkPlans):
    """With the numbers of distinct values in our statistics files."""

    name = SPARK_OURS

    def __init__(self, spark: SparkSession, suite: Suite) -> None:
        super().__init__(spark, f"{_CATALOG}.{suite.name}")
