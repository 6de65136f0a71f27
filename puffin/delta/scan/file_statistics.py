"""
Summarizes columns from the statistics of a Delta table's live files (protocol, "Per-file Statistics").

These statistics are optional JSON; missing or invalid parts are unknown. Values of partition columns come from the log.
Writers cut strings short and times to milliseconds, so an upper bound in whole milliseconds may be up to one
millisecond too low, and is raised. Spark writes times in the zone of its session. deltalake rounds decimals to doubles,
so bounds with many digits are moved outwards. Bounds stay as they were written when a column of floats becomes one of
doubles.
"""

from __future__ import annotations

import decimal
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from puffin.delta.log.actions import AddFile, FileWithStatistics
from puffin.delta.scan.partition_values import depends_on_zone, partition_json
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
_MICROS_OF_A_SECOND = 1_000_000
_LAST_MICROS = (1 << 63) - 1  # the last moment that a timestamp can be
_FARTHEST_ZONE = 18 * 3600 * _MICROS_OF_A_SECOND  # that Java has
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?$")
_WHOLE_MINUTES_SINCE = 94_694_400 * _MICROS_OF_A_SECOND  # 1973: Monrovia's offset had seconds until 1972-01-07
_MOST_SECONDS_LOST = 59
_TIE_BREAKER = "\ufffd"  # Spark put it behind an upper bound that it cut, as if no character were larger
_EXACT = 10**15  # below it, a double holds every decimal
_MOST_DIGITS = 19  # of a decimal that was rounded to a double, and perhaps cut to a whole number of 64 bits
_CUT = (-(1 << 63), (1 << 63) - 1)  # what deltalake writes for every whole number beyond

_TIMESTAMPS = ("timestamp", "timestamptz")
_AS_TEXT = ("string", "date", *_TIMESTAMPS)

_decode = json.JSONDecoder(parse_float=decimal.Decimal).decode


class _Source(NamedTuple):
    """Where the log says what is known of a column: in the statistics of a file, or in its partition values."""

    column: Column
    path: FieldPath
    is_partitioned: bool
    was_float: bool


def column_summaries(state: DeltaState, columns: Sequence[Column]) -> dict[int, ColumnSummary]:
    """The summary of each column by field id, without sizes."""
    sources = _sources(state, columns)

    def total(files: Iterator[FileWithStatistics]) -> dict[int, RowSummary]:
        totals = dict.fromkeys(sources, RowSummary(total_bytes=None))
        for file, text in files:
            stats = _parsed(text)
            for field_id, source in sources.items():
                totals[field_id] = totals[field_id].plus(_summary_of(file, stats, source))
        return totals

    found = state.segment.fold_files(total, with_statistics=True)
    return {column.field_id: found[column.field_id].to_column(column.type) for column in columns}


def closer_bounds(state: DeltaState, known: Mapping[Column, Bounds]) -> dict[int, CloserBounds]:
    """Implements `puffin.tables.snapshot.TableSnapshot.closer_bounds`."""
    sources = _sources(state, known)

    def search(files: Iterator[FileWithStatistics]) -> dict[int, CloserBounds]:
        found = BoundsSearch({column.field_id: bounds for column, bounds in known.items()})
        has_vectors = False
        for file, text in files:
            if not found.open:
                break
            has_vectors |= file.deletion_vector is not None
            stats = _parsed(text)
            for field_id in tuple(found.open):
                of_file = _summary_of(file, stats, sources[field_id])
                found.look(field_id, of_file.bounds, is_whole=file.deletion_vector is None)
        return found.found(lambda: has_vectors)

    return state.segment.fold_files(search, with_statistics=True)


def file_metrics(state: DeltaState, columns: Sequence[Column]) -> dict[int, list[FileMetrics]]:
    """Implements `puffin.tables.snapshot.TableSnapshot.file_metrics`."""
    sources = _sources(state, columns)

    def metrics(files: Iterator[FileWithStatistics]) -> dict[int, list[FileMetrics]]:
        found: dict[int, list[FileMetrics]] = {field_id: [] for field_id in sources}
        for file, text in files:
            stats = _parsed(text)
            for field_id, source in sources.items():
                found[field_id].append(_metrics_of(file, stats, source))
        return found

    return state.segment.fold_files(metrics, with_statistics=True)


def _summary_of(file: AddFile, stats: Mapping[str, Any], source: _Source) -> RowSummary:
    rows, type_ = file.live_records, source.column.type
    if source.is_partitioned:
        value = partition_json(type_, file.partition_values.get(source.path[0]), file.path)
        if value is None:
            return _row_summary(type_, rows, rows, NO_VALUES)
        return _row_summary(type_, rows, 0, Bounds.from_json(type_, value, value))
    nulls = _nulls_of(stats, source)
    if nulls is not None and nulls == file.num_records:
        return _row_summary(type_, rows, rows, NO_VALUES)
    return _row_summary(
        type_, rows, nulls if file.deletion_vector is None else None, Bounds.of(*_bounds_of(stats, source))
    )


