"""Partitions of dates are exact where pyiceberg's calendar ends: Spark does not look at such a filter again."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from puffin.iceberg.expression_json import FilterJson
from puffin.planning.plan import Planner
from puffin.values.transforms import may_be_late
from tests.bound import bound
from tests.hand_made_table import HandMadeTable
from tests.planning.transformed import transformed

FIRST, LAST = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, as days since 1970
YEARS = {FIRST - 1: -1970, FIRST: -1969, 0: 0, LAST: 8029, LAST + 1: 8030}


@pytest.mark.parametrize(
    ("op", "days", "left"),
    [
        ("gt", LAST, [LAST + 1]),
        ("gt-eq", LAST + 1, [LAST + 1]),
        ("lt", LAST + 1, [FIRST - 1, FIRST, 0, LAST]),
        ("lt", FIRST, [FIRST - 1, FIRST]),
        ("lt-eq", FIRST - 1, [FIRST - 1, FIRST]),
        ("gt", FIRST - 1, [FIRST, 0, LAST, LAST + 1]),
        ("eq", LAST + 1, [LAST + 1]),
        ("in", [LAST + 1, FIRST - 1], [FIRST - 1, FIRST, LAST + 1]),
    ],
)
def test_plan_has_the_years_of_the_filter_alone(tmp_path: Path, op: str, days: Any, left: list[int]) -> None:
    """And before 1970 the next one, which may have rows of the year before."""
    table = HandMadeTable(tmp_path, [(1, "d", "date")], spec=[(1, "year")])
    entries = []
    for day, year in YEARS.items():
        path = table.write(f"{day}.parquet", pa.table({"d": pa.array([day], pa.int32()).cast(pa.date32())}), {"d": 1})
        entries.append(table.data(path, partition=(year,)))
    nulls = table.write("null.parquet", pa.table({"d": pa.array([None], pa.date32())}), {"d": 1})
    snapshot_id = table.snapshot(*entries, table.data(nulls, partition=(None,)))
    filter_ = FilterJson.of({"type": op, "term": "d", "values" if op == "in" else "value": days})
    plan = Planner(bound(table.state(), snapshot_id)).plan(filter_)
    assert [int(Path(task.data_file.file_path).stem) for task in plan.files] == left
    assert plan.pruned.partition == len(YEARS) + 1 - len(left)


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz"])
@pytest.mark.parametrize("transform", ["identity", "year", "month", "day"])
def test_plan_of_text_has_the_partitions_of_the_filter_alone(tmp_path: Path, type_: str, transform: str) -> None:
    """Partition values of years that Python does not have are compared like others, and written with a sign."""
    units = 1 if type_ == "date" else 86_400_000_000
    days = [FIRST - 1_000_000, FIRST - 1, 0, LAST, LAST + 1, 3_000_000]
    table = HandMadeTable(tmp_path, [(1, "d", type_)], spec=[(1, transform)])
    path = table.write("data.parquet", pa.table({"d": pa.array([0], pa.int32()).cast(pa.date32())}), {"d": 1})
    partitions = [transformed(transform, type_, day * units) for day in days]
    snapshot_id = table.snapshot(*(table.data(path, partition=(value,)) for value in partitions))
    planner = Planner(bound(table.state(), snapshot_id))
    first = {"date": "'1970-01-01'", "timestamp": "'1970-01-01T00:00:00'"}.get(type_, "'1970-01-01T00:00:00+00:00'")
    late = 1 if may_be_late(transform, type_) else 0  # the partition of day 0 may have rows of the one before
    for op, compare, more in (("<", operator.lt, late), ("=", operator.eq, 0), (">=", operator.ge, 0)):
        plan = planner.plan(f"d {op} {first}")
        assert plan.files_matched == sum(compare(day, 0) for day in days) + more
        if transform in ("identity", "day") and op == ">=":
            (*_, last) = plan.to_json()["files"]
            (value,) = last["partition"].values()
            assert value.startswith("+10183-09-21")
