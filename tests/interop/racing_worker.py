"""
One process of `test_iceberg_races`: it does one thing after the other, each when it is told to.

It reads orders, JSON objects on a line each. It prepares what can be prepared, prints ``ready``, starts when it reads
the next line, and prints what came of it as a JSON object. A job that pauses prints ``paused`` in the middle, and goes
on when it reads a line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

from puffin.errors import PuffinError
from puffin.load import load_table
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import CURRENT, Table, TableSnapshot
from stats_jobs import Options, Report, analyze


class Pausing:
    """A table that pauses before the first use of one attribute of its snapshot."""

    def __init__(self, table: Table, attribute: str) -> None:
        self.name = table.name
        self._table = table
        self.attribute: str | None = attribute

    def open(self, selector: SnapshotSelector = CURRENT) -> Any:
        return PausingSnapshot(self, self._table.open(selector))


class PausingSnapshot:
    def __init__(self, table: Pausing, opened: TableSnapshot) -> None:
        self._table = table
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        if name == self._table.attribute:
            self._table.attribute = None
            say("paused")
            listen()
        return getattr(self._opened, name)


def prepare(order: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    name, catalog = order["table"], order["catalog"]
    if order["do"] == "append":
        return lambda: append(load_catalog("races", **catalog), name, order["seconds"])
    table = load_table(name, catalog=catalog and "races", catalog_properties=catalog)
    if "pause" in order:
        table = Pausing(table, order["pause"])
    options = Options(columns=tuple(order["columns"]), mode=order.get("mode", "auto"))
    if order["do"] == "analyze":
        return lambda: tell(lambda: analyze(table, options))
    return lambda: {"runs": repeat(lambda: tell(lambda: analyze(table, options)), order["seconds"])}


def append(catalog: Any, name: str, seconds: float) -> dict[str, Any]:
    """Append a row at a time; a row counts once its commit is acknowledged."""
    rows = conflicts = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            catalog.load_table(name).append(pa.table({"a": pa.array([rows], pa.int64())}))
        except CommitFailedException:
            conflicts += 1
            continue
        rows += 1
    return {"rows": rows, "conflicts": conflicts}


def repeat(run: Callable[[], dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
    end = time.monotonic() + seconds
    runs = []
    while time.monotonic() < end:
        runs.append(run())
    return runs


def tell(run: Callable[[], Report]) -> dict[str, Any]:
    try:
        report = run()
    except PuffinError as exc:
        return {"error": type(exc).__name__, "says": str(exc)}
    return {"committed": report.committed, "attempts": report.attempts}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def listen() -> str:
    return sys.stdin.readline()


if __name__ == "__main__":
    for line in iter(listen, ""):
        action = prepare(json.loads(line))
        say("ready")
        listen()
        say(json.dumps(action()))