def _metrics_of(file: AddFile, stats: Mapping[str, Any], source: _Source) -> FileMetrics:
    if source.is_partitioned:
        value = partition_json(source.column.type, file.partition_values.get(source.path[0]), file.path)
        bound = comparable(source.column.type, value)
        nulls = file.num_records if value is None else 0
        if isinstance(bound, int) and depends_on_zone(source.column.type, file.partition_values[source.path[0]]):
            earliest, latest = bound - _FARTHEST_ZONE, bound + _FARTHEST_ZONE
            return FileMetrics(file.num_records, nulls, None, max(earliest, -_LAST_MICROS), min(latest, _LAST_MICROS))
        return FileMetrics(file.num_records, nulls, None, bound, bound)
    return FileMetrics(file.num_records, _nulls_of(stats, source), None, *_bounds_of(stats, source))


def _nulls_of(stats: Mapping[str, Any], source: _Source) -> int | None:
    nulls = _at(stats.get("nullCount"), source.path)
    return nulls if type(nulls) is int and nulls >= 0 else None


def _bounds_of(stats: Mapping[str, Any], source: _Source) -> tuple[Comparable | None, Comparable | None]:
    type_ = source.column.type
    smallest, largest = (_at(stats.get(name), source.path) for name in ("minValues", "maxValues"))
    if type_ == "timestamptz":
        lower, upper = _moment(smallest, -1), _moment(largest, 1)
    else:
        lower, upper = (comparable(type_, _single_value(type_, value)) for value in (smallest, largest))
    if source.was_float:
        return _of_doubles(min, lower), _of_doubles(max, upper)
    if type_.startswith("decimal"):
        return _of_rounded(-1, lower), _of_rounded(1, upper)
    if type_ in _TIMESTAMPS and isinstance(upper, int) and upper % _MICROS_OF_A_MILLISECOND == 0:
        upper = min(upper + _MICROS_OF_A_MILLISECOND - 1, _LAST_MICROS)
    if type_ == "string" and isinstance(upper, str) and upper.endswith(_TIE_BREAKER):
        upper = upper[: -len(_TIE_BREAKER)] + chr(sys.maxunicode)
    return lower, upper


def _moment(text: Any, direction: int) -> Comparable | None:
    """A bound in microseconds, whatever its zone; moved outwards by a minute if the offset may lack its seconds."""
    zone = _OFFSET.search(text) if isinstance(text, str) else None
    if zone is None:
        return comparable("timestamptz", _single_value("timestamptz", text))
    sign, hours, minutes, seconds = zone.groups()
    offset = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    local = comparable("timestamptz", zone.string[: zone.start()])
    if not isinstance(local, int):
        return None
    found = local - int(f"{sign}{offset}") * _MICROS_OF_A_SECOND
    if offset and seconds is None and found < _WHOLE_MINUTES_SINCE:
        # Delta for Spark up to 3.3 leaves them out (delta-io/delta issue 5249).
        found += direction * _MOST_SECONDS_LOST * _MICROS_OF_A_SECOND
    return found if abs(found) <= _LAST_MICROS else None


def _of_doubles(outer: Callable[[float, float], float], bound: Comparable | None) -> Comparable | None:
    """A bound for the doubles that it says, and for those that a float becomes for which it is the shortest text."""
    if not isinstance(bound, float):
        return bound
    with np.errstate(over="ignore"):
        rounded = float(np.float32(bound))
    return outer(bound, rounded) if math.isfinite(rounded) else bound  # no float has a text beyond its range


def _of_rounded(direction: int, bound: Comparable | None) -> Comparable | None:
    """An unscaled bound for the decimals that it says, and for those that a writer may have rounded to it."""
    if not isinstance(bound, int) or len(str(abs(bound)).rstrip("0")) > _MOST_DIGITS:
        return bound
    # The writer rounds up to four times: the number, its scale, their quotient, the text.
    return bound if abs(bound) < _EXACT else bound + direction * (abs(bound) // _EXACT + 1)


def _sources(state: DeltaState, columns: Iterable[Column]) -> dict[int, _Source]:
    """By field id; the values of partition columns are in the log."""
    schema = state.delta_schema
    return {
        each.field_id: _Source(
            each,
            schema.paths[each.field_id],
            each.field_id in state.partitioned_ids,
            each.field_id in schema.widened_floats,
        )
        for each in columns
    }


def _row_summary(type_: str, rows: int | None, nulls: int | None, bounds: Bounds) -> RowSummary:
    nans = None if has_nan(ValueType.parse(type_)) else 0  # the log does not count NaN values
    return RowSummary(rows=rows, nulls=nulls, nans=nans, total_bytes=None, bounds=bounds)


def _single_value(type_: str, value: Any) -> Any:
    if value is None or isinstance(value, str) is not (type_ in _AS_TEXT):
        return None
    if type_.startswith("decimal"):
        return None if value in _CUT else str(value)  # parsed without loss of digits
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
