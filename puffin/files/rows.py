"""The rows of a data file, and which of them to read, for every format."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.file_columns import FileColumn
from puffin.format.deletion_vector import DeletionVector
from puffin.values.chunk_summary import ChunkSummary
from puffin.values.column_chunk import Values
from puffin.values.row_summary import RowSummary

BATCH_BYTES = 32 * 1024 * 1024  # of a batch of rows in memory
MAX_BATCH_ROWS = 128 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """
    Some live rows of a file.

    Attributes:
        columns: Values by field id. A column is missing if its values came before.
        written: As ``columns``, of the deleted rows between them too; None if no row is deleted.
        bytes_read: Compressed bytes of what was opened for these rows and those before; each byte is counted once.
        summaries: By field id, of all rows since the last summaries.
    """

    count: int
    columns: Mapping[int, Values]
    written: Mapping[int, Values] | None = None
    bytes_read: int = 0
    summaries: Mapping[int, RowSummary] = dataclasses.field(default_factory=dict)


def summarized(
    batches: Iterable[Rows], summaries: Mapping[int, ChunkSummary], bytes_read: int, rows: int | None = None
) -> Iterator[Rows]:
    """
    Pass on batches; then the summaries of their columns, by field id, and the bytes of all of them.

    ``rows`` are the rows of all batches, if these do not count them.
    """
    counted = 0
    for batch in batches:
        yield batch
        # After the yield, so that errors in values are raised where they are hashed.
        for field_id, summary in summaries.items():
            summary.see_values(batch.columns[field_id])
        counted += batch.count
    totals = {field_id: summary.total(counted if rows is None else rows) for field_id, summary in summaries.items()}
    yield Rows(0, {}, bytes_read=bytes_read, summaries=totals)


def record_batch(arrays: list[pa.Array], names: list[str], rows: int) -> pa.RecordBatch:
    """A batch of ``rows`` rows, perhaps without columns."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.nulls(rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names)


class RowFilter(Protocol):
    """Drops rows of a file by their values."""

    @property
    def columns(self) -> Sequence[FileColumn]:
        """The columns that it needs."""

    def live(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Whether each of these rows is kept."""


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """
    Which rows of a file to read.

    Attributes:
        deleted: Positions of rows to leave out.
        filters: Keep a row only if all of them keep it.
        chosen: Positions of the only rows to read; by default all.
    """

    deleted: DeletionVector | None = None
    filters: Sequence[RowFilter] = ()
    chosen: DeletionVector | None = None

    @property
    def is_all(self) -> bool:
        return self.deleted is None and self.chosen is None and not self.filters

    def has_chosen(self, start: int, stop: int) -> bool:
        """Whether it may select one of the rows at these positions."""
        return self.chosen is None or not self.chosen.live_mask(start, stop).all()

    def columns_seen(self, columns: Sequence[FileColumn]) -> list[FileColumn]:
        """The columns to read for these columns and the filters."""
        return [*columns, *(column for filter_ in self.filters for column in filter_.columns)]

    def rows(self, batches: Iterable[pa.RecordBatch], columns: Sequence[FileColumn], at: int = 0) -> Iterator[Rows]:
        """The selected rows of batches; ``at`` is the position of the first row."""
        for batch in batches:
            if self.has_chosen(at, at + batch.num_rows):
                yield self._of_batch(batch, columns, at)
            at += batch.num_rows

    def _of_batch(self, batch: pa.RecordBatch, columns: Sequence[FileColumn], at: int) -> Rows:
        written = {column.column.field_id: Values(column.read(batch)) for column in columns}
        if self.is_all:
            return Rows(batch.num_rows, written)
        stop = at + batch.num_rows
        live = np.ones(batch.num_rows, np.bool_) if self.deleted is None else self.deleted.live_mask(at, stop)
        if self.chosen is not None:
            live &= ~self.chosen.live_mask(at, stop)
        for filter_ in self.filters:
            live &= filter_.live(batch)
        mask = pa.array(live)
        selected = {key: Values(values.array.filter(mask)) for key, values in written.items()}
        return Rows(int(live.sum()), selected, written)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """
    What is wanted of columns.

    Attributes:
        each_row: Whether the number of rows of a value matters, not only whether a row has it.
        summaries: Whether to summarize the columns too.
        side_by_side: Field ids of columns that come with a value or null for each row, all in the same batches.
    """

    each_row: bool = False
    summaries: bool = False
    side_by_side: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """
    What to read of a data file.

    Attributes:
        start: In bytes; only row groups that begin from here to before ``stop`` are read.
    """

    columns: Sequence[FileColumn]
    selection: Selection
    start: int
    stop: float
    wants: Wants
