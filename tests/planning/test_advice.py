"""Advice on indexes, held against what plans really leave and what indexes really take."""

import datetime
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from puffin.cli.diagnostics import Diagnostics
from puffin.cli.program import _puffin
from puffin.errors import ColumnNotFound, UsageError
from puffin.index.sizes import index_bytes, values_per_block
from puffin.load import load_table
from puffin.lookup.index_advice import IndexAdvice, advise
from puffin.planning.advice import ColumnAdvice, IndexFacts, advise_column
from puffin.planning.overlap import files_per_key
from puffin.planning.plan import NO_INDEX, FoundIndex, Planner
from puffin.tables.base import Column
from puffin.tables.file_metrics import FileMetrics
from stats_jobs import Options, analyze
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.bound import bound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
FILES, ROWS = 30, 1000
ALL = FILES * ROWS


def columns_of_file(number: int, generator: np.random.Generator) -> dict[str, Any]:
    """Columns of every distribution that matters, for one file."""
    numbers = np.arange(ROWS) + number * ROWS
    around = numbers + generator.integers(0, 6 * ROWS, ROWS)
    epoch = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    return {
        "random": generator.integers(-(2**62), 2**62, ROWS),
        "uid": [str(uuid.UUID(bytes=generator.bytes(16))) for _ in range(ROWS)],
        "real": generator.normal(size=ROWS),
        "clustered": numbers,
        "clustered_text": [f"order-{n:09d}" for n in numbers],
        "loose": around,
        "loose_text": [f"user-{n:07d}" for n in around.tolist()],
        "loose_time": pa.array([epoch + datetime.timedelta(seconds=n) for n in around.tolist()], pa.timestamp("us")),
        "loose_price": pa.array([Decimal(n) / 100 for n in around.tolist()], pa.decimal128(12, 2)),
        "few": generator.integers(0, 20, ROWS),
        "few_text": [f"c{n}" for n in generator.integers(0, 20, ROWS).tolist()],
        "repeated": generator.integers(0, ALL // 12, ROWS),
        "skewed": generator.zipf(1.3, ROWS).astype(np.uint64) * np.uint64(2654435761) % np.uint64(2**31),
        "half_null": pa.array([n if n % 2 else None for n in generator.integers(0, 2**60, ROWS).tolist()]),
        "flag": [True, False] * (ROWS // 2),
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Delta table with statistics and no index."""
    path = str(tmp_path_factory.mktemp("advice") / "table")
    generator = np.random.default_rng(11)
    for number in range(FILES):
        write_deltalake(path, pa.table(columns_of_file(number, generator)), mode="append")
    analyze(path, Options())
    return path


@pytest.fixture(scope="module")
def advice(table: str) -> IndexAdvice:
    return advise(load_table(table))


def of(advice: IndexAdvice, column: str) -> ColumnAdvice:
    (found,) = (each for each in advice.columns if each.column.name == column)
    return found


def literal(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return f"'{value.replace(tzinfo=None).isoformat()}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def left_by_plan(table: str, column: str, index: FoundIndex | None = None) -> float:
    """The files that plans leave for a key, on average over some of the distinct values."""
    planner, generator = Planner(load_table(table).open()), np.random.default_rng(2)
    values = pq.ParquetDataset(table).read([column])[column].unique().drop_null().sort()
    keys = [values[int(i)].as_py() for i in generator.integers(0, len(values), 150)]
    plans = (planner.plan(f"{column} = {literal(key)}", index=index) for key in keys)
    return float(np.mean([np.count_nonzero(plan.kept) for plan in plans]))


ANSWERS = {
    "random": True,
    "uid": True,
    "real": True,
    "clustered": False,
    "clustered_text": False,
    "loose": True,
    "loose_text": True,
    "loose_time": True,
    "loose_price": True,
    "few": False,
    "few_text": False,
    "repeated": True,
    "skewed": True,
    "half_null": True,
    "flag": False,
}


@pytest.mark.parametrize("column", ANSWERS)
def test_index_is_recommended_where_it_leaves_at_most_half_of_the_files(advice: IndexAdvice, column: str) -> None:
    found = of(advice, column)
    assert found.recommended == ANSWERS[column], found.reason
    assert found.reason


@pytest.mark.parametrize("column", [name for name in ANSWERS if name != "flag"])
def test_files_per_key_by_bounds_are_those_that_plans_leave(table: str, advice: IndexAdvice, column: str) -> None:
    """Within a tenth, and half a file."""
    expected = of(advice, column).by_bounds
    assert expected == pytest.approx(left_by_plan(table, column, NO_INDEX), rel=0.1, abs=0.5)


@pytest.fixture(scope="module")
def indexed(table: str, tmp_path_factory: pytest.TempPathFactory, advice: IndexAdvice) -> dict[str, int]:
    """The bytes of the index of each column; the advice is older than the index."""
    assert len(advice.columns) == len(ANSWERS)
    report = index(table, IndexOptions(columns=tuple(name for name in ANSWERS if name != "flag")))
    return {each.column.name: each.bytes for each in report.columns}


@pytest.mark.parametrize("column", [name for name in ANSWERS if name != "flag"])
def test_files_per_key_with_an_index_are_those_that_plans_leave(
    table: str, advice: IndexAdvice, indexed: dict[str, int], column: str
) -> None:
    """Within a quarter, and half a file."""
    assert column in indexed
    expected = of(advice, column).by_index
    assert expected == pytest.approx(left_by_plan(table, column), rel=0.25, abs=0.5)


@pytest.mark.parametrize("column", [name for name in ANSWERS if name != "flag"])
def test_bytes_are_those_of_the_index(advice: IndexAdvice, indexed: dict[str, int], column: str) -> None:
    """Within a tenth, except for filters of a few blocks, where chance decides on each halving."""
    expected = of(advice, column).bytes
    tolerance = 1.0 if column.startswith("few") else 0.1
    assert expected == pytest.approx(indexed[column], rel=tolerance)


def test_statistics_of_the_advice_are_those_of_the_table(advice: IndexAdvice) -> None:
    assert of(advice, "few").ndv == 20
    assert of(advice, "clustered").ndv == pytest.approx(ALL, rel=0.05)
    assert of(advice, "clustered").overlap == pytest.approx(0, abs=0.01)
    assert of(advice, "random").overlap == pytest.approx(1, abs=0.01)
    assert 0.1 < (of(advice, "loose").overlap or 0) < 0.3


def test_document_has_the_keys_of_the_contract(advice: IndexAdvice) -> None:
    document = advice.to_json()
    assert list(document) == ["table", "format", "snapshot-id", "files-total", "columns"]
    assert (document["format"], document["files-total"]) == ("delta", FILES)
    for column in document["columns"]:
        assert list(column) == [
            *("column", "field-id", "type", "ndv", "overlap", "files-per-key-bounds", "files-per-key-index"),
            *("bytes", "files-indexed", "recommended", "reason"),
        ]
    assert json.dumps(document)


def small_table(root: Path, files: Sequence[dict[str, Any]], **options: Any) -> str:
    path = str(root / "table")
    for columns in files:
        write_deltalake(path, pa.table(columns), mode="append", **options)
    return path


def test_advice_opens_no_data_file(tmp_path: Path) -> None:
    path = small_table(tmp_path, [{"k": np.random.default_rng(i).integers(0, 2**60, 500)} for i in range(8)])
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    (found,) = advise(load_table(path)).columns
    assert found.recommended
    assert found.ndv is None


def test_advice_says_what_is_indexed_already(tmp_path: Path) -> None:
    path = small_table(tmp_path, [{"k": [1, 2], "s": ["a", "b"]}] * 3)
    index(path, IndexOptions(columns=("k",)))
    small_table(tmp_path, [{"k": [1, 2], "s": ["a", "b"]}])
    assert [each.files_indexed for each in advise(load_table(path)).columns] == [3, 0]
    ran = CliRunner().invoke(_puffin, ["index", path, "--advise"], obj=Diagnostics())
    assert [re.split("  +", line)[-3] for line in ran.stdout.splitlines()[2:]] == ["3 of 4", "-"]
    for manifest in Path(path).rglob("index/0*/*"):
        manifest.write_bytes(b"{}")
    assert [each.files_indexed for each in advise(load_table(path)).columns] == [None, None]


def test_without_statistics_repeated_bounds_are_a_doubt(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    files = [
        {"few": [f"c{n}" for n in generator.integers(0, 5, 500)], "key": [generator.bytes(8).hex() for _ in range(500)]}
        for _ in range(8)
    ]
    found = advise(load_table(small_table(tmp_path, files)))
    assert (of(found, "few").recommended, of(found, "key").recommended) == (False, True)
    assert "puffin analyze" in of(found, "few").reason


def test_partition_column_needs_no_index(tmp_path: Path) -> None:
    files = [{"p": [i] * 100, "k": np.random.default_rng(i).integers(0, 2**60, 100)} for i in range(5)]
    found = advise(load_table(small_table(tmp_path, files, partition_by=["p"])))
    assert not of(found, "p").recommended
    assert "partition column" in of(found, "p").reason
    assert of(found, "p").bytes is not None
    assert of(found, "k").recommended


@pytest.mark.parametrize("files", [1, 2])
def test_few_files_need_no_index(tmp_path: Path, files: int) -> None:
    rows = [{"k": np.random.default_rng(i).integers(0, 2**60, 100)} for i in range(files)]
    (found,) = advise(load_table(small_table(tmp_path, rows))).columns
    assert not found.recommended


def test_column_of_nulls_has_no_figures(tmp_path: Path) -> None:
    path = small_table(tmp_path, [{"k": pa.nulls(10, pa.int64())} for _ in range(3)])
    (found,) = advise(load_table(path)).columns
    assert (found.recommended, found.bytes, found.by_bounds) == (False, None, None)


def test_table_without_files_is_judged(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "table"), pa.schema([("k", pa.int64())]))
    found = advise(load_table(str(tmp_path / "table")))
    assert (found.files_total, [each.recommended for each in found.columns]) == (0, [False])


def test_advice_imports_no_spark(table: str) -> None:
    """Nor the job, which needs it."""
    code = f"""
import sys
from puffin.cli import main
try:
    main(["index", {table!r}, "--advise"])
finally:
    assert not {{"pyspark", "stats_jobs", "numba"}} & set(sys.modules), "imported"
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_only_named_columns_are_judged(table: str) -> None:
    assert [each.column.name for each in advise(load_table(table), ["few", "uid"]).columns] == ["few", "uid"]
    with pytest.raises(ColumnNotFound):
        advise(load_table(table), ["nothing"])


@pytest.mark.parametrize("fpp", [0.0, 0.9, float("nan")])
def test_impossible_rate_is_refused(table: str, fpp: float) -> None:
    with pytest.raises(UsageError, match="fpp: expected a rate"):
        advise(load_table(table), fpp=fpp)


def test_command_prints_a_table_or_json(table: str) -> None:
    ran = CliRunner().invoke(_puffin, ["index", table, "--advise", "--columns", "random,few"], obj=Diagnostics())
    assert ran.exit_code == 0, ran.output
    _, head, *rows = ran.stdout.splitlines()
    assert " ".join(head.split()) == "column type ndv overlap files per key with index size indexed index it?"
    assert [(row.split()[0], "yes" in row.split()) for row in rows] == [("random", True), ("few", False)]
    ran = CliRunner().invoke(_puffin, ["index", table, "--advise", "--json"], obj=Diagnostics())
    assert json.loads(ran.stdout) == advise(load_table(table)).to_json()


def test_command_judges_several_tables_and_reports_those_that_fail(table: str, tmp_path: Path) -> None:
    ran = CliRunner().invoke(_puffin, ["index", table, str(tmp_path / "none"), "--advise", "--json"], obj=Diagnostics())
    assert ran.exit_code == 1
    found, failed = json.loads(ran.stdout)["tables"]
    assert found["table"] == table
    assert list(failed) == ["table", "error"]


@pytest.mark.parametrize("option", [["--drop", "uid"], ["--only-stale"], ["--spark-table", "a.b.c"]])
def test_advice_refuses_options_of_a_run(table: str, option: list[str]) -> None:
    assert CliRunner().invoke(_puffin, ["index", table, "--advise", *option], obj=Diagnostics()).exit_code == 2


def test_iceberg_table_with_partitions_is_judged_by_what_plans_leave(spark: "SparkSession", warehouse: Path) -> None:
    """A bucket of the key excludes files as bounds do; a partition column needs no index."""
    name, path = "hadoop.db.advice", str(warehouse / "db" / "advice")
    spark.sql(f"drop table if exists {name}")
    spark.sql(f"create table {name} (k bigint, s string, p int) using iceberg partitioned by (bucket(3, k), p)")
    for batch in range(4):
        spark.sql(
            f"insert into {name} select xxhash64(id + {batch * 1000}), uuid(), cast(id % 2 as int) from range(1000)"
        )
    found = advise(load_table(path))
    assert found.files_total == 24
    for column in ("k", "s"):
        values = [row[0] for row in spark.sql(f"select {column} from {name} limit 30").collect()]
        planner = Planner(load_table(path).open())
        left = np.mean([np.count_nonzero(planner.plan(f"{column} = {literal(value)}").kept) for value in values])
        assert of(found, column).by_bounds == pytest.approx(left, rel=0.1)
        assert of(found, column).recommended
    assert "partition column" in of(found, "p").reason


@pytest.mark.parametrize(("of_other_spec", "by_bounds"), [(0, 1), (1, 9)])
def test_beginnings_of_texts_in_partitions_tell_files_apart(
    make_table: Any, of_other_spec: int, by_bounds: int
) -> None:
    """Bounds are cut after 16 characters, which all keys share. A file of another spec may hold any key."""
    table = make_table([(1, "k", "string")], spec=[(1, "truncate[21]")])
    table.document["partition-specs"].append({"spec-id": 1, "fields": []})
    known = {
        "record_count": 100,
        "value_counts": {1: 100},
        "null_value_counts": {1: 0},
        "lower_bounds": {1: b"https://example."},
        "upper_bounds": {1: b"https://example/"},
    }
    path = table.write("data.parquet", pa.table({"k": ["a"]}), {"k": 1})
    files = [table.data(path, **known, partition=(f"https://example.org/{i}",)) for i in range(8)]
    files += [table.data(path, **known, spec_id=1) for _ in range(of_other_spec)]
    table.snapshot(*({**each, "file_path": f"{path}.{i}"} for i, each in enumerate(files)))
    found = advise(SimpleNamespace(open=lambda: bound(table.state())))
    assert of(found, "k").by_bounds == by_bounds


# --- the core, with metrics made by hand ----------------------------------------------------------------------------

KEY = Column(1, "k", "long", (1,), (None,))


def facts(metrics: Sequence[FileMetrics], **given: Any) -> IndexFacts:
    files = len(metrics)
    defaults = {"ndv": None, "most": None, "rows": [10] * files, "is_constant": [False] * files, "buckets": [0] * files}
    return IndexFacts(column=KEY, metrics=metrics, **{**defaults, **given})


def test_file_without_bounds_may_hold_any_key() -> None:
    known = [FileMetrics(10, 0, None, i * 10, i * 10 + 9) for i in range(4)]
    found = advise_column(facts([*known, FileMetrics()]), 0.01)
    assert found.by_bounds == pytest.approx((4 * 2 + 5) / 5)
    without = advise_column(facts([FileMetrics()] * 4), 0.01)
    assert (without.by_bounds, without.overlap) == (4, None)


def test_bounds_that_are_no_numbers_count_as_none() -> None:
    metrics = [FileMetrics(10, 0, None, float("nan"), float("nan")), FileMetrics(10, 0, None, 0.0, 1.0)]
    assert advise_column(facts(metrics), 0.01).by_bounds == 2


def test_file_of_nulls_holds_no_key() -> None:
    metrics = [FileMetrics(10, 0, None, 0, 100), FileMetrics(10, 10), FileMetrics(10, 0, None, 0, 100)]
    assert advise_column(facts(metrics), 0.01).by_bounds == 2


def test_table_of_many_files_is_judged() -> None:
    """Neighbours overlap by half; sums over all files stay exact enough."""
    count = 100_000
    low = list(range(0, 10 * count, 10))
    found = files_per_key(low, [start + 19 for start in low])
    assert found[1:-1].min() == pytest.approx(2, abs=0.01)
    assert found[1:-1].max() == pytest.approx(2, abs=0.01)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        ([0, 10], [9, 19], [1, 1]),
        ([0, 0], [9, 9], [2, 2]),
        ([0, 5], [9, 9], [1.5, 2]),
        ([7, 7, 8], [7, 7, 8], [2, 2, 1]),
        ([0.0, 0.0], [1.0, 4.0], [2, 1.25]),
        ([2.5, 2.5], [2.5, 9.0], [2, 1]),
        ([float("-inf"), 0.0, 8.0], [float("inf"), 0.0, 8.0], [1, 2, 2]),
        (["a", "c"], ["b", "d"], [1, 1]),
        (["x", "x"], ["x", "x"], [2, 2]),
        (["key-0", "key-5"], ["key-5", "key-9"], None),
        ([b"", b""], [b"\xff", b"\xff"], [2, 2]),
        ([-(2**63)] * 2, [2**63 - 1] * 2, [2, 2]),
        ([], [], []),
    ],
)
def test_files_per_key_follow_the_overlap_of_ranges(
    lower: list[Any], upper: list[Any], expected: list[float] | None
) -> None:
    found = files_per_key(lower, upper)
    assert len(found) == len(lower)
    assert all(1 <= each <= len(lower) for each in found)
    if expected is not None:
        assert found == pytest.approx(expected, abs=0.01)


def test_sizes_follow_the_measured_bits_per_value() -> None:
    """1.31 MB per million distinct values at 1 % if sizes were free; powers of two take up to twice that."""
    assert 32 * 1_000_000 / values_per_block(0.01) == pytest.approx(1.31e6, rel=0.02)
    counts = 10 ** np.random.default_rng(5).uniform(4, 6, 2000)
    per_value = np.array([(index_bytes(np.array([count] * 64), 0.01) - 1024) / (64 * count) for count in counts])
    assert per_value.mean() == pytest.approx(1.87, rel=0.03)
    assert per_value.max() < 2.7
    assert index_bytes(np.empty(0), 0.01) == 0
