"""
The metadata of a table with very many files that do not exist: manifests, their lists, and the table's own document.

Written with pyiceberg's Avro schemas, in blocks of about the size that Iceberg's Java writes (pyiceberg itself makes a
block of every entry), and with statistics for each column, of which real manifests are full.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.run import say

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile

_SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "k", "required": False, "type": "int"},
        {"id": 3, "name": "s", "required": False, "type": "string"},
        {"id": 4, "name": "category", "required": False, "type": "string"},
        {"id": 5, "name": "ts", "required": False, "type": "timestamptz"},
        {"id": 6, "name": "amount", "required": False, "type": "decimal(18, 2)"},
        {"id": 7, "name": "value", "required": False, "type": "double"},
    ],
}
_VERSION: Literal[2] = 2
_BLOCK = 100  # entries, about 64 kB
_CODEC: Literal["deflate"] = "deflate"
_ROWS, _FILE_BYTES = 1_000_000, 64 * 1024 * 1024
_WRITTEN_AT = 1_767_225_600_000  # 2026-01-01 in milliseconds


def found_or_made(directory: Path, entries: int, manifests: Sequence[int]) -> Path:
    """
    A table directory with a snapshot for each of these numbers of manifests, whose id is that number.

    Args:
        entries: The files that each manifest lists.
    """
    metadata = directory / "metadata"
    complete = metadata / "version-hint.text"
    if not complete.exists():
        metadata.mkdir(parents=True, exist_ok=True)
        lists = _write_manifests(metadata, entries, manifests)
        (metadata / "v1.metadata.json").write_text(json.dumps(_document(directory, lists)))
        complete.write_text("1")
    return directory


def _write_manifests(metadata: Path, entries: int, manifests: Sequence[int]) -> dict[int, str]:
    """Write manifests and manifest lists; the list of each snapshot, by its id."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import write_manifest_list

    io = PyArrowFileIO()
    written: list[ManifestFile] = []
    lists = {}
    for number in range(1, max(manifests) + 1):
        say(f"making manifest {number} of {max(manifests)}, of {entries} files")
        written.append(_write_manifest(io, metadata, number, entries))
        if number in manifests:
            lists[number] = str(metadata / f"snap-{number}.avro")
            output = io.new_output(lists[number])
            with write_manifest_list(_VERSION, output, number, None, number, _CODEC) as listing:
                listing.add_manifests(written)
    return lists


def _write_manifest(io: FileIO, metadata: Path, number: int, entries: int) -> ManifestFile:
    from pyiceberg.avro.file import AvroOutputFile
    from pyiceberg.manifest import (
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestFile,
        data_file_with_partition,
        manifest_entry_schema_with_data_file,
    )
    from pyiceberg.types import StructType

    schema = manifest_entry_schema_with_data_file(_VERSION, data_file_with_partition(StructType(), _VERSION))
    output = io.new_output(str(metadata / f"{number}-m0.avro"))
    told = {
        "schema": json.dumps(_SCHEMA),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": str(_VERSION),
        "content": "data",
        "avro.codec": _CODEC,
    }
    data = f"file://{metadata.parent}/data/{number:05}"
    with AvroOutputFile[ManifestEntry](output, schema, "manifest_entry", metadata=told) as writer:
        for start in range(0, entries, _BLOCK):
            files = (_data_file(f"{data}-{entry:05}-{uuid.uuid4()}.parquet") for entry in range(start, start + _BLOCK))
            writer.write_block(
                [
                    ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file)
                    for file in files
                ]
            )
    return ManifestFile.from_args(
        manifest_path=output.location,
        manifest_length=len(output),
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=number,
        min_sequence_number=number,
        added_snapshot_id=number,
        added_files_count=entries,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=entries * _ROWS,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=[],
    )


def _data_file(path: str) -> DataFile:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    ids = [field["id"] for field in _SCHEMA["fields"]]
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=_ROWS,
        file_size_in_bytes=_FILE_BYTES,
        column_sizes=dict.fromkeys(ids, _FILE_BYTES // len(ids)),
        value_counts=dict.fromkeys(ids, _ROWS),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts={},
        lower_bounds=dict.fromkeys(ids, bytes(8)),
        upper_bounds=dict.fromkeys(ids, bytes(8)),
        split_offsets=[4],
    )


def _document(directory: Path, lists: dict[int, str]) -> dict[str, Any]:
    latest = max(lists)
    return {
        "format-version": _VERSION,
        "table-uuid": str(uuid.uuid4()),
        "location": f"file://{directory}",
        "last-sequence-number": latest,
        "last-updated-ms": _WRITTEN_AT + latest,
        "last-column-id": len(_SCHEMA["fields"]),
        "current-schema-id": 0,
        "schemas": [_SCHEMA],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": latest,
        "refs": {"main": {"snapshot-id": latest, "type": "branch"}},
        "snapshots": [
            {
                "snapshot-id": number,
                "sequence-number": number,
                "timestamp-ms": _WRITTEN_AT + number,
                "manifest-list": path,
                "summary": {"operation": "append"},
                "schema-id": 0,
            }
            for number, path in lists.items()
        ],
        "snapshot-log": [],
        "metadata-log": [],
    }
