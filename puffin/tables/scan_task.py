"""Scan tasks: data files or pieces of them, with their deletes. `puffin.tables.scan_documents` has them as JSON."""

from __future__ import annotations

import dataclasses
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
    """The work of one executor task."""

    columns: tuple[Column, ...]
    tasks: tuple[FileScanTask, ...]
    context: ScanContext
