"""What counts the rows of values, from which a distribution is made."""

from __future__ import annotations

from abc import ABC, abstractmethod

from puffin.sketches.distribution import Distribution
from puffin.sketches.hash_arrays import Hashes, Rows
from puffin.sketches.picked_values import Places
from puffin.values.serialized import SerializedValues

_MANY = 16  # a value is frequent with 1/65,536 of the rows or more


class ValueTally(ABC):
    """Counts the rows of values, and picks those with many rows and those of the sample."""

    @abstractmethod
    def add(self, hashes: Hashes, rows: Rows | None, values: SerializedValues) -> None:
        """Count hashes and pick the values that are wanted."""

    @abstractmethod
    def state(self) -> tuple[Distribution, Places]:
        """The distribution so far, without values and of any size, and the place of each among the picked values."""


def many_of(rows: int) -> int:
    """The fewest rows, out of ``rows`` in all, that make a value frequent."""
    return max(2, rows >> _MANY)
