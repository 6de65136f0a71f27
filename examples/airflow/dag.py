"""
The statistics of a namespace, brought up to date every night on the cluster of the connection ``spark_default``.

It needs ``apache-airflow-providers-apache-spark`` on the workers, and there, as on the executors, this package with its
extras ``spark`` and ``iceberg``. Nothing has to keep two runs apart, so a retry needs no cleaning up, and
``max_active_runs`` only saves work.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from importlib.util import find_spec

from airflow import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

JOB = find_spec("stats_jobs").submodule_search_locations[0] + "/__main__.py"

with DAG(
    dag_id="puffin_statistics",
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5), "retry_exponential_backoff": True},
) as dag:
    SparkSubmitOperator(
        task_id="analyze_sales",
        application=JOB,
        name="puffin-{{ ds }}",
        conf={"spark.executor.memory": "4g"},
        application_args=[
            *("--catalog", "prod", "--namespace", "sales", "--only-stale"),
            *("--log-format", "json", "--summary", "/var/log/puffin/summary.jsonl"),
        ],
    )
