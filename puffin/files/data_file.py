"""
A data file or delete file of any format, as the rest of the house sees it.

Parquet has its own way to the values of its columns; what other formats are read by is batches of rows, and these are
what delete files of all formats are read by.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.files.rows import Reading, Rows
from puffin.values.chunk_summary import ChunkSummary
from puffin.values.column_chunk import ChunkStatistics

Path = tuple[str, ...]
"""The names from the root of a file's schema to a column, or to a struct."""


class DataFile(ABC):
    """
    An open file; what its methods raise beside errors of ours is for `errors_about`.

    Attributes:
        schema: What it has, with its field ids (`file_columns.field_id_of`).
        footer: A Parquet file's.
    """

    schema: pa.Schema
    footer: pq.FileMetaData | None = None

    @abstractmethod
    def batches(self, paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        """All rows in their order, in batches of bounded bytes that have at least what these paths lead to."""

    @abstractmethod
    def rows(self, reading: Reading) -> Iterator[Rows]:
        """The values of some columns in the rows that are meant."""


class RowFile(DataFile):
    """
    A file without row groups of its own, or whose format gives no other way to values than its rows.

    Args:
        size: In bytes; all count as read, since nothing tells which were.
        record_count: How many rows it has by its manifest.
    """

    def __init__(self, size: int, record_count: int) -> None:
        self._size = size
        self._record_count = record_count

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """As `DataFile.rows`; the file is one row group, which begins at 0, and there is a value for each row."""
        if reading.start > 0:
            return
        columns, selection = reading.columns, reading.selection
        summarized = columns if reading.summaries else ()
        of_columns = {c.column.field_id: ChunkSummary(c.column.type, ChunkStatistics()) for c in summarized}
        bytes_read, at, live = self._size, 0, 0
        for batch in self.batches([column.names for column in selection.columns_seen(columns)]):
            stop_at = at + batch.num_rows
            if selection.has_chosen(at, stop_at):
                rows = selection.take(batch, columns, at, bytes_read)
                yield rows
                # Only now: whoever hashes the values is the first to say what is wrong with them.
                for field_id, summary in of_columns.items():
                    summary.see_rows(rows.columns[field_id].array)
                live += rows.count
                bytes_read = 0
            at = stop_at
        yield Rows(0, {}, bytes_read, {field_id: summary.total(live) for field_id, summary in of_columns.items()})

    def batches(self, paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        """As `DataFile.batches`; ValueError if there are not as many rows as the manifest says."""
        found = 0
        for batch in self._batches({path for path in paths if path}):
            found += batch.num_rows
            yield batch
        if found != self._record_count:
            raise ValueError(f"expected {self._record_count} rows, as the manifest says, found {found}")

    @abstractmethod
    def _batches(self, paths: set[Path]) -> Iterator[pa.RecordBatch]:
        """As `batches`, which counts the rows."""
