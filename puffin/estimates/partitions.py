"""
The rows that a filter leaves, as far as partitions tell: those of partitions all of whose rows pass, or may.

A partition tuple confines a column to a cell: a span of values, NaN, null. A cell inside a set of values passes in
full, and one that is apart from it does not pass.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.estimates.filters import FilterPart, Joined, OfColumn
from puffin.estimates.partition_cells import ANYTHING, Cell, cell_of
from puffin.estimates.value_set import Cut, Span, ValueSet, is_point
from puffin.sketches.hash_arrays import Flags
from puffin.tables.partition_rows import PartitionRows
from puffin.values.bucket_hash import bucket
from puffin.values.transforms import is_known, parsed_transform

_MOST_POINTS = 100
"""Values of a filter whose buckets are looked at: each takes microseconds, and many are in most buckets."""

Specs: TypeAlias = Mapping[int, Sequence[Mapping[str, Any]]]


class _Pass(NamedTuple):
    """For each partition whether all of its rows pass, and whether any may."""

    all: Flags
    any: Flags


class Partitions:
    """
    The partitions of a snapshot. Any thread may ask.

    Args:
        specs: The fields of each partition spec, by spec id.
        types: The types of columns by field id, as the values of filters compare.
        load: Reads the rows of partitions when a filter first needs them; None if these are not known.
    """

    def __init__(
        self, specs: Specs, types: Callable[[int], str], load: Callable[[], Sequence[PartitionRows] | None]
    ) -> None:
        self._specs = {spec_id: [field for field in spec if _confines(field)] for spec_id, spec in specs.items()}
        self._types = types
        self._load = load
        self._sources = {field["source-id"] for spec in self._specs.values() for field in spec}
        self._loading = threading.Lock()
        self._loaded: list[_Loaded | None] = []

    def rows(self, part: FilterPart) -> tuple[int, int] | None:
        """The fewest and the most rows that pass; None if partitions tell nothing that the parts of it do not."""
        loaded = self._read() if self._concerns(part) else None
        return None if loaded is None else loaded.rows(part)

    def groups(self, part: OfColumn) -> tuple[int, int] | None:
        """The fewest and the most distinct values among these; None if a partition may have several."""
        loaded = self._read() if self._concerns(part) else None
        return None if loaded is None else loaded.groups(part)

    def _read(self) -> _Loaded | None:
        if not self._loaded:
            with self._loading:
                if not self._loaded:
                    rows = self._load()
                    self._loaded.append(None if rows is None else _Loaded(rows, self._specs, self._types))
        (loaded,) = self._loaded
        return loaded

    def _concerns(self, part: FilterPart) -> bool:
        if isinstance(part, OfColumn):
            return part.field_id in self._sources
        return isinstance(part, Joined) and sum(map(self._is_inside, part.parts)) > 1

    def _is_inside(self, part: FilterPart) -> bool:
        if isinstance(part, OfColumn):
            return part.field_id in self._sources
        return isinstance(part, Joined) and any(map(self._is_inside, part.parts))


def _confines(field: Mapping[str, Any]) -> bool:
    """Whether a partition field is of one column, by a transform that is known."""
    return len(field.get("source-ids", ())) <= 1 and is_known(str(field["transform"]))


class _Loaded:
    def __init__(self, rows: Sequence[PartitionRows], specs: Specs, types: Callable[[int], str]) -> None:
        self._rows = rows
        self._specs = specs
        self._types = types
        self._fewest = np.array([each.lower for each in rows], np.int64)
        self._most = np.array([each.upper for each in rows], np.int64)
        self._columns: dict[int, _Cells] = {}

    def rows(self, part: FilterPart) -> tuple[int, int]:
        passing = self._passing(part)
        return int(self._fewest[passing.all].sum()), int(self._most[passing.any].sum())

    def groups(self, part: OfColumn) -> tuple[int, int] | None:
        passing, cells = self._passing(part), self._columns[part.field_id]
        some = cells.places[passing.any & (self._most > 0)]
        if not cells.is_single[some].all():
            return None
        return len(np.unique(cells.places[passing.all & (self._fewest > 0)])), len(np.unique(some))

    def _passing(self, part: FilterPart) -> _Pass:
        if isinstance(part, OfColumn):
            cells = self._columns.get(part.field_id)
            if cells is None:
                cells = self._columns[part.field_id] = self._cells(part.field_id)
            return cells.passing(part.values)
        if isinstance(part, Joined):
            every, some = zip(*map(self._passing, part.parts), strict=True)
            combine = np.logical_and if part.is_and else np.logical_or
            return _Pass(combine.reduce(every), combine.reduce(some))
        flags = np.full(len(self._rows), part.value, np.bool_)
        return _Pass(flags, flags)

    def _cells(self, field_id: int) -> _Cells:
        type_ = self._types(field_id)
        of_specs = {
            spec_id: [(str(each["field-id"]), str(each["transform"])) for each in spec if each["source-id"] == field_id]
            for spec_id, spec in self._specs.items()
        }
        numbers: dict[Cell, int] = {}
        known: dict[tuple[Any, ...], int] = {}
        places = np.empty(len(self._rows), np.int64)
        for i, (spec_id, partition, _, _) in enumerate(self._rows):
            fields = [(transform, partition[key]) for key, transform in of_specs[spec_id] if key in partition]
            place = (spec_id, *(value for _, value in fields))
            if place not in known:
                cell = cell_of(type_, fields) if fields else ANYTHING
                known[place] = numbers.setdefault(cell, len(numbers))
            places[i] = known[place]
        cells = _Cells(list(numbers), places)
        for spec_id, fields in of_specs.items():
            for key, transform in fields:
                name, count = parsed_transform(transform)
                if name == "bucket":
                    cells.buckets.append(_Buckets.of(type_, count, self._values(spec_id, key)))
        return cells

    def _values(self, spec_id: int, key: str) -> list[int | None]:
        """The values of a partition field of a spec, None for partitions without."""
        return [each.partition.get(key) if each.spec_id == spec_id else None for each in self._rows]


class _Cells:
    """
    The cells of a column, those of a ladder side by side; and for each partition the place of its own.

    ``is_single`` tells of each cell whether it is one value.
    """

    def __init__(self, cells: Sequence[Cell], places: npt.NDArray[np.int64]) -> None:
        ladders: list[list[tuple[Span, int]]] = []
        for span, place in sorted((cell.span, place) for place, cell in enumerate(cells) if cell.span is not None):
            ladder = next((each for each in ladders if each[-1][0][1] <= span[0]), None)
            if ladder is None:
                ladders.append(ladder := [])
            ladder.append((span, place))
        without = [place for place, cell in enumerate(cells) if cell.span is None]
        order = [*(place for ladder in ladders for _, place in ladder), *without]
        in_order = np.empty(len(cells), np.int64)
        in_order[order] = np.arange(len(cells))
        self.places = in_order[places]
        spans = [cells[i].span for i in order]
        self.is_single = np.array([span is None or is_point(span) for span in spans], np.bool_)
        self._has_span = len(cells) - len(without)
        self._nan, self._null = (np.array([cells[i][field] for i in order], np.bool_) for field in (1, 2))
        self.buckets: list[_Buckets] = []
        self._ladders: list[_Ladder] = []
        first = 0
        for ladder in ladders:
            self._ladders.append(_Ladder(first, [span[0] for span, _ in ladder], [span[1] for span, _ in ladder]))
            first += len(ladder)

    def passing(self, values: ValueSet) -> _Pass:
        inside, touched = np.zeros((2, len(self._nan)), np.bool_)
        inside[self._has_span :] = True
        for ladder in self._ladders:
            for span in values.spans:
                ladder.mark(span, inside, touched)
        for passes, others in ((values.nan, self._nan), (values.null, self._null)):
            if passes:
                touched |= others
            else:
                inside[others] = False
        passing = _Pass(inside[self.places], touched[self.places])
        for each in self.buckets:
            each.confine(values, passing)
        return passing


class _Buckets(NamedTuple):
    """The bucket of each partition, -1 for those without one, where all values of a column are in it, and no nulls."""

    type: str
    how_many: int
    buckets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, type_: str, how_many: int, values: Sequence[int | None]) -> _Buckets:
        return cls(type_, how_many, np.array([-1 if value is None else value for value in values], np.int64))

    def confine(self, values: ValueSet, passing: _Pass) -> None:
        """Mark partitions that have none of the values, if these are few, and those that have none of the others."""
        left_out = values.points_left_out
        if left_out is None:
            points = values.single_values(_MOST_POINTS)
            if points is not None:
                passing.any[self._without(points)] = False
        elif (points := left_out.single_values(_MOST_POINTS)) is not None:
            passing.all[self._without(points)] = True

    def _without(self, points: Sequence[Any]) -> Flags:
        """The partitions with a bucket that is of none of the points."""
        found = {bucket(self.type, point, self.how_many) for point in points if point is not None}
        return ~np.isin(self.buckets, [-1, *found])


class _Ladder(NamedTuple):
    """Cells, from the place of the first on, whose spans are disjoint and ascend."""

    first: int
    starts: list[Cut]
    stops: list[Cut]

    def mark(self, span: Span, inside: Flags, touched: Flags) -> None:
        """Mark the cells inside a span, and those that have values in common with it."""
        (start, stop), first = span, self.first
        inside[first + bisect.bisect_left(self.starts, start) : first + bisect.bisect_right(self.stops, stop)] = True
        touched[first + bisect.bisect_right(self.stops, start) : first + bisect.bisect_left(self.starts, stop)] = True
