"""A run of the statistics job catches up the index with the same reading."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.errors import StorageError
from puffin.files.task_reader import TaskReader
from puffin.load import load_table
from puffin.planning.plan import Planner
from puffin.statistics.kinds import THETA
from puffin.tables.base import Column, SnapshotSelector
from stats_jobs import Options, analyze
from stats_jobs.index import index
from stats_jobs.index_plan import IndexPlan
from stats_jobs.index_report import IndexReport
from stats_jobs.options import IndexOptions
from stats_jobs.scan import PackedFiles, Scan
from tests.index.stored_filters import stored_filters
from tests.table_directory import publish, statistics_of


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The data files and columns that jobs read, one for each time."""
    paths: list[tuple[str, str]] = []
    original = TaskReader.read

    def noted(self: TaskReader, task):  # type: ignore[no-untyped-def]
        paths.extend((task.data_file.file_path, column.name) for column in self._batch.columns)
        return original(self, task)

    monkeypatch.setattr(TaskReader, "read", noted)
    return paths


def append(path: str, files: int) -> list[int]:
    # Drawn the same each time: by chance a filter takes one of a hundred other keys for its own.
    random = np.random.default_rng(len(list(Path(path).glob("*.parquet"))))
    keys = []
    for _ in range(files):
        values = random.integers(-(2**62), 2**62, 100)
        keys.append(int(values[3]))
        write_deltalake(path, pa.table({"k": values, "v": values // 3}), mode="append")
    return keys


def matched(path: str, where: str, version: int | None = None) -> int:
    return sum(1 for _ in Planner(load_table(path).open(SnapshotSelector(snapshot_id=version))).plan(where).files)


def test_analyze_reads_each_new_file_once(tmp_path: Path, read: list[tuple[str, str]]) -> None:
    path = str(tmp_path / "table")
    append(path, 3)
    analyze(path)
    index(path, IndexOptions(columns=("k",)))
    keys = append(path, 2)
    read.clear()
    report = analyze(path)
    assert len(read) == len(set(read)) == 2 * 2
    assert report.index is not None
    assert (report.index.files_total, report.index.files_indexed, report.index.committed) == (5, 5, True)
    assert report.to_json()["index"]["files-indexed"] == 5
    assert [matched(path, f"k = {key}") for key in keys] == [1, 1]
    read.clear()
    assert (index(path).files_read, read) == (0, [])
    current = analyze(path, Options(mode="full")).index
    assert current is not None
    assert (current.files_read, current.rows_read, current.bytes_read) == (0, 0, 0)


def test_filters_are_equal_whichever_job_built_them(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    data = pa.table({"k": np.arange(5000) * 7919, "s": [f"name {i % 400}" for i in range(5000)]})
    for path in (one, two):
        write_deltalake(path, data.slice(0, 1))
        index(path, IndexOptions(columns=("k", "s")))
        write_deltalake(path, data, mode="append")
    analyze(one)
    index(two)
    assert len(filters(one)) == 4
    assert filters(one) == filters(two)


def filters(path: str) -> list[tuple[str, bytes]]:
    """The bitsets of all files, with their columns."""
    return sorted((column, bits) for (column, _), bits in stored_filters(load_table(path)).items())


def test_no_index_leaves_the_index_as_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    append(path, 2)
    index(path, IndexOptions(columns=("k",)))
    append(path, 1)
    assert analyze(path, Options(index=False)).index is None
    assert analyze(path, Options(dry_run=True, mode="full")).index is None
    report = index(path)
    assert (report.files_read, report.files_indexed) == (1, 3)


def test_table_without_an_index_gets_none(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    append(path, 2)
    report = analyze(path)
    assert report.index is None
    assert "index" not in report.to_json()
    assert not Path(path, "_puffin_sidecar", "index").exists()


def test_index_is_caught_up_though_statistics_are_current(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    append(path, 2)
    index(path, IndexOptions(columns=("k",)))
    (key,) = append(path, 1)
    analyze(path, Options(index=False))
    report = analyze(path)
    assert report.current
    assert isinstance(report.index, IndexReport)
    assert report.index.files_indexed == 3
    assert 0 < report.index.elapsed_seconds < report.elapsed_seconds
    assert matched(path, f"k = {key}") == 1


def test_column_that_became_a_boolean_leaves_the_index(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    append(path, 1)
    index(path, IndexOptions(columns=("k", "v")))
    replacement = pa.table({"k": [1, 2], "v": [True, False]})
    write_deltalake(path, replacement, mode="overwrite", schema_mode="overwrite")
    report = analyze(path)
    assert [column.ndv for column in report.columns] == [2, 2]
    assert report.index is not None
    assert [each.column.name for each in report.index.columns] == ["k"]


def test_column_that_is_not_analyzed_is_indexed(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    append(path, 2)
    index(path, IndexOptions(columns=("k",)))
    (key,) = append(path, 1)
    report = analyze(path, Options(columns=("v",)))
    assert report.index is not None
    assert report.index.files_indexed == 3
    assert 0 < report.index.elapsed_seconds < report.elapsed_seconds
    assert matched(path, f"k = {key}") == 1


def test_older_snapshot_is_analyzed_without_the_index(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    append(path, 2)
    index(path, IndexOptions(columns=("k",)))
    append(path, 1)
    assert analyze(path, Options(selector=SnapshotSelector(snapshot_id=0))).index is None


def test_statistics_are_committed_though_the_index_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "table")
    append(path, 2)
    index(path, IndexOptions(columns=("k",)))
    append(path, 1)

    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(IndexPlan, "published", fail)
        report = analyze(path)
    assert report.committed
    assert report.index is None
    assert "the index is not caught up: the disk is full" in caplog.text
    assert index(path).files_read == 1


def test_filters_have_the_rows_that_deletes_removed(make_table, read: list[tuple[str, str]]) -> None:
    """An older snapshot still has these rows, and finds its files by the same filters."""
    table = make_table([(1, "k", "long"), (2, "v", "long")])
    for number, name in enumerate(("a", "b"), start=1):
        keys = pa.array(np.arange(100, dtype=np.int64) * 1000 + number)
        path = table.write(f"data/{name}.parquet", pa.table({"k": keys, "v": keys}), {"k": 1, "v": 2})
        if number == 1:
            table.snapshot(first := table.data(path))
            load(table)
            index(str(table.root), IndexOptions(columns=("k",)))
            analyze(str(table.root))
    deletes = table.position_deletes("data/d.parquet", [(path, row) for row in range(50)])
    without = table.snapshot(first, table.data(path, sequence_number=2))
    table.snapshot(first, table.data(path, sequence_number=2), {**deletes, "sequence_number": 3})
    load(table, keep_statistics=True)
    read.clear()
    report = analyze(str(table.root))
    assert report.index is not None
    assert report.index.files_indexed == 2
    assert Counter((Path(name).name, column) for name, column in read)["b.parquet", "k"] == 1
    assert matched(str(table.root), "k = 2", without) == 1  # a deleted row of b
    assert matched(str(table.root), "k = 99002", without) == 1
    assert matched(str(table.root), "k = 3", without) == 0


def load(table, keep_statistics: bool = False) -> None:  # type: ignore[no-untyped-def]
    """Make the table's document the newest version of a table directory."""
    if keep_statistics:
        table.document["statistics"] = statistics_of(table.root)
    publish(table.root, table.document)


def test_vacuumed_files_leave_with_analyze(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    append(path, 3)
    index(path, IndexOptions(columns=("k",)))
    table = DeltaTable(path)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    report = analyze(path)
    assert report.index is not None
    assert (report.index.files_total, report.index.files_indexed) == (1, 1)


def test_packed_files_are_read_beside_an_index_that_has_no_column_of_the_table() -> None:
    """Its columns were dropped, so nobody has asked for the files one by one."""
    unused: Any = None
    plan = IndexPlan(opened=unused, home=unused, before=unused, rates={}, lacks={})
    scan = Scan({Column(1, "k", "long", (1,), (None,)): (THETA,)}, (PackedFiles((b"",), 5, 500, "digest"),))
    assert plan.with_filters([scan]) == [scan]
