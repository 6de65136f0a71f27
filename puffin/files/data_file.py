"""
A data file or delete file of any format.

Parquet reads the values of columns in its own way; other formats read batches of rows. Delete files of all formats are
read in batches of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.files.file_columns import FileColumn
from puffin.files.rows import Reading, Rows, summarized
from puffin.values.chunk_summary import ChunkSummary
from puffin.values.column_chunk import ChunkStatistics

Path = tuple[str, ...]
"""The names from the root of a file's schema to a column, or to a struct."""


class DataFile(ABC):
    """An open file; callers turn errors into ours with `errors_about`."""

    schema: pa.Schema  # with the file's field ids (`file_columns.field_id_of`)
    footer: pq.FileMetaData | None = None  # of a Parquet file
    last_counts = True  # of several fields with one id, as for Iceberg's readers of the format

    @abstractmethod
    def batches(self, paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        """All rows in order, in batches of bounded bytes that have at least the columns of these paths."""

    @abstractmethod
    def rows(self, reading: Reading) -> Iterator[Rows]:
        """The values of some columns in the selected rows."""

    def again(self, _source: pa.NativeFile, /) -> DataFile | None:
        """The same file, opened once more for another thread; None if it has to be read from the beginning."""
        return None

    def bloom_filters(self, _column: FileColumn, /) -> Sequence[bytes]:
        """
        The bitsets of Parquet Bloom filters that together hold every value of a column, one for each row group.

        Empty if the file lacks some, or does not hash the bytes that the column's type has in PLAIN encoding.
        """
        return ()


class RowFile(DataFile):
    """
    A file without row groups, or one whose format only gives rows.

    All of its ``size`` bytes count as read, because nothing tells which were.
    """

    def __init__(self, size: int, record_count: int) -> None:
        self._size = size
        self._record_count = record_count

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """As `DataFile.rows`; the file is one row group at offset 0, with a value for each row."""
        if reading.start > 0:
            return
        columns = [each.column for each in reading.columns] if reading.wants.summaries else []
        summaries = {column.field_id: ChunkSummary(column.type, ChunkStatistics()) for column in columns}
        batches = self.batches([column.names for column in reading.selection.columns_seen(reading.columns)])
        yield from summarized(reading.selection.rows(batches, reading.columns), summaries, self._size)

    def batches(self, paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        """As `DataFile.batches`; ValueError if the number of rows differs from the manifest's."""
        found = 0
        for batch in self._batches({path for path in paths if path}):
            found += batch.num_rows
            yield batch
        if found != self._record_count:
            raise ValueError(f"expected {self._record_count} rows, as the manifest says, found {found}")

    @abstractmethod
    def _batches(self, paths: set[Path]) -> Iterator[pa.RecordBatch]:
        """Read the batches for `batches`, which counts their rows."""
