"""
Summarizes columns from a snapshot's manifests: row, null and NaN counts and bounds, without opening data files.

Manifests count the rows that were written to files. A deletion vector says how many of them are gone; position and
equality delete files do not, so with one of these no count is known. Bounds hold despite deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from puffin.iceberg.scan.manifest_lists import manifests_of
from puffin.iceberg.scan.manifests import ColumnMetrics, LiveFile, live_files_of
from puffin.iceberg.scan.plan import KERNELS_PAY
from puffin.kernels import load_kernels
from puffin.tables.base import Column
from puffin.tables.closer_bounds import BoundsSearch, CloserBounds
from puffin.tables.file_metrics import FileMetrics
from puffin.tables.scan_task import PUFFIN
from puffin.tables.snapshot import TableSnapshot
from puffin.values.column_bounds import NO_VALUES, Bounds, Comparable
from puffin.values.column_summary import ColumnSummary
from puffin.values.manifest_bounds import manifest_bound
from puffin.values.row_summary import RowSummary, has_nan
from puffin.values.value_type import ValueType

_UUID_BYTES = 16
_NO_METRICS = ColumnMetrics(None, None, None, None)


def column_summaries(opened: TableSnapshot, columns: Sequence[Column]) -> dict[int, ColumnSummary]:
    """The summary of each column by field id, without sizes."""
    field_ids = [column.field_id for column in columns]
    manifests = manifests_of(opened, opened.snapshot)
    deletes = [file for m in manifests if m.of_deletes for file in live_files_of(m, opened.store_for)]
    vectors = {file.referenced_data_file: file.record_count for file in deletes if file.file_format == PUFFIN}
    is_counted = len(vectors) == len(deletes)
    totals = {field_id: RowSummary(total_bytes=None) for field_id in field_ids}
    for manifest in manifests:
        if not manifest.of_deletes:
            for file in live_files_of(manifest, opened.store_for, field_ids, nan_counts=True):
                for column in columns:
                    of_file = _rows_of(file, column, vectors, is_counted)
                    totals[column.field_id] = totals[column.field_id].plus(of_file)
    return {column.field_id: totals[column.field_id].to_column(column.type) for column in columns}


def closer_bounds(opened: TableSnapshot, known: Mapping[Column, Bounds]) -> dict[int, CloserBounds]:
    """Implements `puffin.tables.snapshot.TableSnapshot.closer_bounds`."""
    types = {column.field_id: column.type for column in known}
    found = BoundsSearch({column.field_id: bounds for column, bounds in known.items()})
    manifests = manifests_of(opened, opened.snapshot)
    deletes = [file for m in manifests if m.of_deletes for file in live_files_of(m, opened.store_for)]
    vectors = {file.referenced_data_file for file in deletes if file.file_format == PUFFIN}
    may_be_whole = len(vectors) == len(deletes)
    if sum(manifest.live_files or 0 for manifest in manifests) >= KERNELS_PAY:
        load_kernels()
    for manifest in manifests:
        if not manifest.of_deletes and found.open:
            for file in live_files_of(manifest, opened.store_for, tuple(found.open)):
                is_whole = may_be_whole and file.file_path not in vectors
                for field_id in tuple(found.open):
                    bounds = _bounds_in(file, file.metrics.get(field_id, _NO_METRICS), types[field_id])
                    found.look(field_id, bounds, is_whole=is_whole)
    # Only a plan tells whether they apply to a data file.
    return found.found(lambda: bool(deletes) and any(task.delete_files for task in opened.tasks))


def _bounds_in(file: LiveFile, metrics: ColumnMetrics, type_: str) -> Bounds:
    if metrics.null_value_count == file.record_count:
        return NO_VALUES
    return Bounds.from_manifest(type_, metrics.lower_bound, metrics.upper_bound)


def file_metrics(opened: TableSnapshot, columns: Sequence[Column]) -> dict[int, list[FileMetrics]]:
    """Implements `puffin.tables.snapshot.TableSnapshot.file_metrics`."""
    types = {column.field_id: column.type for column in columns}
    found: dict[int, list[FileMetrics]] = {field_id: [] for field_id in types}
    for manifest in manifests_of(opened, opened.snapshot):
        if not manifest.of_deletes:
            for file in live_files_of(manifest, opened.store_for, list(types), nan_counts=True):
                for field_id, type_ in types.items():
                    found[field_id].append(_metrics_of(file, field_id, type_))
    return found


def stored_metrics(opened: TableSnapshot, field_ids: Sequence[int]) -> list[Mapping[int, ColumnMetrics]]:
    """What manifests hold of these columns, for each data file in manifest order."""
    return [
        file.metrics
        for manifest in manifests_of(opened, opened.snapshot)
        if not manifest.of_deletes
        for file in live_files_of(manifest, opened.store_for, field_ids, nan_counts=True)
    ]


def _metrics_of(file: LiveFile, field_id: int, type_: str) -> FileMetrics:
    known = file.metrics[field_id]
    lower, upper = (_bound_of(type_, bound) for bound in (known.lower_bound, known.upper_bound))
    return FileMetrics(known.value_count, known.null_value_count, known.nan_value_count, lower, upper)


def _bound_of(type_: str, stored: Any) -> Comparable | None:
    if type_ == "uuid":  # planners compare in the order of every writer
        return stored if isinstance(stored, bytes) and len(stored) == _UUID_BYTES else None
    bound: Comparable | None = manifest_bound(type_, stored)
    return bound


def _rows_of(file: LiveFile, column: Column, vectors: Mapping[str | None, int], is_counted: bool) -> RowSummary:
    metrics = file.metrics.get(column.field_id, _NO_METRICS)
    rows = file.record_count - vectors.get(file.file_path, 0) if is_counted else None
    bounds = _bounds_in(file, metrics, column.type)
    if metrics.null_value_count == file.record_count:
        return RowSummary(rows=rows, nulls=rows, total_bytes=None, bounds=bounds)
    is_known = is_counted and file.file_path not in vectors
    nans = metrics.nan_value_count if is_known else None
    return RowSummary(
        rows=rows,
        nulls=metrics.null_value_count if is_known else None,
        nans=nans if has_nan(ValueType.parse(column.type)) else 0,
        total_bytes=None,
        bounds=bounds,
    )
