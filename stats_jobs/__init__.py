"""The Spark job that computes theta sketches for the columns of a snapshot and commits them."""

from stats_jobs.analyze import analyze
from stats_jobs.many import analyze_many
from stats_jobs.options import Options
from stats_jobs.report import Report
from stats_jobs.session import SparkStarter
from stats_jobs.spark_table import SparkTable

__all__ = ["Options", "Report", "SparkStarter", "SparkTable", "analyze", "analyze_many"]
