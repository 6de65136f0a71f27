"""
Jobs over a real Spark Connect server: the same files as without it, and the same errors.

The server is a process of its own; the tests have no JVM of theirs. It is of the pyspark that the tests have, or of the
environment whose Python PUFFIN_CONNECT_SERVER names (``make test-connect``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyspark.errors import PySparkException

from puffin.errors import CorruptMetadataError, FileNotFound, SetupError, StorageError, UsageError
from puffin.iceberg.scan import parts
from puffin.iceberg.scan import plan as scan_plan
from stats_jobs import Options, SparkStarter, SparkTable, analyze, analyze_many, index, merge, plan
from stats_jobs.many import in_order
from stats_jobs.options import IndexOptions
from tools.java_gateway import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOON = 60  # seconds
ROWS, FILES = 1000, 3
_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}


@pytest.fixture(scope="module")
def server(
    java_home: Path,
    jars: Callable[[str], list[Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The URL of a Spark Connect server, as Spark's package has it, with one core."""
    home = tmp_path_factory.mktemp("connect")
    python = os.environ.get("PUFFIN_CONNECT_SERVER", sys.executable)
    find = "import pyspark; print(pyspark.__version__, pyspark.__path__[0])"
    found = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True)
    version, spark = found.stdout.strip().split(" ", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = {**_CONF, "spark.connect.grpc.binding.port": str(port), "spark.local.dir": str(home)}
    command = [
        str(Path(spark, "bin", "spark-submit")),
        *("--master", "local[1]", "--driver-memory", "1g", "--driver-java-options", " ".join(QUICK_JAVA)),
        *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
        *(("--jars", str(jars("connect-3.5")[0])) if version.startswith("3.5.") else ()),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    # Workers have our code from the artifact alone. They find no numba, which takes seconds to compile in each session.
    (home / "without").mkdir()
    (home / "without" / "numba.py").write_text("raise ImportError")
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": spark,
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": str(home / "without"),
    }
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=home, stdout=log, stderr=log)
        try:
            _await(port, process, home / "log")
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def connect(server: str) -> Iterator[SparkSession]:
    """A caller's session of Spark Connect."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(server).create()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def starter(connect: SparkSession) -> Iterator[SparkStarter]:
    with SparkStarter(connect) as starter:
        yield starter


def test_command_analyzes_tables_of_both_formats_over_connect(server: str, tmp_path: Path) -> None:
    delta, iceberg = make_delta(tmp_path / "delta"), make_iceberg(tmp_path)
    how = ["--remote", server, "--driver-bytes", "0", "--json"]
    command = [sys.executable, "-m", "puffin", "analyze", delta, iceberg, *how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=3 * SOON)
    assert (ended.returncode, ended.stderr) == (0, "")
    reports = json.loads(ended.stdout)["tables"]
    assert [(each["format"], each["committed"], each["rows-read"]) for each in reports] == [
        (format_, True, FILES * ROWS) for format_ in ("delta", "iceberg")
    ]
    assert sum(each["session-seconds"] > 0 for each in reports) == 1
    for table, made in ((delta, make_delta(tmp_path / "delta-here")), (iceberg, None)):
        over_connect = stored_statistics(table)
        analyze(made or table, Options(mode="full"))
        assert stored_statistics(made or table)[-1] == over_connect[0]


def test_merging_on_executors_gives_the_same_file(
    starter: SparkStarter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each file is a task, pieces are merged in segments of two, and each group of columns is fetched alone."""
    here, there = (make_delta(tmp_path / name, columns=10) for name in ("here", "there"))
    analyze(here)
    groups_of = merge.Groups.of
    monkeypatch.setattr(merge.Groups, "of", lambda *given: dataclasses.replace(groups_of(*given), segment=2))
    monkeypatch.setattr(merge, "_FEW", 0)
    monkeypatch.setattr(merge, "_FETCHED", 1)
    monkeypatch.setattr(plan, "LARGEST_BATCH", 1)
    told: list[tuple[int, int]] = []
    analyze(there, Options(driver_bytes=0), starter, lambda *done: told.append(done))
    assert stored_statistics(here) == stored_statistics(there)
    assert {total for _, total in told} == {FILES}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (FILES, FILES)


