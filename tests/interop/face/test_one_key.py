"""One key of a table of many files: unchanged clients read only the files that have it, by the index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo

from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.interop.face.conftest import FAST, PLANNED_BY_SERVER, Face
from tests.interop.face.files_read import files_read

FILES = 120
MOST_FILES = 2
KEY, ROW = "key-57", 57
STEPS = (
    "CREATE TABLE {t} (row bigint, uid string, n int) USING iceberg TBLPROPERTIES ('write.distribution-mode' = 'none')",
    f"""INSERT INTO {{t}} SELECT /*+ REPARTITION({FILES}) */ id, concat('key-', id), CAST(id % 10 AS int)
        FROM range({FILES * 20})""",
)


@pytest.fixture(scope="module")
def keys(face: Face, make_table: Callable[..., str]) -> str:
    """A table whose keys are spread over all files, with an index of the keys."""
    name = make_table("face.keys", *STEPS)
    index(str(face.directory(name)), IndexOptions(columns=("uid",)))
    return name


@pytest.fixture(scope="module")
def in_pyiceberg(face: Face, keys: str) -> Any:
    """The table as pyiceberg loads it from the face."""
    return load_catalog("fast", type="rest", uri=f"{face.process.url}/iceberg").load_table(keys)


@pytest.fixture
def planned_by_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


def test_spark_reads_one_file(face: Face, keys: str) -> None:
    assert face.planner(keys) == PLANNED_BY_SERVER
    query = f"SELECT * FROM {{t}} WHERE uid = '{KEY}'"
    assert [row.row for row in face.rows(query, keys)] == [ROW]
    assert files_read(face.sql(query, keys, FAST)) <= MOST_FILES
    assert files_read(face.sql(query, keys)) > FILES // 2  # that bounds leave


def test_java_plans_one_file(face: Face, keys: str) -> None:
    expressions = face.spark._jvm.org.apache.iceberg.expressions.Expressions
    scan = face.table(keys).newScan().filter(expressions.equal("uid", KEY))
    assert len(list(scan.planFiles().iterator())) <= MOST_FILES


def test_pyiceberg_plans_and_reads_one_file(in_pyiceberg: Any) -> None:
    for where in (f"uid = '{KEY}'", EqualTo("uid", KEY), f"uid = '{KEY}' and n < 100.0"):
        scan = in_pyiceberg.scan(row_filter=where)
        assert len(list(scan.plan_files())) <= MOST_FILES
        assert scan.to_arrow().to_pylist() == [{"row": ROW, "uid": KEY, "n": ROW % 10}]
        assert scan.count() == 1
    assert len(list(in_pyiceberg.scan().plan_files())) == FILES


@pytest.mark.usefixtures("planned_by_pyiceberg")
@pytest.mark.parametrize("reader", ["native", "pyiceberg"])
def test_polars_reads_one_file(face: Face, keys: str, in_pyiceberg: Any, reader: Any) -> None:
    planned = {Path(task.file.file_path).name for task in in_pyiceberg.scan(f"uid = '{KEY}'").plan_files()}
    assert len(planned) <= MOST_FILES
    others = [path for path in (face.directory(keys) / "data").glob("*.parquet") if path.name not in planned]
    hidden = [path.rename(path.with_suffix(".hidden")) for path in others]
    try:
        scan = pl.scan_iceberg(in_pyiceberg, reader_override=reader).filter(pl.col("uid") == KEY)
        assert scan.collect().rows() == [(ROW, KEY, ROW % 10)]
    finally:
        for path in hidden:
            path.rename(path.with_suffix(".parquet"))
