"""
Summaries of payloads: theta sketches, the row counts beside them, and deletion vectors.

A summary of a sketch includes the serial version and seed hash of its byte image, which a ``ThetaSketch`` drops.
Summaries are named tuples: defining a data class takes ten times as long, and a dump must start fast.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

from puffin.format import DELETION_VECTOR_V1, ROW_COUNTS_V1, THETA_V1
from puffin.sketches import estimate
from puffin.sketches.theta_image import MAX_THETA, SketchImage

FIRST_POSITIONS = 10

_STD_DEVS = 2  # 95 % bounds


class SketchSummary(NamedTuple):
    """
    A theta sketch.

    Attributes:
        estimate: The number of distinct values; exact unless ``estimating``.
        lower, upper: The 95 % bounds of the estimate.
        theta: The share of all hashes that the sketch keeps; 1.0 while it is exact.
        retained: The number of hashes.
        seed_hash: As stored; Java writes zero in an empty sketch.
    """

    estimate: float
    lower: float
    upper: float
    theta: float
    retained: int
    estimating: bool
    seed_hash: int
    serial_version: int

    @classmethod
    def of(cls, payload: bytes) -> SketchSummary:
        """Summarize the payload of an ``apache-datasketches-theta-v1`` blob; raises what `SketchImage.parse` raises."""
        image = SketchImage.parse(payload)
        retained = len(image.hashes)
        return cls(
            estimate=estimate.estimate(image.theta, retained),
            lower=estimate.lower_bound(image.theta, retained, _STD_DEVS),
            upper=estimate.upper_bound(image.theta, retained, _STD_DEVS),
            theta=image.theta / MAX_THETA,
            retained=retained,
            estimating=image.theta < MAX_THETA,
            seed_hash=image.seed_hash,
            serial_version=image.serial_version,
        )

    @property
    def ndv(self) -> int:
        """The estimate rounded down, as in a blob's ``ndv`` property."""
        return math.floor(self.estimate)

    def to_json(self) -> dict[str, Any]:
        document = {name.replace("_", "-"): value for name, value in self._asdict().items()}
        return {**document, "seed-hash": f"{self.seed_hash:04x}"}


class DeletionVectorSummary(NamedTuple):
    """The number of rows that a deletion vector deletes, and the lowest ``FIRST_POSITIONS`` of them, ascending."""

    cardinality: int
    first_positions: tuple[int, ...]

    @classmethod
    def of(cls, payload: bytes) -> DeletionVectorSummary:
        """Summarize the payload of a ``deletion-vector-v1`` blob; CorruptDeletionVectorError if it is malformed."""
        from puffin.format.deletion_vector import DeletionVector  # imports numpy

        vector = DeletionVector.from_bytes(payload)
        return cls(cardinality=vector.cardinality, first_positions=tuple(vector.first(FIRST_POSITIONS)))

    def to_json(self) -> dict[str, Any]:
        return {"cardinality": self.cardinality, "first-positions": list(self.first_positions)}


class RowCountsSummary(NamedTuple):
    """The number of hashes, of the rows that have one of them, and the share of all hashes kept (1.0 keeps all)."""

    hashes: int
    rows: int
    theta: float

    @classmethod
    def of(cls, payload: bytes) -> RowCountsSummary:
        """Summarize the payload of a ``puffin-sidecar-row-counts-v1`` blob; CorruptSketchError if it is malformed."""
        from puffin.sketches.row_counts import RowCounts  # imports numpy

        counts = RowCounts.from_bytes(payload)
        return cls(hashes=len(counts.hashes), rows=int(counts.rows.sum()), theta=counts.theta / MAX_THETA)

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


Summary: TypeAlias = SketchSummary | DeletionVectorSummary | RowCountsSummary

SUMMARIES: dict[str, type[Summary]] = {
    DELETION_VECTOR_V1: DeletionVectorSummary,
    ROW_COUNTS_V1: RowCountsSummary,
    THETA_V1: SketchSummary,
}
"""The summary of each known blob type."""
