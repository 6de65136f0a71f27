"""Runs refuse a table that they may not write to before they read its data files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.errors import NotWritable
from stats_jobs import Options, analyze, index
from stats_jobs.options import IndexOptions


@pytest.fixture
def table(delta_table: Callable[..., Any], read_only: Callable[[Path], Path]) -> Path:
    """A table whose log takes files, but whose directory does not."""
    made = delta_table(types={"a": "long"})
    made.commit(made.add({"a": [1, 2, 3]}))
    return read_only(made.path)


def test_run_that_cannot_write_private_state_reads_nothing_and_names_the_home(
    table: Path, tmp_path: Path, opened: Any
) -> None:
    before = set(table.rglob("*"))
    for run in (
        lambda: analyze(str(table)),
        lambda: analyze(str(table), Options(commit=False)),
        lambda: index(str(table), IndexOptions(columns=("a",))),
    ):
        with pytest.raises(NotWritable, match=f"^{table}: .*found one that cannot; .* with --home URI"):
            run()
    assert not [name for name in opened if name.endswith(".parquet")]
    assert set(table.rglob("*")) == before
    assert analyze(str(table), Options(dry_run=True)).rows_read == 3
    assert index(str(table), IndexOptions(columns=("a",), dry_run=True)).rows_read == 3
    assert analyze(str(table), Options(home=tmp_path / "home")).committed
    assert index(str(table), IndexOptions(columns=("a",), home=tmp_path / "home")).committed


def test_run_that_cannot_write_the_statistics_file_says_where_it_goes(
    table: Path, read_only: Callable[[Path], Path]
) -> None:
    read_only(table / "_delta_log")
    for options in (Options(), Options(commit=False)):
        with pytest.raises(NotWritable, match=f"^{table}/_delta_log: .*statistics files go there"):
            analyze(str(table), options)


def test_current_statistics_of_a_table_that_became_read_only_are_no_failure(
    tmp_path: Path, read_only: Callable[[Path], Path]
) -> None:
    path = tmp_path / "current"
    write_deltalake(str(path), pa.table({"a": [1, 2]}))
    analyze(str(path))
    index(str(path), IndexOptions(columns=("a",)))
    read_only(path)
    assert not analyze(str(path)).committed
    assert not index(str(path)).committed
