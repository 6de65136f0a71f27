"""
The rows of tuples of columns, as the joint sketch of these columns tells.

A joint sketch has no values. Tuples are looked up by their hashes: those of single values that are given, and in one
column also all values of a range, if its distribution has every value.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.counted import Counted, Numbers
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.interval import AT_95, Interval
from puffin.estimates.others import hashes_by
from puffin.estimates.tuple_grid import TupleGrid, with_null
from puffin.estimates.unlike_hashes import UnlikeRows
from puffin.estimates.value_set import ValueSet
from puffin.sketches.hash_arrays import Hashes, first_of_each, places
from puffin.sketches.single_hash import hash_tuple
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.tuple_hashes import EMPTY, NULL, hashes_of

_MOST_OF_COLUMN, _MOST_TUPLES = 16, 64  # looked up one by one; a set of values with more is not worth the time
_MOST_OF_RANGE = 4096
_MOST_KEPT = 256
_MOST_WITH_NULL = 1 << 18


class TuplePart(NamedTuple):
    """The values of one column that a filter lets pass, and its rows with these."""

    column: ColumnRows
    values: ValueSet
    rows: Interval


class TupleRows:
    """
    The rows of tuples, prepared for questions; any thread may ask.

    Args:
        rows: The tuples, as if they were the values of a column.
        counted: The same by hash, as far as they are known.
        types: Of the columns, in the order in which tuples are hashed.
        unlike: Of each column that may have both 0.0 and -0.0, or several NaNs, the rows with these.
    """

    def __init__(self, rows: ColumnRows, counted: Counted, types: Sequence[str], unlike: Sequence[UnlikeRows]) -> None:
        self._column = rows
        self._unlike = unlike
        self._counted = counted
        counts = zip(counted.low.tolist(), counted.high.tolist(), strict=True)
        self._rows = dict(zip(counted.hashes.tolist(), counts, strict=True))
        self._hashes = [_hashes_by(type_) for type_ in types]
        self._along: dict[tuple[Any, ...], _Along] = {}
        self._grid: tuple[TupleGrid | None] | None = None

    @property
    def facts(self) -> ColumnFacts:
        return self._column.facts

    @property
    def groups(self) -> Interval:
        """The distinct tuples; those that differ only in the sign of a zero or in the bits of a NaN are one."""
        distinct = self._column.distinct
        lower = distinct.lower
        for each in self._unlike:
            lower = max(lower - each.rarer_zero, lower / 2)
        lower = max(lower - sum(each.other_nans for each in self._unlike), min(lower, 1.0))
        return self._column.widened_by_changes(distinct._replace(lower=lower))

    def groups_left(self, share: float) -> float:
        """The distinct tuples that are left if such a share of rows is, independent of the tuple."""
        return self._column.groups_left(share)

    def find(self, parts: Sequence[TuplePart], z: float = AT_95) -> Interval | None:
        """
        The rows that have these values in all columns; None if what is known of the columns does not tell.

        Bounds of sampled parts hold as often as ``z`` standard deviations say.
        """
        hashes: list[list[int] | None] = []
        for part, hashes_of_one in zip(parts, self._hashes, strict=True):
            single = part.values.single_values(_MOST_OF_COLUMN)
            hashes.append(None if single is None else [each for value in single for each in hashes_of_one(value)])
        found = None
        if None not in hashes:
            found = self._of_points([each for each in hashes if each is not None], z)
        elif hashes.count(None) == 1:
            found = self._of_range(parts, hashes)
        return self._of_grid(parts, z) if found is None else found

    def _of_points(self, hashes: Sequence[Sequence[int]], z: float) -> Interval | None:
        if math.prod(map(len, hashes)) > _MOST_TUPLES:
            return None
        low = high = 0.0
        absent: list[int] = []
        for each in itertools.product(*hashes):
            hashed = hash_tuple(each)
            found = self._rows.get(hashed)
            if found is not None:
                low, high = low + found[0], high + found[1]
            elif hashed >= self._counted.theta:  # others that the sketch does not have are not there
                absent.append(hashed)
        rows = Interval.between(low, high, self._counted.likely)
        if absent:
            rows = rows.plus(self._column.absent(absent, z))
        return self._column.as_now(rows.within(0, self._column.facts.rows))

    def _of_range(self, parts: Sequence[TuplePart], hashes: Sequence[Sequence[int] | None]) -> Interval | None:
        """
        The rows with single values in all columns but one, and a range there.

        The rows of the tuples that are known are added up. The others have what the single values leave of their rows;
        of these as many are taken to be in the range as of all rows of the table.
        """
        at = hashes.index(None)
        part, known = parts[at], parts[at].column.known_values
        facts = part.column.facts, self._column.facts
        if known is None or not part.column.is_complete or len(known.keys.values) > _MOST_OF_RANGE:
            return None
        if any(each.added != 0 or each.removed != 0 for each in facts) or (part.values.nan and facts[0].nans != 0):
            return None
        if any(known.keys.is_doubtful(span) for span in part.values.spans):
            return None
        others = [each for i, each in enumerate(hashes) if i != at and each is not None]
        if math.prod(map(len, others)) > _MOST_OF_COLUMN:
            return None
        along = self._found_along(at, others, known.hashes)
        spans = [(known.keys.place(start), known.keys.place(stop)) for start, stop in part.values.spans]
        if part.values.null:
            spans.append((len(known.keys.values), len(known.keys.values) + 1))
        some = Interval.between(*along.between(spans), self._counted.likely)
        if self._counted.theta == MAX_THETA:
            return some
        every = Interval.between(*along.between([(0, len(known.keys.values) + 1)]), self._counted.likely)
        of_points = min((each.rows for each in parts if each is not part), key=lambda each: each.rows)
        unknown = max(0.0, of_points.rows - every.rows)
        share = part.rows.rows / max(facts[0].rows, 1)
        upper = max(some.lower, of_points.upper - (every.lower - some.lower))
        return Interval.clamped(some.rows + unknown * share, some.lower, upper)

    def _of_grid(self, parts: Sequence[TuplePart], z: float) -> Interval | None:
        """The rows with any values, if statistics have every value of each column, and these are few."""
        known = [part.column.known_values for part in parts if part.column.is_complete and part.column.facts.nans == 0]
        columns = [each for each in known if each is not None]
        if len(columns) < len(parts):
            return None
        if self._grid is None:  # a set of columns has one
            self._grid = (TupleGrid.of(columns, self._counted, self.facts.rows),)
        (grid,) = self._grid
        if grid is None:
            return None
        has_all = all(part.column.facts.is_as_old(self.facts) for part in parts)
        found = grid.find([part.values for part in parts], z if has_all else None)
        return None if found is None else self._column.as_now(found)

    def _found_along(self, at: int, others: Sequence[Sequence[int]], hashes: Any) -> _Along:
        """The known tuples of some values, in the order of the values of the column ``at``; null is after the last."""
        key = at, *(tuple(each) for each in others)
        found = self._along.get(key)
        if found is None:
            along = with_null(hashes)
            sums = np.zeros((2, len(along)))
            for each in itertools.product(*others):
                columns = [np.full(len(along), value, np.uint64) for value in each]
                place, has = places(hashes_of([*columns[:at], along, *columns[at:]]), self._counted.hashes)
                sums[0][has] += self._counted.low[place[has]]
                sums[1][has] += self._counted.high[place[has]]
            kept = np.flatnonzero(sums[1])
            low, high = ([0.0, *np.cumsum(each[kept]).tolist()] for each in sums)
            found = _Along(kept.tolist(), low, high)
            if len(self._along) >= _MOST_KEPT:
                self._along.clear()
            self._along[key] = found
        return found


def tuples_with_null(columns: Sequence[Hashes]) -> tuple[Hashes, Numbers]:
    """
    The tuples of known values and nulls that have a null, and how many nulls each has.

    The hashes of each column are in the order in which tuples are hashed; 0 stands for the empty string. Of three
    columns or more with many values, only the tuples with one value are made.
    """
    ends = list(map(with_null, columns))
    if len(ends) > 2 and math.prod(map(len, ends)) <= _MOST_WITH_NULL:
        made = [[each.reshape(-1) for each in np.meshgrid(*ends)]]
    else:
        made = [
            [each if i == at else np.full(len(each), NULL, np.uint64) for i in range(len(ends))]
            for at, each in enumerate(ends)
        ]
    hashes = np.concatenate([hashes_of(each) for each in made])
    nulls = np.concatenate([np.sum([column == NULL for column in each], axis=0, dtype=np.float64) for each in made])
    has_null = nulls > 0
    found, first = first_of_each(hashes[has_null])
    return found, nulls[has_null][first]


@dataclass(frozen=True, slots=True)
class _Along:
    """Tuples in the order of the values of one column: the places of these, and the rows of all before each."""

    at: list[int]
    low: list[float]
    high: list[float]

    def between(self, spans: Sequence[tuple[int, int]]) -> tuple[float, float]:
        low = high = 0.0
        for start, stop in spans:
            i, j = bisect.bisect_left(self.at, start), bisect.bisect_left(self.at, stop)
            low, high = low + self.low[j] - self.low[i], high + self.high[j] - self.high[i]
        return low, high


def _hashes_by(type_: str) -> Callable[[Any], tuple[int, ...]]:
    """The numbers under which a tuple may have a value."""
    of_value = hashes_by(type_)

    def found(value: Any) -> tuple[int, ...]:
        if value is None:
            return (NULL,)
        return (EMPTY,) if value == b"" else of_value(value)

    return found
