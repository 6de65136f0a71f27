"""
Random steps of Spark, Trino and pyiceberg on shared tables: our ``auto`` run equals a full one, and its answers are
true.

No column has more values than a sketch keeps, so that there is nothing to estimate, whoever made the sketch. A test's
name has its seed; ``PUFFIN_HISTORIES_SEED=1000`` takes others, from there on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

SEED = int(os.environ.get("PUFFIN_HISTORIES_SEED", "476"))
HISTORIES, STEPS = 24, 6
"""So many have every kind of table, and on each version every step that there is."""
OURS = 0.4
"""How likely it is that we come after a step; we always come in the end."""

TEXT = "concat('s', cast({x} * {n} % 300 AS {text}))"
COLUMNS = {
    "id": ("bigint", "cast({x} * {n} % 1500 AS bigint)"),
    "k": ("int", "cast({x} % 20 + {n} AS int)"),
    "p": ("int", "cast({x} % 4 AS int)"),
    "s": ("string", f"if({{x}} % 11 = 0, NULL, {TEXT})"),
    "d": ("decimal(9, 2)", "cast({x} * {n} % 700 AS decimal(9, 2)) / 4"),
}
NESTED = {
    "spark": "named_struct('x', cast({x} % 30 AS int), 'y', " + TEXT + ")",
    "trino": "cast(row({x} % 30, " + TEXT + ") AS row(x int, y varchar))",
}
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("p", pa.int32()),
        ("s", pa.string()),
        ("d", pa.decimal128(9, 2)),
        ("st", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)


class History:
    """What is done to a table, chosen by a seed."""

    def __init__(self, share: Callable, seed: int) -> None:
        self._random = random.Random(seed)
        choose = self._random.choice
        self.version = choose([1, 2, 2, 3])
        self.mode = choose(["copy-on-write", "merge-on-read"]) if self.version == 2 else "copy-on-write"
        self._numbers = 0
        columns = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
        partitioned = choose(["", "PARTITIONED BY (p)", "PARTITIONED BY (bucket(3, id))"])
        self._is_pyicebergs = (
            self.version < 3 and "bucket" not in partitioned
        )  # those it writes without another library
        modes = ", ".join(f"'write.{what}.mode' = '{self.mode}'" for what in ("delete", "update", "merge"))
        self.table = share(
            f"history_{seed}",
            in_spark=f"""CREATE TABLE {{t}} ({columns}, st struct<x: int, y: string>) USING iceberg {partitioned}
                LOCATION '{{at}}' TBLPROPERTIES ('format-version' = '{self.version}', {modes})""",
        )
        self.insert_by_spark()
        self.table.bring_up_to_date("the first rows")  # from here on everything that we keep has to stay known

    def step(self) -> None:
        """Take a step and check the table."""
        steps = [self.insert_by_spark, self.delete_by_spark, self.merge_by_spark, self.compact, self.count_by_spark]
        steps += [self.insert_by_trino, self.analyze_by_trino, self.analyze_columns_by_trino]
        if self._is_pyicebergs:
            steps += [self.append_by_pyiceberg, self.delete_by_pyiceberg]
        if self.version < 3:
            steps.append(self.optimize)
        if self.version == 2:
            steps += [self.delete_by_trino, self.update_by_trino, self.merge_by_trino]
        step = self._random.choice(steps)
        self.table.does(step.__name__, step)
        if self._random.random() < OURS:
            self.table.bring_up_to_date(step.__name__)

    def insert_by_spark(self) -> None:
        self.table.sql(f"INSERT INTO {{t}} {self._rows('spark')}")

    def delete_by_spark(self) -> None:
        self.table.sql(f"DELETE FROM {{t}} WHERE {self._condition()}")

    def merge_by_spark(self) -> None:
        self.table.sql(self._merge("spark"))

    def compact(self) -> None:
        self._call("rewrite_data_files", "options => map('rewrite-all', 'true')")

    def count_by_spark(self) -> None:
        self._call("compute_table_stats")

    def insert_by_trino(self) -> None:
        self.table.trino(f"INSERT INTO {{t}} {self._rows('trino')}")

    def delete_by_trino(self) -> None:
        self.table.trino(f"DELETE FROM {{t}} WHERE {self._condition()}")

    def update_by_trino(self) -> None:
        self.table.trino(f"UPDATE {{t}} SET k = k + 1 WHERE {self._condition()}")

    def merge_by_trino(self) -> None:
        self.table.trino(self._merge("trino"))

    def optimize(self) -> None:
        self.table.trino("ALTER TABLE {t} EXECUTE optimize")

    def analyze_by_trino(self) -> None:
        self.table.trino("ANALYZE {t}")

    def analyze_columns_by_trino(self) -> None:
        columns = self._random.sample(sorted(COLUMNS), 2)
        self.table.trino(f"ANALYZE {{t}} WITH (columns = ARRAY['{columns[0]}', '{columns[1]}'])")

    def append_by_pyiceberg(self) -> None:
        first, count, n = self._next()
        rows = [
            {
                "id": x * n % 1500,
                "k": x % 20 + n,
                "p": x % 4,
                "s": None if x % 11 == 0 else f"s{x * n % 300}",
                "st": {"x": x % 30, "y": f"s{x * n % 300}"},
            }
            for x in range(first, first + count)
        ]
        self.table.in_pyiceberg().append(pa.Table.from_pylist(rows, ARROW))

    def delete_by_pyiceberg(self) -> None:
        self.table.in_pyiceberg().delete(self._random.choice(["p = 2", "id < 100", "s is null"]))

    def _condition(self) -> str:
        every = self._random.choice([3, 17, 50])
        return self._random.choice([f"id % {every} = {self._random.randrange(every)}", "p = 1", "k < 5"])

    def _rows(self, engine: str) -> str:
        """Return SQL for rows that Spark and Trino both understand."""
        first, count, n = self._next()
        text, numbers = {
            "spark": ("string", f"(SELECT id AS x FROM range({first}, {first + count}, 1, 1))"),
            "trino": ("varchar", f"UNNEST(sequence({first}, {first + count - 1})) AS numbers(x)"),
        }[engine]
        columns = {name: value for name, (_, value) in COLUMNS.items()} | {"st": NESTED[engine]}
        listed = ", ".join(f"{value.format(x='x', n=n, text=text)} AS {name}" for name, value in columns.items())
        return f"SELECT {listed} FROM {numbers}"

    def _merge(self, engine: str) -> str:
        """Return SQL that merges one row for each ``id``, since no row may be updated twice."""
        names = [*COLUMNS, "st"]
        new, values = ", ".join(names), ", ".join(f"s.{name}" for name in names)
        firsts = "row_number() OVER (PARTITION BY id ORDER BY p, k)"
        source = f"SELECT {new} FROM (SELECT *, {firsts} AS nth FROM ({self._rows(engine)}) r) q WHERE nth = 1"
        return f"""MERGE INTO {{t}} t USING ({source}) s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET k = s.k WHEN NOT MATCHED THEN INSERT ({new}) VALUES ({values})"""

    def _next(self) -> tuple[int, int, int]:
        """Return the first of the next numbers, how many there are, and another number."""
        first, count = self._numbers, self._random.choice([20, 150, 400])
        self._numbers += count // 2  # half of them come again
        return first, count, self._random.choice([1, 3, 7])

    def _call(self, procedure: str, *arguments: str) -> None:
        arguments = (f"table => '{self.table.name}'", *arguments)
        self.table.sql(f"CALL shared.system.{procedure}({', '.join(arguments)})")


@pytest.mark.parametrize("seed", range(SEED, SEED + HISTORIES))
def test_auto_run_equals_full_run_whichever_engine_wrote(share, seed):
    history = History(share, seed)
    for _ in range(STEPS):
        history.step()
    history.table.bring_up_to_date("the end")
    history.table.had_no_problems()
