"""The values of a column that its distribution knows, in their order, with the rows of all values before each."""

from __future__ import annotations

import array
import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np

from puffin.estimates.counted import Numbers
from puffin.estimates.interval import Sums
from puffin.estimates.value_set import FIRST, Cut, Span
from puffin.sketches.distribution import CUTS
from puffin.sketches.hash_arrays import Flags, Hashes
from puffin.sketches.single_hash import hash_one

_LOW, _HIGH, _EXACT, _COUNT, _ROWS, _SQUARES = range(6)
_SUMS = 6


class KnownValues:
    """
    Values in ascending order, prepared for questions about spans of them.

    Attributes:
        keys: The values as filters compare them; strings may be cut, as ``is_cut`` says.
        hashes: Of each; 0 for the empty string, which has none.
        is_exact: Whether the rows of each are known whatever the sample says; the others are in the sample only.
        has_cut: Whether any value is cut.
    """

    def __init__(self, keys: Any, hashes: Hashes, rows: tuple[Numbers, Numbers], flags: tuple[Flags, Flags]) -> None:
        order = np.argsort(keys, kind="stable")
        low, high, (is_exact, is_cut) = rows[0][order], rows[1][order], (each[order] for each in flags)
        self.keys: list[Any] = keys[order].tolist()
        self.hashes = hashes[order]
        self.is_cut: list[bool] = is_cut.tolist()
        self.has_cut = bool(is_cut.any())
        self._cut_places = dict(zip(self.hashes[is_cut].tolist(), np.flatnonzero(is_cut).tolist(), strict=True))
        self.is_exact: list[bool] = is_exact.tolist()
        in_rest = ~is_exact
        of_rest = np.where(in_rest, low, 0)
        is_again = np.zeros(len(order), np.bool_)
        is_again[1:] = (keys[order][1:] == keys[order][:-1]) & ~is_cut[1:]  # 0.0 after -0.0
        sums = np.zeros((len(order) + 1, _SUMS))
        np.cumsum([low, high, is_exact & ~is_again, in_rest, of_rest, of_rest**2], axis=1, out=sums[1:].T)
        # The sums before each value; side by side in memory, which a question that nobody asked before has to wait for.
        self._before = array.array("d", sums.tobytes())
        places = range(len(order) - 1, -1, -1)
        self._starts = {} if self.has_cut else dict(zip(reversed(self.keys), places, strict=True))

    def place(self, cut: Cut) -> int:
        """How many values are before a cut."""
        return place_in(self.keys, cut)

    def find(self, value: Any) -> tuple[int, int]:
        """Where a value begins and ends, also one that is cut; -0.0 and 0.0 are two. The same place if unknown."""
        start = bisect.bisect_left(self.keys, value) if self.has_cut else self._starts.get(value, len(self.keys))
        stop = start
        while stop < len(self.keys) and self.keys[stop] == value:
            stop += 1
        if not self.has_cut or not value:  # the empty string is never cut, and has no hash
            return start, stop
        whole = start
        while whole < stop and self.is_cut[whole]:
            whole += 1
        if whole < stop:  # others that begin with it are cut
            return whole, whole + 1
        if start == stop and _first_alike(self.keys, self.is_cut, (0, value, 0), start) == start:
            return start, stop
        place = self._cut_places.get(hash_one(value))
        return (start, start) if place is None else (place, place + 1)

    def rows_between(self, start: int, stop: int) -> tuple[float, float]:
        """The fewest and the most rows of the values from one place to another."""
        sums, first, last = self._before, _SUMS * start, _SUMS * stop
        return sums[last + _LOW] - sums[first + _LOW], sums[last + _HIGH] - sums[first + _HIGH]

    def count_between(self, start: int, stop: int) -> tuple[float, float]:
        """How many values there are from one place to another: those whose rows are exact, and those of the sample."""
        sums, first, last = self._before, _SUMS * start, _SUMS * stop
        return sums[last + _EXACT] - sums[first + _EXACT], sums[last + _COUNT] - sums[first + _COUNT]

    def between(self, span: Span, *, possible: bool = False, since: int = 0) -> tuple[int, int]:
        """From which place to which the values are in a span: see `places_in`."""
        return places_in(self.keys, self.is_cut if self.has_cut else None, span, possible=possible, since=since)

    def sampled(self, places: Sequence[tuple[int, int]]) -> Sums:
        """The values of the sample between these places."""
        sums, count, rows, squares = self._before, 0.0, 0.0, 0.0
        for start, stop in places:
            before, after = _SUMS * start, _SUMS * stop
            count += sums[after + _COUNT] - sums[before + _COUNT]
            rows += sums[after + _ROWS] - sums[before + _ROWS]
            squares += sums[after + _SQUARES] - sums[before + _SQUARES]
        return Sums(count, rows, squares)

    def is_doubtful(self, span: Span) -> bool:
        """Whether a value that is cut may be within a span or not."""
        return self.has_cut and self.between(span) != self.between(span, possible=True)


def places_in(
    keys: list[Any], is_cut: list[bool] | None, span: Span, *, possible: bool = False, since: int = 0
) -> tuple[int, int]:
    """
    From which place to which ascending values are in a span: those that certainly are, or all that may be.

    Of a value that is cut only the beginning is known: if an end of the span begins alike, the value may be on either
    side of it. ``is_cut`` is None if no value is cut. Values before the place ``since`` are left out: those that may be
    in an earlier span too count once.
    """
    start, stop = span
    first, last = place_in(keys, start), place_in(keys, stop)
    if is_cut is not None:
        if possible:
            first = max(_first_alike(keys, is_cut, start, first), since)
            last = max(first, last)
        else:
            last = max(first, _first_alike(keys, is_cut, stop, last))
    return first, last


def place_in(keys: list[Any], cut: Cut) -> int:
    """How many of these ascending values are before a cut."""
    if len(cut) == 1:
        return 0 if cut == FIRST else len(keys)
    return (bisect.bisect_right if cut[2] else bisect.bisect_left)(keys, cut[1])


def _first_alike(keys: list[Any], is_cut: list[bool], cut: Cut, place: int) -> int:
    """The first place at which a value that is cut begins this cut; ``place``, that of the cut, if there is none."""
    if len(cut) == 3:
        for length in reversed(CUTS):
            beginning = cut[1][:length]
            at = bisect.bisect_left(keys, beginning, 0, place)
            if at < place and any(is_cut[at : bisect.bisect_right(keys, beginning, at, place)]):
                return at
    return place
