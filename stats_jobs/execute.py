"""
What runs where the files are read: a batch of scan tasks in, what its rows amount to out, column by column.

Everything is merged inside the batch, so that what travels back does not grow with files or rows. An error that
another try would not cure travels back as a value: it is the user's one line, not Spark's to retry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from puffin.errors import CorruptDataFileError, CorruptError, NotFoundError, UnsupportedError
from puffin.kernels import load_kernels
from puffin.parquet.plan import Values
from puffin.tables.base import Column
from puffin.tables.iceberg_read import TaskReader
from puffin.tables.scan_task import FileScanTask, ScanBatch, decode_batch
from puffin.tables.stores import stores
from puffin.theta import RowCounts, RowCountsBuilder, ThetaSketch, ThetaSketchBuilder, merge, row_counts_limit

FinalError: TypeAlias = CorruptError | UnsupportedError | NotFoundError
Tally: TypeAlias = RowCounts | ThetaSketch

KERNELS_PAY = 64 * 1024 * 1024
"""Bytes of files in a process from which on compiling, or finding what was compiled, costs less than it saves."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measure:
    """
    What rows are to amount to.

    Attributes:
        lg_k: Base-2 logarithm of a sketch's nominal entries.
        row_counts: Whether rows are counted, so that some can be subtracted later; else there are sketches alone.
    """

    lg_k: int
    row_counts: bool

    @property
    def limit(self) -> int:
        """The most hashes that row counts hold."""
        return row_counts_limit(self.lg_k)

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
        failure: Why there is no answer, if there is none.
    """

    added: Mapping[int, Tally] = dataclasses.field(default_factory=dict)
    removed: Mapping[int, Tally] = dataclasses.field(default_factory=dict)
    rows: int = 0
    bytes_read: int = 0
    failure: FinalError | None = None


def read_document(document: str, removed: bool, measure: Measure) -> Partial:
    """As `read_batch`, for a batch in its JSON form."""
    return read_batch(decode_batch(document), removed, measure)


def read_batch(batch: ScanBatch, removed: bool, measure: Measure) -> Partial:
    """
    What the rows of a batch amount to, for each of its columns.

    Raises:
        StorageError: The storage failed; another try may succeed.
    """
    if sum(task.length for task in batch.tasks) >= KERNELS_PAY:
        load_kernels()
    columns = {column.field_id: column for column in batch.columns}
    builders = {field_id: measure.start() for field_id in columns}
    rows = bytes_read = 0
    reader = TaskReader(batch, stores(batch.io_properties), each_row=measure.row_counts)
    try:
        for task in batch.tasks:
            for live in reader.read(task):
                rows += live.count
                bytes_read += live.bytes_read
                for field_id, values in live.columns.items():
                    _update(builders[field_id], columns[field_id], values, task)
    except (CorruptError, UnsupportedError, NotFoundError) as exc:
        return Partial(failure=exc)
    found = {field_id: builder.compact() for field_id, builder in builders.items()}
    return Partial({} if removed else found, found if removed else {}, rows, bytes_read)


def merge_partials(left: Partial, right: Partial, measure: Measure) -> Partial:
    """What both amount to together; a failure of either is a failure of both."""
    if left.failure or right.failure:
        return left if left.failure else right
    return Partial(
        _merged(left.added, right.added, measure),
        _merged(left.removed, right.removed, measure),
        left.rows + right.rows,
        left.bytes_read + right.bytes_read,
    )


def _merged(left: Mapping[int, Tally], right: Mapping[int, Tally], measure: Measure) -> dict[int, Tally]:
    both = {field_id: measure.merge(tally, right[field_id]) for field_id, tally in left.items() if field_id in right}
    return {**left, **right, **both}


def _update(builder: RowCountsBuilder | ThetaSketchBuilder, column: Column, values: Values, task: FileScanTask) -> None:
    try:
        if values.rows is None:
            builder.update(values.array, column.type)
        elif isinstance(builder, RowCountsBuilder):
            builder.update_counted(values.array, values.rows, column.type)
        else:
            builder.update(values.array, column.type)
    except CorruptDataFileError as exc:
        raise CorruptDataFileError(f"{task.data_file.file_path}: column {column.name}: {exc}") from exc
