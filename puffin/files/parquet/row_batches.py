"""The rows of a row group in batches: as pyarrow reads them, and where it fails, from pages that can be read here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.files.parquet.thrift import MALFORMED
from puffin.files.rows import record_batch
from puffin.storage import is_storage_failure

_UNREADABLE = (pa.ArrowException, OSError, *MALFORMED)


def row_batches(
    parquet: pq.ParquetFile,
    place: int,
    paths: Sequence[str],
    batch_rows: int,
    from_pages: Callable[[], Mapping[str, Iterator[pa.Array]]],
) -> Iterator[pa.RecordBatch]:
    """
    The rows of the row group at a place, with the columns of these dotted paths.

    Args:
        batch_rows: Of a batch, at most.
        from_pages: The values and nulls of columns by path, as far as their pages can be read without pyarrow.

    Raises pyarrow's error, or ValueError if pyarrow finds another number of rows than in the footer.
    """
    found = 0
    try:
        for batch in _read(parquet, place, paths, batch_rows):
            found += batch.num_rows
            yield batch
        return
    except _UNREADABLE as exc:
        failure = exc
        columns = {} if is_storage_failure(exc) else {path: _Column(arrays) for path, arrays in from_pages().items()}
    if not columns:
        raise failure
    try:
        others = [path for path in paths if path not in columns]
        for batch in _read(parquet, place, others, batch_rows):
            arrays = [*batch.columns, *(column.take(batch.num_rows) for column in columns.values())]
            yield from _behind(found, record_batch(arrays, [*batch.schema.names, *columns], batch.num_rows))
            found = max(0, found - batch.num_rows)
    except _UNREADABLE as exc:
        if is_storage_failure(exc):
            raise
        raise failure from exc


def counted(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Pass on batches of so many rows; ValueError if there are fewer or more."""
    found = 0
    for batch in batches:
        found += batch.num_rows
        if found > rows:
            break
        yield batch
    if found != rows:  # pyarrow ends a chunk where it begins with a page without values, or has two of them in a row
        raise ValueError(f"expected {rows} rows, as the footer says, found {found}")


def _read(parquet: pq.ParquetFile, place: int, paths: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    rows = parquet.metadata.row_group(place).num_rows
    if paths:
        yield from counted(parquet.iter_batches(batch_rows, row_groups=[place], columns=paths, use_threads=False), rows)
    else:
        # Every column is a constant, or read from its pages; the file only gives the number of rows.
        for start in range(0, rows, batch_rows):
            yield record_batch([], [], min(batch_rows, rows - start))


def _behind(rows: int, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """What is behind some rows of a batch."""
    if rows < batch.num_rows:
        yield batch.slice(rows)


class _Column:
    """Cuts a column that comes page by page into the batches of the other columns."""

    def __init__(self, pages: Iterator[pa.Array]) -> None:
        self._pages = pages
        self._left: list[pa.Array] = []
        self._rows = 0

    def take(self, rows: int) -> pa.Array:
        while self._rows < rows:
            following = next(self._pages, None)
            if following is None:
                raise ValueError(f"expected {rows} more rows in pages, found {self._rows}")
            self._left.append(following)
            self._rows += len(following)
        whole = pa.concat_arrays(self._left)
        self._left = [whole.slice(rows)]
        self._rows -= rows
        return whole.slice(0, rows)
