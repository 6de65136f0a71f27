"""Data files as scans name them, with what a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from puffin.tables.scan_task import DATA, PARQUET, ContentFile, FileScanTask


def data_file(path: str | Path, size: int | None = None, **fields: Any) -> ContentFile:
    """A Parquet file of one row, of this many bytes or as many as it has."""
    others = {"content": DATA, "file_format": PARQUET, "spec_id": 0, "partition": {}, "record_count": 1} | fields
    size = Path(path).stat().st_size if size is None else size
    return ContentFile(file_path=str(path), file_size_in_bytes=size, **others)


def whole(file: ContentFile, deletes: Iterable[ContentFile] = ()) -> FileScanTask:
    """The task that reads all of a file, except what these delete."""
    return FileScanTask(file, tuple(deletes), 0, file.file_size_in_bytes)
