"""
Runs where the files are read: turns a batch of scan tasks into the values of each column.

All rows of a batch are merged here, so that the result does not grow with files or rows. An error that a retry would
not cure is returned as a value, so that Spark does not retry and the user sees one line.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from puffin.errors import CorruptDataFileError, CorruptError, NotFoundError, UnsupportedError
from puffin.iceberg.stores import stores
from puffin.kernels import kernels_ready, load_kernels
from puffin.sketches.counted_hashes import Hashed, hash_counted, hash_rows
from puffin.sketches.hashing import hash_array
from puffin.sketches.row_tally import Hashes
from puffin.statistics.aside import PutAside
from puffin.statistics.kinds.kind import EVERY_ROW, Kind, Need, Values, merged
from puffin.tables.base import Column
from puffin.tables.scan_documents import unpack_batch
from puffin.tables.scan_task import AVRO, FileScanTask, ScanBatch
from puffin.values.column_chunk import Values as ColumnValues
from puffin.values.row_summary import RowSummary
from stats_jobs.shipment import Document, Kinds, Shared

if TYPE_CHECKING:
    from puffin.files.formats import DataFiles
    from puffin.files.rows import Rows

KERNELS_PAY = 16 * 1024 * 1024
"""Compiling or loading kernels pays off for a process that reads at least so many bytes of files."""

_FEW_VALUES, _ENOUGH_VALUES = 1 << 14, 1 << 16  # fewer wait for others, until there are enough
_WAITING_BYTES = 32 * 1024 * 1024  # of all columns together
_AVRO_WEIGHT = 8  # kernels pay from this many times fewer bytes of Avro on


@dataclasses.dataclass(frozen=True, slots=True)
class Partial:
    """
    The values of some of the rows.

    Attributes:
        added: By field id, for rows that are in the table.
        removed: By field id, for rows that were deleted.
        bytes_read: Compressed bytes of the column chunks.
        lifted: Columns, by field id, and files whose Bloom filters were taken instead of values.
        mapped: Field ids of columns that the table's name mapping resolved, since a file had no field ids.
        failure: Why there are no values.
        resumed: What tells the data files that were not read, since an earlier run had read them; see
            `stats_jobs.plan.counted`.
    """

    added: Mapping[int, Values] = dataclasses.field(default_factory=dict)
    removed: Mapping[int, Values] = dataclasses.field(default_factory=dict)
    rows: int = 0
    bytes_read: int = 0
    mapped: frozenset[int] = frozenset()
    lifted: frozenset[tuple[int, str]] = frozenset()
    failure: CorruptError | UnsupportedError | NotFoundError | None = None
    resumed: frozenset[str] = frozenset()


def read_document(shared: Shared, document: Document) -> Partial:
    """`read_batch` on an executor, for a document and what it shares with others, which says how to open files."""
    from puffin.files.formats import DataFiles

    scan, tasks = document
    batch = unpack_batch(shared.parts, scan, tasks)
    kinds, removed, counts = shared.scans[scan]
    store_for = stores(batch.context.io_properties)
    partial = read_batch(batch, kinds, DataFiles(store_for), removed)
    spilled = {
        field_id: {kind: kind.spilled(v, store_for, is_mapped=field_id in partial.mapped) for kind, v in values.items()}
        for field_id, values in partial.added.items()
    }
    return dataclasses.replace(partial, added=spilled, rows=partial.rows if counts else 0)


def read_batch(batch: ScanBatch, kinds: Sequence[Kinds], files: DataFiles, removed: bool = False) -> Partial:
    """
    Read a batch and compute the kinds of each of its columns; ``removed`` if its rows were deleted.

    Raises StorageError if the storage failed, when a retry may succeed.
    """
    if sum(map(_kernel_work, batch.tasks)) >= KERNELS_PAY:
        load_kernels()
    had_kernels = kernels_ready()
    partial = _read_batch(batch, kinds, files, removed)
    if isinstance(partial.failure, CorruptDataFileError) and not had_kernels and load_kernels():
        # Kernels read some sound pages that pyarrow refuses, such as those of ints that are far apart, by DuckDB.
        return _read_batch(batch, kinds, files, removed)
    return partial


def _read_batch(batch: ScanBatch, kinds: Sequence[Kinds], files: DataFiles, removed: bool) -> Partial:
    # The readers of all formats. A run that reads nothing does without.
    from puffin.files.task_reader import TaskReader

    room = _Room()
    columns = {c.field_id: ColumnReading(c, of, room) for c, of in zip(batch.columns, kinds, strict=True)}
    rows = bytes_read = 0
    needs = frozenset[Need]().union(*map(_needs, kinds))
    lifting = _Lifting(columns)
    reader = TaskReader(
        batch,
        files,
        each_row=not needs.isdisjoint(EVERY_ROW),
        summaries=Need.SUMMARIES in needs,
        lift=lifting.take if Need.BLOOM_FILTERS in needs else None,
        side_by_side=frozenset[int]().union(*(kind.side_by_side for of in kinds for kind in of)),
    )
    try:
        for task in batch.tasks:
            before = rows
            for column in columns.values():
                column.begin_file(task)
            for live in reader.read(task):
                rows += live.count
                bytes_read += live.bytes_read
                _feed(columns, live, task)
            for column in columns.values():
                column.end_file(task, rows - before)
    except (CorruptError, UnsupportedError, NotFoundError) as exc:
        return Partial(failure=_failure_before(columns.values(), task) or exc)
    found = {field_id: column.values() for field_id, column in columns.items()}
    mapped = frozenset(columns) if reader.has_used_mapping else frozenset()
    added, gone = ({}, found) if removed else (found, {})
    return Partial(added, gone, rows, bytes_read, mapped, frozenset(lifting.taken))


def _feed(columns: Mapping[int, ColumnReading], live: Rows, task: FileScanTask) -> None:
    for field_id, values in live.columns.items():
        columns[field_id].update_values(values, task)
        columns[field_id].update_written(values if live.written is None else live.written[field_id], task)
        columns[field_id].update_rows(live.columns, task)
    for field_id, summary in live.summaries.items():
        columns[field_id].update_summary(summary)


def _failure_before(columns: Iterable[ColumnReading], task: FileScanTask) -> CorruptError | None:
    """The error in the values that came before another error and wait to be taken together."""
    try:
        for column in columns:
            column.take_waiting(task)
    except CorruptError as exc:
        return exc
    return None


def merge_partials(left: Partial, right: Partial, put: PutAside | None = None) -> Partial:
    """Merge two partial results; if one failed, so does the result. ``put`` may put aside what each column gets."""
    if left.failure or right.failure:
        return left if left.failure else right
    return Partial(
        _merged(left.added, right.added, put),
        _merged(left.removed, right.removed, put),
        left.rows + right.rows,
        left.bytes_read + right.bytes_read,
        left.mapped | right.mapped,
        left.lifted | right.lifted,
        resumed=left.resumed | right.resumed,
    )


def _merged(left: Mapping[int, Values], right: Mapping[int, Values], put: PutAside | None) -> dict[int, Values]:
    both = {}
    for field_id, values in left.items():
        if field_id in right:
            of_both = merged(values, right[field_id])
            both[field_id] = of_both if put is None else put(of_both)
    return {**left, **right, **both}


def each_column(partial: Partial, change: Callable[[Any], Any]) -> Partial:
    """A partial result with the values of each of its columns as ``change`` makes them."""
    added, removed = (
        {field_id: change(values) for field_id, values in of.items()} for of in (partial.added, partial.removed)
    )
    return dataclasses.replace(partial, added=added, removed=removed)


def _kernel_work(task: FileScanTask) -> int:
    return task.length * (_AVRO_WEIGHT if task.data_file.file_format == AVRO else 1)


def _needs(kinds: Kinds) -> frozenset[Need]:
    return frozenset[Need]().union(*(kind.needs for kind in kinds))


class _Lifting:
    """Offers the Bloom filters of files to columns, and remembers which were taken."""

    def __init__(self, columns: Mapping[int, ColumnReading]) -> None:
        self.taken: set[tuple[int, str]] = set()
        self._columns = columns

    def take(self, task: FileScanTask, column: Column, bitsets: Sequence[bytes]) -> bool:
        is_taken = self._columns[column.field_id].lift(task, bitsets)
        if is_taken:
            self.taken.add((column.field_id, task.data_file.file_path))
        return is_taken


@dataclasses.dataclass(slots=True)
class _Room:
    """The bytes of values that wait, in all columns of a batch."""

    used: int = 0


class ColumnReading:
    """
    Passes the rows of a column to its kinds of statistics; hashes values once for all of them.

    A few values cost about as much as many. So the values of small row groups wait for those of the next ones, at most
    until the file ends.
    """

    def __init__(self, column: Column, kinds: Kinds, room: _Room | None = None) -> None:
        self._column = column
        self._room = room or _Room()
        self._waiting: list[ColumnValues] = []
        self._values_waiting = self._bytes_waiting = 0
        self._builders: dict[Kind[Any], Any] = {kind: kind.start() for kind in kinds if kind.is_taken(kinds)}
        self._given = {need: [b for kind, b in self._builders.items() if need in kind.needs] for need in Need}

    def lift(self, task: FileScanTask, bitsets: Sequence[bytes]) -> bool:
        """Give the Bloom filters of a file to the column's kind, if it is the only one; whether it takes them."""
        if len(self._builders) != 1:
            return False
        return any(builder.lift(task, bitsets) for builder in self._given[Need.BLOOM_FILTERS])

    def update_values(self, values: ColumnValues, task: FileScanTask) -> None:
        size = values.array.nbytes
        is_small = len(values.array) < _FEW_VALUES and self._room.used + size <= _WAITING_BYTES
        if not is_small or pa.types.is_dictionary(values.array.type):
            self._take(values, task)
            return
        self._waiting.append(values)
        self._values_waiting += len(values.array)
        self._bytes_waiting += size
        self._room.used += size
        if self._values_waiting >= _ENOUGH_VALUES:
            self.take_waiting(task)

    def take_waiting(self, task: FileScanTask) -> None:
        """Take the values that wait for others of this task."""
        waiting, self._waiting = self._waiting, []
        self._room.used -= self._bytes_waiting
        self._values_waiting = self._bytes_waiting = 0
        alike: dict[tuple[pa.DataType, bool], list[ColumnValues]] = {}
        for values in waiting:
            alike.setdefault((values.array.type, values.rows is None), []).append(values)
        for each in alike.values():
            self._take(_joined(each), task)

    def _take(self, values: ColumnValues, task: FileScanTask) -> None:
        counted, plain, whole = (self._given[n] for n in (Need.COUNTED_HASHES, Need.HASHES, Need.HASHED_VALUES))
        with self._errors_in(task):
            for builder in (*self._given[Need.VALUES], *self._given[Need.COUNTED_VALUES]):
                builder.update_values(values.array, values.rows)
            if whole or counted:
                for each in self._count(values):
                    for builder in whole:
                        builder.update_hashed(each.hashes, each.rows, each.values)
                    for builder in counted:
                        builder.update_hashes(each.hashes, each.rows)
                    for builder in plain:
                        builder.update_hashes(each.hashes)
            elif plain:
                for hashes in self._hash(values):
                    for builder in plain:
                        builder.update_hashes(hashes)

    def update_written(self, values: ColumnValues, task: FileScanTask) -> None:
        for builder in self._given[Need.WRITTEN_VALUES]:
            with self._errors_in(task):
                builder.update_written(values.array, values.rows)

    def update_rows(self, columns: Mapping[int, ColumnValues], task: FileScanTask) -> None:
        for builder in self._given[Need.ROWS_OF_COLUMNS]:
            with self._errors_in(task):
                builder.update_rows({field_id: values.array for field_id, values in columns.items()})

    def update_summary(self, summary: RowSummary) -> None:
        for builder in self._given[Need.SUMMARIES]:
            builder.update_summary(summary)

    def begin_file(self, task: FileScanTask) -> None:
        for builder in self._given[Need.FILES]:
            builder.begin_file(task)

    def end_file(self, task: FileScanTask, live_rows: int) -> None:
        self.take_waiting(task)
        for builder in self._given[Need.FILES]:
            builder.end_file(task, live_rows)

    def values(self) -> Values:
        return {kind: builder.compact() for kind, builder in self._builders.items()}

    @contextlib.contextmanager
    def _errors_in(self, task: FileScanTask) -> Iterator[None]:
        try:
            yield
        except CorruptDataFileError as exc:
            raise CorruptDataFileError(f"{task.data_file.file_path}: column {self._column.name}: {exc}") from exc

    def _count(self, values: ColumnValues) -> Iterator[Hashed]:
        if values.rows is not None:
            return hash_counted(values.array, values.rows, self._column.type)
        return hash_rows(values.array, self._column.type)

    def _hash(self, values: ColumnValues) -> Iterator[Hashes]:
        if values.rows is not None:
            return (each.hashes for each in hash_counted(values.array, values.rows, self._column.type))
        return hash_array(values.array, self._column.type)


def _joined(values: Sequence[ColumnValues]) -> ColumnValues:
    """Values of one type in one array."""
    if len(values) == 1:
        return values[0]
    rows = [each.rows for each in values if each.rows is not None]
    return ColumnValues(pa.concat_arrays([each.array for each in values]), np.concatenate(rows) if rows else None)
