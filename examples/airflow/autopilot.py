"""
The tables of a policy, brought up to date every ten minutes by ``puffin autopilot --once`` on an Airflow worker.

The worker needs this package with its extras, Java, and the policy at ``POLICY``. The budget of the policy holds from
run to run if its ``state`` is a directory that stays. A run may be killed, and runs may overlap.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow import DAG
from airflow.providers.standard.operators.bash import BashOperator

POLICY = "/etc/puffin/policy.yaml"

with DAG(
    dag_id="puffin_autopilot",
    schedule="*/10 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
) as dag:
    BashOperator(
        task_id="keep_fresh",
        bash_command=f"puffin autopilot --policy {POLICY} --once --log-format json --verbose",
        execution_timeout=timedelta(hours=6),
    )
