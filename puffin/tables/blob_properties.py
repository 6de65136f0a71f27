"""
What a theta blob's properties say of its column, so that a lookup need not open the file.

``ndv`` is the one property other engines read: digits only, since Spark fails a query over anything else
(Puffin spec, "apache-datasketches-theta-v1"). Ours stand beside it under a prefix; properties are repeated in
every later metadata file, so there are few of them and they are short.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from puffin.theta import DEFAULT_LG_K, ThetaSketch

NDV = "ndv"
_BOUNDS = "puffin-sidecar.bounds"
_TYPE = "puffin-sidecar.type"
_LG_K = "puffin-sidecar.lg-k"
_PARTITIONS = "puffin-sidecar.partitions"
_SUMMARY = "puffin-sidecar.summary"

_LONGEST_SUMMARY = 4096  # characters; ours are far shorter
_END_OF_LONG = 1 << 63

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """
    What is known of a column's values beside their distinct count; None is unknown.

    Attributes:
        row_count: All rows, those with a null included.
        nan_count: Of columns of type float and double only.
        min: In JSON single-value form; a long string or binary is cut short, so that no value is below it.
        max: Likewise, so that none is above it.
        total_bytes: Of the values that are not null, in their binary single-value form.
    """

    row_count: int | None
    null_count: int | None
    nan_count: int | None
    min: Any
    max: Any
    total_bytes: int | None

    @property
    def value_count(self) -> int | None:
        """The rows whose value is not null."""
        return None if self.row_count is None or self.null_count is None else self.row_count - self.null_count

    @property
    def avg_bytes(self) -> float | None:
        """The average size of a value that is not null, in bytes."""
        count = self.value_count
        return self.total_bytes / count if self.total_bytes is not None and count else None


def to_properties(sketch: ThetaSketch, type_: str, lg_k: int, partitions: int | None = None) -> dict[str, str]:
    """
    The properties of a blob of ours.

    Args:
        type_: The type its values were hashed as.
        partitions: How many partitions have sketches in a blob beside it; None if there is no such blob.
    """
    distinct = Distinct.of(sketch)
    return {
        NDV: str(distinct.ndv),
        _BOUNDS: f"{distinct.lower},{distinct.upper}",
        _TYPE: type_,
        **({} if lg_k == DEFAULT_LG_K else {_LG_K: str(lg_k)}),
        **({} if partitions is None else {_PARTITIONS: str(partitions)}),
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


def summary_of(properties: Mapping[str, str]) -> ColumnSummary | None:
    """What the properties of a blob of ours say of the rows that it was made of; None if they say nothing readable."""
    text = properties.get(_SUMMARY, "")
    try:
        fields = json.loads(text) if len(text) <= _LONGEST_SUMMARY else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, list) or len(fields) != 6:
        return None
    rows, nulls, nans, total_bytes, least, greatest = fields
    if not all(map(_is_count, (rows, nulls, nans, total_bytes))) or not all(map(_is_value, (least, greatest))):
        return None
    if rows is not None and not max(nulls or 0, nans or 0) <= rows:
        return None
    return ColumnSummary(
        row_count=rows, null_count=nulls, nan_count=nans, min=least, max=greatest, total_bytes=total_bytes
    )


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


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < _END_OF_LONG)


def _is_value(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int) or (type(value) is float and math.isfinite(value))


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 19 else None
