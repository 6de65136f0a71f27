"""The values of a column chunk, and what its file says of them: the same for every file format."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Stored: TypeAlias = bool | int | float | bytes
"""A value as Arrow stores it: the count of a date, a time or a decimal, the bytes of a string."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """
    What is known of the values of a column chunk; what is None is not known.

    Attributes:
        arrow_type: What pyarrow reads the chunk as, neither an extension nor a dictionary; None if it is no leaf.
        null_count: How many rows have no value, be it that there is nothing above it.
        bounds: No value is below the first or above the second.
        string_bytes: What its strings or binaries take together (``unencoded_byte_array_data_bytes``).
    """

    arrow_type: pa.DataType | None = None
    null_count: int | None = None
    bounds: tuple[Stored, Stored] | None = None
    string_bytes: int | None = None

    def of_some_rows(self) -> ChunkStatistics:
        """What is left of it where not all of the rows count."""
        return dataclasses.replace(self, null_count=None, string_bytes=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Values:
    """
    Values of a column.

    Attributes:
        array: One for each row, null where a row has none; or each of the distinct values.
        rows: How many rows have each of the values, where these are known and are not one for each; else None.
    """

    array: pa.Array
    rows: npt.NDArray[np.int64] | None = None
