"""
Reject Julian dates, which Spark wrote to Parquet in its legacy mode, or before version 3.

Spark marks such files in the footer, and its own Parquet source converts the dates; for times it needs the writer's
time zone. Spark reads Delta tables that way. Iceberg's reader takes the days as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

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


Switches: TypeAlias = Mapping[int, int]
"""When the certain values of a column start, in days or microseconds since the epoch, by field id."""


def switches_of(metadata: pq.FileMetaData, columns: Iterable[FileColumn]) -> Switches:
    """The columns of a file with this footer that may have Julian dates."""
    keys: Mapping[bytes, bytes] = metadata.metadata or {}
    version = keys.get(_VERSION)
    if version is None:
        return {}
    is_legacy = version < _FIRST_CORRECTED or _LEGACY in keys
    is_legacy_int96 = version < _FIRST_CORRECTED_INT96 or _LEGACY_INT96 in keys
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)] if is_legacy or is_legacy_int96 else []
    of_int96 = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    first_time = _GREGORIAN_DAY * _DAY if keys.get(_TIME_ZONE) == b"UTC" else _ALL_ZONES
    found = {}
    for column, names in ((each.column, each.names) for each in columns if each.names):
        if column.type == "date" and is_legacy:
            found[column.field_id] = _GREGORIAN_DAY
        elif column.type == "timestamptz" and (is_legacy_int96 if ".".join(names) in of_int96 else is_legacy):
            found[column.field_id] = first_time
    return found


def refuse_julian(rows: Iterable[Rows], switches: Switches, names: Mapping[int, str], where: str) -> Iterator[Rows]:
    """Pass on the rows of a file; UnsupportedTableError if a value may be a Julian date. ``names`` are by field id."""
    for found in rows:
        for field_id in switches.keys() & found.columns.keys():
            oldest, switch = _oldest(found.columns[field_id].array), switches[field_id]
            if oldest is not None and oldest < switch:
                raise UnsupportedTableError(
                    f"{where}: column {names[field_id]}: values before {_day(switch)} are Julian dates in a file of "
                    "Spark's legacy mode, which this version does not read: leave the column out, or rewrite the file"
                )
        yield found


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
