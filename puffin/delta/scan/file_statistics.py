"""
Summarizes columns from the statistics of a Delta table's live files (protocol, "Per-file Statistics").

These statistics are optional JSON; missing or invalid parts are unknown. Values of partition columns come from the log.
Writers cut strings short and times to milliseconds, so an upper bound in whole milliseconds may be up to one
millisecond too low, and is raised.
"""

from __future__ import annotations

import decimal
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from puffin.delta.log.actions import AddFile, FileWithStatistics
from puffin.delta.scan.partition_values import partition_json
from puffin.delta.schema import FieldPath
from puffin.delta.state import DeltaState
from puffin.tables.base import Column
from puffin.tables.closer_bounds import BoundsSearch, CloserBounds
from puffin.tables.file_metrics import FileMetrics
from puffin.values.column_bounds import NO_VALUES, Bounds, Comparable, comparable
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary, has_nan
from puffin.values.value_type import ValueType

_MICROS_OF_A_MILLISECOND = 1000
_TIE_BREAKER = "\ufffd"  # Spark put it behind an upper bound that it cut, as if no character were larger
_TIMESTAMPS = ("timestamp", "timestamptz")
_AS_TEXT = ("string", "date", *_TIMESTAMPS)

_decode = json.JSONDecoder(parse_float=decimal.Decimal).decode


def column_summaries(state: DeltaState, columns: Sequence[Column]) -> dict[int, ColumnSummary]:
    """The summary of each column by field id, without sizes."""
    paths, partitioned = state.delta_schema.paths, _partitioned(state)

    def total(files: Iterator[FileWithStatistics]) -> dict[int, RowSummary]:
        totals = {column.field_id: RowSummary(total_bytes=None) for column in columns}
        for file, text in files:
            stats = _parsed(text)
            for column in columns:
                path = paths[column.field_id]
                totals[column.field_id] = totals[column.field_id].plus(
                    _of_partition(file, column, path)
                    if column.field_id in partitioned
                    else _of_statistics(file, stats, column, path)
                )
        return totals

    found = state.segment.fold_files(total, with_statistics=True)
    return {column.field_id: found[column.field_id].to_column(column.type) for column in columns}


def closer_bounds(state: DeltaState, known: Mapping[Column, Bounds]) -> dict[int, CloserBounds]:
    """Implements `puffin.tables.snapshot.TableSnapshot.closer_bounds`."""
    paths, partitioned = state.delta_schema.paths, _partitioned(state)
    columns = {column.field_id: column for column in known}

    def search(files: Iterator[FileWithStatistics]) -> dict[int, CloserBounds]:
        found = BoundsSearch({column.field_id: bounds for column, bounds in known.items()})
        has_vectors = False
        for file, text in files:
            if not found.open:
                break
            has_vectors |= file.deletion_vector is not None
            stats = _parsed(text)
            for field_id in tuple(found.open):
                column, path = columns[field_id], paths[field_id]
                of_file = (
                    _of_partition(file, column, path)
                    if field_id in partitioned
                    else _of_statistics(file, stats, column, path)
                )
                found.look(field_id, of_file.bounds, is_whole=file.deletion_vector is None)
        return found.found(lambda: has_vectors)

    return state.segment.fold_files(search, with_statistics=True)


def _of_partition(file: AddFile, column: Column, path: FieldPath) -> RowSummary:
    rows = file.live_records
    value = partition_json(column.type, file.partition_values.get(path[0]), file.path)
    if value is None:
        return _row_summary(column, rows, rows, NO_VALUES)
    return _row_summary(column, rows, 0, Bounds.from_json(column.type, value, value))


def _of_statistics(file: AddFile, stats: Mapping[str, Any], column: Column, path: FieldPath) -> RowSummary:
    rows = file.live_records
    nulls = _at(stats.get("nullCount"), path)
    if type(nulls) is not int or nulls < 0:
        nulls = None
    if nulls is not None and nulls == file.num_records:
        return _row_summary(column, rows, rows, NO_VALUES)
    bounds = Bounds.of(*_bounds_of(stats, column, path))
    return _row_summary(column, rows, nulls if file.deletion_vector is None else None, bounds)


def file_metrics(state: DeltaState, columns: Sequence[Column]) -> dict[int, list[FileMetrics]]:
    """Implements `puffin.tables.snapshot.TableSnapshot.file_metrics`."""
    paths, partitioned = state.delta_schema.paths, _partitioned(state)

    def metrics(files: Iterator[FileWithStatistics]) -> dict[int, list[FileMetrics]]:
        found: dict[int, list[FileMetrics]] = {column.field_id: [] for column in columns}
        for file, text in files:
            stats = _parsed(text)
            for column in columns:
                path = paths[column.field_id]
                found[column.field_id].append(
                    _metrics_of_partition(file, column, path)
                    if column.field_id in partitioned
                    else _metrics_of_statistics(file, stats, column, path)
                )
        return found

    return state.segment.fold_files(metrics, with_statistics=True)


def _metrics_of_partition(file: AddFile, column: Column, path: FieldPath) -> FileMetrics:
    value = comparable(column.type, partition_json(column.type, file.partition_values.get(path[0]), file.path))
    nulls = file.num_records if file.partition_values.get(path[0]) is None else 0
    return FileMetrics(file.num_records, nulls, None, value, value)


def _metrics_of_statistics(file: AddFile, stats: Mapping[str, Any], column: Column, path: FieldPath) -> FileMetrics:
    nulls = _at(stats.get("nullCount"), path)
    lower, upper = _bounds_of(stats, column, path)
    return FileMetrics(file.num_records, nulls if type(nulls) is int and nulls >= 0 else None, None, lower, upper)


def _bounds_of(stats: Mapping[str, Any], column: Column, path: FieldPath) -> tuple[Comparable | None, ...]:
    given = (_single_value(column.type, _at(stats.get(name), path)) for name in ("minValues", "maxValues"))
    lower, upper = (comparable(column.type, value) for value in given)
    if column.type in _TIMESTAMPS and isinstance(upper, int) and upper % _MICROS_OF_A_MILLISECOND == 0:
        upper += _MICROS_OF_A_MILLISECOND - 1
    if column.type == "string" and isinstance(upper, str) and upper.endswith(_TIE_BREAKER):
        upper = upper[: -len(_TIE_BREAKER)] + chr(sys.maxunicode)
    return lower, upper


def _partitioned(state: DeltaState) -> set[int]:
    """The field ids of partition columns, whose values are in the log."""
    names = set(state.metadata.partition_columns)
    return {field["id"] for field in state.delta_schema.schema["fields"] if field["name"] in names}


def _row_summary(column: Column, rows: int | None, nulls: int | None, bounds: Bounds) -> RowSummary:
    nans = None if has_nan(ValueType.parse(column.type)) else 0  # the log does not count NaN values
    return RowSummary(rows=rows, nulls=nulls, nans=nans, total_bytes=None, bounds=bounds)


def _single_value(type_: str, value: Any) -> Any:
    if value is None or isinstance(value, str) is not (type_ in _AS_TEXT):
        return None
    if type_.startswith("decimal"):
        return str(value)  # parsed without loss of digits
    return float(value) if isinstance(value, decimal.Decimal) else value


def _parsed(text: str | None) -> Mapping[str, Any]:
    try:
        stats = _decode(text or "{}")
    except (ValueError, ArithmeticError, RecursionError):
        return {}
    return stats if isinstance(stats, dict) else {}


def _at(values: Any, path: FieldPath) -> Any:
    for name in path:
        if not isinstance(values, dict):
            return None
        values = values.get(name)
    return values
