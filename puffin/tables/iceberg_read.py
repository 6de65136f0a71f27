"""
Reading a scan task: the live values of each column, in batches of bounded bytes.

This is what runs where the data is. It knows one task at a time and nothing of Spark: files come in through
a store, Arrow arrays go out, rows that a delete file names are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin.deletion_vector import DeletionVector
from puffin.errors import CorruptDataFileError, PuffinError
from puffin.storage import Store
from puffin.tables.parquet_columns import FileColumn, locate_columns, partition_constants
from puffin.tables.scan_task import ContentFile, FileScanTask, ScanBatch

BATCH_BYTES = 32 * 1024 * 1024  # what a batch of rows should take in memory, by the file's own uncompressed sizes
MAX_BATCH_ROWS = 128 * 1024

_DELETE_FILE_PATH, _DELETE_FILE_POS = "file_path", "pos"


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
            CorruptDataFileError: The data file or one of its delete files cannot be read.
            UnsupportedTableError: The file's columns cannot be found by field id.
        """
        path = task.data_file.file_path
        try:
            with self._store_for(path).open_input(path) as source:
                yield from self._read_parquet(task, pq.ParquetFile(source, coerce_int96_timestamp_unit="us"))
        except (pa.ArrowException, OSError, ValueError, KeyError, NotImplementedError) as exc:
            raise CorruptDataFileError(f"{path}: expected a readable Parquet file: {exc}") from exc

    def _read_parquet(self, task: FileScanTask, parquet: pq.ParquetFile) -> Iterator[Rows]:
        columns = self._locate(task.data_file, parquet.schema_arrow)
        deleted = self._deleted_rows(task)
        paths = [".".join(column.names) for column in columns if column.names]
        first_row = 0
        for index in range(parquet.metadata.num_row_groups):
            group = parquet.metadata.row_group(index)
            if task.start <= _begin(group) < task.start + task.length:
                compressed, uncompressed = _chunk_bytes(group, paths)
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
        try:
            if file.content_offset is not None and file.content_size_in_bytes is not None:
                with self._store_for(file.file_path).open_source(file.file_path) as source:
                    payload = source.read_at(file.content_offset, file.content_size_in_bytes)
                return DeletionVector.from_bytes(payload, expected_cardinality=file.record_count)
            if file.file_path not in self._positions:
                self._positions[file.file_path] = self._read_positions(file.file_path)
            return self._positions[file.file_path].get(data_path)
        except (PuffinError, pa.ArrowException, OSError, ValueError, KeyError) as exc:
            raise CorruptDataFileError(f"{file.file_path}: expected a readable delete file: {exc}") from exc

    def _read_positions(self, path: str) -> dict[str, DeletionVector]:
        wanted = pa.array({task.data_file.file_path for task in self._batch.tasks})
        found: dict[str, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = {}
        with self._store_for(path).open_input(path) as source:
            for batch in pq.ParquetFile(source).iter_batches(columns=[_DELETE_FILE_PATH, _DELETE_FILE_POS]):
                paths = batch.column(_DELETE_FILE_PATH).cast(pa.string())
                for data_path in pc.unique(paths.filter(pc.is_in(paths, wanted))):
                    positions = batch.column(_DELETE_FILE_POS).filter(pc.equal(paths, data_path))
                    found.setdefault(data_path.as_py(), []).append(positions.to_numpy(zero_copy_only=False))
        return {data_path: DeletionVector.from_positions(np.concatenate(parts)) for data_path, parts in found.items()}


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


def _begin(group: pq.RowGroupMetaData) -> int:
    if group.num_columns == 0:
        return 0
    chunk = group.column(0)
    dictionary = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if not dictionary else min(dictionary, chunk.data_page_offset))


def _chunk_bytes(group: pq.RowGroupMetaData, paths: list[str]) -> tuple[int, int]:
    chunks = [group.column(i) for i in range(group.num_columns)]
    chosen = [c for c in chunks if any(c.path_in_schema == p or c.path_in_schema.startswith(f"{p}.") for p in paths)]
    return sum(c.total_compressed_size for c in chosen), sum(c.total_uncompressed_size for c in chosen)
