"""
What a snapshot's manifests tell of columns: row, null and NaN counts and bounds, without opening a data file.

Manifests count the rows that files were written with. A deletion vector says how many of them are gone; position and
equality delete files do not, so that with one of these no count is known. Bounds hold whatever was deleted.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from puffin.storage import Store
from puffin.tables.base import Column, Snapshot, TableState
from puffin.tables.column_summary import ColumnSummary
from puffin.tables.file_metrics import FileMetrics, summarize
from puffin.tables.iceberg.manifest_lists import manifests_of
from puffin.tables.iceberg.manifests import ColumnMetrics, LiveFile, live_files_of
from puffin.tables.scan_task import DATA, PUFFIN

_INTEGERS = {
    "int": (4,),
    "long": (4, 8),  # four bytes are from before a promotion, likewise below
    "date": (4,),
    **dict.fromkeys(("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), (8,)),
}
_FLOATS = {"float": (4,), "double": (4, 8)}


def column_summaries(
    state: TableState, snapshot: Snapshot, columns: Sequence[Column], store_for: Callable[[str], Store]
) -> dict[int, ColumnSummary]:
    """
    The summary of each column by field id; sizes are not known.

    Raises:
        CorruptMetadataError: The manifest list or a manifest cannot be understood.
        UnsupportedTableError: One of them is encrypted, or compressed in a way that this version does not know.
        FileNotFound, StorageError: One of them is not there, or the storage failed.
    """
    field_ids = [column.field_id for column in columns]
    data: list[LiveFile] = []
    deletes: list[LiveFile] = []
    for manifest in manifests_of(state, snapshot, store_for):
        for file in live_files_of(manifest, store_for, field_ids, nan_counts=True):
            (data if file.content == DATA else deletes).append(file)
    vectors = {file.referenced_data_file: file.record_count for file in deletes if file.file_format == PUFFIN}
    is_counted = len(vectors) == len(deletes)
    return {
        column.field_id: summarize(column.type, [_metrics(file, column, vectors, is_counted) for file in data])
        for column in columns
    }


def _metrics(file: LiveFile, column: Column, vectors: Mapping[str | None, int], is_counted: bool) -> FileMetrics:
    metrics = file.metrics.get(column.field_id)
    nulls = None if metrics is None else metrics.null_value_count
    rows = file.record_count - vectors.get(file.file_path, 0) if is_counted else None
    if nulls == file.record_count:
        return FileMetrics(rows, null_count=rows, nan_count=0, is_empty=True)
    has_deletes = not is_counted or file.file_path in vectors
    return FileMetrics(
        record_count=rows,
        null_count=None if has_deletes else nulls,
        nan_count=None if has_deletes or metrics is None else metrics.nan_value_count,
        lower=_bound(column.type, metrics, "lower_bound"),
        upper=_bound(column.type, metrics, "upper_bound"),
    )


def _bound(type_: str, metrics: ColumnMetrics | None, which: str) -> Any:
    """A bound in the binary form of appendix D, as `stored_value` has it; None if it is not clear what it means."""
    stored = None if metrics is None else getattr(metrics, which)
    if not isinstance(stored, bytes):
        return None
    if len(stored) in _INTEGERS.get(type_, ()):
        return int.from_bytes(stored, "little", signed=True)
    if len(stored) in _FLOATS.get(type_, ()):
        (value,) = struct.unpack("<f" if len(stored) == 4 else "<d", stored)
        return None if math.isnan(value) else value
    if type_ == "boolean" and len(stored) == 1:
        return stored != b"\0"
    if type_ == "string":
        try:
            return stored.decode()
        except UnicodeDecodeError:
            return None
    if type_.startswith("decimal") and stored:
        return int.from_bytes(stored, "big", signed=True)
    # Writers disagree on the order of uuids.
    return stored if type_ == "binary" or type_.startswith("fixed") else None
