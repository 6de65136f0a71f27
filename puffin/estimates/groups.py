"""
The groups that a grouping makes: the distinct values of a column, or of several together. Null is one group.

A joint sketch of the columns counts their tuples. Without one, the columns are taken as independent: the more skewed
they are, the fewer combinations have rows. The bounds are those that always hold: at least as many groups as the column
with the most values makes, at most as many as there are combinations or rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from puffin.estimates.filters import FilterPart, Joined, OfColumn, TableRows, rows_of
from puffin.estimates.interval import ALWAYS, Interval
from puffin.estimates.methods import DISTINCT, INDEPENDENCE, JOINT
from puffin.estimates.spread import Spread
from puffin.estimates.value_set import ANY
from puffin.tables.expression import Constant


class Groups(NamedTuple):
    """A number of groups with 95 % bounds, and how it was found."""

    number: Interval
    method: str


def groups_of(table: TableRows, field_ids: Sequence[int], where: FilterPart) -> Groups:
    """Estimate the groups of these columns among the rows that pass a filter."""
    passing = rows_of(table, where)
    ids = sorted(set(field_ids))
    found = [_OfColumn.of(table, field_id, where) for field_id in ids]
    tuples = table.tuples(tuple(ids)) if len(ids) > 1 else None
    joint = None if tuples is None else tuples.groups
    method = DISTINCT if len(found) == 1 else INDEPENDENCE if joint is None else JOINT
    if passing.upper < 1:
        return Groups(Interval.exactly(0), method)
    if len(found) == 1:
        together = found[0].left
    elif joint is not None and isinstance(where, Constant):
        together = joint
    else:
        lower = max(each.left.lower for each in found)
        most = [each.left.upper for each in found]
        upper = math.prod(most)
        for at, field_id in enumerate(ids):
            others = math.prod(most[:at] + most[at + 1 :])
            upper = min(upper, table.column(field_id).most_combinations(others))
        expected = _combinations([each.spread for each in found], passing.rows)
        if tuples is not None and joint is not None:
            # Among as many rows of all, the columns have fewer combinations than independent ones, by this factor.
            independent = _combinations([table.column(field_id).spread for field_id in ids], passing.rows)
            depending = tuples.groups_left(min(1.0, passing.rows / max(table.rows.rows, 1)))
            expected *= min(1.0, depending / independent) if independent else 1.0
            lower = max(lower, joint.lower - (table.rows.upper - rows_of(table, where, ALWAYS).lower))
            upper = min(upper, joint.upper)
        expected = max(expected, *(each.left.rows for each in found))
        together = Interval.clamped(expected, lower, max(lower, upper))
    least = 1.0 if passing.lower >= 1 else 0.0
    together = together.at_most(max(least, passing.upper)).within(least, math.inf)
    return Groups(Interval.clamped(min(together.rows, passing.rows), together.lower, together.upper), method)


class _OfColumn(NamedTuple):
    """
    The groups of one column.

    Attributes:
        left: The groups among the rows that pass the whole filter.
        spread: How rows are spread over the values that pass what the filter requires of this column.
    """

    left: Interval
    spread: Spread

    @classmethod
    def of(cls, table: TableRows, field_id: int, where: FilterPart) -> _OfColumn:
        column, own = table.column(field_id), _required(where, field_id)
        every = _values(table, OfColumn(field_id, ANY))
        if isinstance(where, Constant):
            return cls(every, column.spread)
        some = every if own is None else _values(table, own)
        spread = column.spread if own is None else Spread.even(some.rows)
        if where is own:
            return cls(some, spread)
        kept = min(1.0, some.rows / every.rows) if every.rows else 1.0
        rows = table.rows if own is None else rows_of(table, own, ALWAYS)
        passing = rows_of(table, where, ALWAYS)
        expected = kept * column.groups_left(min(1.0, passing.rows / max(rows.rows, 1)))
        # Each row that passes what is required of the column, but not the whole filter, may take a group away.
        lower = max(0.0, some.lower - (rows.upper - passing.lower))
        upper = max(lower, min(some.upper, passing.upper))
        return cls(Interval.clamped(expected, lower, upper), spread)


def _values(table: TableRows, part: OfColumn) -> Interval:
    """The distinct values of a set that the rows of a column have, null among them."""
    column = table.column(part.field_id)
    found = column.widened_by_changes(column.groups(part.values))
    bounds = None if table.groups is None or found.is_exact else table.groups(part)
    return found if bounds is None else found.within(*bounds)


def _combinations(each: Sequence[Spread], rows: float) -> float:
    """The combinations of values that so many rows have, if columns are independent."""
    return functools.reduce(Spread.times, each).among(rows)


def _required(where: FilterPart, field_id: int) -> OfColumn | None:
    parts = where.parts if isinstance(where, Joined) and where.is_and else (where,)
    return next((part for part in parts if isinstance(part, OfColumn) and part.field_id == field_id), None)
