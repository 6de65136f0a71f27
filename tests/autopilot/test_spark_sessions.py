"""One session is lent to many tables, changes with the size of a table, and ends when idle."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from puffin.autopilot.spark_sessions import SparkSessions
from puffin.policy.model import SparkSize, SparkUse
from stats_jobs import SparkStarter
from stats_jobs.cluster import Cluster
from stats_jobs.jvm import JvmCluster
from tools.java_gateway import QUICK_JAVA

SMALL, LARGE = SparkSize(master="local[1]"), SparkSize(from_bytes=100, master="local[2]")
USE = SparkUse(sizes=(SMALL, LARGE), idle=0)


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JvmCluster, "start", lambda _self: None)
    monkeypatch.setattr(JvmCluster, "has_ended", False)


def used(starter: SparkStarter) -> Cluster:
    """The cluster of a starter, on which it has computed."""
    with starter.slot():
        return starter.cluster


@pytest.mark.usefixtures("no_jvm")
def test_tables_of_one_size_share_a_session() -> None:
    sessions = SparkSessions(USE)
    with sessions.lend(1) as one, sessions.lend(99) as two:
        shared = used(one)
        assert used(two) is shared
    with sessions.lend(50) as three:
        assert used(three) is shared
    sessions.release_idle()
    with sessions.lend(1) as four:
        other = used(four)
        sessions.release_idle()  # it is in use
        assert other is not shared
        with sessions.lend(2) as five:
            assert used(five) is other


@pytest.mark.usefixtures("no_jvm")
def test_table_of_another_size_waits_until_the_session_is_free() -> None:
    sessions = SparkSessions(USE)
    borrowed = threading.Event()

    def borrow_large() -> None:
        with sessions.lend(100) as large:
            used(large)
            borrowed.set()

    other = threading.Thread(target=borrow_large)
    with sessions.lend(1) as small:
        used(small)
        other.start()
        assert not borrowed.wait(0.2)
    assert borrowed.wait(60)
    other.join()


@pytest.mark.usefixtures("no_jvm")
def test_table_that_needs_no_spark_leaves_the_session_of_others_alone() -> None:
    sessions = SparkSessions(USE)
    with sessions.lend(100) as large:
        session = used(large)
    with sessions.lend(1):
        pass
    with sessions.lend(100) as again:
        assert used(again) is session


def test_large_tables_run_on_one_spark_session(lake: Path) -> None:
    """In a process of its own, since a process has one session."""
    policy = lake.parent / "policy.yaml"
    java = f"spark.driver.extraJavaOptions: '{' '.join(QUICK_JAVA)}'"
    conf = f"{{spark.sql.shuffle.partitions: 1, spark.ui.enabled: false, {java}}}"
    policy.write_text(f"""\
roots: [{lake}]
limits: {{driver-bytes: 0 B}}
spark: {{sizes: [{{master: "local[1]", conf: {conf}}}]}}
""")
    command = [sys.executable, "-m", "puffin", "autopilot", "--policy", str(policy), "--once", "--json"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert ran.stderr == ""
    assert [each["outcome"] for each in json.loads(ran.stdout)["runs"]] == ["done"] * 3


KILLED = """
import sys
from pyspark import SparkContext
from puffin.autopilot.spark_sessions import SparkSessions
from puffin.policy.model import SparkSize, SparkUse

def count_rows():
    starter.open()
    print(starter.cluster.context._jsc.sc().range(0, 3, 1, 1).count())  # without Python workers

def kill_java():
    java = SparkContext._gateway.proc
    java.kill()
    java.wait()

size = SparkSize(master="local[1]", conf=(("spark.driver.extraJavaOptions", sys.argv[1]),))
sessions = SparkSessions(SparkUse(sizes=(size,), idle=0))
with sessions.lend(1) as starter:
    count_rows()
    kill_java()
with sessions.lend(1) as starter:
    count_rows()
kill_java()
sessions.release_idle()
"""


def test_session_is_replaced_when_its_java_was_killed_in_use_and_ends_when_it_was_idle() -> None:
    """In a process of its own."""
    command = [sys.executable, "-c", KILLED, " ".join(QUICK_JAVA)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, ran.stdout) == (0, "3\n3\n"), ran.stderr


@pytest.mark.usefixtures("no_jvm")
def test_session_that_cannot_be_stopped_keeps_no_table_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: JvmCluster) -> None:
        monkeypatch.setattr(JvmCluster, "close", lambda _self: None)
        raise OSError("the directory cannot be removed")

    monkeypatch.setattr(JvmCluster, "close", fails)
    sessions = SparkSessions(USE)
    with sessions.lend(1) as small:
        used(small)
    with pytest.raises(OSError, match="cannot be removed"):
        sessions.release_idle()
    with sessions.lend(1) as again:
        assert used(again) is not small.cluster


def test_remote_replaces_the_masters_of_the_policy(lake: Path) -> None:
    """Nothing listens there, which the event of each table says, and the server is asked once for all of them."""
    policy = lake.parent / "policy.yaml"
    policy.write_text(f'roots: [{lake}]\nlimits: {{driver-bytes: 0 B}}\nspark: {{sizes: [{{master: "local[2]"}}]}}\n')
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        remote = f"sc://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "puffin", "autopilot", "--policy", str(policy), "--once", "--json"]
        ran = subprocess.run([*command, "--remote", remote], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1
    runs = json.loads(ran.stdout)["runs"]
    assert [each["outcome"] for each in runs] == ["failed"] * 3
    assert all(each["error"].startswith(f"Spark Connect at {remote}: ") for each in runs)
