"""
Pass the rows of a column to its kinds of statistics.

Values are hashed once for all kinds. A few values cost about as much as many, so the values of small row groups wait
for those of the next ones, at most until the file ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from puffin.errors import CorruptDataFileError
from puffin.sketches.counted_hashes import Hashed, hash_counted, hash_rows
from puffin.sketches.hash_arrays import Hashes
from puffin.sketches.hashing import hash_array
from puffin.statistics.kinds.kind import Kind, Need, Values
from puffin.tables.base import Column
from puffin.tables.scan_task import FileScanTask
from puffin.values.column_chunk import Values as ColumnValues
from puffin.values.row_summary import RowSummary
from stats_jobs.shipment import Kinds

_FEW_VALUES, _ENOUGH_VALUES = 1 << 14, 1 << 16  # fewer wait for others, until there are enough
_WAITING_BYTES = 32 * 1024 * 1024  # of all columns together


@dataclasses.dataclass(slots=True)
class WaitingRoom:
    """The bytes of values that wait, in all columns of a batch."""

    used: int = 0


class ColumnReading:
    """The builders of a column's kinds of statistics, and its values that wait; ``room`` is that of all columns."""

    def __init__(self, column: Column, kinds: Kinds, room: WaitingRoom) -> None:
        self._column = column
        self._room = room
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
    array = pa.concat_arrays([each.array for each in values])
    rows = [each.rows for each in values if each.rows is not None]
    return ColumnValues(array, np.concatenate(rows) if rows else None, all(each.is_each_row for each in values))
