"""The values of a column that its distribution knows, in their order, with the rows of all values before each."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from puffin.estimates.counted import Flags, Numbers
from puffin.estimates.interval import Sums
from puffin.estimates.value_set import FIRST, Cut, Span, is_point
from puffin.sketches.distribution import CUTS
from puffin.sketches.hashing import hash_array
from puffin.sketches.row_tally import Hashes


class KnownValues:
    """
    Values in ascending order, prepared for questions about spans of them.

    Attributes:
        keys: The values as filters compare them; strings may be cut, as ``is_cut`` says.
        hashes: Of each; 0 for the empty string, which has none.
        is_exact: Whether the rows of each are known whatever the sample says; the others are in the sample only.
        low, high: The fewest and the most rows of each.
        has_cut: Whether any value is cut.
    """

    def __init__(self, keys: Any, hashes: Hashes, rows: tuple[Numbers, Numbers], flags: tuple[Flags, Flags]) -> None:
        order = np.argsort(keys, kind="stable")
        low, high, (is_exact, is_cut) = rows[0][order], rows[1][order], (each[order] for each in flags)
        self.keys: list[Any] = keys[order].tolist()
        self.hashes = hashes[order]
        self.is_cut: list[bool] = is_cut.tolist()
        self.has_cut = bool(is_cut.any())
        self.is_exact: list[bool] = is_exact.tolist()
        self.low: list[float] = low.tolist()
        self.high: list[float] = high.tolist()
        in_rest = ~is_exact
        of_rest = np.where(in_rest, low, 0)
        self._before_low, self._before_high = _sums(low), _sums(high)
        self._counts, self._rows, self._squares = _sums(in_rest), _sums(of_rest), _sums(of_rest**2)

    def place(self, cut: Cut) -> int:
        """How many values are before a cut."""
        return place_in(self.keys, cut)

    def find(self, value: Any) -> tuple[int, int]:
        """Where a value begins and ends, also one that is cut; -0.0 and 0.0 are two. The same place if unknown."""
        start = bisect.bisect_left(self.keys, value)
        stop = start
        while stop < len(self.keys) and self.keys[stop] == value:
            stop += 1
        if not self.has_cut or not value or (start == stop and self._beginning_of(value) is None):
            return start, stop  # the empty string is never cut, and has no hash
        hashed = next(iter(hash_array(pa.array([value], pa.binary()), "binary")))
        found = np.flatnonzero(self.hashes == hashed[0])
        return (int(found[0]), int(found[0]) + 1) if len(found) else (0, 0)

    def rows_between(self, start: int, stop: int) -> tuple[float, float]:
        """The fewest and the most rows of the values from one place to another."""
        return self._before_low[stop] - self._before_low[start], self._before_high[stop] - self._before_high[start]

    def sampled(self, spans: Sequence[Span]) -> Sums:
        """The values of the sample in these spans; one value left out between two spans does not count as missing."""
        joined: list[Span] = []
        for start, stop in spans:
            if joined and is_point((joined[-1][1], start)):
                joined[-1] = joined[-1][0], stop
            else:
                joined.append((start, stop))
        count = rows = squares = 0.0
        for start, stop in joined:
            i, j = self.place(start), self.place(stop)
            count += self._counts[j] - self._counts[i]
            rows += self._rows[j] - self._rows[i]
            squares += self._squares[j] - self._squares[i]
        return Sums(count, rows, squares)

    def doubt(self, span: Span) -> float:
        """The rows of cut values that a cut of the span may be within."""
        places = (self._beginning_of(cut[1]) for cut in span if len(cut) == 3)
        return math.fsum(self.high[at] for at in places if at is not None)

    def _beginning_of(self, value: bytes) -> int | None:
        """The place of the known value that is cut and begins this one."""
        for length in CUTS:
            at = bisect.bisect_left(self.keys, value[:length])
            if at < len(self.keys) and self.is_cut[at] and self.keys[at] == value[:length]:
                return at
        return None


def place_in(keys: list[Any], cut: Cut) -> int:
    """How many of these ascending values are before a cut."""
    if len(cut) == 1:
        return 0 if cut == FIRST else len(keys)
    return (bisect.bisect_right if cut[2] else bisect.bisect_left)(keys, cut[1])


def _sums(numbers: Any) -> list[float]:
    return [0.0, *np.cumsum(numbers, dtype=np.float64).tolist()]
