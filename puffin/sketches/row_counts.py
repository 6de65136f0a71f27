"""
Row counts: a sketch that can forget.

A theta sketch cannot remove a value, because it does not know whether other rows still have it. Row counts hold the
smallest distinct hashes of a column, as the sketch does, and the number of rows of each. They add and subtract rows,
and drop a hash without rows.

Removal uses hashes up: nothing is known above theta, so no other hash replaces a dropped one. Row counts therefore hold
`HEADROOM` times as many hashes as the sketch needs. When too few are left there is no sketch, and the column has to be
counted again.

As with sketches, phases are types, and equal rows give equal bytes whatever their order and parts.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass

import numpy as np

from puffin.errors import CorruptSketchError, UsageError
from puffin.kernels import kernels_ready
from puffin.sketches.hash_arrays import Hashes, Rows
from puffin.sketches.parcel import ByImage
from puffin.sketches.row_counts_image import MAX_COUNT, parse_image, write_image
from puffin.sketches.row_tally import RowTally, SortedTally, TableTally, cut, sum_rows
from puffin.sketches.sizes import check_lg_k
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.theta_sketch import ThetaSketch, check_hashes

HEADROOM = 4
"""How many times the hashes of the sketch to hold."""


def row_counts_limit(lg_k: int) -> int:
    """The most hashes in the row counts behind a sketch of this size; UsageError for an unknown size."""
    check_lg_k(lg_k)
    return HEADROOM << lg_k


@dataclass(frozen=True, slots=True, eq=False)
class RowCounts(ByImage):
    """
    How many rows of a column have each of its smallest hashes. Immutable; equal row counts have equal bytes.

    Attributes:
        theta, hashes, is_checked: As in `ThetaSketch`.
        rows: The rows of each hash, at least 1; read-only.
    """

    theta: int
    hashes: Hashes
    rows: Rows
    is_checked: InitVar[bool] = False

    def __post_init__(self, is_checked: bool) -> None:
        if is_checked:
            return
        check_hashes("row counts", self.theta, self.hashes)
        if self.rows.dtype != np.int64 or self.rows.shape != self.hashes.shape or (self.rows < 1).any():
            raise UsageError("row counts: expected as many int64 rows as hashes, from 1 on")
        if self.rows.flags.writeable:
            raise UsageError("row counts: expected read-only rows")

    @classmethod
    def from_bytes(cls, image: bytes | bytearray | memoryview) -> RowCounts:
        """Read the payload of a row counts blob; raise CorruptSketchError if it is invalid."""
        return cls(*parse_image(image), True)

    def to_bytes(self) -> bytes:
        """The payload of a ``puffin-sidecar-row-counts-v1`` blob; it compresses well."""
        return write_image(self.theta, self.hashes, self.rows)

    def plus(self, other: RowCounts, limit: int) -> RowCounts:
        """The row counts of the rows of both, with at most ``limit`` hashes."""
        return self.combine(other, _NONE, limit)

    def combine(self, added: RowCounts, removed: RowCounts, limit: int) -> RowCounts:
        """
        The row counts after adding and removing rows, with at most ``limit`` hashes.

        CorruptSketchError if a hash loses more rows than it has: then the counts belong to other rows.
        """
        _check_limit(limit)
        theta = min(self.theta, added.theta, removed.theta)
        below = [(each, each.hashes.searchsorted(np.uint64(theta))) for each in (self, added, removed)]
        rows_of = (self.rows, added.rows, -removed.rows)
        hashes, rows = sum_rows(
            np.concatenate([each.hashes[:count] for each, count in below]),
            np.concatenate([rows[:count] for rows, (_, count) in zip(rows_of, below, strict=True)]),
            in_runs=True,
        )
        if (rows < 0).any():
            at = rows.argmin()
            raise CorruptSketchError(
                f"the row counts contradict the files: hash {hashes[at]} loses {-rows[at]} rows more than it has"
            )
        is_left = rows > 0
        return _frozen(*cut(theta, hashes[is_left], rows[is_left], limit))

    def sketch(self, lg_k: int) -> ThetaSketch | None:
        """The canonical sketch of the rows, as if built from them; None if too few hashes are left."""
        check_lg_k(lg_k)
        k = 1 << lg_k
        if len(self.hashes) > k:
            return ThetaSketch(int(self.hashes[k]), self.hashes[:k], True)
        return ThetaSketch(MAX_THETA, self.hashes, True) if self.theta == MAX_THETA else None


class RowCountsBuilder:
    """Counts the rows of a column, hash by hash, in memory proportional to its limit."""

    def __init__(self, limit: int) -> None:
        """Start with no rows; the limit is the most hashes to hold (`row_counts_limit`)."""
        _check_limit(limit)
        self._tally: RowTally = TableTally(limit) if kernels_ready() else SortedTally(limit)

    def update_hashes(self, hashes: Hashes, rows: Rows | None = None) -> None:
        """Count hashes as `puffin.sketches.counted_hashes` returns them."""
        self._tally.add(hashes, rows)

    def compact(self) -> RowCounts:
        """The row counts so far; the builder stays usable."""
        return _frozen(*self._tally.state())


def _frozen(theta: int, hashes: Hashes, rows: Rows) -> RowCounts:
    hashes.setflags(write=False)
    rows.setflags(write=False)
    return RowCounts(theta, hashes, rows, True)


_NONE = _frozen(MAX_THETA, np.empty(0, np.uint64), np.empty(0, np.int64))


def _check_limit(limit: int) -> None:
    if not isinstance(limit, int) or not 1 <= limit <= MAX_COUNT:
        raise UsageError(f"limit: expected an integer from 1 to {MAX_COUNT}, found {limit!r}")
