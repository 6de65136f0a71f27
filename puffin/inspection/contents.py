"""
What the payload of a blob says, summed up: a theta sketch, the row counts beside one, or a deletion vector.

Sketches are read from their byte image, since a report wants its serial version and seed hash too, which a
``ThetaSketch`` has no use for. Other blob types are nobody's business here: they have no summary. They are named
tuples, which are made in a tenth of the time that data classes take: a dump is over in a blink.
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
    What a theta sketch says.

    Attributes:
        estimate: The distinct values; a count unless ``estimating``.
        lower, upper: The 95 % bounds of the estimate.
        theta: The share of all hashes that the sketch keeps: 1.0 while it is exact.
        retained: How many hashes it holds.
        estimating: Whether values were left out.
        seed_hash: As stored; zero in an empty sketch of Java's.
        serial_version: The version of the byte image.
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
        """
        Sum up the payload of an ``apache-datasketches-theta-v1`` blob.

        Raises:
            CorruptSketchError: It is not the image of a compact theta sketch.
            UnsupportedError: The image is big-endian, or of another serial version than 3 and 4.
        """
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
        """The estimate rounded down, as the ``ndv`` property of a blob has it."""
        return math.floor(self.estimate)

    def to_json(self) -> dict[str, Any]:
        """The summary as programs get it; the seed hash as four hexadecimal digits."""
        return {
            "estimate": self.estimate,
            "lower": self.lower,
            "upper": self.upper,
            "theta": self.theta,
            "retained": self.retained,
            "estimating": self.estimating,
            "seed-hash": f"{self.seed_hash:04x}",
            "serial-version": self.serial_version,
        }


class DeletionVectorSummary(NamedTuple):
    """How many rows a deletion vector deletes, and the lowest ``FIRST_POSITIONS`` of them, ascending."""

    cardinality: int
    first_positions: tuple[int, ...]

    @classmethod
    def of(cls, payload: bytes) -> DeletionVectorSummary:
        """
        Sum up the payload of a ``deletion-vector-v1`` blob.

        Raises:
            CorruptDeletionVectorError: It breaks a rule of the format.
        """
        from puffin.format.deletion_vector import DeletionVector  # with numpy, which no other blob needs

        vector = DeletionVector.from_bytes(payload)
        return cls(cardinality=vector.cardinality, first_positions=tuple(vector.first(FIRST_POSITIONS)))

    def to_json(self) -> dict[str, Any]:
        """The summary as programs get it."""
        return {"cardinality": self.cardinality, "first-positions": list(self.first_positions)}


class RowCountsSummary(NamedTuple):
    """
    What row counts say.

    Attributes:
        hashes: How many there are.
        rows: Those that have one of them, together.
        theta: The share of all hashes that are kept: 1.0 while every value is.
    """

    hashes: int
    rows: int
    theta: float

    @classmethod
    def of(cls, payload: bytes) -> RowCountsSummary:
        """
        Sum up the payload of a ``puffin-sidecar-row-counts-v1`` blob.

        Raises:
            CorruptSketchError: It breaks a rule of the format.
        """
        from puffin.sketches.row_counts import RowCounts  # with numpy

        counts = RowCounts.from_bytes(payload)
        return cls(hashes=len(counts.hashes), rows=int(counts.rows.sum()), theta=counts.theta / MAX_THETA)

    def to_json(self) -> dict[str, Any]:
        """The summary as programs get it."""
        return {"hashes": self.hashes, "rows": self.rows, "theta": self.theta}


Summary: TypeAlias = SketchSummary | DeletionVectorSummary | RowCountsSummary

SUMMARIES: dict[str, type[SketchSummary] | type[DeletionVectorSummary] | type[RowCountsSummary]] = {
    DELETION_VECTOR_V1: DeletionVectorSummary,
    ROW_COUNTS_V1: RowCountsSummary,
    THETA_V1: SketchSummary,
}
"""The blob types whose payloads can be summed up, and by what."""
