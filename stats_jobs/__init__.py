"""The Spark jobs: `analyze` commits statistics of the columns of a table, `index` catches up its file index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffin.lazy import on_first_use
from stats_jobs.analyze import analyze
from stats_jobs.index import index
from stats_jobs.many import analyze_many, index_many
from stats_jobs.options import IndexOptions, Options
from stats_jobs.report import Report
from stats_jobs.session import SparkStarter

if TYPE_CHECKING:
    from stats_jobs.spark_table import SparkTable

__all__ = [
    "IndexOptions",
    "Options",
    "Report",
    "SparkStarter",
    "SparkTable",
    "analyze",
    "analyze_many",
    "index",
    "index_many",
]

__getattr__ = on_first_use(__name__, {"SparkTable": "stats_jobs.spark_table"})
