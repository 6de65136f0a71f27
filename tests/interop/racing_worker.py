"""
One process of `test_iceberg_races`: it does one thing after the other, each when it is told to.

It receives orders. It prepares what can be prepared, says ``ready``, starts when it is told anything, and says what
came of it. A job that pauses says ``paused`` in the middle, and goes on when it is told anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
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

    def __init__(self, table: Table, attribute: str, pause: Callable[[], object]) -> None:
        self.name = table.name
        self._table = table
        self.attribute: str | None = attribute
        self.pause = pause

    def open(self, selector: SnapshotSelector = CURRENT) -> Any:
        return PausingSnapshot(self, self._table.open(selector))


class PausingSnapshot:
    def __init__(self, table: Pausing, opened: TableSnapshot) -> None:
        self._table = table
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        if name == self._table.attribute:
            self._table.attribute = None
            self._table.pause()
        return getattr(self._opened, name)


def follow_orders(test: Connection) -> None:
    """Do what the test says, until it is gone."""
    while True:
        try:
            order = test.recv()
        except EOFError:
            return
        action = prepare(order, lambda: (test.send("paused"), test.recv()))
        test.send("ready")
        test.recv()
        test.send(action())


def prepare(order: dict[str, Any], pause: Callable[[], object]) -> Callable[[], dict[str, Any]]:
    name, catalog = order["table"], order["catalog"]
    if order["do"] == "append":
        return lambda: append(load_catalog("races", **catalog), name, order["seconds"])
    table = load_table(name, catalog=catalog and "races", catalog_properties=catalog)
    if "pause" in order:
        table = Pausing(table, order["pause"], pause)
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
