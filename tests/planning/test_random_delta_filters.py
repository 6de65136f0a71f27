"""
No file of a Delta table with a matching row is left out: random filters over random tables, judged row by row.

Statistics are written as Spark does: strings cut to 32 characters, times to milliseconds, NaN as the largest number;
but decimals are rounded to doubles, as deltalake does. Some columns and files have none. Types are widened, rows are
deleted by vectors. ``PUFFIN_RANDOM_FILTERS=100000`` tries more filters.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from puffin.index.value_hashes import is_indexable
from puffin.load import load_table
from puffin.planning.plan import NO_INDEX, Planner
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.planning.random_filters import EPOCH, FLOATS, Leaf, RandomFilters, Row, matches, rounded

FILTERS = int(os.environ.get("PUFFIN_RANDOM_FILTERS", "300"))
FILTERS_OF_A_TABLE = 100
DELTA = {
    "i": "integer",
    "l": "long",
    "f": "float",
    "d": "double",
    "s": "string",
    "b": "binary",
    "dt": "date",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "de": "decimal(9,2)",
    "dl": "decimal(30,5)",
    "bo": "boolean",
}
WIDER = {"integer": "long", "float": "double", "date": "timestamp_ntz", "decimal(9,2)": "decimal(18,4)"}
ICEBERG = {
    "integer": "int",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "decimal(9,2)": "decimal(9, 2)",
    "decimal(18,4)": "decimal(18, 4)",
    "decimal(30,5)": "decimal(30, 5)",
}
ARROW = {
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(18,4)": pa.decimal128(18, 4),
    "decimal(30,5)": pa.decimal128(30, 5),
}
TEXTS = ("", "a", "é", "\U0001f600x", "A", "a" * 31, "a" * 32, "a" * 33, "a" * 32 + "\U0001f600" * 2)
KEPT = 32
TIE_BREAKERS = ("\U0010ffff", "\ufffd")
"""What Spark puts behind an upper bound that it cut; the latter is that of older versions."""

DAY = 86_400_000_000
FEATURES = ["typeWidening", "deletionVectors"]


class RandomDelta:
    """A table that grows, with all rows that each file was written with, in the types of today."""

    def __init__(self, delta_table: Callable[..., Any], seed: int) -> None:
        self.source = random.Random(seed)
        self.types = dict(DELTA)
        self.partitioned_by = self.source.sample([name for name in DELTA if name != "b"], self.source.randint(0, 2))
        self.table = delta_table(f"t{seed}", self.types, partitioned_by=self.partitioned_by)
        self.rows: dict[str, list[dict[str, Any]]] = {}
        protocol = self.table.protocol(3, 7, readerFeatures=FEATURES, writerFeatures=FEATURES)
        self.table.commit(protocol, self.table.metadata(self.types))

    @property
    def leaves(self) -> list[Leaf]:
        return [Leaf(i, name, ICEBERG.get(type_, type_)) for i, (name, type_) in enumerate(self.types.items())]

    def files(self) -> dict[str, list[Row]]:
        """Rows by the name of their file, with values by the ids of leaves."""
        return {
            path: [{leaf.field_id: row[leaf.name] for leaf in self.leaves} for row in rows]
            for path, rows in self.rows.items()
        }

    def append(self) -> None:
        rows = [
            {name: self._stored(type_) for name, type_ in self.types.items()} for _ in range(self.source.randint(1, 8))
        ]
        for name in self.partitioned_by:
            value = None if rows[0][name] == "" else rows[0][name]  # an empty text is null
            rows = [{**row, name: value} for row in rows]
        path = f"part-{len(self.rows)}.parquet"
        stored = [name for name in self.types if name not in self.partitioned_by]
        values = {name: pa.array([row[name] for row in rows], ARROW[self.types[name]]) for name in stored}
        stats = {} if self.source.random() < 0.1 else {"stats": json.dumps(self._statistics(rows, stored))}
        text = {name: _partition_text(self.types[name], rows[0][name]) for name in self.partitioned_by}
        add = self.table.add(values, path, partitionValues=text, **(stats or {"stats": "{}"}))
        self.table.commit(add)
        self.rows[path] = rows
        if self.source.random() < 0.2:
            self.table.commit(*self.table.delete_rows(add, [0]))

    def widen(self) -> None:
        changed = {name: WIDER.get(type_, type_) for name, type_ in self.types.items() if self.source.random() < 0.7}
        for name, type_ in changed.items():
            if self.types[name] == "date" != type_:
                for row in (row for rows in self.rows.values() for row in rows if row[name] is not None):
                    row[name] *= DAY
            self.types[name] = type_
        self.table.commit(self.table.metadata(self.types))

    def present(self, leaf: Leaf) -> Any:
        return self.source.choice(self.source.choice(list(self.files().values())))[leaf.field_id]

    def made_up(self, type_: str) -> Any:
        """A random value, in the type of a leaf, or null."""
        pick, random_ = self.source.choice, self.source
        if random_.random() < 0.1:
            return None
        if type_ in ("int", "long"):
            most = 2 ** (31 if type_ == "int" else 63)
            return pick((random_.randint(-5, 5), random_.randint(-most, most - 1)))
        if type_ in FLOATS:
            return pick((0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1.5, random_.uniform(-10, 10)))
        if type_ in ("string", "binary"):
            text = pick((*TEXTS, f"key-{random_.randint(0, 40)}"))
            return text if type_ == "string" else text.encode()
        if type_.startswith("decimal"):
            digits, scale = map(int, type_[8:-1].split(","))
            most = 10 ** pick((9, min(digits, 17), min(digits, 30))) - 1
            return Decimal(f"{random_.randint(-most, most)}e-{scale}")
        if type_ == "boolean":
            return random_.random() < 0.5
        days = random_.randint(-400, 800)
        return days if type_ == "date" else pick((0, -1, 999, 1000, days * DAY, days * DAY + random_.randrange(DAY)))

    def _stored(self, type_: str) -> Any:
        value = self.made_up(ICEBERG.get(type_, type_))
        return rounded(value) if type_ == "float" and value is not None else value

    def _statistics(self, rows: Sequence[dict[str, Any]], stored: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
        for name in stored:
            if self.source.random() < 0.1:  # as delta.dataSkippingNumIndexedCols leaves columns out
                continue
            type_ = self.types[name]
            values = [row[name] for row in rows if row[name] is not None]
            found["nullCount"][name] = len(rows) - len(values)
            if values and type_ not in ("binary", "boolean"):
                ordered = sorted(values, key=_in_order)
                found["minValues"][name] = _statistic(type_, ordered[0], is_upper=False)
                found["maxValues"][name] = _statistic(type_, ordered[-1], is_upper=True)
        return found


def _in_order(value: Any) -> tuple[Any, ...]:
    return value != value, value, math.copysign(1, value) if isinstance(value, float) else 0


def _statistic(type_: str, value: Any, *, is_upper: bool) -> Any:
    if type_ == "string":
        return value if len(value) <= KEPT else value[:KEPT] + (TIE_BREAKERS[len(value) % 2] if is_upper else "")
    if type_ == "date":
        return (EPOCH + datetime.timedelta(days=value)).date().isoformat()
    if type_.startswith("timestamp"):
        cut = EPOCH + datetime.timedelta(milliseconds=value // 1000)
        return cut.isoformat(timespec="milliseconds") + ("Z" if type_ == "timestamp" else "")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return float(value) if isinstance(value, Decimal) else value


def _partition_text(type_: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    if type_ == "date":
        return (EPOCH + datetime.timedelta(days=value)).date().isoformat()
    if type_.startswith("timestamp"):
        zone = "Z" if type_ == "timestamp" else ""
        return (EPOCH + datetime.timedelta(microseconds=value)).isoformat(" " if not zone else "T") + zone
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_plan_leaves_out_no_file_with_a_matching_row(delta_table: Callable[..., Any]) -> None:
    files = kept = by_index = 0
    for seed in range(FILTERS // FILTERS_OF_A_TABLE):
        made = RandomDelta(delta_table, seed)
        for grow in (made.append, made.append, made.widen, made.append):
            for _ in range(3 if grow == made.append else 1):
                grow()
            if made.source.random() < 0.7:
                names = [leaf.name for leaf in made.leaves if is_indexable(leaf.type)]
                index(str(made.table.path), IndexOptions(columns=tuple(made.source.sample(names, 4))))
        planner = Planner(load_table(str(made.table.path)).open())
        filters = RandomFilters(made.source, made.leaves, made.present, made.made_up)
        rows_of = made.files()
        for _ in range(FILTERS_OF_A_TABLE):
            filter_ = filters.draw(made.source.randint(0, 3))
            plan = planner.plan(str(filter_), index=None if made.source.random() < 0.7 else NO_INDEX)
            found = {task.data_file.file_path.rpartition("/")[2] for task in plan.files}
            must = {path for path, rows in rows_of.items() if matches(filter_, rows)}
            assert must <= found, f"seed {seed}: {filter_}"
            assert plan.warnings == ()
            files, kept, by_index = files + len(rows_of), kept + len(found), by_index + plan.pruned.index
    assert by_index > files // 200
    assert kept < 0.8 * files
