"""
The rows that a filter leaves.

Parts of a filter on one column become one set of values, whatever they are combined by. Sets of different columns are
taken as independent of each other; the bounds are Fréchet's, which hold however they depend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from puffin.cached import cached_property
from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.interval import ALWAYS, AT_95, NOTHING, Interval
from puffin.estimates.methods import INDEPENDENCE, JOINT, PARTITION
from puffin.estimates.tuple_rows import TuplePart, TupleRows
from puffin.estimates.value_set import ANY, ValueSet, compared
from puffin.tables.expression import Combination, Constant, Expression, Predicate


@dataclass(frozen=True)
class TableRows:
    """
    The rows of a table, and those of its columns by field id; ``column`` loads them when they are asked for.

    Attributes:
        sets: The field ids, which ascend, of the sets of columns that have a joint sketch; the largest sets first.
        tuples: The rows of the tuples of such a set; None if its sketch cannot be read.
        partitions: The fewest and the most rows that pass, as partitions tell; None if these tell nothing.
        groups: Likewise the distinct values of a column, null among them.
    """

    rows: Interval
    column: Callable[[int], ColumnRows]
    sets: tuple[tuple[int, ...], ...]
    tuples: Callable[[tuple[int, ...]], TupleRows | None]
    partitions: Callable[[FilterPart], tuple[int, int] | None] | None
    groups: Callable[[OfColumn], tuple[int, int] | None] | None = None

    @cached_property
    def in_sets(self) -> frozenset[int]:
        """The field ids of all columns of these sets."""
        return frozenset().union(*self.sets)


class OfColumn(NamedTuple):
    """A part of a filter that is a set of values of one column."""

    field_id: int
    values: ValueSet


class Joined(NamedTuple):
    """Parts of a filter on several columns, all of which have to hold, or one."""

    parts: tuple[FilterPart, ...]
    is_and: bool


FilterPart = OfColumn | Joined | Constant
"""A filter by columns."""


class ByColumn(NamedTuple):
    """A filter with the parts on one column united, and each of its predicates, in their order."""

    part: FilterPart
    predicates: tuple[tuple[Predicate, OfColumn], ...]


class Methods(NamedTuple):
    """How the rows of a filter were found, as text only once it is asked for."""

    where: Expression
    of_predicates: tuple[tuple[Predicate, str], ...]
    together: str | None

    def named(self) -> tuple[tuple[str, str], ...]:
        """Each predicate with its method, in their order, and the whole filter if it is on several columns."""
        named = tuple((str(predicate), method) for predicate, method in self.of_predicates)
        return named if self.together is None else (*named, (_text(self.where), self.together))

    def to_json(self) -> list[dict[str, str]]:
        return [{"predicate": predicate, "method": method} for predicate, method in self.named()]


def rows_of_filter(table: TableRows, where: Expression, filter_: ByColumn) -> tuple[Interval, Methods]:
    """Estimate the rows that pass a filter, with 95 % bounds; ``filter_`` is the same by columns."""
    known: dict[int, str] = {}
    whole, predicates = filter_
    found = rows_of(table, whole, known=known)
    if known.get(id(whole)) != PARTITION:  # whose rows are counted anew
        found = found.within(0, table.rows.upper)
    methods = [(predicate, known.get(id(part)) or _of_column(table, part, AT_95)[1]) for predicate, part in predicates]
    return found, Methods(where, tuple(methods), known.get(id(whole)) if isinstance(whole, Joined) else None)


def rows_of(table: TableRows, part: FilterPart, z: float = AT_95, known: dict[int, str] | None = None) -> Interval:
    """The rows that pass a part of a filter; ``known`` takes the method for each part, by its id."""
    if isinstance(part, Constant):
        return table.rows if part.value else NOTHING
    if isinstance(part, OfColumn):
        found, method = _of_column(table, part, z)
    else:
        found, method = _by_partitions(table, part, *_rows_of_several(table, part, known))
    if known is not None:
        known[id(part)] = method
    return found


def by_column(table: TableRows, where: Expression) -> ByColumn:
    """A filter with the parts on one column united."""
    predicates: list[tuple[Predicate, OfColumn]] = []
    return ByColumn(_by_column(table, where, predicates), tuple(predicates))


def _of_column(table: TableRows, part: OfColumn, z: float) -> tuple[Interval, str]:
    found = table.column(part.field_id).find(part.values, z)
    return found if table.partitions is None else _by_partitions(table, part, *found)


def _by_partitions(table: TableRows, part: FilterPart, found: Interval, method: str) -> tuple[Interval, str]:
    """An estimate within what partitions tell; if that is exact, it is the answer."""
    if table.partitions is None or found.is_exact or (bounds := table.partitions(part)) is None:
        return found, method
    lower, upper = bounds
    return (Interval.exactly(lower), PARTITION) if lower == upper else (found.within(lower, upper), method)


def _rows_of_several(table: TableRows, part: Joined, known: dict[int, str] | None) -> tuple[Interval, str]:
    rows = table.rows
    if rows.upper == 0:
        return NOTHING, INDEPENDENCE
    # Bounds that hold however the columns depend have to hold for each of them.
    each = [rows_of(table, inner, ALWAYS, known) for inner in part.parts]
    if not part.is_and:
        return _any_of(each, rows), INDEPENDENCE
    in_sets = table.in_sets
    if in_sets and sum(isinstance(inner, OfColumn) and inner.field_id in in_sets for inner in part.parts) > 1:
        return _with_tuples(table, part.parts, each)
    return _all_of(each, rows), INDEPENDENCE


def _with_tuples(table: TableRows, parts: Sequence[FilterPart], each: Sequence[Interval]) -> tuple[Interval, str]:
    """What joint sketches tell of the columns that they cover; these are independent of the others."""
    rows = table.rows
    left = {part.field_id: (i, part) for i, part in enumerate(parts) if isinstance(part, OfColumn)}
    whole = [ids for ids in table.sets if ids[0] in left and all(map(left.__contains__, ids))]
    if not whole and len(table.sets[0]) == 2:
        return _all_of(each, rows), INDEPENDENCE
    known = _JointEstimate(table, left, each)
    for field_ids in whole:
        known.add(field_ids)
    if len(known.covered) < len(left) > 1 and len(table.sets[0]) > 2:
        # Other columns of a set may have any value; the more columns of the filter it has, the more it tells.
        asked = [(sum(map(left.__contains__, ids)), ids) for ids in table.sets if len(ids) > 2]
        for count, field_ids in sorted(asked, reverse=True):
            if 1 < count < len(field_ids):
                known.add(field_ids)
    if len(known.found) == 1 and len(known.covered) == len(parts):
        return known.found[0], JOINT
    others = [found for i, found in enumerate(each) if i not in known.covered]
    rest = _all_of([*known.found, *others], rows)
    together = math.prod((found.rows / (rows.rows or 1) for found in others), start=known.share) * rows.rows
    return Interval.clamped(together, rest.lower, rest.upper), INDEPENDENCE


class _JointEstimate:
    """
    What joint sketches tell of the columns of a filter, one set of columns after the other.

    Attributes:
        found: The rows with the wanted values in the columns of each set.
        share: The share of all rows with all of these values.
        covered: The parts of the filter that the sets have, by their places.
    """

    def __init__(self, table: TableRows, left: Mapping[int, tuple[int, OfColumn]], each: Sequence[Interval]) -> None:
        self._table, self._left, self._each = table, left, each
        self.found: list[Interval] = []
        self.share = 1.0
        self.covered: set[int] = set()

    def add(self, field_ids: tuple[int, ...]) -> None:
        """
        Add a set that has columns which no other has, and shares at most one column with the others.

        Among the rows with the wanted values there, its columns are independent of those of the others.
        """
        table, left, each = self._table, self._left, self._each
        at = {left[field_id][0] for field_id in field_ids if field_id in left}
        shared = at & self.covered
        if len(shared) > 1 or shared == at or (tuples := table.tuples(field_ids)) is None:
            return
        chosen = [
            TuplePart(table.column(field_id), left[field_id][1].values, each[left[field_id][0]])
            if field_id in left
            else TuplePart(table.column(field_id), ANY, table.rows)
            for field_id in field_ids
        ]
        # Bounds that hold however others depend on these have to hold for these.
        found = tuples.find(chosen, AT_95 if len(at) == len(each) else ALWAYS)
        if found is not None:
            always = _all_of([each[i] for i in at], table.rows)
            found = found.within(always.lower, always.upper)
            among = each[shared.pop()].rows if shared else table.rows.rows
            self.found.append(found)
            self.share *= min(1.0, found.rows / among) if among else 0.0
            self.covered |= at


def _all_of(each: Sequence[Interval], rows: Interval) -> Interval:
    every, most = rows.rows or 1, rows.upper
    together, lower, upper = float(rows.rows), (1 - len(each)) * most, most
    for found in each:
        together *= found.rows / every
        lower += found.lower
        upper = min(upper, found.upper)
    return Interval.clamped(together, max(lower, 0.0), upper)


def _any_of(each: Sequence[Interval], rows: Interval) -> Interval:
    every = rows.rows or 1
    others, lower, upper = 1.0, 0.0, 0.0
    for found in each:
        others *= 1 - found.rows / every
        lower = max(lower, found.lower)
        upper += found.upper
    return Interval.clamped(rows.rows * (1 - others), lower, min(upper, rows.upper))


def _by_column(table: TableRows, where: Expression, predicates: list[tuple[Predicate, OfColumn]]) -> FilterPart:
    if isinstance(where, Predicate):
        field_id, type_ = where.field_id, table.column(where.field_id).facts.type
        part = OfColumn(field_id, ValueSet.of(where.op, [compared(type_, value) for value in where.values]))
        predicates.append((where, part))
        return part
    if isinstance(where, Constant):
        return where
    return _combined([_by_column(table, part, predicates) for part in where.parts], where.is_and)


def _combined(parts: Sequence[FilterPart], is_and: bool) -> FilterPart:
    sets: dict[int, OfColumn] = {}
    others: list[FilterPart] = []
    for outer in parts:
        for part in outer.parts if isinstance(outer, Joined) and outer.is_and == is_and else (outer,):
            if isinstance(part, OfColumn):
                known = sets.get(part.field_id)
                if known is not None:
                    merge = known.values.intersection if is_and else known.values.union
                    part = OfColumn(part.field_id, merge(part.values))
                sets[part.field_id] = part
            elif isinstance(part, Joined):
                others.append(part)
            elif part.value != is_and:
                return part
    made = [*sets.values(), *others]
    if not made:
        return Constant(is_and)
    return made[0] if len(made) == 1 else Joined(tuple(made), is_and)


def _text(where: Expression) -> str:
    if isinstance(where, Combination):
        parts = (f"({_text(part)})" if isinstance(part, Combination) else _text(part) for part in where.parts)
        return (" and " if where.is_and else " or ").join(parts)
    return str(where) if isinstance(where, Predicate) else str(where.value).lower()
