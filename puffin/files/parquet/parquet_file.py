"""
Parquet data files and delete files.

Each column chunk is read in the cheapest way that counts every value. Chunks whose values do not need their rows come
first (see `puffin.files.parquet.chunk_plan`). The rest is read row by row, in batches of bounded bytes. Column chunks
are streamed, so memory does not grow with the file.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.files.data_file import DataFile, Path
from puffin.files.file_columns import FileColumn
from puffin.files.parquet.bloom_filters import read_bloom_filters
from puffin.files.parquet.chunk_plan import ChunkPlan, ChunkPlanner
from puffin.files.parquet.encryption import read_plain_footer
from puffin.files.parquet.footer_statistics import chunk_statistics
from puffin.files.rows import BATCH_BYTES, MAX_BATCH_ROWS, Reading, Rows, record_batch
from puffin.values.chunk_summary import ChunkSummary
from puffin.values.column_chunk import ChunkStatistics
from puffin.values.row_summary import RowSummary

_STREAM_BUFFER = 8 * 1024 * 1024  # bytes of a column chunk that are held at a time
_INT96_UNIT = "us"


class ParquetDataFile(DataFile):
    """An open Parquet file; NotImplementedError if it is encrypted."""

    footer: pq.FileMetaData

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self._parquet: pq.ParquetFile = _open(source, read_plain_footer(source))
        self.schema = self._parquet.schema_arrow
        self.footer = self._parquet.metadata

    def batches(self, paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        columns = [".".join(path) for path in paths if path]
        yield from self._parquet.iter_batches(columns=columns, use_threads=False)

    def bloom_filters(self, column: FileColumn, /) -> Sequence[bytes]:
        return read_bloom_filters(self._source, self.footer, self._planner.row_groups, column)

    @functools.cached_property
    def _planner(self) -> ChunkPlanner:
        return ChunkPlanner(self.footer, self.schema)

    def rows(self, reading: Reading) -> Iterator[Rows]:
        reader = _RowGroupReader(self._source, self._parquet, self._planner, reading)
        first_row = 0
        for index in range(self.footer.num_row_groups):
            group = self.footer.row_group(index)
            stop_row = first_row + group.num_rows
            if reading.start <= _first_byte(group) < reading.stop and reading.selection.has_chosen(first_row, stop_row):
                yield from reader.read(index, group, first_row)
            first_row = stop_row


class _RowGroupReader:
    """Reads the row groups of one file, opened without dictionaries."""

    def __init__(self, source: pa.NativeFile, parquet: pq.ParquetFile, planner: ChunkPlanner, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        self._columns = reading.columns
        self._selection = reading.selection
        self._all_live = reading.selection.is_all
        self._metadata = parquet.metadata
        self._planner = planner
        self._leaf_paths = [parquet.schema.column(i).path for i in range(len(parquet.schema))]
        times = Counter(self._leaf_paths)
        self._places = {path: place for place, path in enumerate(self._leaf_paths) if times[path] == 1}
        self._opened: dict[tuple[str, ...], pq.ParquetFile] = {(): parquet}

    def read(self, index: int, group: pq.RowGroupMetaData, first_row: int) -> Iterator[Rows]:
        """The rows to read of a row group; errors are pyarrow's."""
        paths = [column.names for column in self._columns if column.names and column.constant is None]
        plans = self._planner.plan(index, paths, all_live=self._all_live, each_row=self._reading.each_row)
        summaries: dict[int, ChunkSummary] = {}
        rest: list[FileColumn] = []
        for column in self._columns:
            field_id = column.column.field_id
            plan = plans.get(column.names) if column.constant is None else None
            if self._reading.summaries:
                summaries[field_id] = ChunkSummary(column.column.type, self._statistics(group, column.names, plan))
            is_needed = field_id in self._reading.side_by_side
            found = None if plan is None or is_needed else plan.read(self._source)
            if plan is None or found is None:
                rest.append(column)
                continue
            bytes_read = plan.bytes_read
            for values in found:
                yield Rows(0, {field_id: values}, bytes_read)
                bytes_read = 0
                # Only now: the consumer, who hashes the values, should be the first to report errors in them.
                if field_id in summaries:
                    summaries[field_id].see_values(values, one_each=plan.has_every_row)
        if self._all_live and not rest:
            yield Rows(group.num_rows, {}, 0, _totals(summaries, group.num_rows))
            return
        plans_of_rest = {column.names: plans[column.names] for column in rest if column.names in plans}
        as_dictionary = {path for path, plan in plans_of_rest.items() if plan.reads_as_dictionary(self._source)}
        live = 0
        for rows in self._read_rows(index, group, rest, as_dictionary, first_row):
            yield rows
            live += rows.count
            for field_id, summary in summaries.items():
                if field_id in rows.columns:
                    summary.see_rows(rows.columns[field_id].array)
        yield Rows(0, {}, 0, _totals(summaries, live))

    def _statistics(self, group: pq.RowGroupMetaData, path: Path, plan: ChunkPlan | None) -> ChunkStatistics:
        place = self._places.get(".".join(path))
        if plan is None or plan.arrow_type is None or place is None:
            return ChunkStatistics()
        found = chunk_statistics(group.column(place), plan.chunk, plan.arrow_type)
        return found if self._all_live else found.of_some_rows()

    def _read_rows(
        self,
        index: int,
        group: pq.RowGroupMetaData,
        columns: Sequence[FileColumn],
        as_dictionary: set[Path],
        first_row: int,
    ) -> Iterator[Rows]:
        seen = self._selection.columns_seen(columns)
        paths = list(dict.fromkeys(".".join(column.names) for column in seen if column.names))
        chunks = [group.column(leaf) for leaf in self._leaves(paths)]
        bytes_read = sum(chunk.total_compressed_size for chunk in chunks)
        uncompressed = sum(chunk.total_uncompressed_size for chunk in chunks)
        rows = min(MAX_BATCH_ROWS, max(1, BATCH_BYTES * group.num_rows // max(1, uncompressed)))
        at = first_row
        parquet = self._reading_as_dictionary(tuple(sorted(".".join(path) for path in as_dictionary)))
        for batch in _row_batches(parquet, index, group, paths, rows):
            yield self._selection.take(batch, columns, at, bytes_read)
            at += batch.num_rows
            bytes_read = 0

    def _leaves(self, paths: list[str]) -> list[int]:
        """The places of the file's leaf columns at or below these dotted paths."""
        below = tuple(f"{path}." for path in paths)
        return [i for i, path in enumerate(self._leaf_paths) if path in paths or path.startswith(below)]

    def _reading_as_dictionary(self, paths: tuple[str, ...]) -> pq.ParquetFile:
        # Opening a file decides which columns are read as dictionaries; this does not read its footer again.
        if paths not in self._opened:
            self._opened[paths] = _open(self._source, self._metadata, paths)
        return self._opened[paths]


def _open(source: pa.NativeFile, metadata: pq.FileMetaData | None, as_dictionary: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file for reading; ``as_dictionary`` has the dotted paths of columns to read as dictionaries."""
    return pq.ParquetFile(
        source,
        metadata=metadata,
        read_dictionary=list(as_dictionary),
        coerce_int96_timestamp_unit=_INT96_UNIT,
        buffer_size=_STREAM_BUFFER,
        pre_buffer=False,
    )


def _totals(summaries: Mapping[int, ChunkSummary], rows: int) -> dict[int, RowSummary]:
    return {field_id: summary.total(rows) for field_id, summary in summaries.items()}


def _row_batches(
    parquet: pq.ParquetFile, index: int, group: pq.RowGroupMetaData, paths: list[str], rows: int
) -> Iterator[pa.RecordBatch]:
    if paths:
        yield from parquet.iter_batches(rows, row_groups=[index], columns=paths, use_threads=False)
    else:
        # Every column is a constant; the file only gives the number of rows.
        for start in range(0, group.num_rows, rows):
            yield record_batch([], [], min(rows, group.num_rows - start))


def _first_byte(group: pq.RowGroupMetaData) -> int:
    if group.num_columns == 0:
        return 0
    chunk = group.column(0)
    dictionary = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if not dictionary else min(dictionary, chunk.data_page_offset))
