"""The most frequent values and the histogram of a column, against counting its rows."""

import datetime
import decimal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.errors import ColumnNotFound
from puffin.estimates.shape import MOST_BUCKETS, MOST_HEAVY
from puffin.lookup import Lookup
from stats_jobs import Options, analyze
from tests.hand_made_table import HandMadeTable
from tests.table_directory import publish

ROWS = 3_000
EPOCH = datetime.date(1970, 1, 1)
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), lambda n: (n - 700) * 1_000_003),
    "short": (pa.int32(), lambda n: n % 7),
    "real": (pa.float32(), lambda n: n / 8 - 50),
    "double": (pa.float64(), lambda n: [float("nan"), float("inf"), -float("inf")][n] if n < 3 else n / 7 - 50),
    "bool": (pa.bool_(), lambda n: n % 3 == 0),
    "date": (pa.date32(), lambda n: EPOCH + datetime.timedelta(days=n - 300)),
    "time": (pa.timestamp("us"), lambda n: datetime.datetime(1969, 1, 1) + datetime.timedelta(hours=n)),
    "money": (pa.decimal128(20, 2), lambda n: decimal.Decimal(n * 10**9 - 10**11) / 100),
    "text": (pa.string(), lambda n: f"é{n % 500:03}" * (1 + 30 * (n % 2))),
    "raw": (pa.binary(), lambda n: bytes([n % 256, n // 256])),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, list[Any]]]:
    random = np.random.default_rng(5)
    drawn = random.zipf(1.3, ROWS) % 900
    values = {
        name: [None if random.random() < 0.05 else make(int(n)) for n in drawn] for name, (_, make) in COLUMNS.items()
    }
    path = str(tmp_path_factory.mktemp("shape") / "t")
    write_deltalake(path, pa.table({name: pa.array(values[name], type_) for name, (type_, _) in COLUMNS.items()}))
    analyze(path)
    return path, values


@pytest.mark.parametrize("column", COLUMNS)
def test_histogram_has_every_row_that_has_a_value_in_order(
    table: tuple[str, dict[str, list[Any]]], column: str
) -> None:
    path, values = table
    found = Lookup().distribution(path, column).to_json()
    buckets = found["histogram"]
    present = [value for value in values[column] if value is not None and value == value]
    in_range = [value for value in present if value not in (float("inf"), -float("inf"))]
    assert 1 < len(buckets) <= MOST_BUCKETS
    assert all(bucket["lower"] <= bucket["rows"] <= bucket["upper"] for bucket in buckets)
    if column != "text":  # whose long values are kept cut
        assert all(bucket["lower"] == bucket["upper"] for bucket in buckets)
    assert sum(bucket["rows"] for bucket in buckets) == len(in_range)
    assert found["complete"]
    assert found["row-count"] == ROWS
    assert found["reason"] is None


@pytest.mark.parametrize("column", [name for name in COLUMNS if name not in ("text", "raw")])
def test_buckets_count_the_rows_between_their_values(table: tuple[str, dict[str, list[Any]]], column: str) -> None:
    path, values = table
    buckets = Lookup().distribution(path, column).shape.buckets
    counted = [_physical(value) for value in values[column] if value is not None and value == value]
    for number, bucket in enumerate(buckets, 1):
        is_closed = number == len(buckets) or bucket.first == bucket.last
        inside = [v for v in counted if bucket.first <= v and (v <= bucket.last if is_closed else v < bucket.last)]
        assert bucket.rows.rows == len(inside)


def test_buckets_of_floats_end_at_numbers(table: tuple[str, dict[str, list[Any]]]) -> None:
    for bucket in Lookup().distribution(table[0], "real").to_json()["histogram"]:
        assert isinstance(bucket["first"], float)
        assert isinstance(bucket["last"], float)


@pytest.mark.parametrize("column", COLUMNS)
def test_most_frequent_values_have_their_rows(table: tuple[str, dict[str, list[Any]]], column: str) -> None:
    path, values = table
    found = Lookup().distribution(path, column).to_json()["heavy"]
    rows = Counter("nan" if value != value else value for value in values[column] if value is not None)
    most = [count for _, count in rows.most_common(MOST_HEAVY)]
    assert [value["rows"] for value in found] == most
    if column == "text":
        whole = {value["value"]: value["rows"] for value in found if not value["cut"]}
        assert all(rows[value] == count for value, count in whole.items())
        assert any(value["cut"] for value in found)


def test_rows_that_came_and_went_since_widen_the_bounds_of_frequent_values(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1] * 6 + [2] * 3 + [None] * 2}))
    analyze(path)
    write_deltalake(path, pa.table({"k": [1, 1, None]}), mode="append")
    DeltaTable(path).delete("k = 2")
    shape = Lookup().distribution(path, "k").shape
    bounds = {value.value: (value.rows.lower, value.rows.upper) for value in shape.heavy} | {None: shape.nulls[1:]}
    assert bounds.keys() == {1, 2, None}
    for value, rows in {1: 8, 2: 0, None: 3}.items():
        assert bounds[value][0] <= rows <= bounds[value][1]


@pytest.mark.parametrize("beginnings", [1, 40])
def test_histogram_has_the_rows_of_values_that_are_kept_cut(tmp_path: Path, beginnings: int) -> None:
    texts = [f"{'/' * (90 - number % beginnings)}{number:04d}" for number in range(4000)]
    write_deltalake(tmp_path / "t", pa.table({"text": texts}))
    analyze(str(tmp_path / "t"))
    buckets = Lookup().distribution(str(tmp_path / "t"), "text").shape.buckets
    assert 0.9 * len(texts) < sum(bucket.rows.rows for bucket in buckets) < 1.1 * len(texts)


def test_column_without_kept_values_tells_why(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1, 2]}))
    assert "puffin analyze" in Lookup().distribution(path, "k").reason
    analyze(path, Options(no_values=True))
    found = Lookup().distribution(path, "k").to_json()
    assert "--no-values" in found["reason"]
    assert (found["heavy"], found["histogram"]) == ([], [])
    with pytest.raises(ColumnNotFound):
        Lookup().distribution(path, "absent")


def test_distribution_follows_a_table_whose_old_manifests_are_gone(make_table: Callable[..., HandMadeTable]) -> None:
    table, lookup = make_table([(1, "k", "long")]), Lookup()
    data = [table.data(table.write(f"{n}.parquet", pa.table({"k": [n]}))) for n in range(2)]
    table.snapshot(data[0])
    publish(table.root, table.document)
    lookup.opened(table.root)
    table.snapshot(*data)
    publish(table.root, table.document)
    (table.root / "snap-1.avro").unlink()
    assert lookup.distribution(table.root, "k").row_count == 2


def _physical(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - EPOCH).days
    return int(value * 100) if isinstance(value, decimal.Decimal) else value
