"""
ORC data files and delete files, read by pyarrow.

``ORCFile`` only reads whole stripes; read as a data set, the same reader gives batches. ORC has no type for times:
Iceberg stores longs and marks them with an attribute. pyarrow reads timestamps as nanoseconds, which range from 1677 to
2262. `puffin.files.orc.timestamps` reads columns that may go beyond, and those where pyarrow errs. Inside a struct we
reject what goes beyond; before version 25 pyarrow would return wrong moments. Only the footer tells which strings are
CHAR, whose values are padded. Iceberg writes none, so strings with field ids need no footer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from puffin.errors import in_one_line
from puffin.files.data_file import Path, RowFile
from puffin.files.file_columns import FileColumn, field_id_of
from puffin.files.orc.orc_footer import CHAR, MALFORMED, Footer, is_encrypted, read_footer
from puffin.files.orc.padding import without_padding
from puffin.files.orc.timestamps import is_misread, read_timestamps
from puffin.files.rows import BATCH_BYTES, MAX_BATCH_ROWS, Reading, Rows, record_batch

CHECKS_TIMESTAMPS = int(pa.__version__.partition(".")[0]) >= 25
"""Whether pyarrow raises if a timestamp is out of range."""

_LONG_TYPE, _TIME = b"iceberg.long-type", b"TIME"
_TIMESTAMP_UNIT, _NANOS = b"iceberg.timestamp-unit", b"NANOS"
_TIME_TYPE = pa.time64("us")
_GROWTH = 8  # bytes in memory for each byte in the file, at most as a rule
_OF_DATA_SETS = frozenset(("__filename", "__fragment_index", "__batch_index", "__last_in_fragment"))
"""The names of columns that a data set adds."""
_BEYOND_NANOSECONDS = "out of range for nanosecond"


class OrcDataFile(RowFile):
    """An open ORC file; NotImplementedError if it is encrypted."""

    def __init__(self, source: pa.NativeFile, record_count: int) -> None:
        from pyarrow import orc  # an optional part of pyarrow

        super().__init__(source.size(), record_count)
        if is_encrypted(source):
            raise NotImplementedError("encrypted columns")
        self._file = file = orc.ORCFile(source)
        self.schema = file.schema
        self._source = source
        self._row_count = file.nrows
        bytes_per_row = max(1, _GROWTH * file.content_length // max(1, file.nrows))
        self._batch_rows = min(MAX_BATCH_ROWS, max(1, BATCH_BYTES // bytes_per_row))

    def rows(self, reading: Reading) -> Iterator[Rows]:
        """As `DataFile.rows`; NotImplementedError if moments are stored as a wall clock, or the reverse."""
        for column in reading.selection.columns_seen(reading.columns):
            self._check_zone(column)
        yield from super().rows(reading)

    def _check_zone(self, column: FileColumn) -> None:
        """Java refuses these too: nothing tells whose wall clock a table of moments means, or the reverse."""
        if column.constant is not None or not column.names or not column.column.type.startswith("timestamp"):
            return
        field = self.schema.field(column.names[0])
        for name in column.names[1:]:
            field = field.type.field(name)
        has_zone = column.column.type.startswith("timestamptz")
        if pa.types.is_timestamp(field.type) and has_zone != (field.type.tz is not None):
            found = "a moment" if field.type.tz else "a wall clock"
            raise NotImplementedError(f"column {column.column.name}: expected {column.column.type}, found {found}")

    def _batches(self, paths: set[Path]) -> Iterator[pa.RecordBatch]:
        if self._row_count != self._record_count:
            raise ValueError(f"expected {self._record_count} rows, as the manifest says, found {self._row_count}")
        names = sorted({path[0] for path in paths})
        try:
            footer = self._footer([self.schema.field(name) for name in names])
            timestamps = {} if footer is None else self._timestamps(footer, names)
            others = [name for name in names if name not in timestamps]
            types = [_stored_type(self.schema.field(name)) for name in others]
            has_padding = footer is not None and any(kind == CHAR for kind, _ in footer.types)
            for batch in self._read(others):
                arrays = batch.columns
                if footer is not None and has_padding:
                    numbers = [footer.columns[name][0] for name in others]
                    arrays = [without_padding(*each, footer) for each in zip(arrays, numbers, strict=True)]
                arrays = [array.cast(type_) for array, type_ in zip(arrays, types, strict=True)]
                arrays += [column.take(batch.num_rows) for column in timestamps.values()]
                yield record_batch(arrays, [*others, *timestamps], batch.num_rows)
        except MALFORMED as exc:
            raise ValueError(in_one_line(exc)) from exc
        except pa.ArrowInvalid as exc:
            if _BEYOND_NANOSECONDS in str(exc):
                raise NotImplementedError(f"inside a struct or in an unusual file: {exc}") from exc
            raise

    def _footer(self, fields: Sequence[pa.Field]) -> Footer | None:
        """What pyarrow does not tell of these columns; None if nothing of it is needed or known."""
        inside = list(_inside_structs(fields))
        may_be_char = any(pa.types.is_string(each.type) and field_id_of(each) is None for each in (*fields, *inside))
        at_root = any(pa.types.is_timestamp(field.type) and not _has_nanos(field) for field in fields)
        footer = None
        if may_be_char or at_root:
            try:
                footer = read_footer(self._source)
            except NotImplementedError:
                if may_be_char:
                    raise
        needs_check = any(pa.types.is_timestamp(each.type) for each in inside) or (at_root and footer is None)
        if needs_check and not CHECKS_TIMESTAMPS:
            raise NotImplementedError("timestamps inside a struct or in an unusual file need pyarrow 25")
        return footer

    def _timestamps(self, footer: Footer, names: Sequence[str]) -> dict[str, _Timestamps]:
        """The columns that pyarrow cannot read."""
        if (found := sum(stripe.rows for stripe in footer.stripes)) != self._row_count:
            raise ValueError(f"expected {self._row_count} rows in its stripes, found {found}")
        return {
            name: _Timestamps(read_timestamps(self._source, footer, name))
            for name in names
            if not _has_nanos(self.schema.field(name)) and is_misread(self._source, footer, name)
        }

    def _read(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from pyarrow import dataset  # only used here, and the import takes a quarter of a second

        if not names:
            for start in range(0, self._row_count, self._batch_rows):
                yield record_batch([], [], min(self._batch_rows, self._row_count - start))
        elif self._confuses_data_sets(names):
            for stripe in range(self._file.nstripes):
                yield self._file.read_stripe(stripe).select(names)
        else:
            fragment = dataset.OrcFileFormat().make_fragment(self._source)
            yield from fragment.scanner(
                columns=names, batch_size=self._batch_rows, use_threads=False, batch_readahead=1, fragment_readahead=1
            ).to_batches()

    def _confuses_data_sets(self, names: Iterable[str]) -> bool:
        # A data set takes a name with a dot for a path, and returns nulls; it refuses files with names of its own.
        return not all(map(str.isidentifier, names)) or not _OF_DATA_SETS.isdisjoint(self.schema.names)


class _Timestamps:
    """Cuts a column that comes by stripe into the batches of the other columns."""

    def __init__(self, stripes: Iterator[pa.Array]) -> None:
        self._stripes = stripes
        self._left = pa.array([], pa.timestamp("us"))

    def take(self, rows: int) -> pa.Array:
        while len(self._left) < rows:
            following = next(self._stripes, None)
            if following is None:
                raise ValueError(f"expected {rows} more rows in the stripes, found {len(self._left)}")
            self._left = pa.concat_arrays([self._left, following])
        taken = self._left.slice(0, rows)
        self._left = self._left.slice(rows)
        return taken


def _stored_type(field: pa.Field) -> pa.DataType:
    """The type of the field's values: a time if a long is marked as one."""
    if pa.types.is_struct(field.type):
        return pa.struct([inner.with_type(_stored_type(inner)) for inner in field.type])
    is_time = (field.metadata or {}).get(_LONG_TYPE) == _TIME and pa.types.is_int64(field.type)
    return _TIME_TYPE if is_time else field.type


def _has_nanos(field: pa.Field) -> bool:
    """Whether the unit is nanoseconds, so that no value is out of range."""
    return (field.metadata or {}).get(_TIMESTAMP_UNIT) == _NANOS


def _inside_structs(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """The fields of these structs, and of the structs in them."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from field.type
            yield from _inside_structs(field.type)
