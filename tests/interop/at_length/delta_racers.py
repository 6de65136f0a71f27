"""What the processes of `test_delta_races` do; each starts when all have met."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from puffin.errors import PuffinError
from stats_jobs import Options, analyze

Meet: TypeAlias = "Callable[[], object]"

ROWS = 20
PAUSE_SECONDS = 0.4  # deltalake and we commit in a tenth of the time of delta-spark, which would never get a turn


def analyze_column(meet: Meet, table: str, column: str) -> dict[str, Any]:
    DeltaTable(table).version()  # whatever takes its time only once is done before the start
    meet()
    return analyze(table, Options(columns=(column,))).to_json()


def analyze_repeatedly(meet: Meet, table: str, options: Options, seconds: float) -> dict[str, Any]:
    """The reports of all runs, and the errors of those that failed."""
    meet()
    reports, failures = [], []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            reports.append(analyze(table, options).to_json())
        except PuffinError as exc:
            failures.append(repr(exc))
        time.sleep(PAUSE_SECONDS)
    return {"reports": reports, "failures": failures}


def write(meet: Meet, table: str, name: str, seconds: float) -> dict[str, Any]:
    """Append rows to a partition, or delete and overwrite some too if that is the name; returns the account."""
    writer = Writer(table, name)
    meet()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        writer.rewrite() if name == "rewrite" else writer.append()
        time.sleep(PAUSE_SECONDS)
    return {"commits": writer.commits, "failures": writer.failures, "rows": writer.rows}


class Writer:
    """Writes to one partition of a table, and records its rows: ``k`` by ``id``."""

    def __init__(self, table: str, name: str) -> None:
        self._table = table
        self._name = name
        self._next_id = 0
        self.rows: dict[int, int] = {}
        self.commits = 0
        self.failures: list[tuple[str, int, int, str]] = []

    def append(self) -> None:
        new = self._new_rows()
        if self._try("append", lambda: write_deltalake(self._table, self._arrow(new), mode="append")):
            self.rows |= new

    def rewrite(self) -> None:
        """Do the next of: append, delete some rows, append, overwrite all."""
        turn = self.commits % 4
        if turn in (0, 2):
            self.append()
        elif turn == 1:
            k = self._next_id % 7
            condition = f"w = '{self._name}' AND k = {k}"
            if self._try("delete", lambda: DeltaTable(self._table).delete(condition)):
                self.rows = {id_: value for id_, value in self.rows.items() if value != k}
        else:
            new = self._new_rows()
            mine = f"w = '{self._name}'"
            if self._try(
                "overwrite", lambda: write_deltalake(self._table, self._arrow(new), mode="overwrite", predicate=mine)
            ):
                self.rows = new

    def _try(self, operation: str, write: Callable[[], object]) -> bool:
        before = DeltaTable(self._table).version()
        try:
            write()
        except DeltaError as exc:
            self.failures.append((operation, before, DeltaTable(self._table).version(), repr(exc)))
            return False
        self.commits += 1
        return True

    def _new_rows(self) -> dict[int, int]:
        ids = range(self._next_id, self._next_id + ROWS)
        self._next_id += ROWS
        return {id_: id_ % 7 for id_ in ids}

    def _arrow(self, rows: dict[int, int]) -> pa.Table:
        return pa.table(
            {
                "w": pa.array([self._name] * len(rows)),
                "id": pa.array(rows, pa.int64()),
                "k": pa.array(rows.values(), pa.int64()),
                "s": pa.array([f"{self._name}-{id_ // 3}" for id_ in rows]),
            }
        )
