"""
Read a scan task: the live values of each column.

This runs where the data is. It knows one task at a time and nothing of Spark: a store opens files, Arrow arrays come
out, and rows that a delete file names are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from puffin.files.data_file import DataFile
from puffin.files.data_file_errors import errors_about
from puffin.files.deletes.position_deletes import read_positions
from puffin.files.file_columns import FileColumn, FileColumns
from puffin.files.formats import DataFiles
from puffin.files.julian import Switches, refuse_julian, switches_of
from puffin.files.rows import Reading, Rows, Selection, Wants
from puffin.format.deletion_vector import DeletionVector
from puffin.storage.data_uri import content_of
from puffin.tables.base import Column
from puffin.tables.scan_task import EQUALITY_DELETES, POSITION_DELETES, ContentFile, FileScanTask, ScanBatch

if TYPE_CHECKING:
    from puffin.files.deletes.equality_deletes import DeletedKeys, EqualityFilter

Lift: TypeAlias = Callable[[FileScanTask, Column, Sequence[bytes]], bool]
"""Takes the Bloom filters that a file has for a column (`DataFile.bloom_filters`); false if the values must be read."""


class TaskReader:
    """
    Reads the tasks of one batch; opens shared delete files once.

    Before columns are read, ``lift`` may take a file's Bloom filters instead. They cover the whole file, with deleted
    rows.

    Attributes:
        has_used_mapping: Whether a file had no field ids, so that the table's name mapping applied.
    """

    def __init__(self, batch: ScanBatch, files: DataFiles, wants: Wants, lift: Lift | None = None) -> None:
        self.has_used_mapping = False
        self._batch = batch
        self._files = files
        self._wants = wants
        self._lift = lift
        self._positions: dict[str, dict[str, DeletionVector]] = {}
        self._deleted_keys: dict[tuple[int, ...], DeletedKeys] = {}

    def read(self, task: FileScanTask) -> Iterator[Rows]:
        """
        The live rows of a task.

        Raises:
            CorruptDataFileError, CorruptMetadataError, UnsupportedTableError: As `DataFiles.open`, `FileColumns.locate`
                and `refuse_julian`.
            FileNotFound, StorageError: A file does not exist, or the storage failed.
        """
        path = task.data_file.file_path
        deleted, chosen = self._positions_in(task.delete_files, path), None
        if task.deleted_by is not None:
            none = DeletionVector.from_positions([])
            chosen = (self._positions_in(task.deleted_by, path) or none).difference(deleted or none)
            if chosen.cardinality == 0:
                return
        with self._files.open(task.data_file) as file:
            context = self._batch.context
            of_file = self._files.columns(file, context)
            self.has_used_mapping |= not context.by_name and of_file.lacks_ids
            columns = self._locate(of_file, self._batch.columns, task.data_file)
            has_dates = context.rebases_dates and file.footer is not None
            switches = switches_of(file.footer, columns) if has_dates else {}
            columns, bytes_lifted = self._lifted(task, file, columns, switches)
            if bytes_lifted:
                yield Rows(0, {}, bytes_read=bytes_lifted)
                if not columns:
                    return
            reading = Reading(
                columns=columns,
                selection=Selection(deleted, list(self._equality_filters(task, of_file)), chosen),
                start=task.start,
                stop=_stop(task),
                wants=self._wants,
            )
            rows = file.rows(reading)
            names = {each.column.field_id: each.column.name for each in columns}
            yield from refuse_julian(rows, switches, names, path) if switches else rows

    def _lifted(
        self, task: FileScanTask, file: DataFile, columns: Sequence[FileColumn], switches: Switches
    ) -> tuple[tuple[FileColumn, ...], int]:
        """The columns that have to be read, and the bytes of the filters of the others."""
        if self._lift is None:
            return tuple(columns), 0
        unread, size = [], 0
        for column in columns:
            field_id = column.column.field_id
            is_read = field_id in switches or field_id in self._wants.side_by_side
            bitsets = () if is_read else file.bloom_filters(column)
            if bitsets and self._lift(task, column.column, bitsets):
                size += sum(map(len, bitsets))
            else:
                unread.append(column)
        return tuple(unread), size

    def _locate(self, of_file: FileColumns, columns: Sequence[Column], file: ContentFile) -> tuple[FileColumn, ...]:
        fields = self._batch.context.specs.get(file.spec_id, ())
        identities = [field for field in fields if field.get("transform") == "identity"]
        sources = {str(field["field-id"]): field["source-id"] for field in identities}
        constants = {sources[key]: value for key, value in file.partition.items() if key in sources}
        return of_file.locate(columns, constants, file.file_path)

    def _positions_in(self, files: Iterable[ContentFile], data_path: str) -> DeletionVector | None:
        deleted: DeletionVector | None = None
        for file in files:
            found = self._deleted_by(file, data_path) if file.content == POSITION_DELETES else None
            if found is not None:
                deleted = found if deleted is None else deleted.union(found)
        return deleted

    def _deleted_by(self, file: ContentFile, data_path: str) -> DeletionVector | None:
        with errors_about(data_path, "deletion vector in the table's log"):
            if (inline := content_of(file.file_path)) is not None:
                return DeletionVector.from_bytes(inline, expected_cardinality=file.record_count)
        if (offset := file.content_offset) is not None and (size := file.content_size_in_bytes) is not None:
            with errors_about(file.file_path, "delete file"):
                with self._files.store_for(file.file_path).open_source(file.file_path) as source:
                    payload = source.read_at(offset, size)
                if len(payload) < size:
                    raise ValueError(f"expected {size} bytes at offset {offset}, found {len(payload)}")
                return DeletionVector.from_bytes(payload, expected_cardinality=file.record_count)
        if file.file_path not in self._positions:
            data_files = {task.data_file.file_path for task in self._batch.tasks}
            with self._files.open(file) as opened:
                self._positions[file.file_path] = read_positions(opened, data_files)
        return self._positions[file.file_path].get(data_path)

    def _equality_filters(self, task: FileScanTask, of_file: FileColumns) -> Iterator[EqualityFilter]:
        of_task = _equality_deletes([task])
        if not of_task:
            return
        # A process whose tables have no such files need not wait for the import.
        from puffin.files.deletes.equality_deletes import DeletedKeys, EqualityFilter, KeyReader

        for ids, files in of_task.items():
            columns = next(iter(files.values())).equality_columns
            reader = KeyReader(task.data_file.file_path, self._locate(of_file, columns, task.data_file))
            if ids not in self._deleted_keys:
                of_batch = _equality_deletes(self._batch.tasks)[ids]
                self._deleted_keys[ids] = DeletedKeys(
                    {path: self._read_keys(file, columns) for path, file in of_batch.items()}
                )
            keys = self._deleted_keys[ids]
            yield EqualityFilter(reader, keys, keys.of_files(files))

    def _read_keys(self, file: ContentFile, columns: Sequence[Column]) -> list[pa.LargeBinaryArray]:
        from puffin.files.deletes.equality_deletes import read_deleted_keys

        with self._files.open(file) as opened:
            return list(read_deleted_keys(opened, columns, self._batch.context.name_mapping, file.file_path))


def _equality_deletes(tasks: Iterable[FileScanTask]) -> dict[tuple[int, ...], dict[str, ContentFile]]:
    """The equality delete files of these tasks by the ids of their columns, then by path."""
    found: dict[tuple[int, ...], dict[str, ContentFile]] = {}
    for task in tasks:
        for file in task.delete_files:
            if file.content == EQUALITY_DELETES:
                ids = tuple(column.field_id for column in file.equality_columns)
                found.setdefault(ids, {})[file.file_path] = file
    return found


def _stop(task: FileScanTask) -> float:
    # The last piece takes the rest, in case the file is longer than its manifest says.
    stop = task.start + task.length
    return math.inf if stop >= task.data_file.file_size_in_bytes else stop
