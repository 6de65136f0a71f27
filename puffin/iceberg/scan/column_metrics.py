"""
Summarizes columns from a snapshot's manifests: row, null and NaN counts and bounds, without opening data files.

Manifests count the rows that were written to files. A deletion vector says how many of them are gone; position and
equality delete files do not, so with one of these no count is known. Bounds hold despite deletes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from puffin.iceberg.scan.manifest_lists import ManifestFile, manifests_of
from puffin.iceberg.scan.manifests import ColumnMetrics, LiveFile, live_files_of
from puffin.iceberg.scan.plan import load_kernels_for
from puffin.storage import Store
from puffin.tables.base import Column
from puffin.tables.closer_bounds import BoundsSearch, CloserBounds
from puffin.tables.file_metrics import FileMetrics
from puffin.tables.scan_task import PUFFIN
from puffin.tables.snapshot import TableSnapshot
from puffin.values.column_bounds import NO_VALUES, UNKNOWN, Bounds, Comparable
from puffin.values.column_summary import ColumnSummary
from puffin.values.manifest_bounds import manifest_bound
from puffin.values.row_summary import RowSummary, has_nan
from puffin.values.value_type import ValueType

_UUID_BYTES = 16
_NO_METRICS = ColumnMetrics(None, None, None, None)


def column_summaries(opened: TableSnapshot, columns: Sequence[Column]) -> dict[int, ColumnSummary]:
    """The summary of each column by field id, without sizes."""
    totals = {column.field_id: RowSummary(total_bytes=None) for column in columns}
    manifests = manifests_of(opened, opened.snapshot)
    deletes = _Deletes(manifests, opened.store_for)
    for file in _data_files(manifests, opened.store_for, totals):
        deleted = deletes.rows_of(file)
        for column in columns:
            totals[column.field_id] = totals[column.field_id].plus(_rows_of(file, column, deleted))
    for field_id in opened.state.retyped_at(opened.snapshot) & totals.keys():
        totals[field_id] = dataclasses.replace(totals[field_id], bounds=UNKNOWN)
    return {column.field_id: totals[column.field_id].to_column(column.type) for column in columns}


def closer_bounds(opened: TableSnapshot, known: Mapping[Column, Bounds]) -> dict[int, CloserBounds]:
    """Implements `puffin.tables.snapshot.TableSnapshot.closer_bounds`."""
    types = {column.field_id: column.type for column in known}
    found = BoundsSearch({column.field_id: bounds for column, bounds in known.items()})
    manifests = manifests_of(opened, opened.snapshot)
    deletes = _Deletes(manifests, opened.store_for)
    for file in _data_files(manifests, opened.store_for, found.open, nan_counts=False):
        is_whole = deletes.rows_of(file) == 0
        for field_id in tuple(found.open):
            bounds = _bounds_in(file, file.metrics.get(field_id, _NO_METRICS), types[field_id])
            found.look(field_id, bounds, is_whole=is_whole)
        if not found.open:
            break
    # Only a plan tells whether they apply to a data file.
    return found.found(lambda: deletes.are_any and any(task.delete_files for task in opened.tasks))


def file_metrics(opened: TableSnapshot, columns: Sequence[Column]) -> dict[int, list[FileMetrics]]:
    """Implements `puffin.tables.snapshot.TableSnapshot.file_metrics`."""
    types = {column.field_id: column.type for column in columns}
    found: dict[int, list[FileMetrics]] = {field_id: [] for field_id in types}
    for file in _data_files(manifests_of(opened, opened.snapshot), opened.store_for, types):
        for field_id, type_ in types.items():
            found[field_id].append(_metrics_of(file, field_id, type_))
    return found


def stored_metrics(opened: TableSnapshot, field_ids: Collection[int]) -> list[Mapping[int, ColumnMetrics]]:
    """What manifests hold of these columns, for each data file in manifest order."""
    files = _data_files(manifests_of(opened, opened.snapshot), opened.store_for, field_ids)
    return [file.metrics for file in files]


class _Deletes:
    """The delete files of a snapshot, and how many rows they delete if all are deletion vectors."""

    def __init__(self, manifests: Sequence[ManifestFile], store_for: Callable[[str], Store]) -> None:
        files = [file for m in manifests if m.of_deletes for file in live_files_of(m, store_for)]
        self._vectors = {file.referenced_data_file: file.record_count for file in files if file.file_format == PUFFIN}
        self._are_counted = len(self._vectors) == len(files)
        self.are_any = bool(files)

    def rows_of(self, file: LiveFile) -> int | None:
        """How many rows of a data file are deleted; None if unknown."""
        return self._vectors.get(file.file_path, 0) if self._are_counted else None


def _data_files(
    manifests: Sequence[ManifestFile],
    store_for: Callable[[str], Store],
    field_ids: Collection[int],
    *,
    nan_counts: bool = True,
) -> Iterator[LiveFile]:
    """The data files with metrics of these columns, of which some may be taken out on the way."""
    load_kernels_for(manifests)
    for manifest in manifests:
        if not manifest.of_deletes:
            yield from live_files_of(manifest, store_for, tuple(field_ids), nan_counts=nan_counts)


def _bounds_in(file: LiveFile, metrics: ColumnMetrics, type_: str) -> Bounds:
    if metrics.null_value_count == file.record_count:
        return NO_VALUES
    return Bounds.from_manifest(type_, metrics.lower_bound, metrics.upper_bound)


def _metrics_of(file: LiveFile, field_id: int, type_: str) -> FileMetrics:
    known = file.metrics[field_id]
    lower, upper = (_bound_of(type_, bound) for bound in (known.lower_bound, known.upper_bound))
    return FileMetrics(known.value_count, known.null_value_count, known.nan_value_count, lower, upper)


def _bound_of(type_: str, stored: Any) -> Comparable | None:
    if type_ == "uuid":  # planners compare in the order of every writer
        return stored if isinstance(stored, bytes) and len(stored) == _UUID_BYTES else None
    bound: Comparable | None = manifest_bound(type_, stored)
    return bound


def _rows_of(file: LiveFile, column: Column, deleted: int | None) -> RowSummary:
    metrics = file.metrics.get(column.field_id, _NO_METRICS)
    rows = None if deleted is None else file.record_count - deleted
    bounds = _bounds_in(file, metrics, column.type)
    if metrics.null_value_count == file.record_count:
        return RowSummary(rows=rows, nulls=rows, total_bytes=None, bounds=bounds)
    nans = metrics.nan_value_count if deleted == 0 else None
    return RowSummary(
        rows=rows,
        nulls=metrics.null_value_count if deleted == 0 else None,
        nans=nans if has_nan(ValueType.parse(column.type)) else 0,
        total_bytes=None,
        bounds=bounds,
    )
