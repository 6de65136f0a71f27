"""
The metadata of a table, written by hand: manifests, their lists and the table's own document.

For tables that no engine need write: with files that do not exist, or with a history that is told and never happened.
Written with pyiceberg's Avro schemas, in blocks of about the size that Iceberg's Java writes (pyiceberg itself makes a
block of every entry). The tables are not partitioned, and the sequence number of a snapshot is its id.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from puffin.format import THETA_V1

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile

MAIN = "main"

_BLOCK = 100  # entries, about 64 kB where they have column statistics
_CODEC = "deflate"
_WRITTEN_AT = 1_767_225_600_000  # 2026-01-01 in milliseconds


def uri(path: Path) -> str:
    """What metadata calls a local file."""
    return f"file://{path}"


def schema_of(columns: Mapping[str, str]) -> dict[str, Any]:
    """The schema of a table, as its metadata has it, from the types of its columns; their ids count from 1."""
    fields = [
        {"id": field_id, "name": name, "required": False, "type": type_}
        for field_id, (name, type_) in enumerate(columns.items(), start=1)
    ]
    return {"type": "struct", "fields": fields}


def analyzed_table(directory: Path, columns: int) -> Path:
    """Write the metadata of a table without files, whose statistics are in it; returns the metadata file."""
    ids = range(1, columns + 1)
    table = HandmadeTable(directory, schema_of({f"c{field_id}": "long" for field_id in ids}))
    table.snapshot(1, [])
    entry = {
        "snapshot-id": 1,
        "statistics-path": f"{directory}/metadata/1.stats",
        "file-size-in-bytes": 1000,
        "file-footer-size-in-bytes": 500,
        "blob-metadata": [_blob(field_id) for field_id in ids],
    }
    return table.finish([entry])


class HandmadeTable:
    """
    A table in the making; it is there once `finish` has been called.

    Args:
        directory: Where it is to be; what goes into its ``data`` is left to the caller.
        schema: As table metadata has it.
        properties: Of the table.
    """

    def __init__(
        self,
        directory: Path,
        schema: Mapping[str, Any],
        version: Literal[2, 3] = 2,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory
        self.data = directory / "data"
        self._metadata = directory / "metadata"
        self._schema = {**schema, "schema-id": 0}
        self._version: Literal[2, 3] = version
        self._properties = dict(properties or {})
        self._snapshots: list[dict[str, Any]] = []
        self._refs: dict[str, dict[str, Any]] = {}
        self._manifests = itertools.count(1)
        for part in (self.data, self._metadata):
            part.mkdir(parents=True, exist_ok=True)

    def content_file(
        self, path: str, file_format: str = "PARQUET", *, of_deletes: bool = False, **fields: Any
    ) -> DataFile:
        """A data file or a file of position deletes; the fields are those of ``data_file`` in the spec."""
        from pyiceberg.manifest import DataFile, DataFileContent
        from pyiceberg.typedef import Record

        content = DataFileContent.POSITION_DELETES if of_deletes else DataFileContent.DATA
        return DataFile.from_args(
            self._version, content=content, file_path=path, file_format=file_format, partition=Record(), **fields
        )

    def write(self, name: str, columns: Sequence[Any], **fields: Any) -> DataFile:
        """The `parquet_file` of these values of each column of the schema, which is written first."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = [pa.array(values) for values in columns]
        described = [
            pa.field(field["name"], array.type, metadata={"PARQUET:field_id": str(field["id"])})
            for field, array in zip(self._schema["fields"], arrays, strict=True)
        ]
        path = self.data / name
        pq.write_table(pa.table(arrays, schema=pa.schema(described)), path)
        return self.parquet_file(path, **fields)

    def parquet_file(self, path: Path, **fields: Any) -> DataFile:
        """The `content_file` that a Parquet file is."""
        import pyarrow.parquet as pq

        footer = pq.read_metadata(path)
        first = [footer.row_group(group).column(0) for group in range(footer.num_row_groups)]
        return self.content_file(
            uri(path),
            record_count=footer.num_rows,
            file_size_in_bytes=path.stat().st_size,
            split_offsets=[chunk.dictionary_page_offset or chunk.data_page_offset for chunk in first],
            **fields,
        )

    def manifest(
        self,
        snapshot_id: int,
        added: Sequence[DataFile] = (),
        *,
        existing: Sequence[DataFile] = (),
        deleted: Sequence[DataFile] = (),
        since: int | None = None,
        of_deletes: bool = False,
    ) -> ManifestFile:
        """
        Write a manifest of a snapshot.

        Args:
            existing: Files that stay, of the snapshot ``since``.
            deleted: Files of that snapshot that go.
            of_deletes: Whether the files are delete files.
        """
        from pyiceberg.manifest import (
            ManifestContent,
            ManifestFile,
            data_file_with_partition,
            manifest_entry_schema_with_data_file,
        )
        from pyiceberg.types import StructType

        content = ManifestContent.DELETES if of_deletes else ManifestContent.DATA
        told = {
            "schema": json.dumps(self._schema),
            "partition-spec": "[]",
            "partition-spec-id": "0",
            "format-version": str(self._version),
            "content": content.name.lower(),
        }
        path = self._metadata / f"{snapshot_id}-m{next(self._manifests)}.avro"
        schema = manifest_entry_schema_with_data_file(
            self._version, data_file_with_partition(StructType(), self._version)
        )
        by_status = {"added": added, "existing": existing, "deleted": deleted}
        entries = [
            self._entry(status, file, snapshot_id, since) for status, files in by_status.items() for file in files
        ]
        self._write_avro(path, schema, "manifest_entry", told, entries)
        return ManifestFile.from_args(
            self._version,
            manifest_path=uri(path),
            manifest_length=path.stat().st_size,
            partition_spec_id=0,
            content=content,
            sequence_number=snapshot_id,
            min_sequence_number=snapshot_id if since is None else since,
            added_snapshot_id=snapshot_id,
            partitions=[],
            **{f"{status}_files_count": len(files) for status, files in by_status.items()},
            **{f"{status}_rows_count": sum(file.record_count for file in files) for status, files in by_status.items()},
        )

    def snapshot(
        self,
        snapshot_id: int,
        manifests: Sequence[ManifestFile],
        *,
        parent_id: int | None = None,
        operation: str = "append",
        branch: str = MAIN,
        summary: Mapping[str, str] | None = None,
    ) -> None:
        """Make a snapshot of these manifests the head of a branch; its summary has what is given, and the operation."""
        from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS

        path = self._metadata / f"snap-{snapshot_id}.avro"
        told = {"snapshot-id": str(snapshot_id), "format-version": str(self._version)}
        self._write_avro(path, MANIFEST_LIST_FILE_SCHEMAS[self._version], "manifest_file", told, manifests)
        self._snapshots.append(
            {
                "snapshot-id": snapshot_id,
                **({} if parent_id is None else {"parent-snapshot-id": parent_id}),
                "sequence-number": snapshot_id,
                "timestamp-ms": _WRITTEN_AT + snapshot_id,
                "manifest-list": uri(path),
                "summary": {"operation": operation, **(summary or {})},
                "schema-id": 0,
            }
        )
        self._refs[branch] = {"snapshot-id": snapshot_id, "type": "branch"}

    def finish(self, statistics: Sequence[Mapping[str, Any]] = ()) -> Path:
        """Write the table's own document, which is returned, and last what says that it is there."""
        path = self._metadata / "v1.metadata.json"
        path.write_text(json.dumps({**self._document(), "statistics": list(statistics)}))
        (self._metadata / "version-hint.text").write_text("1")
        return path

    def _entry(self, status: str, file: DataFile, snapshot_id: int, since: int | None) -> ManifestEntry:
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        return ManifestEntry.from_args(
            self._version,
            status=ManifestEntryStatus[status.upper()],
            snapshot_id=since if status == "existing" else snapshot_id,
            sequence_number=None if status == "added" else since,
            file_sequence_number=None if status == "added" else since,
            data_file=file,
        )

    def _write_avro(self, path: Path, schema: Any, name: str, told: Mapping[str, str], records: Sequence[Any]) -> None:
        from pyiceberg.avro.file import AvroOutputFile
        from pyiceberg.io.pyarrow import PyArrowFileIO

        output = PyArrowFileIO().new_output(str(path))
        with AvroOutputFile[Any](output, schema, name, metadata={**told, "avro.codec": _CODEC}) as writer:
            for start in range(0, len(records), _BLOCK):
                writer.write_block(list(records[start : start + _BLOCK]))

    def _document(self) -> dict[str, Any]:
        latest = max(snapshot["snapshot-id"] for snapshot in self._snapshots)
        return {
            "format-version": self._version,
            "table-uuid": str(uuid.uuid4()),
            "location": uri(self._directory),
            "last-sequence-number": latest,
            "last-updated-ms": _WRITTEN_AT + latest,
            "last-column-id": max(field["id"] for field in self._schema["fields"]),
            "current-schema-id": 0,
            "schemas": [self._schema],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": self._properties,
            "current-snapshot-id": self._refs[MAIN]["snapshot-id"],
            "refs": self._refs,
            "snapshots": self._snapshots,
            "snapshot-log": [],
            "metadata-log": [],
            **({"next-row-id": 0} if self._version == 3 else {}),
        }


def _blob(field_id: int) -> dict[str, Any]:
    return {
        "type": THETA_V1,
        "snapshot-id": 1,
        "sequence-number": 1,
        "fields": [field_id],
        "properties": {
            "ndv": "1000",
            "puffin-sidecar.bounds": "1000,1000",
            "puffin-sidecar.type": "long",
            "puffin-sidecar.reading": "1",
        },
    }
