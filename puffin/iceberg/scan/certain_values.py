"""
Finds values that rows of a snapshot certainly have, from its manifest list and two of its manifests alone.

They check a sketch of unknown origin, so a wrong value does harm and a missing one does none. All rows of a file have
the values of its identity partitions. A bound is a value only if no row was deleted and the writer did not change it,
as some do:

- strings and bytes are cut short, and a cut upper bound may have lost any number of characters;
- zero has one sign, and NaN has no bound;
- ORC and bounds converted from Delta's statistics keep only milliseconds of timestamps; files not written for Iceberg
  may have milliseconds in place of microseconds. A name mapping indicates such files.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from puffin.errors import CorruptMetadataError
from puffin.iceberg.scan.manifest_lists import manifests_of
from puffin.iceberg.scan.manifests import ColumnMetrics, LiveFile, live_files_of
from puffin.tables.base import Column, Snapshot
from puffin.tables.document import NAME_MAPPING
from puffin.tables.scan_task import PARQUET
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState
from puffin.values.json_values import arrow_type, to_json, to_scalar
from puffin.values.manifest_bounds import manifest_bound
from puffin.values.truncation import KEPT
from puffin.values.value_type import ValueType, is_hashable

_FILES = 64  # of each of the two manifests
_METRICS_MODES = "write.metadata.metrics.default", "write.metadata.metrics.column."
_UNCUT = re.compile(r"none|counts|full")
_CUT = re.compile(r"truncate\(([0-9]{1,9})\)")
_FROM_DELTA = "delta-version"


def certain_values(opened: TableSnapshot, snapshot: Snapshot, columns: Sequence[Column]) -> dict[int, pa.Array]:
    """
    Some distinct values of each column by field id, without columns that have none.

    With delete files the result is empty, since a manifest's values may be of deleted rows.
    """
    columns = [column for column in columns if is_hashable(column.type)]
    live = [manifest for manifest in manifests_of(opened, snapshot) if manifest.live_files != 0]
    if not columns or any(manifest.of_deletes for manifest in live):
        return {}
    witness = _Witness.of(opened.state)
    found: dict[int, dict[Any, pa.Scalar]] = {column.field_id: {} for column in columns}
    for manifest in live if len(live) < 2 else (live[0], live[-1]):  # the newest and the oldest, as engines list them
        for file in islice(live_files_of(manifest, opened.store_for, [column.field_id for column in columns]), _FILES):
            for column in columns:
                for physical in witness.values(file, column):
                    with contextlib.suppress(CorruptMetadataError):
                        json_form = to_json(column.type, physical)
                        found[column.field_id][json_form] = to_scalar(column.type, json_form)
    return {
        column.field_id: pa.array(list(scalars.values()), arrow_type(column.type))
        for column in columns
        if (scalars := found[column.field_id])
    }


@dataclass(frozen=True, slots=True)
class _Witness:
    """
    Which values of a table's files are certain.

    Attributes:
        identities: Identity partition fields by spec id and the field id of their column.
        short_are_whole: Whether strings and bytes of fewer than `KEPT` bytes are uncut.
        times_are_whole: Whether timestamps are exact, as far as their file's format allows.
    """

    identities: Mapping[int, Mapping[int, int]]
    short_are_whole: bool
    times_are_whole: bool

    @classmethod
    def of(cls, state: TableState) -> _Witness:
        identities = {
            spec_id: {field["source-id"]: field["field-id"] for field in fields if field["transform"] == "identity"}
            for spec_id, fields in state.partition_specs.items()
        }
        modes = [mode for name, mode in state.properties.items() if name.startswith(_METRICS_MODES)]
        return cls(
            identities,
            short_are_whole=all(map(_keeps_short_values, modes)),
            times_are_whole=NAME_MAPPING not in state.properties and _FROM_DELTA not in state.properties,
        )

    def values(self, file: LiveFile, column: Column) -> Iterator[Any]:
        """Values of a column in a file, in the form of manifests' partitions; some may not be of its type."""
        if file.record_count <= 0:
            return
        field_id = self.identities.get(file.spec_id, {}).get(column.field_id)
        stored = [] if field_id is None else [file.partition.get(field_id)]
        metrics = file.metrics.get(column.field_id)
        if metrics is not None and _has_values(metrics):
            stored += self._bounds(file.file_format, ValueType.parse(column.type), metrics)
        for value in stored:
            if value is not None and not (isinstance(value, float) and _is_normalised(value)):
                yield value

    def _bounds(self, file_format: str, column: ValueType, metrics: ColumnMetrics) -> list[Any]:
        given = metrics.lower_bound, metrics.upper_bound
        lower, upper = (bound if isinstance(bound, bytes) else None for bound in given)
        if column.name in ("string", "binary"):
            is_whole = lower is not None and (lower == upper or (self.short_are_whole and len(lower) < KEPT))
            return [manifest_bound(column.type_string, lower)] if is_whole else []
        if column.name.startswith("timestamp") and not (self.times_are_whole and file_format == PARQUET):
            return []
        if column.name in ("decimal", "uuid", "fixed"):  # a truncated bound is too short for the type
            return [bound for bound in (lower, upper) if bound]
        return [manifest_bound(column.type_string, bound) for bound in (lower, upper)]


def _keeps_short_values(mode: str) -> bool:
    cut = _CUT.fullmatch(mode.strip().lower())
    return int(cut[1]) >= KEPT if cut else _UNCUT.fullmatch(mode.strip().lower()) is not None


def _has_values(metrics: ColumnMetrics) -> bool:
    nulls, values = metrics.null_value_count, metrics.value_count
    return isinstance(nulls, int) and isinstance(values, int) and nulls < values


def _is_normalised(value: float) -> bool:
    return value == 0 or not math.isfinite(value)
