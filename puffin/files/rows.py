"""What comes out of a data file, and which of its rows are meant, whatever the format."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.file_columns import FileColumn
from puffin.format.deletion_vector import DeletionVector
from puffin.values.column_chunk import Values
from puffin.values.row_summary import RowSummary

BATCH_BYTES = 32 * 1024 * 1024
"""What a batch of rows should take in memory."""

MAX_BATCH_ROWS = 128 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """
    Some live rows of a file.

    Attributes:
        count: How many.
        columns: Values by field id. A column may be left out, if its values have come before.
        bytes_read: Compressed bytes of the column chunks, or pages of them, that were opened for these.
        summaries: By field id, of rows that end with these: all since the last summaries.
    """

    count: int
    columns: Mapping[int, Values]
    bytes_read: int
    summaries: Mapping[int, RowSummary] = dataclasses.field(default_factory=dict)


class RowFilter(Protocol):
    """Tells by their values which rows of a file to leave out."""

    @property
    def columns(self) -> Sequence[FileColumn]:
        """What it has to see, whether asked for or not."""
        ...

    def live(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """For each of these rows, whether it is kept."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """
    Which rows of a file are meant.

    Attributes:
        deleted: Positions of rows to leave out.
        filters: What leaves out others; a row is kept that all of them keep.
        chosen: Positions of the only rows to read; by default all.
    """

    deleted: DeletionVector | None = None
    filters: Sequence[RowFilter] = ()
    chosen: DeletionVector | None = None

    @property
    def is_all(self) -> bool:
        """Whether every row is meant."""
        return self.deleted is None and self.chosen is None and not self.filters

    def has_chosen(self, start: int, stop: int) -> bool:
        """Whether one of the rows at these positions may be meant."""
        return self.chosen is None or not self.chosen.live_mask(start, stop).all()

    def columns_seen(self, columns: Sequence[FileColumn]) -> list[FileColumn]:
        """What has to be read for some columns: these and what filters look at."""
        return [*columns, *(column for filter_ in self.filters for column in filter_.columns)]

    def take(self, batch: pa.RecordBatch, columns: Sequence[FileColumn], at: int, bytes_read: int) -> Rows:
        """
        Those rows of a batch that are meant.

        Args:
            at: The position of its first row.
        """
        arrays = {column.column.field_id: column.read(batch) for column in columns}
        if self.is_all:
            return Rows(batch.num_rows, {key: Values(array) for key, array in arrays.items()}, bytes_read)
        stop = at + batch.num_rows
        live = np.ones(batch.num_rows, np.bool_) if self.deleted is None else self.deleted.live_mask(at, stop)
        if self.chosen is not None:
            live &= ~self.chosen.live_mask(at, stop)
        for filter_ in self.filters:
            live &= filter_.live(batch)
        mask = pa.array(live)
        return Rows(int(live.sum()), {key: Values(array.filter(mask)) for key, array in arrays.items()}, bytes_read)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    What is to be read of a data file.

    Attributes:
        selection: Which of the rows are meant.
        start: In bytes; of the row groups, those that begin from here on are read, and before ``stop``.
        each_row: Whether it matters how many rows have a value, and not only whether one has.
        summaries: Whether what is known of the columns besides their values is told too.
    """

    columns: Sequence[FileColumn]
    selection: Selection
    start: int
    stop: float
    each_row: bool
    summaries: bool
