"""What a tally of values knows, from which a distribution is made."""

from __future__ import annotations

from typing import NamedTuple

from puffin.sketches.hash_arrays import Counts, Flags, Hashes
from puffin.sketches.picked_values import Places

_MANY = 16  # a value is wanted from a share of 2^-16 of the rows on


class TallyState(NamedTuple):
    """
    The values with many rows, and those below theta.

    Attributes:
        rows: Counted in all.
        missed: No other value has more rows.
        hashes: Ascending, distinct.
        bounds: The fewest and the most rows of each.
        places: Of each among the picked values.
        buckets: The rows of all values in `BUCKETS`; None if ``bounds`` have every row, or a bucket is more than full.
    """

    rows: int
    missed: int
    theta: int
    hashes: Hashes
    bounds: tuple[Counts, Counts]
    has_many: Flags
    places: Places
    buckets: Counts | None


def many_of(rows: int) -> int:
    """From how many of so many rows on a value is wanted."""
    return max(2, rows >> _MANY)
