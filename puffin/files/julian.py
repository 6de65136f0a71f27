"""
Reject Julian dates, which Spark wrote to Parquet in its legacy mode, or before version 3.

Spark marks such files in the footer, and its own Parquet source converts the dates; for times it needs the writer's
time zone. Spark reads Delta tables that way. Iceberg's reader takes the days as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin.errors import UnsupportedTableError
from puffin.files.file_columns import FileColumn
from puffin.files.rows import Rows

_VERSION = b"org.apache.spark.version"
_LEGACY, _LEGACY_INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_TIME_ZONE = b"org.apache.spark.timeZone"
_FIRST_CORRECTED, _FIRST_CORRECTED_INT96 = b"3.0.0", b"3.1.0"  # compared as text, as Spark does

_GREGORIAN_DAY = -141427  # 1582-10-15, since the epoch
_DAY = 86_400_000_000  # microseconds
_ALL_ZONES = -2_208_988_800_000_000  # 1900-01-01: since then the time zones of both calendars have equal offsets
_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0.001}


def refuse_julian(
    rows: Iterable[Rows], columns: Iterable[FileColumn], metadata: pq.FileMetaData, where: str
) -> Iterator[Rows]:
    """Pass on the rows of a file with this footer; UnsupportedTableError if a value may be a Julian date."""
    columns = [column for column in columns if column.names]
    switches = {column.column.field_id: _switch(metadata, column) for column in columns}
    names = {column.column.field_id: column.column.name for column in columns}
    for found in rows:
        for field_id, values in found.columns.items():
            switch = switches.get(field_id)
            if switch is not None and (oldest := _oldest(values.array)) is not None and oldest < switch:
                raise UnsupportedTableError(
                    f"{where}: column {names[field_id]}: values before {_day(switch)} are Julian dates in a file of "
                    "Spark's legacy mode, which this version does not read: leave the column out, or rewrite the file"
                )
        yield found


def may_be_julian(metadata: pq.FileMetaData, column: FileColumn) -> bool:
    """Whether a column of a file with this footer may have Julian dates."""
    return _switch(metadata, column) is not None


def _switch(metadata: pq.FileMetaData, column: FileColumn) -> int | None:
    """When the column's certain values start, in days or microseconds since the epoch; None if all are certain."""
    keys: Mapping[bytes, bytes] = metadata.metadata or {}
    type_ = column.column.type
    if type_ not in ("date", "timestamptz") or (version := keys.get(_VERSION)) is None:
        return None
    if type_ == "timestamptz" and _is_int96(metadata, column.names):
        is_legacy = version < _FIRST_CORRECTED_INT96 or _LEGACY_INT96 in keys
    else:
        is_legacy = version < _FIRST_CORRECTED or _LEGACY in keys
    if not is_legacy:
        return None
    if type_ == "date":
        return _GREGORIAN_DAY
    return _GREGORIAN_DAY * _DAY if keys.get(_TIME_ZONE) == b"UTC" else _ALL_ZONES


def _is_int96(metadata: pq.FileMetaData, names: tuple[str, ...]) -> bool:
    path = ".".join(names)
    leaves = (metadata.schema.column(i) for i in range(metadata.num_columns))
    return any(leaf.path == path and leaf.physical_type == "INT96" for leaf in leaves)


def _oldest(array: pa.Array) -> float | None:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary
    if not pa.types.is_temporal(array.type):
        return None
    oldest = pc.min(array)
    if not oldest.is_valid:
        return None
    days_or_units: int = oldest.value
    return days_or_units * (_MICROS[array.type.unit] if pa.types.is_timestamp(array.type) else 1)


def _day(switch: int) -> str:
    return "1900-01-01" if switch == _ALL_ZONES else "1582-10-15"
