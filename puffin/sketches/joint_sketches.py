"""
Joint sketches: how the rows of a table are spread over the tuples of some of its columns.

A set of columns has the same statistics as one column, of the hashes of its tuples: row counts, and a distribution
without values. Null is a value of a tuple, as it is in GROUP BY, so every row counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from puffin.sketches.distribution import Distribution
from puffin.sketches.joint_image import JointColumn as JointColumn
from puffin.sketches.joint_image import parse_image, write_image
from puffin.sketches.row_counts import RowCounts


@dataclass(frozen=True, slots=True)
class JointSketch:
    """The tuples of one set of columns, whose field ids ascend; the distribution has no values."""

    columns: tuple[JointColumn, ...]
    counts: RowCounts
    distribution: Distribution

    @property
    def field_ids(self) -> tuple[int, ...]:
        return tuple(column.field_id for column in self.columns)


@dataclass(frozen=True, slots=True)
class JointSketches:
    """The sets that begin with one column, in the order of their field ids."""

    sets: tuple[JointSketch, ...]

    @classmethod
    def of(cls, sets: Iterable[JointSketch]) -> JointSketches:
        return cls(tuple(sorted(sets, key=lambda each: each.field_ids)))

    @classmethod
    def from_bytes(cls, image: bytes | bytearray | memoryview) -> JointSketches:
        """Read the payload of a joint blob; raise CorruptSketchError if it is invalid."""
        sets = parse_image(image)
        return cls(tuple(JointSketch(of, RowCounts.from_bytes(c), Distribution.from_bytes(d)) for of, c, d in sets))

    def to_bytes(self) -> bytes:
        """The payload of a ``puffin-sidecar-joint-v1`` blob."""
        return write_image([(each.columns, each.counts.to_bytes(), each.distribution.to_bytes()) for each in self.sets])

    def find(self, field_ids: tuple[int, ...]) -> JointSketch | None:
        """The set of these columns, whose field ids ascend, if it is there."""
        return next((each for each in self.sets if each.field_ids == field_ids), None)

    def __iter__(self) -> Iterator[JointSketch]:
        return iter(self.sets)
