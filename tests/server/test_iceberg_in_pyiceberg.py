"""
pyiceberg reads from the face what it reads by itself, whatever is in the partition tuples of files.

It refuses null in a tuple, and takes values as JSON has them. It needs them only for an identity partition column that
is missing in the data files, and then fails for what it cannot be told.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo, In, LessThan, NotEqualTo
from pyiceberg.table import StaticTable

from tests.hand_made_table import HandMadeTable
from tests.server.conftest import Process
from tests.server.iceberg_face import publish

NEEDED = {
    "last-sequence-number": 1,
    "last-column-id": 2,
    "default-spec-id": 0,
    "last-partition-id": 1000,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
}
CASES = [
    ("string", pa.string(), ["a", "", None]),
    ("int", pa.int32(), [1, None]),
    ("long", pa.int64(), [-5, None]),
    ("double", pa.float64(), [1.5, math.nan, math.inf, -0.0, None]),
    ("float", pa.float32(), [1.5, math.nan, None]),
    ("boolean", pa.bool_(), [True, None]),
    ("date", pa.date32(), [19000, -1, None]),
    ("time", pa.time64("us"), [3_600_000_000, None]),
    ("timestamp", pa.timestamp("us"), [10**15 + 1, -1, None]),
    ("timestamptz", pa.timestamp("us", "UTC"), [10**15 + 1, None]),
    ("decimal(9, 2)", pa.decimal128(9, 2), [Decimal("1.50"), None]),
    ("uuid", pa.binary(16), [uuid.UUID(int=5), None]),
    ("binary", pa.binary(), [b"\x01\xff", None]),
]


def written(root: Path, case: tuple[str, pa.DataType, list[Any]], *, has_column: bool = True) -> Path:
    """A table with a file for each value of its partition column; returns its newest metadata."""
    type_, arrow_type, values = case
    table, entries = HandMadeTable(root, [(1, "row", "int"), (2, "p", type_)], spec=[(2, "identity")]), []
    for number, value in enumerate(values):
        stored = value.bytes if isinstance(value, uuid.UUID) else value
        columns = {"row": pa.array([10 * number, 10 * number + 1], pa.int32())}
        columns |= {"p": pa.array([stored] * 2, arrow_type)} if has_column else {}
        path = table.write(f"{number}.parquet", pa.table(columns), {"row": 1, "p": 2} if has_column else {"row": 1})
        entries.append(table.data(path, partition=(value,)))
    table.snapshot(*entries)
    publish(table, **NEEDED)
    return root / "metadata" / "v1.metadata.json"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Process(tmp_path_factory.mktemp("face"), "--iceberg") as process:
        yield process


@pytest.fixture
def both(process: Process, tmp_path: Path) -> Callable[..., tuple[Any, Any]]:
    """A table as pyiceberg plans it by itself, and as the face does."""
    catalog, namespace = load_catalog("fast", type="rest", uri=f"{process.url}/iceberg"), tmp_path.name

    def make(name: str, *of_table: Any, **options: Any) -> tuple[Any, Any]:
        own = written(process.root / namespace / name, *of_table, **options)
        return StaticTable.from_metadata(str(own)), catalog.load_table((namespace, name))

    return make


def rows(table: Any, where: Any) -> list[str]:
    return sorted(map(repr, table.scan(row_filter=where).to_arrow().select(["row", "p"]).to_pylist()))


def test_null_and_nan_partitions_have_their_rows(both: Callable[..., tuple[Any, Any]]) -> None:
    for number, case in enumerate(CASES):
        own, fast = both(f"t{number}", case)
        for where in ("row >= 0", "p is null", "p is not null", "row = 10 or p is null"):
            assert rows(fast, where) == rows(own, where) != [], (case[0], where)
        assert len(list(fast.scan("p is null").plan_files())) == 1


def test_columns_that_files_lack_come_from_partitions_or_fail(both: Callable[..., tuple[Any, Any]]) -> None:
    told = 0
    for number, case in enumerate(CASES):
        own, fast = both(f"t{number}", case, has_column=False)
        for where in ("p is not null", "row >= 0"):
            try:
                found = rows(fast, where)
            except (pa.ArrowTypeError, pa.ArrowInvalid):
                continue
            assert found == rows(own, where) != [], (case[0], where)
            told += 1
    assert told >= 9


def test_polars_reads_partitions_of_null_and_of_bytes(
    both: Callable[..., tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own reader looks at each identity partition, and only then at whether the column is missing in the file."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # without it, polars warns that it has another one
    for number, case in enumerate(CASES):
        if case[0] == "uuid":
            continue  # polars has no such type
        own, fast = both(f"t{number}", case)
        found, expected = (
            pl.scan_iceberg(each, reader_override="native").collect().sort("row") for each in (fast, own)
        )
        assert found.equals(expected), case[0]
        last = (pl.scan_iceberg(fast, use_metadata_statistics=False).filter(pl.col("p").is_null()).collect())["row"]
        assert last.to_list() == expected.filter(pl.col("p").is_null())["row"].to_list() != []


def test_infinite_numbers_in_filters_have_their_rows(both: Callable[..., tuple[Any, Any]]) -> None:
    """pyiceberg sends null for one, and cannot read it in a residual."""
    own, fast = both("t", ("double", pa.float64(), [1.5, math.inf, -math.inf, None]))
    for end in (math.inf, -math.inf):
        for where in (LessThan("p", end), EqualTo("p", end), In("p", [1.5, end]), NotEqualTo("p", end)):
            assert rows(fast, where) == rows(own, where)
            assert fast.scan(where).count() == len(rows(own, where))
