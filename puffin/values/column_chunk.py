"""The values of a column chunk and the statistics in its file, for every file format."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Stored: TypeAlias = bool | int | float | bytes
"""A value as Arrow stores it: the count of a date, time or decimal, or the bytes of a string."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """
    Statistics of the values of a column chunk; None is unknown.

    Attributes:
        arrow_type: What pyarrow reads the chunk as, neither an extension nor a dictionary; None unless it is a leaf.
        null_count: The rows without a value, including those in a null struct.
        bounds: No value is below the first or above the second.
        string_bytes: The total size of its strings or binaries (``unencoded_byte_array_data_bytes``).
    """

    arrow_type: pa.DataType | None = None
    null_count: int | None = None
    bounds: tuple[Stored, Stored] | None = None
    string_bytes: int | None = None

    def of_some_rows(self) -> ChunkStatistics:
        """The statistics that still hold for a part of the rows."""
        return dataclasses.replace(self, null_count=None, string_bytes=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Values:
    """
    Values of a column.

    Attributes:
        array: One value or null for each row, or the distinct values.
        rows: The rows of each value, if these were counted.
        is_each_row: Of values without rows, whether each row has one; otherwise it is unknown which rows do.
    """

    array: pa.Array
    rows: npt.NDArray[np.int64] | None = None
    is_each_row: bool = True
