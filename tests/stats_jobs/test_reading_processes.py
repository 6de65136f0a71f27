"""Processes read what threads read, and a thread reads in place of one that ends."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import puffin
from puffin.errors import CorruptDataFileError, PuffinError
from puffin.load import load_table
from puffin.statistics.aside import put_aside
from stats_jobs import IndexOptions, Options, analyze, index, readers, reading_processes
from stats_jobs.pieces import Piece, plan_here
from stats_jobs.readers import Readers
from stats_jobs.reading_processes import ReadingProcess, ReadingProcesses
from stats_jobs.scan import Scan
from tests.reading_processes import Watched, wait_until


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    for file in range(3):
        random = np.random.default_rng(file)
        data = {f"c{place}": random.integers(0, 10**place, 500) for place in range(1, 6)}
        data["t"] = [f"text {number}" for number in data["c3"]]
        write_deltalake(path, pa.table(data), mode="append")
    return path


def test_process_finds_what_threads_find(processes, table, monkeypatch):
    there, here = (values_of(table) for _ in in_turn(processes, monkeypatch))
    assert len(processes.read) > 2
    assert there == here


def test_process_reads_columns_side_by_side(processes, table, monkeypatch):
    there, here = (
        analyze(table, Options(mode="full", joint=("c1+c3",), dry_run=True)).columns
        for _ in in_turn(processes, monkeypatch)
    )
    assert processes.read
    assert there == here


def test_process_makes_filters_of_an_index(processes, table):
    index(table, IndexOptions(columns=("c5",)))
    assert processes.read
    values = [set(pq.read_table(path)["c5"].to_pylist()) for path in sorted(Path(table).glob("*.parquet"))]
    key = next(iter(values[0] - values[1] - values[2]))
    assert len(puffin.plan(table, where=f"c5 = {key}").files) == 1


def test_killed_process_is_replaced_by_the_thread(processes, table):
    os.kill(processes.pid, signal.SIGKILL)
    assert analyze(table, Options(dry_run=True)).rows_read == 1500
    assert not processes.read


def test_process_that_is_killed_while_it_reads_is_replaced_by_the_thread(processes, table, monkeypatch):
    send = Connection.send

    def sent_and_killed(connection: Connection, message: Any) -> None:
        if isinstance(message, Piece):
            os.kill(processes.pid, signal.SIGKILL)
            wait_until(lambda: connection.poll())
        send(connection, message)

    monkeypatch.setattr(Connection, "send", sent_and_killed)
    assert analyze(table, Options(dry_run=True)).rows_read == 1500
    assert not processes.read
    assert not processes.idle
    processes.note(0)
    assert not processes.is_starting


def test_broken_file_is_the_error_of_the_thread(processes, table):
    path = next(Path(table).glob("*.parquet"))
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 60 + content[64:])
    with pytest.raises(CorruptDataFileError, match=path.name):
        analyze(table)
    assert processes.read
    assert processes.idle == 1


def test_file_that_storage_does_not_read_is_the_error_of_the_thread(processes, table):
    path = next(Path(table).glob("*.parquet"))
    path.unlink()
    path.mkdir()
    with pytest.raises(PuffinError, match=path.name):
        analyze(table)
    assert processes.idle == 1


def test_process_with_another_environment_is_not_used(processes, table, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "another")
    monkeypatch.setattr(reading_processes, "_WORTH_SECONDS", math.inf)
    assert values_of(table)
    assert not processes.read
    assert not processes.idle


def test_processes_start_once_threads_have_read_for_long(monkeypatch):
    monkeypatch.setattr(reading_processes, "_WORTH_SECONDS", 1.0)
    monkeypatch.setattr(reading_processes, "_most", lambda: 1)
    watched = Watched()
    watched.note(0.6)
    watched.note(0.6, is_more_left=False)
    assert not watched.is_starting
    watched.note(0)
    assert watched.is_starting
    wait_until(lambda: watched.idle)
    watched.close()


def test_process_that_cannot_start_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(reading_processes, "_WORTH_SECONDS", 0.0)
    monkeypatch.setattr(reading_processes, "_most", lambda: 1)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    watched = Watched()
    watched.note(0)
    wait_until(lambda: not watched.is_starting)
    watched.note(0)
    assert not watched.is_starting
    assert watched.take() is None


@pytest.mark.parametrize(("gigabytes", "cores", "most"), [(1.5, 8, 0), (2, 8, 1), (64, 1, 0), (64, 4, 3), (64, 64, 7)])
def test_memory_and_cores_limit_the_processes(monkeypatch, gigabytes, cores, most):
    monkeypatch.setattr(reading_processes, "memory", lambda: int(gigabytes * 2**30))
    monkeypatch.setattr(reading_processes, "cores", lambda: cores)
    assert reading_processes._most() == most


def test_idle_process_ends():
    process = ReadingProcess(idle_seconds=0.1)
    wait_until(lambda: not process.is_alive)
    process.close()


def test_processes_end_with_their_parent():
    program = (
        "import time; from stats_jobs.reading_processes import ReadingProcess; process = ReadingProcess();"
        "process.wait_until_ready(); print(process._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_fork_leaves_processes_alone(processes, table):
    fork = multiprocessing.get_context("fork").Process(target=processes.close)
    fork.start()
    fork.join()
    assert fork.exitcode == 0
    assert values_of(table)
    assert processes.read


def values_of(table: str) -> dict[int, dict[str, bytes]]:
    """All that a run finds of each column."""
    opened = load_table(table).open()
    scan = Scan(dict.fromkeys(opened.state.columns, Options().kinds), tuple(opened.tasks))
    batches = plan_here([scan], parallelism=2)
    partial = Readers(batches, opened, put_aside(1), None, 1).read(at_once=True)
    return {
        field_id: {str(kind): pickle.dumps(value) for kind, value in values.items()}
        for field_id, values in partial.added.items()
    }


def in_turn(processes: Watched, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Twice: with the process, then without."""
    assert processes.idle
    yield
    monkeypatch.setattr(readers, "PROCESSES", ReadingProcesses())
    monkeypatch.setattr(reading_processes, "_WORTH_SECONDS", math.inf)
    yield
