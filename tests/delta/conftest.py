"""Data files of a Delta table, read as its tasks read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from puffin.delta.schema import TableSchema
from puffin.tables.scan_task import (
    ContentFile,
    ScanBatch,
    ScanContext,
)
from puffin.tables.schema import primitive_columns
from tests.hand_made_table import sketches_of
from tests.scan_files import data_file, whole
from tests.sent import sent


@pytest.fixture
def read_files() -> Callable[..., Any]:
    """Reads whole files of a `TableSchema` with and without counting rows, and checks that the sketches are equal."""

    def read(schema: TableSchema, *paths: Path, vectors: Sequence[ContentFile] = ()) -> Any:
        tasks = [whole(data_file(path), vectors) for path in paths]
        context = ScanContext({}, schema.name_mapping, {}, by_name=schema.by_name)
        batch = ScanBatch(primitive_columns(schema.schema), tuple(tasks), context)
        return sketches_of(sent(batch))

    return read
