"""
Parquet data files and delete files.

Each column chunk is read in the cheapest way that counts every value. Chunks whose values do not need their rows come
first (see `puffin.files.parquet.chunk_plan`). The rest is read row by row, in batches of bounded bytes. Column chunks
are streamed, so memory does not grow with the file.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.cached import cached_property
from puffin.files.data_file import DataFile, Path
from puffin.files.file_columns import FileColumn
from puffin.files.parquet.bloom_filters import read_bloom_filters
from puffin.files.parquet.chunk_plan import ROW_BY_ROW, ChunkPlan, ChunkPlanner
from puffin.files.parquet.chunk_runs import ChunkRun, PlannedChunk, runs
from puffin.files.parquet.contradictions import check_chunk
from puffin.files.parquet.encryption import read_plain_footer
from puffin.files.parquet.footer_statistics import chunk_statistics
from puffin.files.parquet.page_rows import has_readable_rows, read_page_rows
from puffin.files.parquet.row_batches import counted, row_batches
from puffin.files.rows import BATCH_BYTES, MAX_BATCH_ROWS, Reading, Rows, summarized
from puffin.values.chunk_summary import ChunkSummary
from puffin.values.column_chunk import ChunkStatistics
from puffin.values.plain_arrays import type_of_values

_STREAM_BUFFER = 8 * 1024 * 1024  # bytes of a column chunk that are held at a time
_INT96_UNIT = "us"
_WINDOW_CHUNKS = 1 << 12  # of all columns in row groups that are read together: each of them has a plan in memory


class ParquetDataFile(DataFile):
    """An open Parquet file, which may be read several times; NotImplementedError if it is encrypted."""

    footer: pq.FileMetaData

    def __init__(self, source: pa.NativeFile, layout: _Layout | None = None) -> None:
        """Read the footer of a file, unless what it tells is given."""
        self._source = source
        self._parquet = _open(source, read_plain_footer(source) if layout is None else layout.footer)
        self._layout = layout or _Layout(self._parquet)
        self.schema = self._layout.schema
        self.footer = self._layout.footer

    def again(self, source: pa.NativeFile, /) -> DataFile:
        return ParquetDataFile(source, self._layout)

    def batches(self, paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        columns = [".".join(path) for path in paths if path]
        rows = sum(self.footer.row_group(place).num_rows for place in range(self.footer.num_row_groups))
        yield from counted(self._parquet.iter_batches(columns=columns, use_threads=False), rows)

    def bloom_filters(self, column: FileColumn, /) -> Sequence[bytes]:
        place = self._layout.places.get(".".join(column.names))
        if place is None or column.constant is not None:
            return ()
        return read_bloom_filters(self._source, self.footer, self._layout.planner.row_groups, column, place)

    def rows(self, reading: Reading) -> Iterator[Rows]:
        reader = _RowGroupReader(self._source, self._parquet, self._layout, reading)
        most = max(1, _WINDOW_CHUNKS // max(1, len(reading.columns))) if reading.selection.is_all else 1
        chosen = [
            group
            for group in self._layout.row_groups
            if reading.start <= group.first_byte < reading.stop
            and reading.selection.has_chosen(group.first_row, group.first_row + group.metadata.num_rows)
        ]
        for at in range(0, len(chosen), most):
            yield from reader.read(chosen[at : at + most])


class _RowGroup(NamedTuple):
    place: int
    metadata: pq.RowGroupMetaData
    first_row: int
    first_byte: int


class _Layout:
    """What the footer of a file tells every reading of it, in any thread."""

    def __init__(self, parquet: pq.ParquetFile) -> None:
        self.footer = parquet.metadata
        self.schema = parquet.schema_arrow
        self._planner: ChunkPlanner | None = None
        self._lock = threading.Lock()

    @property
    def planner(self) -> ChunkPlanner:
        with self._lock:  # one thread parses the footer
            if self._planner is None:
                self._planner = ChunkPlanner(self.footer, self.schema)
            return self._planner

    @cached_property
    def row_groups(self) -> Sequence[_RowGroup]:
        groups, row = [], 0
        for place in range(self.footer.num_row_groups):
            group = self.footer.row_group(place)
            first = self.chunk(place, group, 0) if group.num_columns else None
            groups.append(_RowGroup(place, group, row, 0 if first is None else _first_byte(first)))
            row += group.num_rows
        return groups

    def chunk(self, place: int, group: pq.RowGroupMetaData, leaf: int) -> pq.ColumnChunkMetaData:
        """What pyarrow tells of a chunk of the row group at a place; raises as `check_chunk`."""
        ours = self.planner.chunk(place, leaf)
        if ours is not None:
            check_chunk(ours)
        return group.column(leaf)

    @cached_property
    def leaf_paths(self) -> Sequence[str]:
        schema = self.footer.schema
        return [schema.column(place).path for place in range(len(schema))]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each leaf whose path is its own."""
        times = Counter(self.leaf_paths)
        return {path: place for place, path in enumerate(self.leaf_paths) if times[path] == 1}


