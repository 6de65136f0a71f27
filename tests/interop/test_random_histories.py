"""
Statistics that are kept current step by step are those of a full run, whatever happened to the table.

Spark makes twelve tables of different kinds and does to each what a random generator says. After every step the
statistics are brought up to date and held against a run over all rows: the sketches have to be the same bytes, and
those by partition, which every other table has, and what is counted besides the same numbers. Sketches are small (32
nominal entries), so that a few hundred rows are many.
"""

from __future__ import annotations

import collections
import dataclasses
import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.format import PARTITION_SKETCHES_V1, THETA_V1, PuffinReader
from puffin.load import load_table
from puffin.statistics.blob_properties import SketchProperties
from puffin.storage import LocalStore
from puffin.tables.base import SnapshotSelector
from puffin.values.column_bounds import Bounds, Missing
from puffin.values.column_summary import ColumnSummary
from stats_jobs import Options, Report, analyze

HISTORIES, STEPS = 12, 5
LG_K = 5
COLUMNS = {
    "id": ("bigint", "cast(pmod(hash(id, {n}), 400) AS bigint)"),
    "k": ("int", "pmod(hash(id, {n}, 1), 20)"),
    "s": ("string", "if(id % 11 = 0, NULL, concat('s', pmod(hash(id, {n}, 2), 300)))"),
    "p": ("int", "pmod(hash(id, {n}, 3), 4)"),
    "d": ("decimal(9, 2)", "cast(pmod(hash(id, {n}, 4), 9999) / 100 AS decimal(9, 2))"),
}


class History:
    """A table and what is done to it."""

    def __init__(self, spark: Any, name: str, seed: int) -> None:
        self._spark = spark
        self._random = random.Random(seed)
        self._name = name
        self._columns = dict(COLUMNS)
        self._serial = 0
        self.branch: str | None = None
        choose = self._random.choice
        modes = {f"write.{kind}.mode": choose(["copy-on-write", "merge-on-read"]) for kind in ("delete", "update")}
        properties = {
            "format-version": choose(["2", "3"]),
            "write.delete.granularity": choose(["file", "partition"]),
            "write.distribution-mode": "none",
            **modes,
        }
        partitioned = choose(["", "PARTITIONED BY (p)", "PARTITIONED BY (bucket(3, id))"])
        declared = ", ".join(f"{column} {type_}" for column, (type_, _) in self._columns.items())
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        self._sql(f"CREATE TABLE {name} ({declared}) USING iceberg {partitioned} TBLPROPERTIES ({listed})")
        self.append()

    def step(self) -> str:
        """Do something at random, and return its name."""
        self.branch = None
        actions: list[tuple[Callable[[], None], int]] = [
            (self.append, 4), (self.delete, 4), (self.update, 2), (self.overwrite, 1), (self.compact, 3),
            (self.rewrite_manifests, 1), (self.evolve, 2), (self.write_to_branch, 1), (self.roll_back, 1),
            (self.expire, 1),
        ]  # fmt: skip
        (action,) = self._random.choices([a for a, _ in actions], [weight for _, weight in actions])
        action()
        return action.__name__

    def append(self) -> None:
        self._insert("INTO", self._name, self._random.choice([20, 150]))

    def overwrite(self) -> None:
        self._insert("OVERWRITE", self._name, 60)

    def delete(self) -> None:
        every = self._random.choice([3, 17, 100])
        condition = self._random.choice([f"pmod(id, {every}) = {self._random.randrange(every)}", "p = 1", "id < 40"])
        self._sql(f"DELETE FROM {self._name} WHERE {condition}")

    def update(self) -> None:
        self._sql(f"UPDATE {self._name} SET p = (p + 1) % 4 WHERE pmod(id, 9) = {self._random.randrange(9)}")

    def compact(self) -> None:
        self._call("rewrite_data_files", "options => map('rewrite-all', 'true')")

    def rewrite_manifests(self) -> None:
        self._call("rewrite_manifests")

    def evolve(self) -> None:
        self._serial += 1
        change = self._random.choice(["add", "drop", "widen", "rename"])
        if change == "drop" and "s" in self._columns:
            self._sql(f"ALTER TABLE {self._name} DROP COLUMN s")
            del self._columns["s"]
        elif change == "widen" and self._columns.get("k", ("",))[0] == "int":
            self._sql(f"ALTER TABLE {self._name} ALTER COLUMN k TYPE bigint")
            self._columns["k"] = ("bigint", self._columns["k"][1])
        elif change == "rename" and "d" in self._columns:
            self._sql(f"ALTER TABLE {self._name} RENAME COLUMN d TO renamed")
            self._columns["renamed"] = self._columns.pop("d")
        else:
            self._sql(f"ALTER TABLE {self._name} ADD COLUMN c{self._serial} int")
            self._columns[f"c{self._serial}"] = ("int", "pmod(hash(id, {n}, 5), 7)")

    def write_to_branch(self) -> None:
        self._serial += 1
        self.branch = f"b{self._serial}"
        self._sql(f"ALTER TABLE {self._name} CREATE BRANCH {self.branch}")
        self._insert("INTO", f"{self._name}.branch_{self.branch}", 30)

    def roll_back(self) -> None:
        ancestors = [row.snapshot_id for row in self._sql(f"SELECT * FROM {self._name}.history").collect()
                     if row.is_current_ancestor]  # fmt: skip
        if len(ancestors) > 1:
            self._call("rollback_to_snapshot", f"snapshot_id => {self._random.choice(ancestors[:-1])}")

    def expire(self) -> None:
        self._call("expire_snapshots", "older_than => TIMESTAMP '2100-01-01 00:00:00'", "retain_last => 2")

    def _insert(self, verb: str, target: str, rows: int) -> None:
        self._serial += 1
        values = ", ".join(e.format(n=self._serial) + f" AS {name}" for name, (_, e) in self._columns.items())
        names = ", ".join(self._columns)
        self._sql(f"INSERT {verb} {target} ({names}) SELECT {values} FROM range(0, {rows}, 1, 2)")

    def _call(self, procedure: str, *arguments: str) -> None:
        table = self._name.partition(".")[2]
        self._sql(f"CALL hadoop.system.{procedure}({', '.join([f'''table => '{table}' ''', *arguments])})")

    def _sql(self, text: str) -> Any:
        return self._spark.sql(text)


