"""
Statistics and indexes of a Delta table that are kept current step by step are right, whatever happened to the table.

delta-spark makes four tables of different kinds and does to each what a random generator says; some steps are notes
that another program puts into the log. After every step the statistics are brought up to date and held against a run
over all rows: the sketches have to be the same bytes. Sketches are small (32 nominal entries), so that a few hundred
rows are many. The index is brought up to date now and then, and plans are held against all rows of all files at every
step. ``PUFFIN_INDEX_HISTORIES=100`` plays more histories.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from puffin.load import load_table
from tests.index.probes import IndexedTable, Played
from tests.index.whole_files import DeltaFiles

TOURS = 4
FIRST_SEED = 306  # eight tables from here on have nearly every pair of properties, and the first four each of them
HISTORIES = max(TOURS, int(os.environ.get("PUFFIN_INDEX_HISTORIES", "8")))
LG_K = 5
COLUMNS = {
    "id": "cast(pmod(hash(id, {n}), 400) AS bigint)",
    "k": "cast(pmod(hash(id, {n}, 1), 20) AS int)",
    "s": "if(id % 11 = 0, NULL, concat('s', pmod(hash(id, {n}, 2), 300)))",
    "p": "cast(pmod(hash(id, {n}, 3), 4) AS int)",
    "d": "cast(pmod(hash(id, {n}, 4), 9999) / 100 AS decimal(9, 2))",
    "f": "if(id % 13 = 0, float('NaN'), if(id % 17 = 0, NULL, float(pmod(hash(id, {n}, 6), 999) / 7)))",
    "at": "timestamp_micros(pmod(hash(id, {n}, 7), 1000) * 94670778123)",
}

ACTIONS = {"append": 5, "delete": 3, "update": 1, "merge": 1, "overwrite": 1, "optimize": 2, "purge": 1, "evolve": 3,
           "restore": 1, "checkpoint": 1, "note": 1}  # fmt: skip
"""What can be done to a table, with how likely it is."""


class History:
    """A table and what is done to it."""

    def __init__(self, spark: Any, path: Path, seed: int) -> None:
        self._spark = spark
        self._random = random.Random(seed)
        self._path = path
        self._columns = dict(COLUMNS)
        self._columns_of: dict[int, dict[str, str]] = {}
        self._serial = 0
        choose = self._random.choice
        self._mapping = choose(["none", "name", "id"])
        properties = {
            "delta.enableDeletionVectors": choose(["true", "false"]),
            "delta.columnMapping.mode": self._mapping,
            "delta.enableTypeWidening": "true",
            "delta.enableInCommitTimestamps": choose(["true", "false"]),
            "delta.checkpointInterval": choose(["3", "100"]),
        }
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        partitioned = choose(["", "PARTITIONED BY (p)"])
        self._sql(f"CREATE TABLE {{t}} USING delta {partitioned} TBLPROPERTIES ({listed}) AS {self._rows(150)}")
        self._columns_of[0] = dict(self._columns)

    def steps(self, tour: Sequence[str]) -> list[str]:
        """Return what to do: something at random, and the actions of a tour in any order."""
        first = self._random.choices(list(ACTIONS), list(ACTIONS.values()))
        return [*first, *self._random.sample(tour, len(tour))]

    def do(self, action: str) -> str:
        """Do this one of `ACTIONS`, and return its name."""
        getattr(self, action)()
        self._columns_of[self._newest()] = dict(self._columns)
        return action

    def append(self) -> None:
        self._sql(f"INSERT INTO {{t}} {self._rows(self._random.choice([20, 150]))}")

    def overwrite(self) -> None:
        self._sql(f"INSERT OVERWRITE {{t}} {self._rows(60)}")

    def delete(self) -> None:
        every = self._random.choice([3, 17, 100])
        self._sql("DELETE FROM {t} WHERE " + self._random.choice([f"pmod(id, {every}) = 1", "p = 1", "id < 40"]))

    def update(self) -> None:
        self._sql(f"UPDATE {{t}} SET p = (p + 1) % 4 WHERE pmod(id, 9) = {self._random.randrange(9)}")

    def merge(self) -> None:
        self._sql(
            f"""MERGE INTO {{t}} x USING ({self._rows(30)}) y ON x.id = y.id
                WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"""
        )

    def optimize(self) -> None:
        self._sql("OPTIMIZE {t}")

    def purge(self) -> None:
        self._sql("REORG TABLE {t} APPLY (PURGE)")

    def restore(self) -> None:
        version = self._random.choice(list(self._columns_of))
        self._sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {version}")
        self._columns = dict(self._columns_of[version])

    def checkpoint(self) -> None:
        jvm = self._spark._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._spark._jsparkSession, str(self._path))
        log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty())
        log.checkpoint()

    def note(self) -> None:
        last = self._newest()
        info = json.loads(self._entry(last).read_text().partition("\n")[0])["commitInfo"]
        times = {key: info[key] + 1 for key in ("inCommitTimestamp", "timestamp") if key in info}
        lines = {"commitInfo": {**times, "operation": "OTHER"}}, {"txn": {"appId": "other", "version": last}}
        self._entry(last + 1).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def evolve(self) -> None:
        """Change the schema; dropped names come back, so that names alone must not be trusted."""
        change = self._random.choice(
            ["add", "drop", "widen", "rename"] if self._mapping != "none" else ["add", "widen"]
        )
        spare = [name for name in ("c0", "c1", "s", "d") if name not in self._columns]
        if change == "widen":
            name, wider = self._random.choice([("k", "bigint"), ("f", "double")])
            self._sql(f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {wider}")
        elif change == "drop" and len(spare) < 3:
            name = self._random.choice([name for name in ("s", "d", "c0", "c1") if name in self._columns])
            self._sql(f"ALTER TABLE {{t}} DROP COLUMN {name}")
            del self._columns[name]
        elif change == "rename" and spare and "d" in self._columns:
            self._sql(f"ALTER TABLE {{t}} RENAME COLUMN d TO {spare[0]}")
            self._columns = {spare[0] if name == "d" else name: e for name, e in self._columns.items()}
        elif spare:
            self._sql(f"ALTER TABLE {{t}} ADD COLUMN {spare[0]} int")
            self._columns[spare[0]] = "cast(pmod(hash(id, {n}, 5), 7) AS int)"

    def _rows(self, count: int) -> str:
        self._serial += 1
        values = ", ".join(f"{e.format(n=self._serial)} AS {name}" for name, e in self._columns.items())
        return f"SELECT {values} FROM range(0, {count}, 1, 2)"

    def _newest(self) -> int:
        return max(int(file.stem) for file in self._entry(0).parent.glob("*.json"))

    def _entry(self, version: int) -> Path:
        return self._path / "_delta_log" / f"{version:020d}.json"

    def _sql(self, text: str) -> None:
        self._spark.sql(text.replace("{t}", f"delta.`{self._path}`"))


@pytest.fixture(scope="module")
def played():
    """What came of all histories, which must not be full reads for the most part."""
    played = Played()
    yield played
    if len(played.probes) == HISTORIES:  # else only some were asked for
        played.check()
        # Every history begins with all rows of its first version.
        assert played.bases["full"] - HISTORIES * len(COLUMNS) < played.bases.total() / 10


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + HISTORIES))
def test_statistics_and_plans_are_right_after_every_step(spark, tmp_path, analyze_table, stored_payloads, played, seed):
    history = History(spark, tmp_path / "t", seed)
    table = load_table(str(tmp_path / "t"))
    indexed = IndexedTable(str(tmp_path / "t"), DeltaFiles(tmp_path / "t"), seed)
    played.probes.append(indexed.probes)
    done = ["create"]
    to_do = history.steps([*ACTIONS][seed % TOURS :: TOURS])  # whatever chance has it, some history has each action
    while True:
        kept = analyze_table(table, lg_k=LG_K, index=indexed.runs())
        full = analyze_table(table, lg_k=LG_K, mode="full", commit=False)
        fresh = {column.column.field_id for column in full.columns}
        stored = {i: payload for i, payload in stored_payloads(table, kept.entry).items() if i in fresh}
        assert stored == stored_payloads(table, full.entry), done
        assert [(c.column, c.distinct) for c in kept.columns] == [(c.column, c.distinct) for c in full.columns], done
        played.bases.update(str(column.basis) for column in kept.columns)
        if done[-1] in ("optimize", "purge", "checkpoint", "note"):
            assert kept.files_read == 0, done
        indexed.step()
        if not to_do:
            break
        done.append(history.do(to_do.pop(0)))