class _RowGroupReader:
    """Reads row groups of one file."""

    def __init__(self, source: pa.NativeFile, parquet: pq.ParquetFile, layout: _Layout, reading: Reading) -> None:
        self._source = source
        self._layout = layout
        self._wants = reading.wants
        self._columns = reading.columns
        self._selection = reading.selection
        self._all_live = reading.selection.is_all
        self._opened: dict[tuple[str, ...], pq.ParquetFile] = {(): parquet}

    def read(self, window: Sequence[_RowGroup]) -> Iterator[Rows]:
        """The rows to read of row groups, several only if all rows are live; errors are pyarrow's."""
        paths = [column.names for column in self._columns if column.names and column.constant is None]
        plans = [
            self._layout.planner.plan(group.place, paths, all_live=self._all_live, each_row=self._wants.each_row)
            for group in window
        ]
        unread: list[list[PlannedChunk]] = [[] for _ in window]
        for column in self._columns:
            chunks = [self._planned(column, place, *each) for place, each in enumerate(zip(window, plans, strict=True))]
            for run in runs(chunks):
                for chunk in (yield from self._read_run(run)):
                    unread[chunk.group].append(chunk)
        for group, rest in zip(window, unread, strict=True):
            if self._all_live and not rest:
                yield Rows(group.metadata.num_rows, {})
            else:
                yield from self._read_rest(group, rest)

    def _planned(
        self, column: FileColumn, place: int, group: _RowGroup, plans: Mapping[Path, ChunkPlan]
    ) -> PlannedChunk:
        plan = plans.get(column.names, ROW_BY_ROW)
        _check_values(column, group, plan)
        summary = None
        if self._wants.summaries:
            summary = ChunkSummary(column.column.type, self._statistics(group.metadata, column.names, plan))
        return PlannedChunk(column, place, group.metadata.num_rows, plan, summary)

    def _read_run(self, run: ChunkRun) -> Generator[Rows, None, Sequence[PlannedChunk]]:
        """Values that come without their rows; returns the chunks that have to be read row by row."""
        field_id = run.chunks[0].column.column.field_id
        found = None if field_id in self._wants.side_by_side else run.read(self._source)
        if found is None and len(run.chunks) > 1:
            unread: list[PlannedChunk] = []
            for each in run.one_by_one():
                unread += yield from self._read_run(each)
            return unread
        if found is None:
            return run.chunks
        summary = run.summary()
        summaries = {} if summary is None else {field_id: summary}
        yield from summarized((Rows(0, {field_id: values}) for values in found), summaries, run.bytes_read, run.rows)
        return ()

    def _read_rest(self, row_group: _RowGroup, rest: Sequence[PlannedChunk]) -> Iterator[Rows]:
        """The chunks of a row group that are read row by row."""
        place, group, first_row, _ = row_group
        columns = [chunk.column for chunk in rest]
        seen = self._selection.columns_seen(columns)
        paths = list(dict.fromkeys(".".join(column.names) for column in seen if column.names))
        chunks = [self._layout.chunk(place, group, leaf) for leaf in self._leaves(paths)]
        bytes_read = sum(chunk.total_compressed_size for chunk in chunks) if group.num_rows else 0
        uncompressed = sum(chunk.total_uncompressed_size for chunk in chunks)
        rows = min(MAX_BATCH_ROWS, max(1, BATCH_BYTES * group.num_rows // max(1, uncompressed)))
        summaries = {chunk.column.column.field_id: chunk.summary for chunk in rest if chunk.summary is not None}
        batches = row_batches(self._opened_for(rest), place, paths, rows, lambda: self._from_pages(row_group, seen))
        yield from summarized(self._selection.rows(batches, columns, first_row), summaries, bytes_read)

    def _from_pages(self, row_group: _RowGroup, columns: Sequence[FileColumn]) -> dict[str, Iterator[pa.Array]]:
        """The rows of columns whose pages can be read without pyarrow, by path; columns inside structs cannot."""
        paths = [column.names for column in columns if column.names and column.constant is None]
        plans = self._layout.planner.plan(row_group.place, paths, all_live=False, each_row=True)
        found = {}
        for path, plan in plans.items():
            chunk, is_named_once = plan.chunk, path[0] in self._layout.places
            if chunk is None or chunk.num_values != row_group.metadata.num_rows or not is_named_once:
                continue
            arrow_type = type_of_values(plan.arrow_type)
            if has_readable_rows(chunk, arrow_type):
                found[path[0]] = read_page_rows(self._source, chunk, arrow_type)
        return found

    def _statistics(self, group: pq.RowGroupMetaData, path: Path, plan: ChunkPlan) -> ChunkStatistics:
        place = self._layout.places.get(".".join(path))
        if plan.arrow_type is None or place is None:
            return ChunkStatistics()
        if plan.chunk is not None:
            check_chunk(plan.chunk)
        created_by = str(self._layout.footer.created_by)
        found = chunk_statistics(group.column(place), plan.chunk, plan.arrow_type, created_by)
        return found if self._all_live else found.of_some_rows()

    def _leaves(self, paths: list[str]) -> list[int]:
        """The places of the file's leaf columns at or below these dotted paths."""
        below = tuple(f"{path}." for path in paths)
        return [i for i, path in enumerate(self._layout.leaf_paths) if path in paths or path.startswith(below)]

    def _opened_for(self, chunks: Sequence[PlannedChunk]) -> pq.ParquetFile:
        # Opening a file decides which columns are read as dictionaries; this does not read its footer again.
        encoded = (chunk.column.names for chunk in chunks if chunk.plan.reads_as_dictionary(self._source))
        paths = tuple(sorted(map(".".join, encoded)))
        if paths not in self._opened:
            self._opened[paths] = _open(self._source, self._layout.footer, paths)
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


def _check_values(column: FileColumn, group: _RowGroup, plan: ChunkPlan) -> None:
    """ValueError if a chunk that is not inside a list has not one value or null for each row."""
    chunk, rows = plan.chunk, group.metadata.num_rows
    if chunk is not None and chunk.leaf.max_repetition_level == 0 and chunk.num_values != rows:
        name, found = column.column.name, chunk.num_values
        raise ValueError(f"column {name}: expected {rows} values in row group {group.place}, found {found}")


def _first_byte(chunk: pq.ColumnChunkMetaData) -> int:
    dictionary = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if not dictionary else min(dictionary, chunk.data_page_offset))
