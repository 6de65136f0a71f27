"""
What a snapshot's manifests tell of columns: row, null and NaN counts and bounds, without opening a data file.

Manifests count the rows that files were written with. A deletion vector says how many of them are gone; position and
equality delete files do not, so that with one of these no count is known. Bounds hold whatever was deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from puffin.iceberg.scan.manifest_lists import manifests_of
from puffin.iceberg.scan.manifests import LiveFile, live_files_of
from puffin.tables.base import Column
from puffin.tables.file_metrics import FileMetrics, summarize
from puffin.tables.scan_task import DATA, PUFFIN
from puffin.tables.snapshot import TableSnapshot
from puffin.values.bound_values import bound_value
from puffin.values.column_summary import ColumnSummary


def column_summaries(opened: TableSnapshot, columns: Sequence[Column]) -> dict[int, ColumnSummary]:
    """The summary of each column by field id; sizes are not known."""
    field_ids = [column.field_id for column in columns]
    data: list[LiveFile] = []
    deletes: list[LiveFile] = []
    for manifest in manifests_of(opened, opened.snapshot):
        for file in live_files_of(manifest, opened.store_for, field_ids, nan_counts=True):
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
        lower=None if metrics is None else bound_value(column.type, metrics.lower_bound),
        upper=None if metrics is None else bound_value(column.type, metrics.upper_bound),
    )
