"""
Reading a scan task: the live values of each column.

This is what runs where the data is. It knows one task at a time and nothing of Spark: files come in through
a store, Arrow arrays go out, rows that a delete file names are left out.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin.deletion_vector import DeletionVector
from puffin.errors import CorruptDataFileError, CorruptDeletionVectorError, StorageError, UsageError
from puffin.storage import Store
from puffin.tables.parquet_columns import FileColumn, field_id_of, locate_columns, partition_constants
from puffin.tables.parquet_rows import ParquetRows, Rows, open_parquet
from puffin.tables.scan_task import DELETE_FILE_PATH, DELETE_FILE_POS, ContentFile, FileScanTask, ScanBatch

# The columns of a position delete file by id and name.
_FILE_PATH, _POS = (DELETE_FILE_PATH, "file_path"), (DELETE_FILE_POS, "pos")
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, CorruptDeletionVectorError, UsageError)


class TaskReader:
    """Reads the tasks of one batch; what several of them share is opened once."""

    def __init__(self, batch: ScanBatch, store_for: Callable[[str], Store]) -> None:
        self._batch = batch
        self._store_for = store_for
        self._positions: dict[str, dict[str, DeletionVector]] = {}

    def read(self, task: FileScanTask) -> Iterator[Rows]:
        """
        The live rows of a task.

        Raises:
            CorruptDataFileError: The data file or one of its delete files cannot be understood.
            CorruptMetadataError: What should stand for a column that the file lacks is not of its type.
            UnsupportedTableError: The file's columns cannot be found by field id.
            FileNotFound, StorageError: One of the files is not there, or the storage failed.
        """
        path = task.data_file.file_path
        with _told_of(path, "Parquet file"), self._store_for(path).open_input(path) as source:
            yield from self._read_parquet(task, source)

    def _read_parquet(self, task: FileScanTask, source: pa.NativeFile) -> Iterator[Rows]:
        parquet = open_parquet(source)
        columns = self._locate(task.data_file, parquet.schema_arrow)
        yield from ParquetRows(source, parquet, columns, self._deleted_rows(task)).read(task.start, _stop(task))

    def _locate(self, file: ContentFile, schema: pa.Schema) -> tuple[FileColumn, ...]:
        return locate_columns(
            schema,
            self._batch.columns,
            constants=partition_constants(self._batch.specs, file.spec_id, file.partition),
            name_mapping=self._batch.name_mapping,
            where=file.file_path,
        )

    def _deleted_rows(self, task: FileScanTask) -> DeletionVector | None:
        deleted: DeletionVector | None = None
        for file in task.delete_files:
            found = self._deleted_by(file, task.data_file.file_path)
            if found is not None:
                deleted = found if deleted is None else deleted.union(found)
        return deleted

    def _deleted_by(self, file: ContentFile, data_path: str) -> DeletionVector | None:
        with _told_of(file.file_path, "delete file"):
            if file.content_offset is not None and file.content_size_in_bytes is not None:
                with self._store_for(file.file_path).open_source(file.file_path) as source:
                    payload = source.read_at(file.content_offset, file.content_size_in_bytes)
                return DeletionVector.from_bytes(payload, expected_cardinality=file.record_count)
            if file.file_path not in self._positions:
                self._positions[file.file_path] = self._read_positions(file.file_path)
            return self._positions[file.file_path].get(data_path)

    def _read_positions(self, path: str) -> dict[str, DeletionVector]:
        wanted = pa.array({task.data_file.file_path for task in self._batch.tasks})
        found: dict[str, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = {}
        with self._store_for(path).open_input(path) as source:
            parquet = pq.ParquetFile(source)
            names = [_name_of(parquet.schema_arrow, field_id, name) for field_id, name in (_FILE_PATH, _POS)]
            for batch in parquet.iter_batches(columns=names):
                paths, positions = (batch.column(name) for name in names)
                paths = paths.cast(pa.binary()).cast(pa.string())  # no number passes for a path
                for data_path in pc.unique(paths.filter(pc.is_in(paths, wanted))):
                    of_one = positions.filter(pc.equal(paths, data_path)).to_numpy(zero_copy_only=False)
                    found.setdefault(data_path.as_py(), []).append(of_one)
        return {data_path: DeletionVector.from_positions(np.concatenate(parts)) for data_path, parts in found.items()}


@contextlib.contextmanager
def _told_of(path: str, kind: str) -> Iterator[None]:
    """Tell what pyarrow raises in the block, and what is wrong with deleted positions, as an error about the file."""
    try:
        yield
    except _UNREADABLE as exc:
        reason = " ".join(str(exc).split())
        # pyarrow says OSError of broken pages too, but then without the number of a system call's error.
        if isinstance(exc, OSError) and exc.errno is not None:
            raise StorageError(f"{path}: {reason}") from exc
        raise CorruptDataFileError(f"{path}: expected a readable {kind}: {reason}") from exc


def _name_of(schema: pa.Schema, field_id: int, name: str) -> str:
    # By name where the writer left the reserved ids out.
    return next((field.name for field in schema if field_id_of(field) == field_id), name)


def _stop(task: FileScanTask) -> float:
    # The last piece takes all that is left, should the file be longer than its manifest says.
    stop = task.start + task.length
    return math.inf if stop >= task.data_file.file_size_in_bytes else stop
