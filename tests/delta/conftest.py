"""Data files of a Delta table, read as its tasks read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from puffin.delta.schema import TableSchema
from puffin.tables.scan_task import (
    DATA,
    ContentFile,
    FileScanTask,
    ScanBatch,
    ScanContext,
)
from puffin.tables.schema import primitive_columns
from tests.sent import sent


@pytest.fixture
def read_files(read_batch: Callable[[ScanBatch], Any]) -> Callable[..., Any]:
    """Reads whole files of a `TableSchema` with and without counting rows, and checks that the sketches are equal."""

    def read(schema: TableSchema, *paths: Path, vectors: Sequence[ContentFile] = ()) -> Any:
        tasks = [FileScanTask(_data_file(path), tuple(vectors), 0, path.stat().st_size) for path in paths]
        context = ScanContext({}, schema.name_mapping, {}, by_name=schema.by_name)
        batch = ScanBatch(primitive_columns(schema.schema), tuple(tasks), context)
        return read_batch(sent(batch))

    return read


def _data_file(path: Path) -> ContentFile:
    return ContentFile(
        content=DATA,
        file_path=str(path),
        file_format="PARQUET",
        spec_id=0,
        partition={},
        record_count=0,
        file_size_in_bytes=path.stat().st_size,
    )
