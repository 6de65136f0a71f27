"""
Values that rows of a snapshot certainly have, from its manifest list and two of its manifests: nothing else is opened.

They are what a sketch of unknown origin is checked against, so one that is not there does harm, and one that is left
out does none. Values of identity partitions are those of every row. A bound is a value if the file's rows are as they
were written and its writer took no liberty with it, which some do:

- strings and bytes are cut short, and an upper bound that was cut may have lost any number of characters;
- zero has one sign, and NaN no place;
- of timestamps, ORC keeps milliseconds, and so do the bounds that Delta's statistics are converted to; of files that
  were not written for Iceberg, milliseconds may stand where microseconds should. Of these a name mapping is the sign.
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
from puffin.tables.base import Column, Snapshot, TableState
from puffin.tables.document import NAME_MAPPING, partition_specs
from puffin.tables.scan_task import PARQUET
from puffin.tables.snapshot import TableSnapshot
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
    Some values of each column by field id, each once; a column of which none is known is left out.

    Returns:
        None of any column if the snapshot has delete files: what a manifest tells may be of a row that is gone.
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
    What can be believed of the files of a table.

    Attributes:
        identities: By spec id, the partition fields that hold a column as it is, by the column's field id.
        short_are_whole: Whether strings and bytes of fewer than `KEPT` bytes were not cut.
        times_are_whole: Whether timestamps were not rounded, but for their file's format.
    """

    identities: Mapping[int, Mapping[int, int]]
    short_are_whole: bool
    times_are_whole: bool

    @classmethod
    def of(cls, state: TableState) -> _Witness:
        identities = {
            spec_id: {field["source-id"]: field["field-id"] for field in fields if field["transform"] == "identity"}
            for spec_id, fields in partition_specs(state.document).items()
        }
        modes = [mode for name, mode in state.properties.items() if name.startswith(_METRICS_MODES)]
        return cls(
            identities,
            short_are_whole=all(map(_keeps_short_values, modes)),
            times_are_whole=NAME_MAPPING not in state.properties and _FROM_DELTA not in state.properties,
        )

    def values(self, file: LiveFile, column: Column) -> Iterator[Any]:
        """Values of a column in a file, as manifests hold those of partitions; they may be none of its type."""
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
        if column.name in ("decimal", "uuid", "fixed"):  # of which one that was cut is too short for the type
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