def test_executors_plan_a_large_snapshot(
    starter: SparkStarter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each manifest is a part; the file is that of a plan on the driver."""
    table = make_iceberg(tmp_path)
    analyze(table)
    for limit in ("LEAST_BYTES", "_WORTH_A_LOOK", "_PART_BYTES"):
        monkeypatch.setattr(parts, limit, 1)
    monkeypatch.setattr(scan_plan, "plan_snapshot", lambda *_: pytest.fail("planned on the driver"))
    assert analyze(table, Options(mode="full", driver_bytes=0), starter).files_read == FILES
    here, there = stored_statistics(table)
    assert here == there
    for manifest in (tmp_path / "wh").rglob("*-m0.avro"):
        manifest.write_bytes(manifest.read_bytes()[:-1])
    with pytest.raises(CorruptMetadataError, match=r"-m0\.avro: expected an Avro file"):
        analyze(table, Options(mode="full", driver_bytes=0), starter)


def test_callers_session_indexes_and_is_left_running(
    connect: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where the client asks for settings that an older server lacks."""

    def ask(*_: object) -> None:
        raise PySparkException("[SQL_CONF_NOT_FOUND] The SQL config")

    monkeypatch.setattr(connect, "createDataFrame", ask)
    table = make_delta(tmp_path / "t")
    report = index(table, IndexOptions(columns=("k",), driver_bytes=0), connect)
    assert (report.files_indexed, report.files_read, report.session_seconds > 0) == (FILES, FILES, True)
    assert not any("puffin-packages-" in place for place in sys.path)
    assert connect.range(3).count() == 3


def test_missing_file_is_told_by_name_and_other_tables_go_on(connect: SparkSession, tmp_path: Path) -> None:
    broken, sound = make_delta(tmp_path / "broken"), make_delta(tmp_path / "sound")
    lost = min((tmp_path / "broken").glob("*.parquet"))
    lost.unlink()
    outcomes = dict(analyze_many([broken, sound], Options(driver_bytes=0), connect))
    assert isinstance(outcomes[broken], FileNotFound)
    assert lost.name in str(outcomes[broken])
    assert "\n" not in str(outcomes[broken])
    assert outcomes[sound].committed


def test_cancelling_ends_a_job_of_another_thread(connect: SparkSession) -> None:
    working = threading.Event()

    def sleep(batches: Any) -> Any:
        time.sleep(10 * SOON)
        yield from batches

    with SparkStarter(connect) as starter:

        def work(name: str) -> None:
            if name == "slow":
                with starter.slot(), starter.cluster.job(1, None):
                    working.set()
                    connect.range(1).mapInArrow(sleep, "id long").collect()
            else:
                assert working.wait(SOON)

        with contextlib.closing(in_order(work, ["quick", "slow"], cancel=starter.cancel)) as running:
            assert next(running) == ("quick", None)
            stopped = time.monotonic()
        assert time.monotonic() - stopped < SOON
        with pytest.raises(StorageError, match="cancelled"):
            starter.cluster.check_not_cancelled()


def test_error_of_the_server_is_told_in_one_line(starter: SparkStarter, connect: SparkSession) -> None:
    starter.start()
    with (
        pytest.raises(StorageError, match=r"^the Spark job failed: .*/nowhere") as raised,
        starter.cluster.job(1, None),
    ):
        connect.read.text("/nowhere").collect()
    assert "\n" not in str(raised.value)


def test_tables_of_spark_catalogs_are_refused_with_what_to_do(connect: SparkSession, starter: SparkStarter) -> None:
    with pytest.raises(UsageError, match="--catalog"):
        analyze(SparkTable("prod.db.events", starter))


def test_server_that_is_not_there_fails_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        place = f"sc://127.0.0.1:{taken.getsockname()[1]}"
        with (
            SparkStarter(remote=f"{place}/;token=secret") as starter,
            pytest.raises(SetupError, match=place) as raised,
        ):
            starter.start()
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def make_delta(path: Path, *, columns: int = 2) -> str:
    for part in range(FILES):
        write_deltalake(str(path), rows(part, columns), mode="append")
    return str(path)


def make_iceberg(directory: Path) -> str:
    """A table in a directory, without a catalog."""
    warehouse = directory / "wh"
    catalog = load_catalog("c", type="sql", uri=f"sqlite:///{directory}/c.db", warehouse=warehouse.as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", rows(0).schema)
    for part in range(FILES):
        table.append(rows(part))
    metadata = warehouse / "n" / "t" / "metadata"
    shutil.copy(max(metadata.glob("*.metadata.json")), metadata / "v1.metadata.json")
    (metadata / "version-hint.text").write_text("1")
    return str(warehouse / "n" / "t")


def rows(part: int, columns: int = 2) -> pa.Table:
    keys = range(part * ROWS // 2, part * ROWS // 2 + ROWS)
    return pa.table({"k": keys, "s": [f"s{key % 77}" for key in keys], **{f"c{i}": keys for i in range(columns - 2)}})


def stored_statistics(table: str) -> list[bytes]:
    """The statistics files of a table, the oldest first."""
    folders = (Path(table, "_delta_log", "_puffin_sidecar"), Path(table, "metadata"))
    files = [path for folder in folders for path in folder.glob("*.stats")]
    return [path.read_bytes() for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)]


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(10 * 2 * SOON):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"no Spark Connect server: {log.read_text()[-2000:]}", pytrace=False)
