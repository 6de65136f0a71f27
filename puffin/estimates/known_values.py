"""The values of a column that its distribution knows, in their order, with the rows of all values before each."""

from __future__ import annotations

import array
import bisect
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class OrderedKeys:
    """
    Values in ascending order, as filters compare them.

    Of strings that are cut, as ``is_cut`` says, only the beginnings are known; it is None if no value is cut.
    """

    values: list[Any]
    is_cut: list[bool] | None

    def place(self, cut: Cut) -> int:
        """How many values are before a cut."""
        if len(cut) == 1:
            return 0 if cut == FIRST else len(self.values)
        return (bisect.bisect_right if cut[2] else bisect.bisect_left)(self.values, cut[1])

    def between(self, span: Span, *, possible: bool = False, since: int = 0) -> tuple[int, int]:
        """
        From which place to which the values are in a span: those that certainly are, or all that may be.

        If an end of the span begins as a value that is cut, that may be on either side of it. Values before the place
        ``since`` are left out: those that may be in an earlier span too count once.
        """
        start, stop = span
        first, last = self.place(start), self.place(stop)
        if self.is_cut is not None:
            if possible:
                first = max(self.first_alike(start, first), since)
                last = max(first, last)
            else:
                last = max(first, self.first_alike(stop, last))
        return first, last

    def first_alike(self, cut: Cut, place: int) -> int:
        """The first place at which a value that is cut begins this cut; if there is none, ``place``, its own."""
        if len(cut) == 3 and self.is_cut is not None:
            for length in reversed(CUTS):
                beginning = cut[1][:length]
                at = bisect.bisect_left(self.values, beginning, 0, place)
                if at < place and any(self.is_cut[at : bisect.bisect_right(self.values, beginning, at, place)]):
                    return at
        return place

    def is_doubtful(self, span: Span) -> bool:
        """Whether a value that is cut may be within a span or not."""
        return self.is_cut is not None and self.between(span) != self.between(span, possible=True)


class KnownValues:
    """
    Values in ascending order, prepared for questions about spans of them.

    Attributes:
        keys: The values.
        hashes: Of each; 0 for the empty string, which has none.
        is_exact: Whether the rows of each are known whatever the sample says; the others are in the sample only.
    """

    def __init__(self, keys: Any, hashes: Hashes, low: Numbers, high: Numbers, is_exact: Flags, is_cut: Flags) -> None:
        order = np.argsort(keys, kind="stable")
        keys, low, high = keys[order], low[order], high[order]
        is_exact, is_cut = is_exact[order], is_cut[order]
        self.keys = OrderedKeys(keys.tolist(), is_cut.tolist() if is_cut.any() else None)
        self.hashes = hashes[order]
        self._cut_places = dict(zip(self.hashes[is_cut].tolist(), np.flatnonzero(is_cut).tolist(), strict=True))
        self.is_exact: list[bool] = is_exact.tolist()
        in_rest = ~is_exact
        of_rest = np.where(in_rest, low, 0)
        is_again = np.zeros(len(order), np.bool_)
        is_again[1:] = (keys[1:] == keys[:-1]) & ~(is_cut[1:] | is_cut[:-1])  # 0.0 after -0.0
        sums = np.zeros((len(order) + 1, _SUMS))
        np.cumsum([low, high, is_exact & ~is_again, in_rest, of_rest, of_rest**2], axis=1, out=sums[1:].T)
        # The sums before each value, in one flat array where its six are neighbours: a new question waits for memory.
        self._before = array.array("d", sums.tobytes())
        places = range(len(order) - 1, -1, -1)
        self._starts = {} if is_cut.any() else dict(zip(reversed(self.keys.values), places, strict=True))

    def find(self, value: Any) -> tuple[int, int]:
        """Where a value begins and ends, also one that is cut; -0.0 and 0.0 are two. The same place if unknown."""
        keys, is_cut = self.keys.values, self.keys.is_cut
        start = self._starts.get(value, len(keys)) if is_cut is None else bisect.bisect_left(keys, value)
        stop = start
        while stop < len(keys) and keys[stop] == value:
            stop += 1
        if is_cut is None or not value:  # the empty string is never cut, and has no hash
            return start, stop
        whole = start
        while whole < stop and is_cut[whole]:
            whole += 1
        if whole < stop:  # others that begin with it are cut
            return whole, whole + 1
        if start == stop and self.keys.first_alike((0, value, 0), start) == start:
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

    def sampled(self, places: Sequence[tuple[int, int]]) -> Sums:
        """The values of the sample between these places."""
        sums, count, rows, squares = self._before, 0.0, 0.0, 0.0
        for start, stop in places:
            before, after = _SUMS * start, _SUMS * stop
            count += sums[after + _COUNT] - sums[before + _COUNT]
            rows += sums[after + _ROWS] - sums[before + _ROWS]
            squares += sums[after + _SQUARES] - sums[before + _SQUARES]
        return Sums(count, rows, squares)
