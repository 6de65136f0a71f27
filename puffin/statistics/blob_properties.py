"""
Reads and writes the properties of a theta blob, so that a lookup need not open the file.

Other engines read only ``ndv``: digits, since Spark fails a query over anything else (Puffin spec,
"apache-datasketches-theta-v1"). Ours have a prefix. Later metadata files repeat all properties, so ours are few and
short.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from puffin.sketches import DEFAULT_LG_K, ThetaSketch
from puffin.statistics.private_state.places import HOME
from puffin.tables.base import Column
from puffin.tables.leftovers import is_our_name
from puffin.tables.state import TableState
from puffin.values.column_summary import ColumnSummary

NDV = "ndv"
_BOUNDS = "puffin-sidecar.bounds"
_TYPE = "puffin-sidecar.type"
_LG_K = "puffin-sidecar.lg-k"
PARTITIONS_PROPERTY = "puffin-sidecar.partitions"
SUMMARY_PROPERTY = "puffin-sidecar.summary"
_READING = "puffin-sidecar.reading"
_WRITER = "puffin-sidecar.writer"

MAPPING_CHANGED = "the table's name mapping of the column has changed since it was made"

_BY_FIELD_IDS, _UNKNOWN_READING = "1", "0"

# Two standard deviations of a sketch with 4096 nominal entries, the size that all engines use.
_NOMINAL_ERROR = 2 / math.sqrt(1 << DEFAULT_LG_K)


@dataclasses.dataclass(frozen=True, slots=True)
class Distinct:
    """
    How many distinct values a column has.

    Attributes:
        ndv: The estimate, rounded down.
        lower, upper: Its 95 % bounds, rounded outwards.
        exact: Whether it is a count, not an estimate.
    """

    ndv: int
    lower: int
    upper: int
    exact: bool

    @classmethod
    def of(cls, sketch: ThetaSketch) -> Distinct:
        return cls(
            ndv=sketch.ndv,
            lower=math.floor(sketch.lower_bound()),
            upper=math.ceil(sketch.upper_bound()),
            exact=not sketch.estimating,
        )

    @classmethod
    def foreign(cls, sketch: ThetaSketch) -> Distinct:
        """The estimate of another engine's sketch, which is never exact."""
        return dataclasses.replace(cls.of(sketch), exact=False)

    @classmethod
    def nominal(cls, ndv: int) -> Distinct:
        """An estimate without bounds: gets those of a sketch with 4096 nominal entries, and is never exact."""
        return cls(ndv, math.floor(ndv * (1 - _NOMINAL_ERROR)), math.ceil(ndv * (1 + _NOMINAL_ERROR)), exact=False)

    def at_most(self, values: int | None) -> Distinct:
        """Limited to the number of values that the column has, if known."""
        if values is None or self.upper <= values:
            return self
        lower = self.lower if self.exact else min(self.lower, max(values - 1, 0))  # equal bounds would mean exact
        return Distinct(min(self.ndv, values), min(lower, values), values, self.exact)


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """
    How a sketch of ours was made.

    Attributes:
        mapping: The digest of the table's name mapping for the column, if a file that was read had no field ids.
        writer: The ``created-by`` of another engine's sketch that it was built on, however many runs ago; None if we
            hashed every value.
    """

    mapping: str | None = None
    writer: str | None = None

    def to_properties(self) -> dict[str, str]:
        return {
            _READING: _BY_FIELD_IDS if self.mapping is None else f"{_BY_FIELD_IDS}:{self.mapping}",
            **({} if self.writer is None else {_WRITER: self.writer}),
        }


HASHED_HERE = Provenance()


def sketch_properties(distinct: Distinct, type_: str, lg_k: int) -> dict[str, str]:
    """The properties for a sketch's estimate, and the type as which its values were hashed."""
    return {
        NDV: str(distinct.ndv),
        _BOUNDS: f"{distinct.lower},{distinct.upper}",
        _TYPE: type_,
        **({} if lg_k == DEFAULT_LG_K else {_LG_K: str(lg_k)}),
    }


def when_carried(properties: Mapping[str, str], created_by: str | None) -> dict[str, str]:
    """The properties of a stored sketch in another file of ours; ``created_by`` names the writer of the old one."""
    carried = {key: value for key, value in properties.items() if key != HOME}
    if is_ours(properties):
        carried.setdefault(_READING, _UNKNOWN_READING)
    else:
        carried.setdefault(_WRITER, writer_of(properties, created_by) or "")
    return carried


def writer_of(properties: Mapping[str, str], created_by: str | None) -> str | None:
    """Who hashed another engine's sketch, if known; ``created_by`` wrote its file, but need not have made it."""
    if _WRITER in properties:
        return properties[_WRITER] or None
    return None if is_our_name(created_by) else created_by


def from_properties(properties: Mapping[str, str]) -> Distinct | None:
    """The estimate in the properties of any engine's theta blob; None without a readable ``ndv``."""
    ndv = _digits(properties.get(NDV, ""))
    if ndv is None:
        return None
    lower, upper = (_digits(part) for part in properties.get(_BOUNDS, "").partition(",")[::2])
    if lower is None or upper is None or not lower <= ndv <= upper:
        return Distinct.nominal(ndv)
    if is_ours(properties) and not has_provenance(properties) and SUMMARY_PROPERTY not in properties:
        # An earlier version may have built it on another engine's sketch with other hashes.
        return Distinct.nominal(ndv)
    return Distinct(ndv, lower, upper, exact=lower == upper)


def is_ours(properties: Mapping[str, str]) -> bool:
    return _TYPE in properties


def is_hashed_here(properties: Mapping[str, str]) -> bool:
    """Whether we hashed every value of the blob, without building on another engine's."""
    return is_ours(properties) and _WRITER not in properties


def has_provenance(properties: Mapping[str, str]) -> bool:
    """Whether this project wrote the blob and noted its provenance, which earlier versions did not."""
    return is_ours(properties) and properties.get(_READING, _UNKNOWN_READING) != _UNKNOWN_READING


def is_unmarked(properties: Mapping[str, str]) -> bool:
    """Whether an earlier version also wrote the file, which then may hold more than sketches."""
    return is_ours(properties) and _READING not in properties


def provenance_of(properties: Mapping[str, str]) -> Provenance:
    """How a sketch was made, as far as its blob says; for another engine's, only the writer."""
    mapping = properties.get(_READING, "").partition(":")[2]
    return Provenance(mapping or None, properties.get(_WRITER))


def is_read_otherwise(state: TableState, column: Column, properties: Mapping[str, str]) -> bool:
    """Whether a sketch depends on the table's name mapping for its column, and that has changed."""
    mapping = provenance_of(properties).mapping
    return mapping is not None and mapping != state.mapping_digest(column)


def type_of(properties: Mapping[str, str]) -> str | None:
    """The type as which a blob's values were hashed; None for other engines, which do not note it."""
    return properties.get(_TYPE)


def lg_k_of(properties: Mapping[str, str]) -> int:
    """The size of the sketch; other engines all use the default."""
    return _digits(properties.get(_LG_K, "")) or DEFAULT_LG_K


def partitions_of(properties: Mapping[str, str]) -> int | None:
    """How many partitions have sketches beside the blob; None without them."""
    return _digits(properties.get(PARTITIONS_PROPERTY, ""))


def summary_of(properties: Mapping[str, str]) -> ColumnSummary | None:
    return ColumnSummary.from_text(properties.get(SUMMARY_PROPERTY, ""))


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 19 else None
