"""
Scan tasks, which travel as the JSON of appendix C, so that a task can be read, logged and replayed.

A batch states once what all of its tasks share. The JSON adds keys of our own to those of the spec: ``start`` and
``length`` (the byte range of a split, as Iceberg's Java writes them), ``deleted-by``, the three fields that place a
deletion vector, and in the batch the requested columns, the columns of equality deletes (a delete file holds only their
ids), the name mapping and the file system's properties.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from puffin.tables.base import Column

DATA, POSITION_DELETES, EQUALITY_DELETES = "DATA", "POSITION_DELETES", "EQUALITY_DELETES"

PARQUET, AVRO, ORC, PUFFIN = "PARQUET", "AVRO", "ORC", "PUFFIN"

# The columns of a position delete file (spec, "Reserved Field IDs").
DELETE_FILE_PATH, DELETE_FILE_POS = 2147483546, 2147483545

_ROW_GROUP_BYTES = 128 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContentFile:
    """
    A data file or a delete file.

    Attributes:
        partition: Values by partition field id, in JSON single-value form; see `partition_tuples`.
        content_offset: The byte offset of a deletion vector in its Puffin file; None for other files.
        equality_columns: The columns by which an equality delete file compares rows, in the order of field ids. Dropped
            columns are as they last were.
        sort_order_id: The table's sort order that the rows follow, if known.
        first_row_id: The id of the first row, in tables with row lineage (format version 3).
    """

    content: str
    file_path: str
    file_format: str
    spec_id: int
    partition: Mapping[str, Any]
    record_count: int
    file_size_in_bytes: int
    split_offsets: tuple[int, ...] = ()
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None
    equality_columns: tuple[Column, ...] = ()
    sort_order_id: int | None = None
    first_row_id: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class FileScanTask:
    """
    The row groups of a data file that begin in ``[start, start + length)``, without the rows its delete files name.

    Attributes:
        deleted_by: Other position deletes or deletion vectors: the task has only rows that these name. None for all
            rows.
    """

    data_file: ContentFile
    delete_files: tuple[ContentFile, ...]
    start: int
    length: int
    deleted_by: tuple[ContentFile, ...] | None = None

    @property
    def rows(self) -> int:
        """About how many rows of a whole file it has; live and deleted ones are not told apart."""
        if self.deleted_by is None:
            return self.data_file.record_count
        return min(self.data_file.record_count, sum(file.record_count for file in self.deleted_by))

    @property
    def most_bytes(self) -> int:
        """The most bytes that it reads: a row is read with its row group, of the size that engines write by default."""
        if self.deleted_by is None:
            return self.length
        return min(self.length, _ROW_GROUP_BYTES * sum(file.record_count for file in self.deleted_by))

    @property
    def bytes(self) -> int:
        """About how much work it is, in bytes of the file, if it reads every column."""
        if self.deleted_by is None:
            return self.length
        named = sum(file.record_count for file in self.deleted_by)
        return min(self.length, self.length * named // max(1, self.data_file.record_count))


@dataclasses.dataclass(frozen=True, slots=True)
class ScanContext:
    """
    What all scans of a table share.

    Attributes:
        specs: The fields of each partition spec, by spec id.
        name_mapping: Field ids by name, as in the property ``schema.name-mapping.default``, or None.
        io_properties: What the file system needs to open the files (end points, credentials, how to renew them).
        by_name: Whether to use the names even in a file with field ids, which are then foreign ones.
        rebases_dates: Whether readers of the table convert dates of Spark's legacy calendar to today's.
    """

    specs: Mapping[int, list[dict[str, Any]]]
    name_mapping: list[dict[str, Any]] | None
    io_properties: Mapping[str, str]
    by_name: bool = False
    rebases_dates: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ScanBatch:
    """The work of one executor task; its context needs only the partition specs of its files."""

    columns: tuple[Column, ...]
    tasks: tuple[FileScanTask, ...]
    context: ScanContext


def encode_batch(batch: ScanBatch) -> str:
    delete_files = (file for task in batch.tasks for file in task.delete_files)
    delete_columns = {column.field_id: column for file in delete_files for column in file.equality_columns}
    return json.dumps(
        {
            "columns": [_to_json(column) for column in batch.columns],
            **({"delete-columns": [_to_json(column) for column in delete_columns.values()]} if delete_columns else {}),
            "specs": [{"spec-id": spec_id, "fields": fields} for spec_id, fields in batch.context.specs.items()],
            "name-mapping": batch.context.name_mapping,
            **({"by-name": True} if batch.context.by_name else {}),
            **({"rebases-dates": True} if batch.context.rebases_dates else {}),
            "io-properties": dict(batch.context.io_properties),
            "tasks": [_task_to_json(task) for task in batch.tasks],
        },
        separators=(",", ":"),
    )


def decode_batch(document: str) -> ScanBatch:
    batch = json.loads(document)
    delete_columns = {column["field-id"]: _column_from_json(column) for column in batch.get("delete-columns", ())}
    return ScanBatch(
        columns=tuple(_column_from_json(column) for column in batch["columns"]),
        tasks=tuple(_task_from_json(task, delete_columns) for task in batch["tasks"]),
        context=ScanContext(
            specs={spec["spec-id"]: spec["fields"] for spec in batch["specs"]},
            name_mapping=batch["name-mapping"],
            io_properties=batch["io-properties"],
            by_name=batch.get("by-name", False),
            rebases_dates=batch.get("rebases-dates", False),
        ),
    )


def _column_from_json(column: dict[str, Any]) -> Column:
    fields = _from_json(column)
    return Column(**{**fields, "path": tuple(fields["path"]), "defaults": tuple(fields["defaults"])})


def _task_to_json(task: FileScanTask) -> dict[str, Any]:
    return {
        "data-file": _file_to_json(task.data_file),
        "delete-files": [_file_to_json(file) for file in task.delete_files],
        "start": task.start,
        "length": task.length,
        **({} if task.deleted_by is None else {"deleted-by": [_file_to_json(file) for file in task.deleted_by]}),
    }


def _task_from_json(task: Mapping[str, Any], delete_columns: Mapping[int, Column]) -> FileScanTask:
    return FileScanTask(
        data_file=_file_from_json(task["data-file"], delete_columns),
        delete_files=tuple(_file_from_json(file, delete_columns) for file in task["delete-files"]),
        start=task["start"],
        length=task["length"],
        deleted_by=None
        if "deleted-by" not in task
        else tuple(_file_from_json(file, delete_columns) for file in task["deleted-by"]),
    )


def _file_to_json(file: ContentFile) -> dict[str, Any]:
    fields = _to_json(file)
    fields["equality-ids"] = tuple(column.field_id for column in fields.pop("equality-columns"))
    return {key: value for key, value in fields.items() if value not in (None, ())}


def _file_from_json(file: Mapping[str, Any], delete_columns: Mapping[int, Column]) -> ContentFile:
    fields = _from_json(file)
    columns = tuple(delete_columns[field_id] for field_id in fields.pop("equality_ids", ()))
    return ContentFile(
        **{**fields, "split_offsets": tuple(fields.get("split_offsets", ())), "equality_columns": columns}
    )


def _to_json(value: Column | ContentFile) -> dict[str, Any]:
    return {field.name.replace("_", "-"): getattr(value, field.name) for field in dataclasses.fields(value)}


def _from_json(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): field for key, field in document.items()}
