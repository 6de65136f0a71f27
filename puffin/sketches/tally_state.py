"""What a tally of values knows, from which a distribution is made."""

from __future__ import annotations

from typing import NamedTuple

from puffin.sketches.hash_arrays import Counts, Flags, Hashes
from puffin.sketches.picked_values import Places

_MANY = 16  # a value is frequent with 1/65,536 of the rows or more


class TallyState(NamedTuple):
    """
    The values with many rows, and those below theta.

    Attributes:
        rows: Counted in all.
        missed: The most rows that any other value can have.
        hashes: Ascending, distinct.
        bounds: The fewest and the most rows of each.
        places: Of each among the picked values.
        buckets: The rows of all values in `BUCKETS`; None if ``bounds`` have every row, or a bucket overflowed.
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
    """The fewest rows, out of ``rows`` in all, that make a value frequent."""
    return max(2, rows >> _MANY)
