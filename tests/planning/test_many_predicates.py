"""Plans of filters with many predicates over many files."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from puffin.iceberg.expression_json import FilterJson
from puffin.load import load_table
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


def test_memory_of_a_plan_does_not_grow_with_its_predicates(tmp_path: Path) -> None:
    table_of_many_files(tmp_path / "t")
    planner = Planner(load_table(str(tmp_path / "t")).open())
    planner.plan(FilterJson.of(ranges(0, 1)))  # reads the files and their bounds
    where = FilterJson.of(ranges(0, RANGES))
    tracemalloc.start()
    try:
        plan = planner.plan(where)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan.files_matched == RANGES
    assert [each.excludes.bounds for each in plan.predicates[:4]] == [0, FILES - 1, 1, FILES - 2]
    assert peak < RANGES * FILES  # a flag for each range and file
