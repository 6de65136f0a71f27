"""Parquet files: data by row groups (`parquet_rows`), delete files by batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.files.data_file import DataFile, Path
from puffin.files.parquet.encryption import read_plain_footer
from puffin.files.parquet.parquet_rows import RowGroupReader, first_byte, open_parquet
from puffin.files.rows import Reading, Rows


class ParquetDataFile(DataFile):
    """An open Parquet file; NotImplementedError if it is encrypted."""

    footer: pq.FileMetaData

    def __init__(self, source: pa.NativeFile) -> None:
        self._source = source
        self._parquet: pq.ParquetFile = open_parquet(source, read_plain_footer(source))
        self.schema = self._parquet.schema_arrow
        self.footer = self._parquet.metadata

    def batches(self, paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
        columns = [".".join(path) for path in paths if path]
        yield from self._parquet.iter_batches(columns=columns, use_threads=False)

    def rows(self, reading: Reading) -> Iterator[Rows]:
        reader = RowGroupReader(self._source, self._parquet, reading)
        first_row = 0
        for index in range(self.footer.num_row_groups):
            group = self.footer.row_group(index)
            stop_row = first_row + group.num_rows
            if reading.start <= first_byte(group) < reading.stop and reading.selection.has_chosen(first_row, stop_row):
                yield from reader.read(index, group, first_row)
            first_row = stop_row
