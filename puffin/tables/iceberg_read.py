"""
Reading a scan task: the live values of each column, in batches of bounded bytes.

This is what runs where the data is. It knows one task at a time and nothing of Spark: files come in through
a store, Arrow arrays go out, rows that a delete file names are left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin.deletion_vector import DeletionVector
from puffin.errors import CorruptDataFileError, CorruptDeletionVectorError, StorageError, UsageError
from puffin.storage import Store
from puffin.tables.parquet_columns import FileColumn, field_id_of, locate_columns, partition_constants
from puffin.tables.scan_task import ContentFile, FileScanTask, ScanBatch

BATCH_BYTES = 32 * 1024 * 1024  # what a batch of rows should take in memory, by the file's own uncompressed sizes
MAX_BATCH_ROWS = 128 * 1024

_LARGEST_DICTIONARY = 2 * 1024 * 1024  # bytes; where writers give a dictionary up
_STRING_LENGTH_SIZE = 4  # bytes before every plain string
_INT96_UNIT = "us"

# The columns of a position delete file by id (spec, "Reserved Field IDs") and name.
_FILE_PATH, _POS = (2147483546, "file_path"), (2147483545, "pos")
_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, CorruptDeletionVectorError, UsageError)


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """
    Some live rows of a file.

    Attributes:
        count: How many.
        columns: Their values by field id; null where the row has none.
        bytes_read: Compressed bytes of the column chunks that were opened for them.
    """

    count: int
    columns: Mapping[int, pa.Array]
    bytes_read: int


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
        parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit=_INT96_UNIT)
        columns = self._locate(task.data_file, parquet.schema_arrow)
        deleted = self._deleted_rows(task)
        paths = [".".join(column.names) for column in columns if column.names]
        leaves = _leaves(parquet.schema, paths)
        metadata = parquet.metadata
        if dictionaries := _dictionary_encoded(metadata, leaves):
            parquet = pq.ParquetFile(
                source, metadata=metadata, read_dictionary=dictionaries, coerce_int96_timestamp_unit=_INT96_UNIT
            )
        stop = _stop(task)
        first_row = 0
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            if task.start <= _begin(group) < stop:
                chunks = [group.column(leaf) for leaf in leaves]
                compressed = sum(chunk.total_compressed_size for chunk in chunks)
                uncompressed = sum(chunk.total_uncompressed_size for chunk in chunks)
                rows = min(MAX_BATCH_ROWS, max(1, BATCH_BYTES * group.num_rows // max(1, uncompressed)))
                at = first_row
                for batch in _row_batches(parquet, index, group, paths, rows):
                    yield _live(batch, columns, deleted, at, compressed)
                    at += batch.num_rows
                    compressed = 0
            first_row += group.num_rows

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


def _row_batches(
    parquet: pq.ParquetFile, index: int, group: pq.RowGroupMetaData, paths: list[str], rows: int
) -> Iterator[pa.RecordBatch]:
    if paths:
        yield from parquet.iter_batches(rows, row_groups=[index], columns=paths, use_threads=False)
    else:
        # Every column is a constant here: only the number of rows comes from the file.
        for start in range(0, group.num_rows, rows):
            length = min(rows, group.num_rows - start)
            yield pa.RecordBatch.from_struct_array(pa.nulls(length, pa.struct([])))


def _live(
    batch: pa.RecordBatch, columns: tuple[FileColumn, ...], deleted: DeletionVector | None, at: int, bytes_read: int
) -> Rows:
    arrays = {column.column.field_id: column.read(batch) for column in columns}
    if deleted is None:
        return Rows(batch.num_rows, arrays, bytes_read)
    live = deleted.live_mask(at, at + batch.num_rows)
    mask = pa.array(live)
    return Rows(int(live.sum()), {key: array.filter(mask) for key, array in arrays.items()}, bytes_read)


def _stop(task: FileScanTask) -> float:
    # The last piece takes all that is left, should the file be longer than its manifest says.
    stop = task.start + task.length
    return math.inf if stop >= task.data_file.file_size_in_bytes else stop


def _begin(group: pq.RowGroupMetaData) -> int:
    if group.num_columns == 0:
        return 0
    chunk = group.column(0)
    dictionary = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if not dictionary else min(dictionary, chunk.data_page_offset))


def _leaves(schema: pq.ParquetSchema, paths: list[str]) -> list[int]:
    """The places of the file's leaf columns that reading these dotted paths opens."""
    below = tuple(f"{path}." for path in paths)
    return [i for i in range(len(schema)) if schema.column(i).path in paths or schema.column(i).path.startswith(below)]


def _dictionary_encoded(metadata: pq.FileMetaData, leaves: list[int]) -> list[str]:
    """
    The paths of the string columns that are stored as dictionaries with indices, all but a few values.

    Decoded, such a value would take its length in every row that has it, of which the file's sizes give no idea.
    They are known by their size: a plain string takes four bytes for its length alone, an index less.
    """
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    found = []
    for leaf in leaves:
        chunks = [group.column(leaf) for group in groups]
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        values = sum(chunk.num_values for chunk in chunks)
        is_string = all(chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page for chunk in chunks)
        if chunks and is_string and size <= len(chunks) * _LARGEST_DICTIONARY + values * _STRING_LENGTH_SIZE:
            found.append(chunks[0].path_in_schema)
    return found
