"""
Computes and writes the partition statistics file of a snapshot (spec, "Partition Statistics File").

A row holds what the manifests say of one partition under one spec, so no data file is opened, and memory grows with the
partitions rather than with the files. ``total_record_count`` stays null in every table, because manifests cannot always
give it: Iceberg 1.12 updates a file by adding changes, and would carry a wrong number of ours forward.

As in Iceberg's own writer, a partition that lost its last file in this very snapshot has a row of zeros.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.errors import CorruptMetadataError, FileNotFound, UnsupportedTableError, UsageError, in_one_line, said_by
from puffin.format import CREATED_BY
from puffin.iceberg.commit.patch import partition_statistics_path
from puffin.iceberg.scan import manifests
from puffin.iceberg.scan.manifest_lists import ManifestFile, manifests_of
from puffin.storage import FileInfo, Store
from puffin.tables.base import PartitionStatisticsEntry, Snapshot
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState
from puffin.values.json_values import arrow_type
from puffin.values.transforms import earlier_result_type, partition_value
from puffin.version import APPLICATION, is_our_name

_FIELD_ID = "PARQUET:field_id"
_PUFFIN = "PUFFIN"
_VOID = "void"
_NEVER = math.inf

_OF_FILE = (manifests.CONTENT, manifests.FILE_FORMAT, manifests.PARTITION, manifests.RECORD_COUNT, manifests.FILE_SIZE)
_ENTRY = {manifests.STATUS: None, manifests.SNAPSHOT_ID: None, manifests.DATA_FILE: dict.fromkeys(_OF_FILE)}
_DATA, _POSITION_DELETES = 0, 1  # contents

# Columns of the file: field id, name, type, and the first format version that requires it.
_COLUMNS: tuple[tuple[int, str, pa.DataType, float], ...] = (
    (2, "spec_id", pa.int32(), 1),
    (3, "data_record_count", pa.int64(), 1),
    (4, "data_file_count", pa.int32(), 1),
    (5, "total_data_file_size_in_bytes", pa.int64(), 1),
    (6, "position_delete_record_count", pa.int64(), 3),
    (7, "position_delete_file_count", pa.int32(), 3),
    (13, "dv_count", pa.int32(), 3),
    (8, "equality_delete_record_count", pa.int64(), 3),
    (9, "equality_delete_file_count", pa.int32(), 3),
    (10, "total_record_count", pa.int64(), _NEVER),
    (11, "last_updated_at", pa.int64(), _NEVER),
    (12, "last_updated_snapshot_id", pa.int64(), _NEVER),
)
_PARTITION_ID, _PARTITION = 1, "partition"
_DV_COUNT, _DV_COUNT_SINCE = 13, 3


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionField:
    """A field of the unified partition type; ``type`` is the transform's result type."""

    field_id: int
    name: str
    type: str


def unified_partition_type(state: TableState, at: Snapshot | None = None) -> tuple[PartitionField, ...]:
    """
    Every field that any partition spec of the table ever had, by field id, under its newest name.

    Types are those of now, or those that source columns had at a snapshot; see `TableState.source_types_at`.

    A field whose source column no schema has is left out, since its type is unknown. A table that was never partitioned
    has no fields.

    Raises:
        UnsupportedTableError: A transform is unknown, or one field id means two things, as version 1 allows.
        CorruptMetadataError: A spec is not in the form of appendix C.
    """
    types = state.source_types_at(at)
    unified: dict[int, Mapping[str, Any]] = {}
    try:
        for _, fields in sorted(state.partition_specs.items(), reverse=True):  # the newest first
            for field in fields:
                if field["source-id"] in types:
                    known = unified.get(field["field-id"], field)
                    unified[field["field-id"]] = _merged(known, field, state.name)
        return tuple(
            PartitionField(field_id, field["name"], earlier_result_type(field["transform"], types[field["source-id"]]))
            for field_id, field in sorted(unified.items())
        )
    except (KeyError, TypeError, AttributeError) as exc:
        raise CorruptMetadataError(f"{state.name}: not a partition spec: {said_by(exc)}") from exc


def partition_statistics(opened: TableSnapshot) -> pa.Table:
    """The rows of the file, sorted by partition; empty for a snapshot without files."""
    state, snapshot = opened.state, opened.snapshot
    fields = _partitioned(state)
    partitions = _Partitions(fields, state.snapshots)
    for manifest in manifests_of(opened, snapshot):
        partitions.add(manifest, opened.store_for)
    try:
        return _to_table(partitions.sorted_rows(), _schema(fields, state))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as exc:
        place = f"{state.name}: snapshot {snapshot.snapshot_id}"
        raise CorruptMetadataError(f"{place}: a partition value is not of its type: {exc}") from exc


