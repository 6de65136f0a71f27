"""
Count rows, nulls, NaNs, bytes and bounds of a column chunk while it is read.

What the footer states is taken from it. The rest is counted in the arrays that are read anyway: if that is only the
dictionary page, the rows of each value stay unknown.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.values.column_bounds import NO_VALUES, UNKNOWN
from puffin.values.column_chunk import ChunkStatistics, Values
from puffin.values.column_summary import known_sum
from puffin.values.plain_arrays import comparable_array, rows_of_entries
from puffin.values.row_summary import RowSummary, has_nan
from puffin.values.stored_bounds import array_bounds, stored_bounds
from puffin.values.value_sizes import total_size, value_width
from puffin.values.value_type import ValueType

_HELD_BY_STRINGS = frozenset(("string", "binary"))


class ChunkSummary:
    """Summarizes a column in one row group, or in several, from its arrays and what the footer tells of these rows."""

    def __init__(self, type_: str, footer: ChunkStatistics) -> None:
        self._type = ValueType.parse(type_)
        self._has_nan = has_nan(self._type)
        self._width = value_width(self._type)
        self._null_count = footer.null_count
        self._string_bytes = footer.string_bytes if self._type.name in _HELD_BY_STRINGS else None
        known = UNKNOWN if footer.bounds is None else stored_bounds(self._type, footer.arrow_type, *footer.bounds)
        self._lacks_bounds = known == UNKNOWN
        self._bounds = NO_VALUES if self._lacks_bounds else known
        self._lacks_bytes = self._width is None and self._string_bytes is None
        self._lacks_some = self._lacks_bounds or self._lacks_bytes or self._has_nan
        self._values = self._nans = self._bytes = 0
        self._is_counted = True

    @property
    def lacks(self) -> tuple[bool, bool]:
        """Whether bounds, and whether bytes, have to be counted in the values."""
        return self._lacks_bounds, self._lacks_bytes

    @staticmethod
    def joined(summaries: Sequence[ChunkSummary]) -> ChunkSummary:
        """A new summary of chunks of the same column that lack the same and have seen nothing yet."""
        found = copy.copy(summaries[0])
        for other in summaries[1:]:
            found._null_count = known_sum((found._null_count, other._null_count))
            found._string_bytes = known_sum((found._string_bytes, other._string_bytes))
            found._bounds = found._bounds.union(other._bounds)
        return found

    def see_rows(self, array: pa.Array) -> None:
        """Count some rows, each with a value or null."""
        self._values += len(array) - array.null_count
        if self._lacks_some:
            array = comparable_array(array)
            if isinstance(array, pa.DictionaryArray):
                self._see(*_entries(array))
            else:
                self._see(array)

    def see_values(self, values: Values) -> None:
        """Count values with the rows of each, as far as these are known."""
        if values.rows is None and values.is_each_row:
            self.see_rows(values.array)
            return
        if values.rows is None:
            self._is_counted = len(values.array) == 0
        else:
            self._values += int(values.rows.sum())
        if self._lacks_some:
            self._see(comparable_array(values.array), values.rows)

    def total(self, rows: int) -> RowSummary:
        """The summary of ``rows`` rows."""
        nulls: int | None = rows - self._values
        nans: int | None = self._nans
        total_bytes: int | None = self._bytes
        if not self._is_counted:
            nulls = self._null_count
            nans = 0 if self._nans == 0 else None
            total_bytes = None
        values = None if nulls is None else rows - nulls
        if self._string_bytes is not None:
            total_bytes = self._string_bytes
        elif self._width is not None:
            total_bytes = None if values is None else values * self._width
        is_empty = values is not None and nans is not None and values == nans
        bounds = NO_VALUES if is_empty else self._bounds
        return RowSummary(rows=rows, nulls=nulls, nans=nans, total_bytes=total_bytes, bounds=bounds)

    def _see(self, values: pa.Array, rows: npt.NDArray[np.int64] | None = None) -> None:
        if pa.types.is_null(values.type):
            return
        if self._has_nan and pa.types.is_floating(values.type):  # a file from before a promotion has integers
            values = self._see_nans(values, rows)
        if self._lacks_bytes:
            self._bytes += total_size(values, self._type, rows)
        if self._lacks_bounds:
            self._bounds = self._bounds.union(array_bounds(self._type, values))

    def _see_nans(self, values: pa.Array, rows: npt.NDArray[np.int64] | None) -> pa.Array:
        """Count the NaNs and return the other values: Arrow forgets what it saw before a signalling NaN."""
        present = values.drop_null()
        is_nan = np.isnan(present.to_numpy())
        nans = int(np.count_nonzero(is_nan))
        if nans == 0:
            return values
        self._nans += nans if rows is None else int(rows[is_nan].sum())
        return present.filter(pa.array(~is_nan))


def _entries(array: pa.DictionaryArray) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    rows = rows_of_entries(array)
    is_used = rows > 0
    return comparable_array(array.dictionary).filter(pa.array(is_used)), rows[is_used]
