"""
The main job by its commands, on tables made without Spark: what every supported pyspark must pass.

``make test-matrix`` runs it on the oldest and the newest; ``make test`` proves the same in ``tests/interop``. Each
command is a process of its own, as a scheduler would run it.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import stats_jobs
from tools.java_gateway import QUICK_JAVA

ROWS = pa.table(
    {
        "id": pa.array(range(10_000), pa.int64()),
        "k": pa.array([i % 7 for i in range(10_000)], pa.int32()),
        "s": pa.array([None if i % 10 == 0 else f"v{i % 100}" for i in range(10_000)], pa.string()),
    }
)
EXACT = {"k": 7, "s": 90}


class Puffin:
    """Runs the command line against one catalog."""

    def __init__(self, home: Path) -> None:
        self.properties = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}"}
        named = {f"PYICEBERG_CATALOG__SMOKE__{key.upper()}": value for key, value in self.properties.items()}
        # As in an activated environment, which spark-submit finds its Python by.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = os.environ | named | {"PATH": path, "SPARK_SUBMIT_OPTS": " ".join(QUICK_JAVA)}

    def __call__(self, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "puffin", *args, code=code)

    def started(self, *args: str) -> subprocess.Popen[str]:
        command, pipe = [sys.executable, "-m", "puffin", *args], subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self._environment)

    def run(self, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        run = subprocess.run(command, capture_output=True, text=True, env=self._environment, check=False)
        assert run.returncode == code, run.stderr
        return run


@pytest.fixture(scope="module")
def puffin(tmp_path_factory: pytest.TempPathFactory) -> Puffin:
    cli = Puffin(tmp_path_factory.mktemp("warehouse"))
    catalog = SqlCatalog("smoke", **cli.properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS.slice(0, 6_000))
    table.append(ROWS.slice(6_000))
    return cli


def test_catalog_table_is_analyzed_committed_and_looked_up(puffin: Puffin) -> None:
    """The first run reads and commits, the second finds current statistics, and a lookup agrees with both."""
    first = json.loads(puffin("analyze", "db.t", "--catalog", "smoke", "--json").stdout)
    assert first["committed"] is True
    assert first["mode"] == "full"
    assert (first["files-read"], first["rows-read"]) == (2, 10_000)
    ndv = {c["column"]: c for c in first["columns"]}
    assert {name: ndv[name]["ndv"] for name in EXACT} == EXACT
    assert all(ndv[name]["exact"] for name in EXACT)
    assert ndv["id"]["lower"] <= 10_000 <= ndv["id"]["upper"]

    second = json.loads(puffin("analyze", "db.t", "--catalog", "smoke", "--json").stdout)
    assert second["committed"] is False
    assert second["statistics-file"] == first["statistics-file"]
    assert second["files-read"] == 0

    looked_up = json.loads(puffin("ndv", "db.t", "--catalog", "smoke", "--json").stdout)
    assert looked_up["snapshot-id"] == first["snapshot-id"]
    assert [c["ndv"] for c in looked_up["columns"]] == [c["ndv"] for c in first["columns"]]
    assert {c["source"] for c in looked_up["columns"]} == {"snapshot"}

    puffin("verify", first["statistics-file"]["path"])


def test_index_of_thousands_of_values_finds_the_file_of_each(puffin: Puffin) -> None:
    """Both files have ids of the whole range, so that their bounds exclude neither."""
    table = SqlCatalog("smoke", **puffin.properties).create_table("db.halves", ROWS.schema)
    for first in (0, 1):
        table.append(ROWS.take(pa.array(range(first, len(ROWS), 2))))
    built = json.loads(puffin("index", "db.halves", "--catalog", "smoke", "--columns", "id,s", "--json").stdout)
    assert (built["files-indexed"], built["files-read"]) == (2, 2)
    for sought in (500, 501, 9_001):
        where = f"id = {sought}"
        plan = json.loads(puffin("plan", "db.halves", "--catalog", "smoke", "--where", where, "--json").stdout)
        assert (plan["files-matched"], plan["pruned"]["index"], plan["warnings"]) == (1, 1, [])


def test_failing_job_prints_one_line(puffin: Puffin) -> None:
    """Neither Spark nor a library buries what the user has to know."""
    run = puffin("analyze", "db.absent", "--catalog", "smoke", code=1)
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert "db.absent" in run.stderr


def test_executors_of_a_cluster_write_the_same_file_when_one_is_killed(puffin: Puffin) -> None:
    """Executors in processes of their own get our packages, and another one does the work of one that is gone."""
    full = ("analyze", "db.t", "--catalog", "smoke", "--mode", "full", "--json")
    here = json.loads(puffin(*full).stdout)
    with puffin.started(*full, "--master", "local-cluster[2,1,1024]", "--driver-bytes", "0") as job:
        os.kill(executor_at_work(job), signal.SIGKILL)
        output, errors = job.communicate()
    assert (job.returncode, errors) == (0, "")
    there = json.loads(output)
    files = [Path(ran["statistics-file"]["path"].removeprefix("file://")) for ran in (here, there)]
    assert files[0] != files[1]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_interrupt_while_spark_starts_leaves_no_jvm_behind(puffin: Puffin) -> None:
    with puffin.started("analyze", "db.t", "--catalog", "smoke", "--mode", "full", "--driver-bytes", "0") as job:
        jvm = process_of(job, "org.apache.spark.deploy.SparkSubmit")
        job.send_signal(signal.SIGINT)
        job.communicate()
    assert job.returncode == 1
    with pytest.raises(OSError, match=r"No such (file|process)"):
        command(jvm)


def process_of(job: subprocess.Popen[str], text: str) -> int:
    """Wait until a process that a job has started has a text in its command; returns the process id."""
    while job.poll() is None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                if job.pid in ancestors(int(process.name)) and text in command(int(process.name)):
                    return int(process.name)
        time.sleep(0.01)
    raise AssertionError(f"the job ended before a process had {text}")


def executor_at_work(job: subprocess.Popen[str]) -> int:
    """Wait until an executor of a job has started a Python process for a task; returns the executor's process id."""
    above = ancestors(process_of(job, "pyspark.daemon"))
    return next(pid for pid in above if "CoarseGrainedExecutorBackend" in command(pid))


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").rstrip()


def ancestors(pid: int) -> list[int]:
    """The process that started this one, the one that started that, and so on."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def test_spark_submit_runs_the_job(puffin: Puffin) -> None:
    """The package is a program for spark-submit, with the arguments of ``puffin analyze``."""
    submit = Path(sys.executable).with_name("spark-submit")
    program = Path(stats_jobs.__file__).with_name("__main__.py")
    run = puffin.run(
        *(str(submit), "--master", "local[1]", str(program)),
        *("db.t", "--catalog", "smoke", "--mode", "full", "--columns", "k", "--json"),
    )
    assert [c["ndv"] for c in json.loads(run.stdout)["columns"]] == [7]
