"""Data files of a Delta table, read the way that its tasks have them read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from puffin import kernels
from puffin.storage import store_for
from puffin.tables.delta.schema import TableSchema
from puffin.tables.files.task_reader import TaskReader
from puffin.tables.scan_task import (
    DATA,
    ContentFile,
    FileScanTask,
    ScanBatch,
    ScanContext,
    decode_batch,
    encode_batch,
)
from puffin.tables.schema import primitive_columns
from puffin.theta import DEFAULT_LG_K, RowCountsBuilder, ThetaSketch, ThetaSketchBuilder, row_counts_limit


@dataclasses.dataclass(frozen=True)
class FilesRead:
    """What reading files gave: sketches by column name, rows, and the bytes read for the sketches alone."""

    sketches: Mapping[str, ThetaSketch]
    rows: int
    bytes_read: int


@pytest.fixture
def read_files() -> Callable[..., FilesRead]:
    """Reads whole files of a `TableSchema`: with and without counting rows, which has to come to the same."""

    def read(schema: TableSchema, *paths: Path, vectors: Sequence[ContentFile] = ()) -> FilesRead:
        tasks = [FileScanTask(_data_file(path), tuple(vectors), 0, path.stat().st_size) for path in paths]
        context = ScanContext({}, schema.name_mapping, {}, by_name=schema.by_name)
        columns = primitive_columns(schema.schema)
        batch = decode_batch(encode_batch(ScanBatch(columns, tuple(tasks), context)))
        builders = {column.field_id: ThetaSketchBuilder() for column in columns}
        counts = {column.field_id: RowCountsBuilder(row_counts_limit(DEFAULT_LG_K)) for column in columns}
        types = {column.field_id: column.type for column in columns}
        rows = {False: 0, True: 0}
        bytes_read = 0
        for each_row in (False, True):
            reader = TaskReader(batch, store_for, each_row=each_row)
            for live in (live for task in batch.tasks for live in reader.read(task)):
                rows[each_row] += live.count
                bytes_read += 0 if each_row else live.bytes_read
                for field_id, values in live.columns.items():
                    if not each_row:
                        builders[field_id].update(values.array, types[field_id])
                    elif values.rows is None:
                        counts[field_id].update(values.array, types[field_id])
                    else:
                        counts[field_id].update_counted(values.array, values.rows, types[field_id])
        assert rows[True] == rows[False]
        sketches = {column.name: builders[column.field_id].compact() for column in columns}
        assert {c.name: counts[c.field_id].compact().sketch(DEFAULT_LG_K) for c in columns} == sketches
        return FilesRead(sketches, rows[False], bytes_read)

    return read


@pytest.fixture(params=[False, True], ids=["numpy", "kernels"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test without the compiled kernels, and with them."""
    assert kernels.load_kernels(), "the compiled kernels are tested too: install numba"
    monkeypatch.setattr(kernels, "_is_ready", request.param)


def _data_file(path: Path) -> ContentFile:
    partition: dict[str, Any] = {}
    return ContentFile(
        content=DATA,
        file_path=str(path),
        file_format="PARQUET",
        spec_id=0,
        partition=partition,
        record_count=0,
        file_size_in_bytes=path.stat().st_size,
    )
