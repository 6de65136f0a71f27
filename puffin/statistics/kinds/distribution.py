"""
Distributions: heavy values and a sample of the others, with their rows, for estimates.

They are kept beside row counts, which tell the rows of the sample exactly, and which rows of it are gone.
"""

from __future__ import annotations

import dataclasses
import functools

from puffin.format import DISTRIBUTION_V1
from puffin.sketches.distribution import PARTS, SAMPLE, Distribution
from puffin.sketches.distribution_builder import DistributionBuilder
from puffin.sketches.row_counts import row_counts_limit
from puffin.statistics.kinds.kind import Kind, Need, Parts, Values
from puffin.statistics.kinds.row_counts import ROW_COUNTS


@dataclasses.dataclass(frozen=True, eq=False)
class DistributionKind(Kind[Distribution]):
    """The distribution of a column; ``keeps_values`` tells whether the values stand in it, or only their hashes."""

    keeps_values: bool = True

    name = DISTRIBUTION_V1
    title = "a distribution"
    needs = frozenset((Need.HASHED_VALUES,))
    codec = Distribution

    def start(self) -> DistributionBuilder:
        return DistributionBuilder(self._sample, keeps_values=self.keeps_values)

    def merge(self, left: Distribution, right: Distribution) -> Distribution:
        return left.plus(right).cut(self._sample, PARTS)

    def combined(self, parts: Parts, made: Values) -> Distribution | None:
        counts = ROW_COUNTS.of(made)
        added, removed = (self.of(part) for part in (parts.added, parts.removed))
        base = None if parts.base is None else self.of(parts.base)
        if counts is None or (base is None and parts.base is not None):
            return None
        of_base = None if parts.base is None else ROW_COUNTS.of(parts.base)
        if base is not None and of_base is not None:
            base = base.bucketed(of_base)
        there = [each for each in (base, added) if each is not None] or [self.start().compact()]
        found = functools.reduce(Distribution.plus, there)
        if removed is not None:
            found = found.minus(removed)
        found = found.pruned_by(counts).cut(self._sample)
        return found if self.keeps_values else found.without_values()

    def cannot_subtract(self, values: Values) -> str | None:
        return None

    @property
    def _sample(self) -> int:
        return min(SAMPLE, row_counts_limit(self.lg_k))


DISTRIBUTION = DistributionKind()
