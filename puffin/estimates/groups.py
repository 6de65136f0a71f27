"""
The groups that a grouping makes: the distinct values of a column, or of several together. Null is one group.

A joint sketch of the columns counts their tuples. Without one, the columns are taken as independent, and the bounds are
those that always hold: at least as many groups as the column with the most values makes, at most as many as there are
combinations or rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from puffin.estimates.filters import FilterPart, Joined, OfColumn, TableRows, rows_of
from puffin.estimates.interval import ALWAYS, Interval
from puffin.estimates.methods import DISTINCT, INDEPENDENCE, JOINT
from puffin.estimates.value_set import ANY
from puffin.tables.expression import Constant


class Groups(NamedTuple):
    """A number of groups with 95 % bounds, and how it was found."""

    number: Interval
    method: str


def groups_of(table: TableRows, field_ids: Sequence[int], where: FilterPart) -> Groups:
    """Estimate the groups of these columns among the rows that pass a filter."""
    passing = rows_of(table, where)
    found = [_OfColumn.of(table, field_id, where) for field_id in dict.fromkeys(field_ids)]
    tuples = table.tuples(tuple(sorted(set(field_ids)))) if len(found) > 1 else None
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
        upper = math.prod(each.left.upper for each in found)
        if joint is None:
            combinations = math.prod(each.left.rows for each in found)
            expected = -combinations * math.expm1(-passing.rows / combinations) if combinations else 0.0
        else:
            own = [each.own for each in found if each.own is not None]
            rows = rows_of(table, Joined(tuple(own), True)).rows if own else table.rows.rows
            expected = _left(joint.rows * math.prod(each.kept for each in found), passing.rows / max(rows, 1), rows)
            lower = max(lower, joint.lower - (table.rows.upper - rows_of(table, where, ALWAYS).lower))
            upper = min(upper, joint.upper)
        together = Interval.clamped(expected, lower, max(lower, upper))
    least = 1.0 if passing.lower >= 1 else 0.0
    return Groups(together.at_most(max(least, passing.upper)).within(least, math.inf), method)


class _OfColumn(NamedTuple):
    """
    The groups of one column.

    Attributes:
        own: What the filter requires of this column, whatever it requires of others.
        kept: Of all values, the share that passes that.
        left: The groups among the rows that pass the whole filter.
    """

    own: OfColumn | None
    kept: float
    left: Interval

    @classmethod
    def of(cls, table: TableRows, field_id: int, where: FilterPart) -> _OfColumn:
        column, own = table.column(field_id), _required(where, field_id)
        every = column.groups_as_now(column.groups(ANY))
        if isinstance(where, Constant):
            return cls(None, 1.0, every)
        some = every if own is None else column.groups_as_now(column.groups(own.values))
        kept = min(1.0, some.rows / every.rows) if every.rows else 1.0
        if where is own:
            return cls(own, kept, some)
        rows = table.rows if own is None else rows_of(table, own, ALWAYS)
        passing = rows_of(table, where, ALWAYS)
        expected = kept * column.groups_left(min(1.0, passing.rows / max(rows.rows, 1)))
        # Each row that passes what is required of the column, but not the whole filter, may take a group away.
        lower = max(0.0, some.lower - (rows.upper - passing.lower))
        upper = max(lower, min(some.upper, passing.upper))
        return cls(own, kept, Interval.clamped(expected, lower, upper))


def _required(where: FilterPart, field_id: int) -> OfColumn | None:
    parts = where.parts if isinstance(where, Joined) and where.is_and else (where,)
    return next((part for part in parts if isinstance(part, OfColumn) and part.field_id == field_id), None)


def _left(groups: float, share: float, rows: float) -> float:
    """How many of groups of equal size are left if a share of the rows is."""
    if groups <= 0 or share >= 1:
        return groups
    return groups * -math.expm1(rows / groups * math.log1p(-share))
