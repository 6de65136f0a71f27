"""Threads divide what they read by columns, and find what one reader of whole rows finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.errors import CorruptDataFileError
from puffin.files import formats
from puffin.files.parquet import chunk_plan
from puffin.load import load_table
from puffin.statistics.aside import put_aside
from puffin.statistics.kinds import ROW_COUNTS, SUMMARY, THETA
from puffin.tables.snapshot import TableSnapshot
from stats_jobs import Options, analyze, pieces
from stats_jobs.partial import Partial
from stats_jobs.pieces import plan_here
from stats_jobs.plan import plan_batches
from stats_jobs.readers import Readers
from stats_jobs.scan import Scan

ROWS = 300
KINDS = Options().kinds


def made_table(directory: Path, *, columns: int = 12, files: int = 3) -> TableSnapshot:
    path = str(directory / "table")
    for file in range(files):
        random = np.random.default_rng(file)
        names = [f"c{number:02}" for number in range(columns)]
        data = {name: random.integers(0, 10 ** (1 + place % 4), ROWS) for place, name in enumerate(names)}
        data["c00"] = [f"text {number}" for number in data["c00"]]
        write_deltalake(path, pa.table(data), mode="append")
    return load_table(path).open()


def scan_of(opened: TableSnapshot, **tasks: Any) -> Scan:
    return Scan(dict.fromkeys(opened.state.columns, KINDS), tuple(opened.tasks), **tasks)


def read(opened: TableSnapshot, batches: Sequence[Scan], *, threads: int) -> Partial:
    return Readers(batches, opened, put_aside(1), None, threads).read(at_once=True)


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was opened."""
    paths: Counter[str] = Counter()
    original = formats.open_data_file

    def noted(file: Any, *others: Any) -> Any:
        paths[file.file_path] += 1
        return original(file, *others)

    monkeypatch.setattr(formats, "open_data_file", noted)
    return paths


@pytest.mark.parametrize(("columns", "threads"), [(12, 1), (12, 2), (12, 5), (3, 2), (1, 4)])
def test_values_are_those_of_undivided_batches(tmp_path, monkeypatch, columns, threads):
    opened = made_table(tmp_path, columns=columns)
    divided = read(opened, plan_here([scan_of(opened)], parallelism=threads), threads=threads)
    monkeypatch.setattr(pieces, "_MOST_OPEN", 0)
    whole = read(opened, plan_batches([scan_of(opened)], parallelism=1), threads=1)
    assert (divided.rows, divided.bytes_read) == (whole.rows, whole.bytes_read) == (3 * ROWS, divided.bytes_read)
    assert divided.added.keys() == whole.added.keys()
    for field_id, values in whole.added.items():
        for kind in (THETA, ROW_COUNTS, SUMMARY):
            assert kind.of(divided.added[field_id]) == kind.of(values)


def test_each_thread_opens_a_file_once(tmp_path, opens):
    opened = made_table(tmp_path)
    read(opened, plan_here([scan_of(opened)], parallelism=2), threads=2)
    assert len(opens) == 3
    assert max(opens.values()) <= 2


def test_footer_is_parsed_once_for_all_threads(tmp_path, monkeypatch):
    opened, parsed = made_table(tmp_path), []
    original = chunk_plan.read_footer
    monkeypatch.setattr(chunk_plan, "read_footer", lambda metadata: parsed.append(metadata) or original(metadata))
    read(opened, plan_here([scan_of(opened)], parallelism=4), threads=4)
    assert len(parsed) == 3


def test_many_files_are_opened_once_in_all(tmp_path, opens, monkeypatch):
    monkeypatch.setattr(pieces, "_MOST_OPEN", 5)
    opened = made_table(tmp_path)
    read(opened, plan_here([scan_of(opened)], parallelism=2), threads=2)
    assert opens.total() == 3


def test_columns_of_wide_tables_are_read_in_groups(tmp_path, opens):
    opened = made_table(tmp_path, columns=200, files=1)
    batches = plan_here([scan_of(opened)], parallelism=2)
    done: list[tuple[int, int]] = []
    Readers(batches, opened, put_aside(1), lambda *each: done.append(each), 2).read(at_once=True)
    assert done[-1] == (len(done), len(done))
    assert 200 / 7 <= len(done) < 200 / 3


def test_broken_file_ends_the_reading(tmp_path):
    opened = made_table(tmp_path)
    path = Path(next(iter(opened.tasks)).data_file.file_path.removeprefix("file://"))
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(200) + content[300:])
    with pytest.raises(CorruptDataFileError, match=path.name):
        analyze(str(tmp_path / "table"))
