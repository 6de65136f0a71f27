"""
The groups that a grouping makes: the distinct values of a column, or of several together. Null is one group.

A joint sketch of the columns counts their tuples. Without one, the columns are taken as independent, and the bounds are
those that always hold: at least as many groups as the column with the most values makes, at most as many as there are
combinations or rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from puffin.estimates.filters import OfColumn, Part, TableRows, rows_of
from puffin.estimates.interval import ALWAYS, Interval
from puffin.estimates.value_set import VALUES, ValueSet
from puffin.tables.expression import Constant

_ANY = ValueSet(VALUES.spans, nan=True, null=True)


def groups_of(table: TableRows, field_ids: Sequence[int], where: Part, joint: Interval | None = None) -> Interval:
    """
    Estimate the groups of these columns among the rows that pass a filter, with 95 % bounds.

    ``joint`` is the number of tuples of all columns, if it is known.
    """
    passing = rows_of(table, where)
    if passing.upper < 1:
        return Interval.exactly(0)
    found = [_of_column(table, field_id, where) for field_id in dict.fromkeys(field_ids)]
    if len(found) == 1:
        together = found[0]
    elif joint is not None:
        kept = _left(joint.rows, passing.rows / max(table.rows, 1), table.rows)
        is_all = isinstance(where, Constant) and where.value
        together = joint if is_all else _bounded(kept, joint, table, where)
    else:
        combinations = math.prod(each.rows for each in found)
        expected = -combinations * math.expm1(-passing.rows / combinations) if combinations else 0.0
        upper = math.prod(each.upper for each in found)
        lower = max(each.lower for each in found)
        together = Interval(expected, lower, upper).within(lower, max(lower, upper))
    least = 1.0 if passing.lower >= 1 else 0.0
    return together.at_most(max(least, passing.upper)).within(least, math.inf)


def _of_column(table: TableRows, field_id: int, where: Part) -> Interval:
    column = table.column(field_id)
    if isinstance(where, Constant):
        return column.groups_as_now(column.groups(_ANY))
    if isinstance(where, OfColumn) and where.field_id == field_id:
        return column.groups_as_now(column.groups(where.values))
    share = rows_of(table, where).rows / max(table.rows, 1)
    return _bounded(column.groups_left(share), column.groups_as_now(column.groups(_ANY)), table, where)


def _bounded(expected: float, every: Interval, table: TableRows, where: Part) -> Interval:
    """Groups of the rows that pass a filter, whatever these are: each row that does not pass may take a group away."""
    passing = rows_of(table, where, ALWAYS)
    lower = max(0.0, every.lower - (table.rows - passing.lower))
    upper = min(every.upper, passing.upper)
    return Interval(expected, lower, max(lower, upper)).within(lower, max(lower, upper))


def _left(groups: float, share: float, rows: float) -> float:
    """How many of groups of equal size are left if a share of the rows is."""
    if groups <= 0 or share >= 1:
        return groups
    return groups * -math.expm1(rows / groups * math.log1p(-share))