def write_partition_statistics(
    statistics: pa.Table, opened: TableSnapshot, snapshot_id: int
) -> PartitionStatisticsEntry:
    """Write the result of `partition_statistics` to the table's metadata directory, under a unique name."""
    path = partition_statistics_path(opened.state, snapshot_id)
    data = io.BytesIO()
    with pq.ParquetWriter(data, statistics.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(statistics)
        writer.add_key_value_metadata({CREATED_BY: APPLICATION})
    with opened.store_for(path).create(path) as sink:
        size = sink.write(data.getvalue())
    return PartitionStatisticsEntry(snapshot_id, path, size)


def partition_authorship_objection(file: FileInfo, store: Store) -> str | None:
    """Why a file is not our partition statistics file; None if its footer says that we wrote it."""
    try:
        with store.open_input(file.uri) as source:
            created_by = (pq.read_metadata(source).metadata or {}).get(CREATED_BY.encode(), b"")
    except FileNotFound:
        return "deleted meanwhile"
    except (pa.ArrowException, OSError, ValueError) as exc:
        return f"not a Parquet file that can be read: {in_one_line(exc)}"
    return None if is_our_name(created_by.decode(errors="replace")) else "it does not say who wrote it"


@dataclasses.dataclass(slots=True)
class _Row:
    """A row of the file, by column names, while files are added up."""

    partition: Sequence[Any]
    spec_id: int
    data_record_count: int = 0
    data_file_count: int = 0
    total_data_file_size_in_bytes: int = 0
    position_delete_record_count: int = 0
    position_delete_file_count: int = 0
    dv_count: int = 0
    equality_delete_record_count: int = 0
    equality_delete_file_count: int = 0
    total_record_count: None = None
    last_updated_at: int | None = None
    last_updated_snapshot_id: int | None = None

    def count(self, file: Mapping[int, Any]) -> None:
        """Add a live file."""
        content, records = file.get(manifests.CONTENT, _DATA), file[manifests.RECORD_COUNT]
        if content == _DATA:
            self.data_record_count += records
            self.data_file_count += 1
            self.total_data_file_size_in_bytes += file[manifests.FILE_SIZE]
        elif content == _POSITION_DELETES:
            is_vector = file[manifests.FILE_FORMAT].upper() == _PUFFIN
            self.position_delete_record_count += records
            self.position_delete_file_count += not is_vector
            self.dv_count += is_vector
        else:
            self.equality_delete_record_count += records
            self.equality_delete_file_count += 1

    def touch(self, snapshot: Snapshot) -> None:
        """Record the snapshot that added or deleted a file."""
        at = snapshot.timestamp_ms
        if at is not None and (self.last_updated_at is None or self.last_updated_at < at):
            self.last_updated_at = at
            self.last_updated_snapshot_id = snapshot.snapshot_id


class _Partitions:
    def __init__(self, fields: Sequence[PartitionField], snapshots: Mapping[int, Snapshot]) -> None:
        self._fields = fields
        self._snapshots = snapshots
        self._rows: dict[tuple[Any, ...], _Row] = {}

    def add(self, manifest: ManifestFile, store_for: Callable[[str], Store]) -> None:
        for _ in manifests.read_entries(manifest, _ENTRY, store_for, lambda entry: self._add(entry, manifest)):
            pass

    def sorted_rows(self) -> list[_Row]:
        return [self._rows[key] for key in sorted(self._rows)]

    def _add(self, entry: Mapping[int, Any], manifest: ManifestFile) -> None:
        file = entry[manifests.DATA_FILE]
        stored = file[manifests.PARTITION]
        partition = [partition_value(field.type, stored.get(field.field_id)) for field in self._fields]
        key = (*map(_sort_key, partition), manifest.partition_spec_id)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(partition, manifest.partition_spec_id)
        if entry[manifests.STATUS] != manifests.DELETED:
            row.count(file)
        snapshot_id: Any = entry.get(manifests.SNAPSHOT_ID)
        if snapshot_id is None:  # inherited by files added with the manifest
            snapshot_id = manifest.added_snapshot_id
        if snapshot_id in self._snapshots:
            row.touch(self._snapshots[snapshot_id])


def _merged(newer: Mapping[str, Any], older: Mapping[str, Any], location: str) -> Mapping[str, Any]:
    """Two fields of one id as one; version 1 keeps a dropped field, with the transform ``void``."""
    if newer["transform"] == _VOID:
        return {**older, "name": newer["name"]}
    meanings = [f"{field['transform']} of column {field['source-id']}" for field in (newer, older)]
    if older["transform"] != _VOID and meanings[0] != meanings[1]:
        raise UnsupportedTableError(
            f"{location}: partition field id {newer['field-id']} means {meanings[0]} in one spec "
            f"and {meanings[1]} in another"
        )
    return newer


def _partitioned(state: TableState) -> tuple[PartitionField, ...]:
    fields = unified_partition_type(state)
    if not fields:
        raise UsageError(f"{state.name}: expected a partitioned table, found one that was never partitioned")
    return fields


def _sort_key(value: Any) -> tuple[Any, ...]:
    """Nulls first; -0.0 before 0.0; every NaN is one value, after all others."""
    if value is None:
        return (0,)
    if not isinstance(value, float):
        return 1, value
    return (2,) if math.isnan(value) else (1, value, math.copysign(1, value))


def _schema(fields: Sequence[PartitionField], state: TableState) -> pa.Schema:
    version = state.document["format-version"]
    partition = pa.struct([_field(field.field_id, field.name, _stored_type(field.type)) for field in fields])
    return pa.schema(
        [
            _field(_PARTITION_ID, _PARTITION, partition, required=True),
            *(
                _field(field_id, name, type_, required=version >= required_since)
                for field_id, name, type_, required_since in _COLUMNS
                if field_id != _DV_COUNT or version >= _DV_COUNT_SINCE
            ),
        ]
    )


def _field(field_id: int, name: str, type_: pa.DataType, *, required: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=not required, metadata={_FIELD_ID: str(field_id)})


def _stored_type(type_: str) -> pa.DataType:
    # Without its logical type a uuid would be read as bytes.
    return pa.uuid() if type_ == "uuid" else arrow_type(type_)


def _to_table(rows: Sequence[_Row], schema: pa.Schema) -> pa.Table:
    partition_type, *others = schema
    partition = pa.StructArray.from_arrays(
        [_array([row.partition[i] for row in rows], field.type) for i, field in enumerate(partition_type.type)],
        fields=list(partition_type.type),
    )
    return pa.table(
        [partition, *(pa.array([getattr(row, field.name) for row in rows], field.type) for field in others)], schema
    )


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(pa.array(values, type_.storage_type))
    return pa.array(values, type_)
