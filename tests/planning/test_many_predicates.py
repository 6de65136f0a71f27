"""Plans of filters with many predicates over many files."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.delta.snapshot import DeltaSnapshot
from puffin.iceberg.expression_json import FilterJson
from puffin.load import load_table
from puffin.planning import plan
from puffin.planning.plan import Planner

FILES, RANGES = 4000, 64


def table_of_many_files(path: Path) -> None:
    """A file for each of the numbers from 0 on, of which nobody reads more than the log."""
    write_deltalake(path, pa.table({"a": pa.array([], pa.int64())}))
    adds = [
        {
            "add": {
                "path": f"{i}.parquet",
                "partitionValues": {},
                "size": 1000,
                "modificationTime": 0,
                "dataChange": True,
                "stats": json.dumps({"numRecords": 1, "minValues": {"a": i}, "maxValues": {"a": i}}),
            }
        }
        for i in range(FILES)
    ]
    (path / "_delta_log" / f"{1:020}.json").write_text("\n".join(map(json.dumps, adds)))


def ranges(first: int, stop: int) -> dict[str, Any]:
    """Any of these numbers, each as a range of two predicates."""
    if stop - first > 1:
        middle = (first + stop) // 2
        return {"type": "or", "left": ranges(first, middle), "right": ranges(middle, stop)}
    above, below = ({"type": op, "term": "a", "value": first + by} for op, by in (("gt", -1), ("lt", 1)))
    return {"type": "and", "left": above, "right": below}


def test_bounds_of_many_columns_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read in groups, and those of the columns of a filter after the first ones exclude no file."""
    for last in "abcd":
        write_deltalake(tmp_path / "t", pa.table({name: [int(name <= last)] for name in "abcd"}), mode="append")
    monkeypatch.setattr(plan, "_MOST_BOUNDS", 12)
    monkeypatch.setattr(plan, "_FEW_COLUMNS", 1)
    read: list[str] = []
    find = DeltaSnapshot.file_metrics
    monkeypatch.setattr(
        DeltaSnapshot,
        "file_metrics",
        lambda self, columns: read.append("".join(each.name for each in columns)) or find(self, columns),
    )
    planner = Planner(load_table(str(tmp_path / "t")).open())

    def excluded(names: str) -> list[int]:
        found = planner.plan(" and ".join(f"{name} = 1" for name in names))
        return [each.excludes.bounds for each in found.predicates]

    assert excluded("abcd") == [0, 1, 2, 0]
    assert read == ["ab", "c"]
    assert excluded("da") == [3, 0]
    assert excluded("ad") == [0, 3]
    assert excluded("b") == [1]
    assert read == ["ab", "c", "d", "b"]


def test_memory_of_a_plan_does_not_grow_with_its_predicates(tmp_path: Path) -> None:
    table_of_many_files(tmp_path / "t")
    planner = Planner(load_table(str(tmp_path / "t")).open())
    planner.plan(FilterJson.of(ranges(0, 1)))  # reads the files and their bounds
    where = FilterJson.of(ranges(0, RANGES))
    tracemalloc.start()
    try:
        made = planner.plan(where)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.files_matched == RANGES
    assert [each.excludes.bounds for each in made.predicates[:4]] == [0, FILES - 1, 1, FILES - 2]
    assert peak < RANGES * FILES  # a flag for each range and file
