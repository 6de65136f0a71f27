"""The rows of one side of a join by the hashes of its values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.sketches.distribution import Distribution
from puffin.sketches.hash_arrays import Counts, Flags, Hashes, is_among
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_image import MAX_THETA

Numbers: TypeAlias = "npt.NDArray[np.float64]"

_EMPTY = np.zeros(1, np.uint64)
"""The hash under which empty strings stand here: no value has it, and engines give these none."""


@dataclass(frozen=True, slots=True)
class Counted:
    """
    The rows of values by hash.

    Attributes:
        theta: All values below it are there, with their exact rows.
        hashes: Ascending; of heavy values and of those below theta.
        low, high: The fewest and the most rows of each.
        is_heavy: Whether each is heavy.
        likely: Of the rows between these, the share that a heavy value is likely to have.
        missed: No other value has more rows.
        left: The rows of all other values by bucket; None if unknown.
        rest: The rows of all values that are not heavy, if heavy ones have what is likely; None if unknown.
    """

    theta: int
    hashes: Hashes
    low: Numbers
    high: Numbers
    is_heavy: Flags
    likely: float
    missed: float
    left: Counts | None
    rest: float | None

    @classmethod
    def of(cls, found: Distribution, counts: RowCounts | None, empty: int) -> Counted:
        """The rows of a distribution, of the row counts beside it, and of so many empty strings."""
        parts = [(found.hashes, found.low.astype(np.float64), found.high.astype(np.float64), found.is_heavy)]
        theta = found.theta
        if counts is not None and counts.theta > theta:
            others = ~is_among(counts.hashes, found.hashes)
            rows = counts.rows[others].astype(np.float64)
            parts.append((counts.hashes[others], rows, rows, np.zeros(len(rows), np.bool_)))
            theta = counts.theta
        if empty:
            rows = np.array([float(empty)])
            parts.append((_EMPTY, rows, rows, np.ones(1, np.bool_)))
        hashes, low, high, is_heavy = map(np.concatenate, zip(*parts, strict=True))
        order = hashes.argsort()
        left = found.left_over(counts)
        rest = None
        if left is not None or theta == MAX_THETA:
            certain = float(low.sum()) + (0.0 if left is None else float(left.sum()))
            rest = certain - float((low + found.likely * (high - low))[is_heavy].sum())
        return cls(
            theta=theta,
            hashes=hashes[order],
            low=low[order],
            high=high[order],
            is_heavy=is_heavy[order],
            likely=found.likely,
            missed=float(found.missed),
            left=left,
            rest=rest,
        )

    def without(self, hashes: Hashes) -> Counted:
        """The same without some values, whose hashes ascend."""
        kept = ~is_among(self.hashes, hashes)
        gone = float(self.low[~kept & ~self.is_heavy].sum())
        return replace(
            self,
            hashes=self.hashes[kept],
            low=self.low[kept],
            high=self.high[kept],
            is_heavy=self.is_heavy[kept],
            rest=None if self.rest is None else self.rest - gone,
        )
