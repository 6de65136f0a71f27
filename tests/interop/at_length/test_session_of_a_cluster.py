"""A session of a cluster, whose executors fetch our packages: each run on it, and the caller's own jobs after that."""

from __future__ import annotations

import subprocess
import sys

from tools.java_gateway import QUICK_JAVA

# Killing the executor has Spark start another one, as dynamic allocation does.
STORY = """
import os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from puffin.errors import StorageError
from stats_jobs.session import SparkStarter

settings = {
    "spark.driver.extraJavaOptions": sys.argv[1],
    "spark.executor.extraJavaOptions": sys.argv[1],
    "spark.executor.memory": "600m",
    "spark.driver.memory": "700m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "FATAL",
}
builder = SparkSession.builder.master("local-cluster[1,1,800]")
session = builder.config(map=settings).getOrCreate()
for _ in range(3):
    with SparkStarter(session) as starter:
        starter.start()

def parent(_):
    return Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]

(executor,) = session.sparkContext.parallelize([0], 1).map(parent).collect()
os.kill(int(executor), signal.SIGKILL)
print(session.sparkContext.parallelize(range(10), 2).count(), "rows")
session.stop()
try:
    with SparkStarter(session) as starter:
        starter.start()
except StorageError as exc:
    print(exc)
"""

# As notebooks of one cluster share its JVM.
SECOND = """
import os, subprocess, sys
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from stats_jobs.session import SparkStarter

if "PYSPARK_GATEWAY_PORT" in os.environ:
    gateway = launch_gateway()
    spark = gateway.jvm.org.apache.spark
    java = spark.api.java.JavaSparkContext(spark.SparkContext.getOrCreate())
    session = SparkSession(SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.getConf())))
else:
    settings = {"spark.driver.memory": "700m", "spark.ui.enabled": "false", "spark.python.worker.reuse": "false"}
    settings["spark.driver.extraJavaOptions"] = sys.argv[1]
    builder = SparkSession.builder.master("local[1]").config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config("spark.driver.host", "127.0.0.1").config(map=settings).getOrCreate()
with SparkStarter(session) as starter:
    starter.start()
context = session.sparkContext
(path,) = context.parallelize([0], 1).map(lambda _: sys.path).collect()
print([each for each in path if "puffin-sidecar-" in each] != [], flush=True)
if "PYSPARK_GATEWAY_PORT" not in os.environ:
    reached = context._gateway.gateway_parameters
    at = {"PYSPARK_GATEWAY_PORT": str(reached.port), "PYSPARK_GATEWAY_SECRET": reached.auth_token}
    subprocess.run([sys.executable, *sys.orig_argv[1:]], env={**os.environ, **at}, check=True)
"""


def test_runs_share_a_session_and_leave_it_as_it_was() -> None:
    run = run_python(STORY)
    assert run.stdout.splitlines() == ["10 rows", "the Spark session was stopped"], run.stderr[-2000:]


def test_processes_that_share_a_jvm_all_send_our_packages() -> None:
    run = run_python(SECOND)
    assert run.stdout.splitlines() == ["True", "True"], run.stderr[-2000:]


def run_python(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, " ".join(QUICK_JAVA)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
