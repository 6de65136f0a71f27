"""What statistics say of a column, which its estimates follow from."""

from __future__ import annotations

import dataclasses
from typing import Any

from puffin.estimates.interval import Interval
from puffin.sketches.distribution import Distribution
from puffin.sketches.row_counts import RowCounts


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """
    What statistics say of a column.

    Attributes:
        rows: All rows of the table when its statistics were made.
        now: All rows of the table as it is asked for.
        added, removed: The rows that came and went since; None if unknown.
        nulls: None if unknown.
        is_required: Whether no row may have a null, also of those that came since.
        nans: Of a float or double; 0 for other types, None if unknown.
        ndv: Distinct values with a hash, and their bounds; None if unknown.
        counts: The row counts beside the distribution.
        lower, upper: No value is below or above, as `puffin.values.column_bounds.comparable`; None if unknown.
    """

    type: str
    rows: int
    now: Interval
    added: int | None
    removed: int | None
    nulls: int | None
    nans: int | None
    ndv: Interval | None
    is_required: bool = False
    lower: Any = None
    upper: Any = None
    distribution: Distribution | None = None
    counts: RowCounts | None = None

    def is_as_old(self, other: ColumnFacts) -> bool:
        """Whether both were counted in the same rows, as far as that is known."""
        return (self.rows, self.added, self.removed) == (other.rows, other.added, other.removed)
