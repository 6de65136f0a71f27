"""
Runs where the files are read: turns a batch of scan tasks into the values of each column.

All rows of a batch are merged here, so that the result does not grow with files or rows. An error that a retry would
not cure is returned as a value, so that Spark does not retry and the user sees one line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from puffin.errors import CorruptDataFileError, CorruptError, NotFoundError, UnsupportedError, UnsupportedTableError
from puffin.iceberg.stores import stores
from puffin.kernels import kernels_ready, load_kernels
from puffin.statistics.kinds.kind import EVERY_ROW, Need
from puffin.tables.base import Column
from puffin.tables.scan_documents import unpack_batch
from puffin.tables.scan_task import AVRO, FileScanTask, ScanBatch
from stats_jobs.column_reading import ColumnReading, WaitingRoom
from stats_jobs.partial import Partial
from stats_jobs.shipment import Document, Kinds, Shared

if TYPE_CHECKING:
    from puffin.files.formats import DataFiles
    from puffin.files.rows import Rows

KERNELS_PAY_BYTES = 16 * 1024 * 1024
"""A process that reads at least this many bytes of files compiles or loads the kernels."""

_AVRO_WEIGHT = 8  # the work per byte of Avro, relative to other formats


def read_document(shared: Shared, document: Document) -> Partial:
    """`read_batch` on an executor, for a document and what it shares with others, which says how to open files."""
    from puffin.files.formats import DataFiles

    number, tasks = document
    batch, scan = unpack_batch(shared.parts, number, tasks), shared.scans[number]
    store_for = stores(batch.context.io_properties)
    partial = read_batch(batch, scan.kinds, DataFiles(store_for), scan.removed)
    spilled = {
        field_id: {kind: kind.spilled(v, store_for, is_mapped=field_id in partial.mapped) for kind, v in values.items()}
        for field_id, values in partial.added.items()
    }
    return dataclasses.replace(partial, added=spilled, rows=partial.rows if scan.counts else 0)


def read_batch(batch: ScanBatch, kinds: Sequence[Kinds], files: DataFiles, removed: bool = False) -> Partial:
    """
    Read a batch and compute the kinds of each of its columns; ``removed`` if its rows were deleted.

    Raises StorageError if the storage failed, when a retry may succeed.
    """
    if sum(map(_kernel_work, batch.tasks)) >= KERNELS_PAY_BYTES:
        load_kernels()
    had_kernels = kernels_ready()
    partial = _read_batch(batch, kinds, files, removed)
    is_of_file = isinstance(partial.failure, (CorruptDataFileError, UnsupportedTableError))
    if is_of_file and not had_kernels and load_kernels():
        # pyarrow rejects some valid pages that the kernels read, such as DuckDB's of ints that are far apart.
        return _read_batch(batch, kinds, files, removed)
    return partial


def _read_batch(batch: ScanBatch, kinds: Sequence[Kinds], files: DataFiles, removed: bool) -> Partial:
    # The readers of all formats. A run that reads nothing does without.
    from puffin.files.rows import Wants
    from puffin.files.task_reader import TaskReader

    room = WaitingRoom()
    columns = {c.field_id: ColumnReading(c, of, room) for c, of in zip(batch.columns, kinds, strict=True)}
    rows = bytes_read = 0
    needs = frozenset[Need]().union(*map(_needs, kinds))
    lifting = _Lifting(columns)
    wants = Wants(
        each_row=not needs.isdisjoint(EVERY_ROW),
        summaries=Need.SUMMARIES in needs,
        side_by_side=frozenset[int]().union(*(kind.side_by_side for of in kinds for kind in of)),
    )
    reader = TaskReader(batch, files, wants, lifting.take if Need.BLOOM_FILTERS in needs else None)
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
