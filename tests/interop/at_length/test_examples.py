"""The scripts in ``examples/`` run as they are, and the DAG parses."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.cli.analyze import command
from puffin.inspection import verify
from tests import forked_commands
from tools.java_gateway import QUICK_JAVA

EXAMPLES = Path(__file__).parents[3] / "examples"
WITH_PROGRAMS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
TABLE = "examples.orders"
ROWS = pa.table({"id": pa.array(range(5_000), pa.int64()), "k": pa.array([i % 7 for i in range(5_000)], pa.int32())})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog with one table, which `environment` calls ``prod``."""
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", ROWS.schema).append(ROWS)
    return catalog


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with ``puffin``, which starts at once."""
    directory = tmp_path_factory.mktemp("bin")
    with forked_commands.serve(directory):
        yield directory


@pytest.fixture
def quick(environment: dict[str, str], programs: Path) -> dict[str, str]:
    """The environment of a script that runs ``puffin`` again and again."""
    return {**environment, "PATH": f"{programs}{os.pathsep}{environment['PATH']}"}


@pytest.fixture
def environment(catalog: SqlCatalog, tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose virtual environment is active."""
    named = {f"PYICEBERG_CATALOG__PROD__{key.upper()}": catalog.properties[key] for key in ("uri", "warehouse")}
    return {
        **os.environ,
        **named,
        "PYICEBERG_CATALOG__PROD__TYPE": "sql",
        "PATH": WITH_PROGRAMS,
        "LOGS": str(tmp_path),
        "WAIT": "0",
    }


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_nightly_script_updates_a_namespace_and_then_finds_nothing_to_do(quick, tmp_path):
    for _ in range(2):
        subprocess.run(["sh", EXAMPLES / "cron/nightly.sh", "prod", "sales"], check=True, env=quick)
    (line,) = lines(tmp_path / "summary.jsonl")
    assert (line["table"], line["committed"], line["exit"]) == ("sales.orders", True, 0)
    assert (tmp_path / "errors.jsonl").read_text() == ""


def test_nightly_script_retries_only_temporary_failures(catalog, quick, tmp_path):
    """A table without metadata fails every time; a missing namespace is a usage error."""
    metadata = catalog.load_table("sales.orders").metadata_location
    Path(metadata.removeprefix("file://")).unlink()
    script = ["sh", EXAMPLES / "cron/nightly.sh", "prod"]
    failing = quick | {"ATTEMPTS": "2"}
    assert subprocess.run([*script, "sales"], check=False, env=failing).returncode == 1
    assert [line["exit"] for line in lines(tmp_path / "summary.jsonl")] == [1, 1]
    assert subprocess.run([*script, "none"], check=False, env=failing).returncode == 2
    errors = lines(tmp_path / "errors.jsonl")
    assert [line.get("table") for line in errors[:-1]] == ["sales.orders", None] * 2
    assert [line["message"] for line in errors[1:-1:2]] == ["1 of 1 tables failed"] * 2
    assert errors[-1]["error"] == "UsageError"


def test_dag_is_valid_python_and_passes_existing_options():
    dag = EXAMPLES / "airflow/dag.py"
    tree = ast.parse(dag.read_text())
    (operator,) = (
        n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "SparkSubmitOperator"
    )
    (arguments,) = (keyword.value for keyword in operator.keywords if keyword.arg == "application_args")
    texts = [node.value for node in ast.walk(arguments) if isinstance(node, ast.Constant)]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {text for text in texts if text.startswith("--")} <= options
    assert "--summary" in texts


def test_spark_submit_analyzes_a_table_of_sparks_catalog_on_a_standalone_cluster(
    spark, warehouse, jars, java_statistics, tmp_path
):
    """An executor of the worker reads the table, Spark's catalog commits it, and Spark's start is timed apart."""
    spark.sql(f"CREATE TABLE hadoop.{TABLE} USING iceberg AS SELECT id, id % 7 AS k FROM range(0, 5000, 1, 1)")
    options = " ".join(QUICK_JAVA)
    settings = {
        "spark.jars": ",".join(map(str, jars("iceberg-runtime"))),
        "spark.sql.catalog.cat": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.cat.type": "hadoop",
        "spark.sql.catalog.cat.warehouse": str(warehouse),
    }
    lines = "".join(f"{key} {value}\n" for key, value in settings.items())
    (tmp_path / "spark-defaults.conf").write_text(lines)
    arguments = ["--spark-table", f"cat.{TABLE}", "--json", "--driver-bytes", "0"]
    for setting in ("memory=512m", f"extraJavaOptions={options}"):
        arguments += ["--conf", f"spark.executor.{setting}"]
    with standalone_cluster(spark, tmp_path / "work") as master:
        of_driver = {"MASTER": master, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path / "scratch")}
        of_driver |= {"SPARK_CONF_DIR": str(tmp_path), "SPARK_LAUNCHER_OPTS": options, "SPARK_SUBMIT_OPTS": options}
        run = subprocess.run(
            ["sh", EXAMPLES / "spark-submit/analyze.sh", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, **of_driver, "PATH": WITH_PROGRAMS},
        )
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    assert (answer["table"], answer["committed"]) == (f"cat.{TABLE}", True)
    assert (answer["files-read"], answer["rows-read"]) == (1, 5_000)
    assert answer["session-seconds"] > 0 < answer["elapsed-seconds"]
    (column,) = (column for column in answer["columns"] if column["column"] == "k")
    assert column["ndv"] == 7
    assert verify(answer["statistics-file"]["path"]).valid
    (statistics,) = java_statistics(f"hadoop.{TABLE}").values()
    assert [blob.sketch.estimate for blob in statistics.blobs][1] == 7
    assert list((tmp_path / "work").glob("app-*/0/stderr"))  # the executor's, in the directory of the worker


@contextmanager
def standalone_cluster(spark: Any, work: Path) -> Iterator[str]:
    """
    Start a master and a worker of one core and 1 GB at this machine's own address, and return the master's URL.

    Both run in the JVM of the tests, which has loaded most of their classes; executors are processes.
    """
    deploy, host = spark._jvm.org.apache.spark.deploy, "127.0.0.1"
    conf = spark._jvm.org.apache.spark.SparkConf(False)
    master = deploy.master.Master.startRpcEnvAndEndpoint(host, 0, 0, conf)
    try:
        url = f"spark://{host}:{master._1().address().port()}"
        none = spark._jvm.scala.Option.empty()
        urls = spark.sparkContext._gateway.new_array(spark._jvm.String, 1)
        urls[0] = url
        worker = deploy.worker.Worker.startRpcEnvAndEndpoint(host, 0, 0, 1, 1024, urls, str(work), none, conf, none)
        try:
            yield url
        finally:
            worker.shutdown()
    finally:
        master._1().shutdown()
