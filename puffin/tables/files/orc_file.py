"""
ORC data files and delete files, read by pyarrow.

``ORCFile`` gives a whole stripe at a time; read as a data set, the same reader gives batches. Times have no type of
their own in ORC: Iceberg stores longs and says so in an attribute. pyarrow gives timestamps in nanoseconds, which reach
from 1677 to 2262, and those beyond it gives as others before version 25, and as an error since: both are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from puffin.tables.files.data_file import Path, RowFile
from puffin.tables.files.orc_postscript import is_encrypted
from puffin.tables.files.rows import BATCH_BYTES, MAX_BATCH_ROWS

CHECKS_TIMESTAMPS = int(pa.__version__.partition(".")[0]) >= 25
"""Whether pyarrow says so if it cannot give a timestamp; if not, none can be read."""

_LONG_TYPE, _TIME = b"iceberg.long-type", b"TIME"
_TIME_TYPE = pa.time64("us")
_GROWTH = 8  # bytes in memory for each in the file, at the most that is usual
_BEYOND_NANOSECONDS = "out of range for nanosecond"


class OrcDataFile(RowFile):
    """An open ORC file; NotImplementedError if it is encrypted."""

    def __init__(self, source: pa.NativeFile, record_count: int) -> None:
        from pyarrow import orc  # which is an optional part of it

        super().__init__(source.size(), record_count)
        if is_encrypted(source):
            raise NotImplementedError("encrypted columns")
        self._file = file = orc.ORCFile(source)
        self.schema = file.schema
        self._source = source
        self._row_count = file.nrows
        bytes_per_row = max(1, _GROWTH * file.content_length // max(1, file.nrows))
        self._batch_rows = min(MAX_BATCH_ROWS, max(1, BATCH_BYTES // bytes_per_row))

    def _batches(self, paths: set[Path]) -> Iterator[pa.RecordBatch]:
        if self._row_count != self._record_count:
            raise ValueError(f"expected {self._record_count} rows, as the manifest says, found {self._row_count}")
        names = sorted({path[0] for path in paths})
        if not names:
            for start in range(0, self._row_count, self._batch_rows):
                length = min(self._batch_rows, self._row_count - start)
                yield pa.RecordBatch.from_struct_array(pa.nulls(length, pa.struct([])))
            return
        fields = [self.schema.field(name) for name in names]
        if not CHECKS_TIMESTAMPS and any(_has_timestamp(field.type) for field in fields):
            raise NotImplementedError("timestamps in ORC need pyarrow 25")
        types = [_stored_type(field) for field in fields]
        try:
            for batch in self._read(names):
                arrays = [array.cast(type_) for array, type_ in zip(batch.columns, types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, names)
        except pa.ArrowInvalid as exc:
            if _BEYOND_NANOSECONDS in str(exc):
                raise NotImplementedError(f"{exc}, which timestamps in ORC files are read in") from exc
            raise

    def _read(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        from pyarrow import dataset  # which takes a quarter of a second, and is wanted here alone

        if not all(map(str.isidentifier, names)):  # one with a dot is taken for a path, and its values for nulls
            for stripe in range(self._file.nstripes):
                yield self._file.read_stripe(stripe).select(names)
            return
        scanner = (
            dataset.OrcFileFormat()
            .make_fragment(self._source)
            .scanner(
                columns=names,
                batch_size=self._batch_rows,
                use_threads=False,
                batch_readahead=1,
                fragment_readahead=1,
            )
        )
        yield from scanner.to_batches()


def _stored_type(field: pa.Field) -> pa.DataType:
    """What the field's values are: a time is a long."""
    if pa.types.is_struct(field.type):
        return pa.struct([inner.with_type(_stored_type(inner)) for inner in field.type])
    is_time = (field.metadata or {}).get(_LONG_TYPE) == _TIME and pa.types.is_int64(field.type)
    return _TIME_TYPE if is_time else field.type


def _has_timestamp(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) or (pa.types.is_struct(type_) and any(_has_timestamp(f.type) for f in type_))
