"""A table of Iceberg that Spark changes at random: rows, columns, partitions, files, snapshots and branches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

COLUMNS = {
    "id": ("bigint", "cast(pmod(hash(id, {n}), 400) AS bigint)"),
    "k": ("int", "pmod(hash(id, {n}, 1), 20)"),
    "s": ("string", "if(id % 11 = 0, NULL, concat('s', pmod(hash(id, {n}, 2), 300)))"),
    "p": ("int", "pmod(hash(id, {n}, 3), 4)"),
    "d": ("decimal(9, 2)", "cast(pmod(hash(id, {n}, 4), 9999) / 100 AS decimal(9, 2))"),
    "f": ("float", "if(id % 13 = 0, float('NaN'), if(id % 17 = 0, NULL, float(pmod(hash(id, {n}, 6), 999) / 7)))"),
    "at": ("timestamp", "timestamp_micros(pmod(hash(id, {n}, 7), 1000) * 94670778123)"),
    "st": ("struct<n: int>", "if(id % 7 = 0, NULL, named_struct('n', pmod(hash(id, {n}, 8), 500)))"),
}
WIDER = {"k": "bigint", "d": "decimal(18, 2)", "f": "double"}
PARTITION_FIELDS = ("p", "bucket(2, k)", "years(at)")


class History:
    """A table and what is done to it."""

    def __init__(self, spark: Any, name: str, seed: int) -> None:
        self._spark = spark
        self._random = random.Random(seed)
        self._name = name
        self._columns = dict(COLUMNS)
        self._narrow = set(WIDER)
        self._serial = 0
        self.branch: str | None = None
        choose = self._random.choice
        kinds = ("delete", "update", "merge")
        modes = {f"write.{kind}.mode": choose(["copy-on-write", "merge-on-read"]) for kind in kinds}
        properties = {
            "format-version": choose(["2", "3"]),
            "write.delete.granularity": choose(["file", "partition"]),
            "write.distribution-mode": "none",
            **modes,
        }
        self._partitioned_by = choose([[], ["p"], ["bucket(3, id)"]])
        partitioned = "".join(f"PARTITIONED BY ({field})" for field in self._partitioned_by)
        declared = ", ".join(f"{column} {type_}" for column, (type_, _) in self._columns.items())
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        self._sql(f"CREATE TABLE {name} ({declared}) USING iceberg {partitioned} TBLPROPERTIES ({listed})")
        self.append()

    def step(self) -> str:
        """Do something at random, and return its name."""
        self.branch = None
        actions: list[tuple[Callable[[], None], int]] = [
            (self.append, 4), (self.delete, 4), (self.update, 1), (self.merge, 1), (self.overwrite, 1),
            (self.compact, 3), (self.rewrite_manifests, 1), (self.evolve, 2), (self.widen, 2),
            (self.change_partitions, 1), (self.write_to_branch, 1), (self.roll_back, 1), (self.expire, 1),
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

    def merge(self) -> None:
        rows = f"SELECT {self._values()} FROM range(0, 30, 1, 2)"
        self._sql(
            f"""MERGE INTO {self._name} x USING ({rows}) y ON x.id = y.id
                WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"""
        )

    def compact(self) -> None:
        self._call("rewrite_data_files", "options => map('rewrite-all', 'true')")

    def rewrite_manifests(self) -> None:
        self._call("rewrite_manifests")

    def evolve(self) -> None:
        self._serial += 1
        change = self._random.choice(["add", "drop", "rename"])
        if change == "drop" and "s" in self._columns:
            self._sql(f"ALTER TABLE {self._name} DROP COLUMN s")
            del self._columns["s"]
        elif change == "rename" and "d" in self._columns:
            self._sql(f"ALTER TABLE {self._name} RENAME COLUMN d TO renamed")
            self._columns["renamed"] = self._columns.pop("d")
            self._narrow.discard("d")
        else:
            self._sql(f"ALTER TABLE {self._name} ADD COLUMN c{self._serial} int")
            self._columns[f"c{self._serial}"] = ("int", "pmod(hash(id, {n}, 5), 7)")

    def widen(self) -> None:
        if self._narrow:
            name = self._random.choice(sorted(self._narrow))
            self._sql(f"ALTER TABLE {self._name} ALTER COLUMN {name} TYPE {WIDER[name]}")
            self._narrow.discard(name)

    def change_partitions(self) -> None:
        field = self._random.choice([*PARTITION_FIELDS, *self._partitioned_by])
        verb, change = ("DROP", "remove") if field in self._partitioned_by else ("ADD", "append")
        self._sql(f"ALTER TABLE {self._name} {verb} PARTITION FIELD {field}")
        getattr(self._partitioned_by, change)(field)

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
        names = ", ".join(self._columns)
        self._sql(f"INSERT {verb} {target} ({names}) SELECT {self._values()} FROM range(0, {rows}, 1, 2)")

    def _values(self) -> str:
        self._serial += 1
        return ", ".join(f"{e.format(n=self._serial)} AS {name}" for name, (_, e) in self._columns.items())

    def _call(self, procedure: str, *arguments: str) -> None:
        table = self._name.partition(".")[2]
        self._sql(f"CALL hadoop.system.{procedure}({', '.join([f'''table => '{table}' ''', *arguments])})")

    def _sql(self, text: str) -> Any:
        return self._spark.sql(text)
