"""
Random histories of tables with an index that runs now and then: no plan misses a file, at any step.

``PUFFIN_INDEX_HISTORIES=100`` plays more histories than the default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.index.value_hashes import is_indexable
from puffin.load import load_table
from puffin.planning.plan import Planner
from puffin.tables.base import SnapshotSelector
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.index.probes import Probes, check_pruning
from tests.index.whole_files import DeltaFiles
from tests.planning.random_tables import KnownFile, RandomTable

HISTORIES = int(os.environ.get("PUFFIN_INDEX_HISTORIES", "3"))
STEPS = 12


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_plan_has_every_file_with_a_match_at_every_step_of_an_iceberg_history(tmp_path: Path, seed: int) -> None:
    made = RandomTable(tmp_path / "table", seed)
    probes = Probes(made.source, made.made_up, 5)
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
        seek(probes, made, made.files, None)
        if "refs" in made.table.document:
            seek(probes, made, made.snapshots[made.table.document["refs"]["b"]["snapshot-id"]], "b")
    check_pruning([probes])


def run_index(made: RandomTable, columns: int) -> None:
    names = [leaf.name for leaf in made.leaves if is_indexable(leaf.type)]
    index(str(made.table.root), IndexOptions(columns=tuple({*made.source.sample(names, columns), "u", "l"})))


def seek(probes: Probes, made: RandomTable, files: list[KnownFile], ref: str | None) -> None:
    planner = Planner(load_table(str(made.table.root)).open(SnapshotSelector(ref=ref)))
    probes.ask(planner, made.leaves, {known.entry["file_path"]: known.rows for known in files})


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

    def made_up(self, type_: str) -> Any:
        """A value that no row has."""
        number = self.source.randrange(2**31)
        return f"key {number}" if type_ == "string" else number / 9 if type_ == "double" else number


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_plan_has_every_file_with_a_match_at_every_step_of_a_delta_history(tmp_path: Path, seed: int) -> None:
    made = DeltaHistory(tmp_path, seed)
    probes, files = Probes(made.source, made.made_up, 4), DeltaFiles(Path(made.path))
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
        probes.ask(Planner(load_table(made.path).open()), files.leaves(), files.rows())
    check_pruning([probes])
