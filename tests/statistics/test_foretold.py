"""What the status says that the next run would read is what it reads, whatever happened to the table before."""

from __future__ import annotations

import os
import shutil
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.types import LongType

from puffin.lookup.status import table_status
from stats_jobs import Options, analyze
from tests.foretold import analyze_as_foretold, check_foretold

SEED = int(os.environ.get("PUFFIN_HISTORIES_SEED", "0"))
STEPS = 12


class IcebergHistory:
    """What can happen to a table of a catalog."""

    def __init__(self, table: Any, trino_analyzes: Any, random: np.random.Generator) -> None:
        self.shared, self._trino_analyzes, self._random = table, trino_analyzes, random
        self._columns = 2

    @property
    def table(self) -> Any:
        return self.shared.table

    def append(self) -> None:
        self.shared.append(rows(self._random, self._columns))

    def delete(self) -> None:
        self.shared.delete(f"n = {self._random.integers(8)}")

    def overwrite(self) -> None:
        self.shared.load().overwrite(rows(self._random, self._columns))

    def add_column(self) -> None:
        with self.shared.load().update_schema() as update:
            update.add_column(f"c{self._columns}", LongType())
        self._columns += 1

    def expire(self) -> None:
        table = self.shared.load()
        old = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != table.metadata.current_snapshot_id]
        if old:
            table.maintenance.expire_snapshots().by_id(int(self._random.choice(old))).commit()

    def other_engine(self) -> None:
        state = self.table.open().state
        if state.current_snapshot_id in state.statistics:
            keys = self.shared.load().scan().to_arrow()["k"].to_pylist()
            self._trino_analyzes(self.shared, {"k": set(keys)})

    def lose_state(self) -> None:
        shutil.rmtree(self.shared.private, ignore_errors=True)


class DeltaHistory:
    """What can happen to a Delta table."""

    def __init__(self, table: Any, random: np.random.Generator) -> None:
        self.shared, self._random = table, random
        self._columns = 2

    @property
    def table(self) -> Any:
        return self.shared.table

    def append(self) -> None:
        self.shared.append(rows(self._random, self._columns))

    def delete(self) -> None:
        DeltaTable(self.shared.name).delete(f"n = {self._random.integers(8)}")

    def overwrite(self) -> None:
        write_deltalake(self.shared.name, rows(self._random, self._columns), mode="overwrite")

    def add_column(self) -> None:
        self._columns += 1
        more = rows(self._random, self._columns)
        write_deltalake(self.shared.name, more, mode="append", schema_mode="merge")

    def compact(self) -> None:
        DeltaTable(self.shared.name).optimize.compact()

    def checkpoint(self) -> None:
        DeltaTable(self.shared.name).create_checkpoint()


def rows(random: np.random.Generator, columns: int) -> pa.Table:
    values = random.integers(0, 500, int(random.integers(1, 300)))
    more = {f"c{i}": pa.array(values + i) for i in range(2, columns)}
    return pa.table({"k": pa.array(values), "n": pa.array(values % 8), **more})


def play(history: Any, random: np.random.Generator) -> list[int]:
    """Play some steps, and check before and after each that a run reads what was foretold; return its bytes."""
    steps = [name for name in type(history).__dict__ if not name.startswith("_") and name != "table"]
    found = []
    for _ in range(STEPS):
        getattr(history, str(random.choice(steps)))()
        found.append(check_foretold(history.table))
        what = random.integers(4)
        if what == 0:
            analyze_as_foretold(history.table)
        elif what == 1:
            analyze(history.table, Options(columns=("n",), row_counts=bool(random.integers(2))))
            found.append(check_foretold(history.table))
    return found


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_status_foretells_what_a_run_of_an_iceberg_table_reads(shared: Any, trino_analyzes: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    found = play(IcebergHistory(shared("t", rows(random, 2)), trino_analyzes, random), random)
    assert max(found) > 0


@pytest.mark.parametrize("seed", range(SEED, SEED + 2))
def test_status_foretells_what_a_run_of_a_delta_table_reads(delta: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    found = play(DeltaHistory(delta(rows(random, 2)), random), random)
    assert max(found) > 0


def test_run_of_few_columns_leaves_the_bytes_of_the_others(shared: Any) -> None:
    random = np.random.default_rng(SEED)
    made = shared("t", rows(random, 2))
    analyze(made.table, Options(columns=("n",)))
    found = table_status(made.name, made.table.open())
    assert (found.columns_missing, found.health) == (("k",), 85)
    assert found.bytes_to_read == sum(t.data_file.file_size_in_bytes for t in made.table.open().tasks)


def test_statistics_that_trino_replaced_are_restored_at_the_cost_of_new_files(shared: Any, trino_analyzes: Any) -> None:
    random = np.random.default_rng(SEED)
    made = shared("t", rows(random, 2))
    analyze(made.table)
    before = {task.data_file.file_path for task in made.table.open().tasks}
    made.append(rows(random, 2))
    analyze(made.table)
    ours = table_status(made.name, made.table.open())
    keys = made.load().scan().to_arrow()
    trino_analyzes(made, {name: set(keys[name].to_pylist()) for name in ("k", "n")})
    theirs = table_status(made.name, made.table.open())
    assert (ours.health, theirs.health, theirs.since_newest.rows_changed_share) == (100, 90, 0.0)
    assert theirs.reason == "the newest statistics lack what an earlier run of ours kept"
    new = [task for task in made.table.open().tasks if task.data_file.file_path not in before]
    assert theirs.bytes_to_read == sum(task.data_file.file_size_in_bytes for task in new)
    analyze_as_foretold(made.table)
    assert table_status(made.name, made.table.open()).health == 100
