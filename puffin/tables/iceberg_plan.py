"""
From a snapshot to the files to read: every data file with the delete files that apply to it (spec, "Scan Planning").

What cannot be honoured is refused by name here, on the driver, before anything is read: a sketch over rows
that a delete file has removed would be wrong in silence.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.tables.base import Snapshot, TableState
from puffin.tables.iceberg_manifests import LiveFile, live_files
from puffin.tables.iceberg_metadata import partition_specs
from puffin.tables.iceberg_schema import primitive_columns
from puffin.tables.iceberg_values import to_json
from puffin.tables.scan_task import DATA, EQUALITY_DELETES, ContentFile, FileScanTask
from puffin.tables.stores import stores

_PUFFIN = "PUFFIN"
_PARQUET = "PARQUET"
_FIRST_ROW_GROUP = 4  # the first row group of a Parquet file begins after its magic


def plan_snapshot(state: TableState, snapshot: Snapshot, io_properties: Mapping[str, str]) -> tuple[FileScanTask, ...]:
    """
    One task for each whole data file of the snapshot, in manifest order.

    Raises:
        UnsupportedTableError: A file is of a kind or format that this version does not read; names the file.
        CorruptMetadataError: The manifest list or a manifest cannot be understood, or contradicts itself.
        FileNotFound, StorageError: One of them is not there, or the storage failed.
    """
    if snapshot.manifest_list is None:
        raise UnsupportedTableError(
            f"{state.location}: snapshot {snapshot.snapshot_id} lists its manifests in the metadata itself "
            "(format version 1 without manifest lists), which is not supported"
        )
    data: list[LiveFile] = []
    deletes = _DeleteIndex()
    for file in live_files(snapshot.manifest_list, stores(io_properties)):
        _refuse_unreadable(file)
        if file.content == DATA:
            data.append(file)
        else:
            deletes.add(file)
    to_content_file = _PartitionEncoder(state.document)
    return tuple(
        FileScanTask(
            to_content_file(file),
            tuple(to_content_file(delete) for delete in deletes.applying_to(file)),
            start=0,
            length=file.file_size_in_bytes,
        )
        for file in data
    )


def split_task(task: FileScanTask, target_bytes: int) -> list[FileScanTask]:
    """
    The task cut at row group boundaries into pieces of about this size; row groups are never cut.

    The boundaries are the file's split offsets. A file that lists none is cut by bytes: whoever reads a piece takes
    the row groups that begin in it, so that each is read once wherever the cuts fall.
    """
    size = task.data_file.file_size_in_bytes
    if size <= target_bytes:
        return [task]
    offsets = sorted(o for o in task.data_file.split_offsets if _FIRST_ROW_GROUP <= o < size)
    candidates = offsets[1:] if offsets else range(target_bytes, size, target_bytes)
    cuts = [0]
    for offset in candidates:
        if offset - cuts[-1] >= target_bytes:
            cuts.append(offset)
    return [
        dataclasses.replace(task, start=start, length=end - start)
        for start, end in zip(cuts, [*cuts[1:], size], strict=True)
    ]


class _DeleteIndex:
    """Delete files by what they can apply to: one data file, or a partition of a spec."""

    def __init__(self) -> None:
        self._vectors: dict[str, LiveFile] = {}
        self._by_path: dict[str, list[LiveFile]] = defaultdict(list)
        self._by_partition: dict[tuple[int, str], list[LiveFile]] = defaultdict(list)

    def add(self, file: LiveFile) -> None:
        path = file.referenced_data_file
        if path is None:
            self._by_partition[_partition_key(file)].append(file)
        elif file.file_format != _PUFFIN:
            self._by_path[path].append(file)
        elif path in self._vectors:
            raise CorruptMetadataError(f"{path}: expected one deletion vector at most, found two, in {file.file_path}")
        else:
            self._vectors[path] = file

    def applying_to(self, data_file: LiveFile) -> Sequence[LiveFile]:
        # A deletion vector holds every deleted position of its file: older position delete files are superseded.
        vector = self._vectors.get(data_file.file_path)
        if vector is not None and vector.sequence_number >= data_file.sequence_number:
            return [vector]
        candidates = [
            *self._by_path.get(data_file.file_path, ()),
            *self._by_partition.get(_partition_key(data_file), ()),
        ]
        return [delete for delete in candidates if delete.sequence_number >= data_file.sequence_number]


def _partition_key(file: LiveFile) -> tuple[int, str]:
    # As text: one NaN equals another there, as in Iceberg.
    return file.spec_id, repr(sorted(file.partition.items()))


class _PartitionEncoder:
    """Content files as they travel: of the partition tuple, the identity values, which can stand in for a column."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        types = _types_by_field_id(document)
        self._identity: dict[int, list[tuple[int, str]]] = {
            spec_id: [
                (field["field-id"], types[field["source-id"]])
                for field in fields
                if field.get("transform") == "identity" and field["source-id"] in types
            ]
            for spec_id, fields in partition_specs(document).items()
        }

    def __call__(self, file: LiveFile) -> ContentFile:
        return ContentFile(
            content=file.content,
            file_path=file.file_path,
            file_format=file.file_format,
            spec_id=file.spec_id,
            partition=self._values(file),
            record_count=file.record_count,
            file_size_in_bytes=file.file_size_in_bytes,
            split_offsets=file.split_offsets,
            referenced_data_file=file.referenced_data_file,
            content_offset=file.content_offset,
            content_size_in_bytes=file.content_size_in_bytes,
        )

    def _values(self, file: LiveFile) -> dict[str, Any]:
        try:
            return {
                str(field_id): to_json(type_, file.partition[field_id])
                for field_id, type_ in self._identity.get(file.spec_id, ())
                if field_id in file.partition
            }
        except CorruptMetadataError as exc:
            raise CorruptMetadataError(f"{file.file_path}: {exc}") from exc


def _types_by_field_id(document: Mapping[str, Any]) -> dict[int, str]:
    # Every schema the table ever had: a partition column may be gone from the current one.
    schemas: Iterable[Mapping[str, Any]] = document.get("schemas") or (document["schema"],)
    return {column.field_id: column.type for schema in schemas for column in primitive_columns(schema)}


def _refuse_unreadable(file: LiveFile) -> None:
    if file.encrypted:
        raise UnsupportedTableError(f"{file.file_path}: expected an unencrypted file, found key metadata")
    if file.content == EQUALITY_DELETES:
        raise UnsupportedTableError(f"{file.file_path}: equality delete files are not supported")
    if file.content != DATA and file.file_format == _PUFFIN:
        if file.referenced_data_file is None or file.content_offset is None or file.content_size_in_bytes is None:
            raise CorruptMetadataError(f"{file.file_path}: a deletion vector without its data file, offset and size")
    elif file.file_format != _PARQUET:
        kind = "data" if file.content == DATA else "delete"
        raise UnsupportedTableError(f"{file.file_path}: {kind} files of format {file.file_format} are not supported")
