"""
What runs where the files are read: a batch of scan tasks in, what its rows amount to out, column by column.

Everything is merged inside the batch, so that what travels back does not grow with files or rows. An error that
another try would not cure travels back as a value: it is the user's one line, not Spark's to retry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from puffin.errors import CorruptDataFileError, CorruptError, NotFoundError, UnsupportedError
from puffin.files.column_chunk import Values
from puffin.files.task_reader import TaskReader
from puffin.iceberg.stores import stores
from puffin.kernels import load_kernels
from puffin.sketches import (
    RowCounts,
    RowCountsBuilder,
    ThetaSketch,
    ThetaSketchBuilder,
    hash_array,
    merge,
    row_counts_limit,
)
from puffin.sketches.counted_hashes import hash_counted, hash_rows
from puffin.sketches.partition_sketches import PartitionSketches, PartitionSketchesBuilder
from puffin.sketches.row_tally import Hashes, Rows
from puffin.sketches.smallest import SmallestHashes
from puffin.storage import Store
from puffin.tables.base import Column
from puffin.tables.scan_task import AVRO, FileScanTask, ScanBatch, decode_batch
from puffin.values.partition_tuples import PartitionKey, partition_key
from puffin.values.row_summary import RowSummary

FinalError: TypeAlias = CorruptError | UnsupportedError | NotFoundError
Tally: TypeAlias = RowCounts | ThetaSketch

_T = TypeVar("_T")

KERNELS_PAY = 64 * 1024 * 1024
"""Bytes of files in a process from which on compiling, or finding what was compiled, costs less than it saves."""

_AVRO_WEIGHT = 32  # without kernels Avro takes so many times as long as Parquet


@dataclasses.dataclass(frozen=True, slots=True)
class Measure:
    """
    What rows are to amount to.

    Attributes:
        lg_k: Base-2 logarithm of a sketch's nominal entries.
        row_counts: Whether rows are counted, so that some can be subtracted later; else there are sketches alone.
        summaries: Whether what is known of a column besides its distinct values is gathered too.
        whole: Whether columns are measured as a whole.
        partition_lg_k: As ``lg_k``, for the sketches of partitions; None if columns are not measured by partition.
    """

    lg_k: int
    row_counts: bool
    summaries: bool = True
    whole: bool = True
    partition_lg_k: int | None = None

    @property
    def limit(self) -> int:
        """The most hashes that row counts hold."""
        return row_counts_limit(self.lg_k)

    def only(self, *, whole: bool, by_partition: bool) -> Measure:
        """Some of it; rows are counted for columns as a whole."""
        partition_lg_k = self.partition_lg_k if by_partition else None
        return dataclasses.replace(
            self, row_counts=self.row_counts and whole, whole=whole, partition_lg_k=partition_lg_k
        )

    def start(self) -> RowCountsBuilder | ThetaSketchBuilder:
        """Something that takes the values of a column."""
        return RowCountsBuilder(self.limit) if self.row_counts else ThetaSketchBuilder(self.lg_k)

    def nothing(self) -> Tally:
        """What no rows amount to."""
        return self.start().compact()

    def merge(self, left: Tally, right: Tally) -> Tally:
        """What two parts amount to together."""
        if isinstance(left, RowCounts) and isinstance(right, RowCounts):
            builder = RowCountsBuilder(self.limit)
            builder.merge(left)
            builder.merge(right)
            return builder.compact()
        return merge((self.sketch(left), self.sketch(right)), self.lg_k)

    def sketch(self, tally: Tally) -> ThetaSketch:
        """The sketch of rows of which none was subtracted."""
        sketch = tally if isinstance(tally, ThetaSketch) else tally.sketch(self.lg_k)
        if sketch is None:
            raise CorruptDataFileError("row counts: expected a sketch of rows that were only added, found none")
        return sketch


@dataclasses.dataclass(frozen=True, slots=True)
class Partial:
    """
    What some of the rows amount to.

    Attributes:
        added: By field id, of rows that are in the table.
        removed: By field id, of rows that were.
        rows: How many were read.
        bytes_read: Compressed bytes of the column chunks that were read.
        partitions: By field id, of rows that are in the table, those that were asked for by partition.
        summaries: By field id, of ``added`` less ``removed``.
        mapped: By field id, of which columns a file had no field ids, so that the table's name mapping told them.
        failure: Why there is no answer, if there is none.
    """

    added: Mapping[int, Tally] = dataclasses.field(default_factory=dict)
    removed: Mapping[int, Tally] = dataclasses.field(default_factory=dict)
    rows: int = 0
    bytes_read: int = 0
    partitions: Mapping[int, PartitionSketches] = dataclasses.field(default_factory=dict)
    summaries: Mapping[int, RowSummary] = dataclasses.field(default_factory=dict)
    mapped: frozenset[int] = frozenset()
    failure: FinalError | None = None


def read_document(document: str, removed: bool, measure: Measure) -> Partial:
    """As `read_batch`, on an executor: for a batch in its JSON form, which says what opens its files."""
    batch = decode_batch(document)
    return read_batch(batch, removed, measure, stores(batch.context.io_properties))


def read_batch(batch: ScanBatch, removed: bool, measure: Measure, store_for: Callable[[str], Store]) -> Partial:
    """
    What the rows of a batch amount to, for each of its columns.

    Raises:
        StorageError: The storage failed; another try may succeed.
    """
    if sum(map(_kernel_work, batch.tasks)) >= KERNELS_PAY:
        load_kernels()
    columns = {column.field_id: _ColumnTally(column, measure) for column in batch.columns}
    rows = bytes_read = 0
    reader = TaskReader(batch, store_for, each_row=measure.row_counts, summaries=measure.summaries)
    try:
        for task in batch.tasks:
            before = rows
            for live in reader.read(task):
                rows += live.count
                bytes_read += live.bytes_read
                for field_id, values in live.columns.items():
                    columns[field_id].update(values, task)
                for field_id, summary in live.summaries.items():
                    columns[field_id].summary = columns[field_id].summary.plus(summary)
            if rows > before:
                key = partition_key(task.data_file.spec_id, task.data_file.partition)
                for column in columns.values():
                    column.end_of_file(key)
    except (CorruptError, UnsupportedError, NotFoundError) as exc:
        return Partial(failure=exc)
    found = {field_id: c.whole.compact() for field_id, c in columns.items() if c.whole is not None}
    partitions = {field_id: c.partitions.compact() for field_id, c in columns.items() if c.partitions is not None}
    summaries = {field_id: columns[field_id].summary for field_id in found}
    mapped = frozenset(columns) if reader.has_used_mapping else frozenset()
    if removed:
        gone = {field_id: summary.gone() for field_id, summary in summaries.items()}
        return Partial({}, found, rows, bytes_read, partitions, gone, mapped)
    return Partial(found, {}, rows, bytes_read, partitions, summaries, mapped)


def merge_partials(left: Partial, right: Partial, measure: Measure) -> Partial:
    """What both amount to together; a failure of either is a failure of both."""
    if left.failure or right.failure:
        return left if left.failure else right
    return Partial(
        _merged(left.added, right.added, measure.merge),
        _merged(left.removed, right.removed, measure.merge),
        left.rows + right.rows,
        left.bytes_read + right.bytes_read,
        _merged(left.partitions, right.partitions, merge_partitions),
        _merged(left.summaries, right.summaries, RowSummary.plus),
        left.mapped | right.mapped,
    )


def merge_partitions(left: PartitionSketches, right: PartitionSketches) -> PartitionSketches:
    """What two parts amount to together, partition by partition."""
    builder = PartitionSketchesBuilder(min(left.lg_k, right.lg_k))
    builder.merge(left)
    builder.merge(right)
    return builder.compact()


def _kernel_work(task: FileScanTask) -> int:
    return task.length * (_AVRO_WEIGHT if task.data_file.file_format == AVRO else 1)


def _merged(left: Mapping[int, _T], right: Mapping[int, _T], merge: Callable[[_T, _T], _T]) -> dict[int, _T]:
    both = {field_id: merge(part, right[field_id]) for field_id, part in left.items() if field_id in right}
    return {**left, **right, **both}


class _ColumnTally:
    """Takes the values of a column: hashed once, for the whole and for the partition of their file."""

    def __init__(self, column: Column, measure: Measure) -> None:
        self._column = column
        self._each_row = measure.row_counts
        self.whole = measure.start() if measure.whole else None
        self.summary = RowSummary()
        self.partitions: PartitionSketchesBuilder | None = None
        self._of_file: SmallestHashes | None = None
        if measure.partition_lg_k is not None:
            self.partitions = PartitionSketchesBuilder(measure.partition_lg_k)
            self._of_file = SmallestHashes(self.partitions.k)

    def update(self, values: Values, task: FileScanTask) -> None:
        try:
            for hashes, rows in self._hash(values):
                if isinstance(self.whole, RowCountsBuilder):
                    self.whole.update_hashes(hashes, rows)
                elif self.whole is not None:
                    self.whole.update_hashes(hashes)
                if self._of_file is not None:
                    self._of_file.add(hashes)
        except CorruptDataFileError as exc:
            raise CorruptDataFileError(f"{task.data_file.file_path}: column {self._column.name}: {exc}") from exc

    def end_of_file(self, key: PartitionKey) -> None:
        """The values since the last file are of this partition."""
        if self.partitions is not None and self._of_file is not None:
            self.partitions.add(key, *self._of_file.state())
            self._of_file = SmallestHashes(self.partitions.k)

    def _hash(self, values: Values) -> Iterator[tuple[Hashes, Rows | None]]:
        if values.rows is not None:
            yield from hash_counted(values.array, values.rows, self._column.type)
        elif self._each_row:
            yield from hash_rows(values.array, self._column.type)
        else:
            yield from ((hashes, None) for hashes in hash_array(values.array, self._column.type))
