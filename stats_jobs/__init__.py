"""The Spark statistics job: a table's snapshot in, committed theta sketches out."""

from stats_jobs.analyze import Options, Report, analyze
from stats_jobs.session import SparkStarter

__all__ = ["Options", "Report", "SparkStarter", "analyze"]
