"""What the least and the greatest value of a column tell of a set of values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from puffin.estimates.facts import ColumnFacts
from puffin.estimates.value_set import EVERYTHING, Cut, Span


def within_bounds(spans: Sequence[Span], facts: ColumnFacts) -> tuple[Span, ...]:
    """The spans with a value that the column may have; `EVERYTHING` if they have all of these."""
    if facts.lower is None or facts.upper is None:
        return tuple(spans)
    first, last = (0, facts.lower, 0), (0, facts.upper, 1)
    if any(start <= first and stop >= last for start, stop in spans):
        return (EVERYTHING,)
    return tuple((start, stop) for start, stop in spans if start < last and stop > first)


def most_values(facts: ColumnFacts) -> float:
    """
    How many values a column can have from its least to its greatest; infinite if that is unknown.

    Booleans, dates, times and decimals are integers here, too.
    """
    lower, upper = facts.lower, facts.upper
    if isinstance(lower, int) and isinstance(upper, int) and lower <= upper:
        return upper - lower + 1
    return 2 if facts.type == "boolean" else math.inf


def share_of_range(spans: Sequence[Span], facts: ColumnFacts) -> float | None:
    """
    The share of the way from the least to the greatest value that some spans cover; None if they are no numbers.

    Dates, times and decimals are integers here, of which a range has a certain number.
    """
    lower, upper = facts.lower, facts.upper
    if not isinstance(lower, int | float) or not isinstance(upper, int | float):
        return None
    step = 1 if isinstance(lower, int) else 0

    def place(cut: Cut) -> float:
        if len(cut) == 1:
            return lower if cut[0] < 0 else upper + step
        value = cut[1] if not step or isinstance(cut[1], int) else math.ceil(cut[1])
        return float(min(max(value + (cut[2] if value == cut[1] else 0) * step, lower), upper + step))

    width = upper + step - lower
    # The width of almost all doubles is none.
    return sum(place(stop) - place(start) for start, stop in spans) / width if 0 < width < math.inf else None
