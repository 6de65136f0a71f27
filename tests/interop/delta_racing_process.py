"""
One writer of `test_delta_races`: a process that starts when it is told to, so that several do it at once.

It is called with a table and what to do: ``analyze`` and a column, or ``rewrite`` or ``append`` (or another name for
that), each on rows of its own, and for how many seconds. It prints a line when it is ready, starts when it reads one,
and prints in the end what it did, in JSON.
"""

import json
import sys
import time

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

ROWS = 20
PAUSE_SECONDS = 0.4  # deltalake commits in a tenth of the time that delta-spark takes, which would never get a turn


def main(table: str, what: str, argument: str) -> None:
    if what == "analyze":
        from stats_jobs import Options, analyze

        DeltaTable(table).version()  # whatever takes its time only once is done before the start
        wait()
        say(json.dumps(analyze(table, Options(columns=(argument,))).to_json()))
        return
    writer = Writer(table, what)
    wait()
    deadline = time.monotonic() + float(argument)
    while time.monotonic() < deadline:
        writer.rewrite() if what == "rewrite" else writer.append()
        time.sleep(PAUSE_SECONDS)
    say(json.dumps({"commits": writer.commits, "failures": writer.failures, "rows": writer.rows}))


def wait() -> None:
    say("ready")
    sys.stdin.readline()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


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

    def _try(self, operation: str, write) -> bool:
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


if __name__ == "__main__":
    main(*sys.argv[1:])