def stored_summaries(report: Report) -> dict[int, ColumnSummary | None]:
    assert report.entry is not None
    fresh = [blob for blob in report.entry.blobs if blob.snapshot_id == report.entry.snapshot_id]
    return {blob.fields[0]: SketchProperties(blob.properties).summary for blob in fresh}


def check_summaries(kept: Report, full: Report) -> None:
    """Check that counts equal those of a full run; bounds may be wider, because they stay when rows go."""
    stored, computed = stored_summaries(kept), stored_summaries(full)
    assert stored.keys() == computed.keys()
    for column in kept.columns:
        one, other = stored[column.column.field_id], computed[column.column.field_id]
        assert one is not None
        assert other is not None
        assert dataclasses.replace(one, min=None, max=None) == dataclasses.replace(other, min=None, max=None)
        assert None not in (other.row_count, other.null_count, other.total_bytes)
        bounds = [Bounds.from_json(column.column.type, summary.min, summary.max) for summary in (one, other)]
        if other.row_count != other.null_count:
            assert bounds[0].union(bounds[1]) == bounds[0]
            assert not {Missing.UNKNOWN, Missing.NO_VALUE} & {bounds[1].lower, bounds[1].upper}


def sketches(report: Report) -> dict[int, bytes]:
    """Return the sketches of the snapshot itself, by field id."""
    assert report.entry is not None
    with LocalStore().open_source(report.entry.statistics_path) as source:
        reader = PuffinReader(source)
        assert {b.type for b in reader.file_metadata.blobs} <= {THETA_V1}
        fresh = [b for b in reader.file_metadata.blobs if b.snapshot_id == report.entry.snapshot_id]
        return {blob.fields[0]: payload for blob, payload in zip(fresh, reader.read_all(fresh), strict=True)}


@pytest.fixture(scope="module")
def bases() -> collections.Counter[str]:
    """Counts the bases over all histories."""
    return collections.Counter()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_incremental_sketches_equal_a_full_run_after_every_step(
    spark: Any, warehouse: Path, bases: collections.Counter[str], private_payloads: Any, seed: int
) -> None:
    history = History(spark, f"hadoop.histories.t{seed}", seed)
    table = load_table(str(warehouse / "histories" / f"t{seed}"))
    by_partition = seed % 2 == 0
    done = ["create"]
    while True:
        selector = SnapshotSelector(ref=history.branch)
        options = Options(selector=selector, lg_k=LG_K, partitions=by_partition)
        kept = analyze(table, options)
        full = analyze(table, dataclasses.replace(options, mode="full", commit=False))
        assert sketches(kept) == sketches(full), done
        if by_partition:
            of_partitions = (private_payloads(table, each.entry, PARTITION_SKETCHES_V1) for each in (kept, full))
            fresh = sketches(kept)
            assert operator.eq(*({i: p for i, p in each.items() if i in fresh} for each in of_partitions)), done
        assert [(c.column, c.distinct) for c in kept.columns] == [(c.column, c.distinct) for c in full.columns], done
        check_summaries(kept, full)
        bases.update(str(column.basis) for column in kept.columns)
        if done[-1] in ("compact", "rewrite_manifests") and not by_partition:
            assert kept.files_read == 0, done
        if len(done) == STEPS:
            break
        done.append(history.step())


def test_histories_rarely_fall_back_to_full_reads(bases: collections.Counter[str]) -> None:
    """Otherwise they would prove nothing about incremental runs."""
    assert min(bases["added-files"], bases["changed-files"], bases["carried"]) > HISTORIES
    assert bases["full"] < bases.total() / 2
