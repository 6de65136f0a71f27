"""
Random histories of tables with an index that runs now and then: a value that a file has is found in it at every step.

``PUFFIN_INDEX_HISTORIES=100`` plays more histories than the default.
"""

from __future__ import annotations

import math
import os
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.index.value_hashes import is_indexable
from puffin.load import load_table
from puffin.planning.plan import Planner
from puffin.tables.base import SnapshotSelector
from stats_jobs.index import IndexOptions, index
from tests.planning.random_filters import UNWRITABLE, literal
from tests.planning.random_tables import KnownFile, RandomTable

HISTORIES = int(os.environ.get("PUFFIN_INDEX_HISTORIES", "3"))
STEPS = 12
ABSENT = {"u": str(uuid.UUID(int=1 << 100)), "l": 987654321987654321, "tm": "01:02:03.456789", "dl": "1234567.98765"}
"""Values that no row has."""


class Pruning:
    """Counts the files that the index leaves for absent values, of those that have a filter."""

    def __init__(self) -> None:
        self.covered = self.left = 0

    def check(self) -> None:
        assert self.covered > 30
        assert self.left < self.covered / 20


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_value_is_found_at_every_step_of_an_iceberg_history(tmp_path: Path, seed: int) -> None:
    made = RandomTable(tmp_path / "table", seed)
    pruning = Pruning()
    for _ in range(4):
        made.append()
    made.commit()
    run_index(made, 9)
    changes = [made.append, made.append, made.delete, made.remove_file, made.compact, made.evolve, made.change_spec]
    moves = [made.roll_back, made.branch, made.expire]
    for _ in range(STEPS):
        if len(made.files) > 3 and made.source.random() < 0.4:
            made.source.choice(moves)()
        else:
            while len(made.files) < 4:
                made.append()
            made.source.choice(changes)()
            made.commit()
        if made.source.random() < 0.5:
            run_index(made, made.source.randint(1, 3))
        seek_present(made, made.files, None)
        if "refs" in made.table.document:
            seek_present(made, made.snapshots[made.table.document["refs"]["b"]["snapshot-id"]], "b")
        seek_absent(made, pruning)
    pruning.check()


def run_index(made: RandomTable, columns: int) -> None:
    names = [leaf.name for leaf in made.leaves if is_indexable(leaf.type)]
    index(str(made.table.root), IndexOptions(columns=tuple({*made.source.sample(names, columns), "u", "l"})))


def planner_of(made: RandomTable, ref: str | None) -> Planner:
    return Planner(load_table(str(made.table.root)).open(SnapshotSelector(ref=ref)))


def seek_present(made: RandomTable, files: list[KnownFile], ref: str | None) -> None:
    planner = planner_of(made, ref)
    for _ in range(25):
        leaf, known = made.source.choice(made.leaves), made.source.choice(files)
        value = made.source.choice(known.rows)[leaf.field_id]
        is_odd = value is None or (isinstance(value, float) and not math.isfinite(value))
        if not (is_odd or leaf.type in UNWRITABLE or leaf.type.startswith("fixed")):
            where = f"{leaf.name} = {literal(leaf.type, value)}"
            plan = planner.plan(where)
            assert known.entry["file_path"] in {task.data_file.file_path for task in plan.files}, where
            assert plan.warnings == ()


def seek_absent(made: RandomTable, pruning: Pruning) -> None:
    planner = planner_of(made, None)
    for name, value in ABSENT.items():
        plan = planner.plan(f"{name} = {value!r}" if isinstance(value, str) and name != "dl" else f"{name} = {value}")
        if plan.index.files_covered == len(plan.all_files):
            pruning.covered += len(plan.all_files)
            pruning.left += sum(1 for _ in plan.files)


class DeltaHistory:
    """A Delta table that deltalake changes at random."""

    def __init__(self, root: Path, seed: int) -> None:
        self.path = str(root / "table")
        self.source = random.Random(seed)
        self._random = np.random.default_rng(seed)
        self._columns = ["k", "s", "g"]

    def append(self, mode: str = "append") -> None:
        count = self.source.randint(1, 40)
        keys = self._random.integers(0, 2**40, count)
        data = {
            "k": pa.array(keys, mask=self._random.random(count) < 0.1),
            "s": [f"key-{key}" for key in keys.tolist()],
            "g": pa.array(self._random.integers(0, 3, count), pa.int32()),
            "new": pa.array(keys / 7),
        }
        table = pa.table({name: data[name] for name in self._columns})
        write_deltalake(self.path, table, mode=mode, partition_by=["g"], schema_mode="merge")

    def overwrite(self) -> None:
        self.append("overwrite")

    def add_column(self) -> None:
        self._columns = ["k", "s", "g", "new"]
        self.append()

    def delete(self) -> None:
        DeltaTable(self.path).delete(f"k % 5 = {self.source.randint(0, 4)}")

    def update(self) -> None:
        DeltaTable(self.path).update(updates={"s": "concat(s, '-x')"}, predicate=f"k % 7 = {self.source.randint(0, 6)}")

    def compact(self) -> None:
        DeltaTable(self.path).optimize.compact()

    def restore(self) -> None:
        table = DeltaTable(self.path)
        table.restore(max(0, table.version() - self.source.randint(1, 3)), ignore_missing_files=False)

    def vacuum(self) -> None:
        DeltaTable(self.path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_value_is_found_at_every_step_of_a_delta_history(tmp_path: Path, seed: int) -> None:
    made, pruning = DeltaHistory(tmp_path, seed), Pruning()
    for _ in range(3):
        made.append()
    index(made.path, IndexOptions(columns=("k", "s")))
    changes: list[Callable[[], Any]] = [
        *(made.append, made.append, made.overwrite, made.add_column, made.delete, made.update, made.compact),
        *(made.restore, made.vacuum),
    ]
    for _ in range(STEPS):
        change = made.source.choice(changes)
        change()
        if change == made.vacuum:
            changes.remove(made.restore) if made.restore in changes else None
        if made.source.random() < 0.6:
            index(made.path)
        planner = Planner(load_table(made.path).open())
        for uri in DeltaTable(made.path).file_uris():
            rows = pq.ParquetFile(uri).read(["k", "s"]).to_pylist()
            if rows:
                row = made.source.choice(rows)
                wheres = [f"s = '{row['s']}'", f"k = {row['k']}" if row["k"] is not None else "k is null"]
                for where in wheres:
                    plan = planner.plan(where)
                    assert Path(uri).name in {Path(task.data_file.file_path).name for task in plan.files}, where
                    assert plan.warnings == ()
        for where in ("k = 987654321", "s = 'key-5'", "k in (77, 12345678)", "s = 'key'"):
            plan = planner.plan(where)
            if plan.index.files_covered == len(plan.all_files):
                pruning.covered += len(plan.all_files)
                pruning.left += sum(1 for _ in plan.files)
    pruning.check()
