"""
A server that is killed and started again while 20 clients query through it: each query is right, or it fails.

``PUFFIN_SERVER_KILLS`` says how often it is killed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import RESTError

KILLS = int(os.environ.get("PUFFIN_SERVER_KILLS", "1"))
CLIENTS = 20
PATIENCE = 120  # seconds, after which what has not come never will
FILES, ROWS = 10, 50


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse with the table ``db.t``, whose keys are spread over its files, and half of whose rows have a pair."""
    catalog = SqlCatalog("own", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=(tmp_path / "w").as_uri())
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("k", pa.int64()), ("file", pa.int64())]))
    for number in range(FILES):
        keys = [i * FILES + number for i in range(ROWS)]
        table.append(pa.table({"k": [*keys, *(key + 1 for key in keys)], "file": [number] * 2 * ROWS}))
    return tmp_path / "w"


def rows_of(key: int) -> list[tuple[int, int]]:
    """The rows with a key: that of its own file, and the pair in the file before."""
    wanted = ((key, key % FILES), (key, (key - 1) % FILES))
    return sorted(row for row, first in zip(wanted, (key, key - 1), strict=True) if 0 <= first < FILES * ROWS)


class Querier(threading.Thread):
    """Asks for one key after the other until it is told to stop; knows what became of each query."""

    def __init__(self, uri: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.is_over = threading.Event()
        self.right, self.wrong = 0, list[str]()
        self.errors: list[Exception] = []
        self._uri = uri
        self._random = random.Random(seed)

    def run(self) -> None:
        while not self.is_over.is_set():
            key = self._random.randrange(-5, FILES * ROWS + 5)
            try:
                table = load_catalog("fast", type="rest", uri=self._uri).load_table("db.t")
                found = table.scan(row_filter=f"k = {key}").to_arrow().to_pydict()
            except Exception as exc:  # noqa: BLE001 - the test judges it
                self.errors.append(exc)
            else:
                rows = sorted(zip(found["k"], found["file"], strict=True))
                if rows == rows_of(key):
                    self.right += 1
                else:
                    self.wrong.append(f"{key}: {rows}")
            time.sleep(self._random.uniform(0, 0.5))


def test_killed_server_costs_queries_but_no_rows(warehouse: Path, process_of: Callable[..., Any]) -> None:
    process = process_of(warehouse, "--iceberg")
    queriers = [Querier(f"{process.url}/iceberg", seed) for seed in range(CLIENTS)]
    for querier in queriers:
        querier.start()
    wait_for_answers(queriers)
    for _ in range(KILLS):
        assert process.stop(signal.SIGKILL) == -signal.SIGKILL
        failed = sum(len(querier.errors) for querier in queriers)
        wait_until(lambda before=failed: sum(len(querier.errors) for querier in queriers) > before)
        process = process_of(warehouse, "--iceberg", "--port", process.port)
        wait_for_answers(queriers)
    for querier in queriers:
        querier.is_over.set()
    for querier in queriers:
        querier.join(PATIENCE)
        assert not querier.is_alive()
    assert [wrong for querier in queriers for wrong in querier.wrong] == []
    errors = [error for querier in queriers for error in querier.errors]
    assert {type(error) for error in errors if not isinstance(error, requests.RequestException | RESTError)} == set()
    assert all(str(error) for error in errors)
    (counted,) = requests.get(f"{process.url}/v1/plans", timeout=PATIENCE).json()["tables"]
    assert counted["plans"] >= CLIENTS


def wait_for_answers(queriers: list[Querier]) -> None:
    """Wait until every client has had one more right answer."""
    before = [querier.right for querier in queriers]
    wait_until(lambda: all(querier.right > had for querier, had in zip(queriers, before, strict=True)))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
