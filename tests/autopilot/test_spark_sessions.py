"""One session is lent to many tables, changes with the size of a table, and ends when idle."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

from puffin.autopilot.spark_sessions import SparkSessions
from puffin.policy.model import SparkSize, SparkUse

SMALL, LARGE = SparkSize(master="local[1]"), SparkSize(from_bytes=100, master="local[2]")
USE = SparkUse(sizes=(SMALL, LARGE), idle=0)


def test_tables_of_one_size_share_a_starter() -> None:
    sessions = SparkSessions(USE)
    with sessions.lend(1) as one, sessions.lend(99) as two:
        assert one is two
    with sessions.lend(50) as three:
        assert three is one
    sessions.release_idle()
    with sessions.lend(1) as four:
        sessions.release_idle()  # it is in use
        assert four is not one
        with sessions.lend(2) as five:
            assert five is four


def test_table_of_another_size_waits_until_the_session_is_free() -> None:
    sessions = SparkSessions(USE)
    borrowed = threading.Event()

    def borrow_large() -> None:
        with sessions.lend(100):
            borrowed.set()

    other = threading.Thread(target=borrow_large)
    with sessions.lend(1):
        other.start()
        assert not borrowed.wait(0.2)
    assert borrowed.wait(60)
    other.join()


def test_large_tables_run_on_one_spark_session(lake: Path, quick_java: list[str]) -> None:
    """In a process of its own, since a process has one session."""
    policy = lake.parent / "policy.yaml"
    java = f"spark.driver.extraJavaOptions: '{' '.join(quick_java)}'"
    conf = f"{{spark.sql.shuffle.partitions: 1, spark.ui.enabled: false, {java}}}"
    policy.write_text(f"""\
roots: [{lake}]
limits: {{driver-bytes: 0 B}}
spark: {{sizes: [{{master: "local[2]", conf: {conf}}}]}}
""")
    command = [sys.executable, "-m", "puffin", "autopilot", "--policy", str(policy), "--once", "--json"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert ran.stderr == ""
    assert [each["outcome"] for each in json.loads(ran.stdout)["runs"]] == ["done"] * 3


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
