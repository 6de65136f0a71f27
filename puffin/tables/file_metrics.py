"""What table metadata says of one column of one data file, as a planner uses it to exclude files."""

from __future__ import annotations

import dataclasses

from puffin.values.column_bounds import Comparable


@dataclasses.dataclass(frozen=True, slots=True)
class FileMetrics:
    """
    Counts and bounds of a column over all rows that the file was written with; None is unknown.

    Attributes:
        values: All values, nulls included.
        lower: No value but NaN is below it; in the form of `puffin.values.column_bounds`, not cut short. Uuids are in
            an order that the writer chose.
        upper: No value but NaN is above it.
    """

    values: int | None = None
    nulls: int | None = None
    nans: int | None = None
    lower: Comparable | None = None
    upper: Comparable | None = None


NO_METRICS = FileMetrics()
