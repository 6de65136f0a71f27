"""The scripts in ``examples/`` run as they are, and the DAG parses."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.cli.analyze import command
from puffin.inspection import verify
from puffin.load import load_table
from puffin.lookup import Question, lookup

EXAMPLES = Path(__file__).parents[2] / "examples"
BIN = Path(sys.executable).parent
ROWS = pa.table({"id": pa.array(range(5_000), pa.int64()), "k": pa.array([i % 7 for i in range(5_000)], pa.int32())})
PATIENCE = 60  # seconds for a daemon to come up, on a machine that is busy


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """A catalog with one table, which `environment` calls ``prod``."""
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", ROWS.schema).append(ROWS)
    return catalog


@pytest.fixture
def environment(catalog: SqlCatalog, tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose virtual environment is active."""
    named = {f"PYICEBERG_CATALOG__PROD__{key.upper()}": catalog.properties[key] for key in ("uri", "warehouse")}
    return {
        **os.environ,
        **named,
        "PYICEBERG_CATALOG__PROD__TYPE": "sql",
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "LOGS": str(tmp_path),
        "WAIT": "0",
    }


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_nightly_script_updates_a_namespace_and_then_finds_nothing_to_do(environment, tmp_path):
    for _ in range(2):
        subprocess.run(["sh", EXAMPLES / "cron/nightly.sh", "prod", "sales"], check=True, env=environment)
    (line,) = lines(tmp_path / "summary.jsonl")
    assert (line["table"], line["committed"], line["exit"]) == ("sales.orders", True, 0)
    assert (tmp_path / "errors.jsonl").read_text() == ""


def test_nightly_script_retries_only_temporary_failures(catalog, environment, tmp_path):
    """A table without metadata fails every time; a missing namespace is a usage error."""
    metadata = catalog.load_table("sales.orders").metadata_location
    Path(metadata.removeprefix("file://")).unlink()
    script = ["sh", EXAMPLES / "cron/nightly.sh", "prod"]
    failing = environment | {"ATTEMPTS": "2"}
    assert subprocess.run([*script, "sales"], check=False, env=failing).returncode == 1
    assert [line["exit"] for line in lines(tmp_path / "summary.jsonl")] == [1, 1]
    assert subprocess.run([*script, "none"], check=False, env=failing).returncode == 2
    errors = lines(tmp_path / "errors.jsonl")
    assert [line["message"] for line in errors[:-1]] == ["1 of 1 tables failed"] * 2
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


def test_spark_submit_analyzes_a_table_on_a_standalone_cluster(catalog, environment, tmp_path, java_home, quick_java):
    """Executors of a worker read the table, and the answer is committed."""
    arguments = ["sales.orders", "--catalog", "prod", "--json", "--driver-bytes", "0"]
    settings = {"memory": "512m", "extraJavaOptions": " ".join(quick_java)}
    arguments += [word for key, value in settings.items() for word in ("--conf", f"spark.executor.{key}={value}")]
    with standalone_cluster(environment, tmp_path, quick_java) as (master, on_cluster):
        run = subprocess.run(
            ["sh", EXAMPLES / "spark-submit/analyze.sh", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=on_cluster | {"MASTER": master},
        )
        worker_log = (tmp_path / "Worker.log").read_text()
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    assert (answer["committed"], answer["files-read"], answer["rows-read"]) == (True, 1, 5_000)
    counts = {column["column"]: column["ndv"] for column in answer["columns"]}
    assert counts["k"] == 7
    (statistics,) = catalog.load_table("sales.orders").metadata.statistics
    assert statistics.statistics_path == answer["statistics-file"]["path"]
    assert verify(statistics.statistics_path).valid
    table = load_table("sales.orders", catalog="prod", catalog_properties={**catalog.properties, "type": "sql"})
    assert {c.column.name: c.ndv for c in lookup(table, Question(table.name)).columns} == counts
    assert "Asked to launch executor" in worker_log


@contextmanager
def standalone_cluster(
    environment: dict[str, str], directory: Path, java_options: list[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Start a master and a worker of one core and 1 GB at this machine's own address, and return the master's URL.

    The two start without Spark's scripts, which start another Java to build the command.
    """
    import pyspark

    spark_home = Path(pyspark.__file__).parent
    environment = environment | {
        "SPARK_HOME": str(spark_home),
        "SPARK_SCALA_VERSION": "2.13",  # the worker's executors need it; Spark's scripts set it
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": " ".join(java_options),
        "SPARK_SUBMIT_OPTS": " ".join(java_options),
        "SPARK_LOCAL_DIRS": str(directory / "scratch"),
    }
    java = [f"{environment['JAVA_HOME']}/bin/java", *java_options, "-Xmx256m", "-cp", f"{spark_home}/jars/*"]

    @contextmanager
    def daemon(name: str, *arguments: str) -> Iterator[Path]:
        log = directory / f"{name}.log"
        program = [*java, f"org.apache.spark.deploy.{name.lower()}.{name}"]
        place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        with log.open("w") as output:
            process = subprocess.Popen([*program, *place, *arguments], env=environment, stdout=output, stderr=output)
            try:
                yield log
            finally:
                process.terminate()
                process.wait()

    with daemon("Master") as log:
        master = said(log, r"Starting Spark master at (spark://\S+)")
        work = str(directory / "work")
        with daemon("Worker", "--cores", "1", "--memory", "1g", "--work-dir", work, master) as worker_log:
            said(worker_log, "(Successfully registered with master)")
            yield master, environment


def said(log: Path, pattern: str) -> str:
    """Return what a daemon logs, as soon as it is there."""
    until = time.monotonic() + PATIENCE
    while (match := re.search(pattern, log.read_text())) is None:
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    return match[1]
