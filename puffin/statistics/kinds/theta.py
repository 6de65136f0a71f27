"""
Theta sketches: the number of distinct values, in the one blob type that all engines read.

A sketch cannot forget rows. It is derived from row counts where those are computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from puffin.format import THETA_V1
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_sketch import ThetaSketch, ThetaSketchBuilder, merge
from puffin.statistics.answer import Distinct
from puffin.statistics.blob_properties import sketch_properties
from puffin.statistics.kinds.kind import Home, Kind, Need, Parts, Unsubtractable, Values
from puffin.statistics.kinds.row_counts import ROW_COUNTS
from puffin.statistics.kinds.summary import SUMMARY


class ThetaKind(Kind[ThetaSketch]):
    name = THETA_V1
    title = "a sketch"
    home = Home.FILE
    needs = frozenset((Need.HASHES,))
    codec = ThetaSketch

    def is_taken(self, others: Collection[Kind[Any]]) -> bool:
        return ROW_COUNTS not in others

    def start(self) -> ThetaSketchBuilder:
        return ThetaSketchBuilder(self.lg_k)

    def merge(self, left: ThetaSketch, right: ThetaSketch) -> ThetaSketch:
        return merge((left, right), self.lg_k)

    def combined(self, parts: Parts, made: Values) -> ThetaSketch | None:
        counts = ROW_COUNTS.of(made)
        if counts is not None:
            return self._of_counts(counts)
        added = ROW_COUNTS.of(parts.added)
        if added is not None:
            parts = dataclasses.replace(parts, added={self: self._of_counts(added)})
        return super().combined(parts, made)

    def cannot_subtract(self, values: Values) -> str | None:
        return ROW_COUNTS.cannot_subtract(values)

    def properties(self, values: Values, type_: str) -> dict[str, str]:
        return sketch_properties(distinct_of(values), type_, self.lg_k)

    def mismatch(self, values: Values) -> str | None:
        counts = ROW_COUNTS.of(values)
        if counts is None or counts.sketch(self.lg_k) == self.of(values):
            return None
        return "expected row counts of its sketch, found those of another one"

    def _of_counts(self, counts: RowCounts) -> ThetaSketch:
        sketch = counts.sketch(self.lg_k)
        if sketch is None:
            raise Unsubtractable("so many rows were deleted that the headroom of its row counts is spent")
        return sketch


THETA = ThetaKind()


def distinct_of(values: Values) -> Distinct:
    """The distinct values of a column: at most its rows with a value, if known."""
    summary = SUMMARY.of(values)
    return Distinct.of(values[THETA]).at_most(None if summary is None else summary.most_distinct)
