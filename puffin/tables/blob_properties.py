"""
What a theta blob's properties say of its column, so that a lookup need not open the file.

``ndv`` is the one property other engines read: digits only, since Spark fails a query over anything else
(Puffin spec, "apache-datasketches-theta-v1"). Ours stand beside it under a prefix; properties are repeated in
every later metadata file, so there are few of them and they are short.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from puffin.tables.column_summary import ColumnSummary
from puffin.theta import DEFAULT_LG_K, ThetaSketch

NDV = "ndv"
_BOUNDS = "puffin-sidecar.bounds"
_TYPE = "puffin-sidecar.type"
_LG_K = "puffin-sidecar.lg-k"
_PARTITIONS = "puffin-sidecar.partitions"
_SUMMARY = "puffin-sidecar.summary"

# Two standard deviations of a sketch with 4096 nominal entries, the size that every engine uses.
_NOMINAL_ERROR = 2 / math.sqrt(1 << DEFAULT_LG_K)


@dataclasses.dataclass(frozen=True, slots=True)
class Distinct:
    """
    How many distinct values a column has.

    Attributes:
        ndv: The estimate, rounded down.
        lower, upper: Its 95 % bounds, rounded outwards.
        exact: Whether it is a count and no estimate.
    """

    ndv: int
    lower: int
    upper: int
    exact: bool

    @classmethod
    def of(cls, sketch: ThetaSketch) -> Distinct:
        """What a sketch says."""
        return cls(
            ndv=sketch.ndv,
            lower=math.floor(sketch.lower_bound()),
            upper=math.ceil(sketch.upper_bound()),
            exact=not sketch.estimating,
        )

    @classmethod
    def nominal(cls, ndv: int) -> Distinct:
        """What an engine that tells no bounds says: those of a sketch with 4096 nominal entries, never exact."""
        return cls(ndv, math.floor(ndv * (1 - _NOMINAL_ERROR)), math.ceil(ndv * (1 + _NOMINAL_ERROR)), exact=False)


def to_properties(
    sketch: ThetaSketch,
    type_: str,
    lg_k: int,
    partitions: int | None = None,
    summary: ColumnSummary | None = None,
) -> dict[str, str]:
    """
    The properties of a blob of ours.

    Args:
        type_: The type its values were hashed as.
        partitions: How many partitions have sketches in a blob beside it; None if there is no such blob.
        summary: Of the same rows, if there is one.
    """
    distinct = Distinct.of(sketch)
    return {
        NDV: str(distinct.ndv),
        _BOUNDS: f"{distinct.lower},{distinct.upper}",
        _TYPE: type_,
        **({} if lg_k == DEFAULT_LG_K else {_LG_K: str(lg_k)}),
        **({} if partitions is None else {_PARTITIONS: str(partitions)}),
        **({} if summary is None else {_SUMMARY: summary.to_text()}),
    }


def from_properties(properties: Mapping[str, str]) -> Distinct | None:
    """What the properties of anyone's theta blob say; None if they have no readable ``ndv``."""
    ndv = _digits(properties.get(NDV, ""))
    if ndv is None:
        return None
    lower, upper = (_digits(part) for part in properties.get(_BOUNDS, "").partition(",")[::2])
    if lower is None or upper is None or not lower <= ndv <= upper:
        return Distinct.nominal(ndv)
    return Distinct(ndv, lower, upper, exact=lower == upper)


def is_ours(properties: Mapping[str, str]) -> bool:
    """Whether this project wrote the blob."""
    return _TYPE in properties


def type_of(properties: Mapping[str, str]) -> str | None:
    """The type that a blob's values were hashed as; None if another engine wrote it, which does not say."""
    return properties.get(_TYPE)


def lg_k_of(properties: Mapping[str, str]) -> int:
    """The size of the sketch; other engines all use the default one."""
    return _digits(properties.get(_LG_K, "")) or DEFAULT_LG_K


def partitions_of(properties: Mapping[str, str]) -> int | None:
    """How many partitions of the same rows have sketches in the blob's file; None if that has none of them."""
    return _digits(properties.get(_PARTITIONS, ""))


def summary_of(properties: Mapping[str, str]) -> ColumnSummary | None:
    """What is known of the same rows besides their distinct values; None if nobody noted it."""
    return ColumnSummary.from_text(properties.get(_SUMMARY, ""))


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 19 else None
