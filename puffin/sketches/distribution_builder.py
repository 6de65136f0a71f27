"""
Builds the distribution of a column from its values, hash by hash.

Two tallies count rows, as far as memory allows. `TableValueTally` has a hash table of a compiled kernel, which drops
the values with the fewest rows when it is full. `SortedValueTally` collects slices, sorts their hashes and keeps those
with the most rows. A value is taken from the column when its hash is first below theta, or when it turns out to have
many rows; others are never looked at.
"""

from __future__ import annotations

from dataclasses import replace

from puffin.kernels import kernels_ready
from puffin.sketches.distribution import PARTS, Distribution
from puffin.sketches.hash_arrays import Hashes, Rows, places
from puffin.sketches.picked_values import PickedValues
from puffin.sketches.sorted_value_tally import SortedValueTally
from puffin.sketches.table_value_tally import TableValueTally
from puffin.sketches.value_tally import ValueTally
from puffin.values.serialized import SerializedValues


class DistributionBuilder:
    """Takes the values of a column with their hashes; ``sample`` is the most values of its sample."""

    def __init__(self, sample: int, *, keeps_values: bool = True) -> None:
        self._sample = sample
        self._picked = PickedValues(keeps_values=keeps_values)
        self._tally: ValueTally = (TableValueTally if kernels_ready() else SortedValueTally)(sample, self._picked)

    def update_hashed(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        """Count hashes, the rows of each, and their values, as `puffin.sketches.counted_hashes` returns them."""
        self._tally.add(hashes, rows, values)

    def compact(self) -> Distribution:
        """The distribution so far; the builder stays usable."""
        whole, picked_at = self._tally.state()
        found = whole.cut(self._sample, PARTS)
        if not self._picked.keeps_values:
            return found
        values = self._picked.at(picked_at[places(found.hashes, whole.hashes)[0]])
        return replace(found, values=values).within_bytes()
