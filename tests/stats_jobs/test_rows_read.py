"""Rows that several scans of a run read count once among those that it has read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.load import load_table
from puffin.statistics.kinds import THETA
from puffin.tables.base import Column
from stats_jobs import Options, Report, analyze
from stats_jobs.column_memory import by_columns
from stats_jobs.execute import read_document
from stats_jobs.scan import Scan
from stats_jobs.shipment import Shipment


@pytest.fixture
def table(tmp_path: Path) -> str:
    """100 rows whose columns a and b were analyzed, and 10 that came since."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({name: range(100) for name in "abc"}))
    analyze(path, Options(columns=("a", "b")))
    write_deltalake(path, pa.table({name: range(10) for name in "abc"}), mode="append")
    return path


def read(report: Report) -> tuple[int, int]:
    return report.files_read, report.rows_read


def test_set_that_reads_every_file_has_the_rows_that_came(table: str) -> None:
    assert read(analyze(table, Options(columns=("a", "b"), joint=("a+b",)))) == (2, 110)


def test_new_column_that_reads_every_file_has_the_rows_that_came(table: str) -> None:
    assert read(analyze(table)) == (2, 110)


def test_columns_of_different_age_count_the_rows_that_both_read_once(table: str) -> None:
    analyze(table, Options(columns=("b",)))
    write_deltalake(table, pa.table({name: range(7) for name in "abc"}), mode="append")
    assert read(analyze(table, Options(columns=("a", "b")))) == (2, 17)


def test_rows_of_a_scan_that_is_divided_by_columns_count_once() -> None:
    columns = [Column(at, f"c{at}", "long", (at,), (None,)) for at in range(300)]
    parts = by_columns(Scan(dict.fromkeys(columns, (THETA,)), ()))
    assert [part.counts for part in parts] == [True, *[False] * (len(parts) - 1)]
    assert len(parts) > 1


@pytest.mark.parametrize("counts", [True, False])
def test_executors_count_the_rows_of_scans_that_count(table: str, counts: bool) -> None:
    opened = load_table(table).open()
    scan = Scan({opened.state.columns[0]: (THETA,)}, tuple(opened.tasks), counts=counts)
    shipment = Shipment.of([scan], opened.scan_context)
    partials = [read_document(shipment.shared, document) for document in shipment.documents]
    assert sum(partial.rows for partial in partials) == (110 if counts else 0)
