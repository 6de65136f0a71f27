"""
PySpark's daemon, whose forks are the Python workers of Spark, with all that our tasks import.

A worker would take more than a second for that, and Spark ends one that had nothing to do for a minute.
"""

from pyspark import daemon

from stats_jobs.cluster import prepare_worker

if __name__ == "__main__":
    prepare_worker()
    daemon.manager()
