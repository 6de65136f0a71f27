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

from puffin.sketches import DEFAULT_LG_K, ThetaSketch
from puffin.statistics.private_state.places import HOME
from puffin.tables.base import Column, TableState
from puffin.tables.document import mapping_digest
from puffin.tables.leftovers import is_our_name
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
    def foreign(cls, sketch: ThetaSketch) -> Distinct:
        """What another engine's sketch says: its own bounds, never exact."""
        return dataclasses.replace(cls.of(sketch), exact=False)

    @classmethod
    def nominal(cls, ndv: int) -> Distinct:
        """What an engine that tells no bounds says: those of a sketch with 4096 nominal entries, never exact."""
        return cls(ndv, math.floor(ndv * (1 - _NOMINAL_ERROR)), math.ceil(ndv * (1 + _NOMINAL_ERROR)), exact=False)

    def at_most(self, values: int | None) -> Distinct:
        """The same of a column that has so many values, distinct or not; None if that is not known."""
        if values is None or self.upper <= values:
            return self
        lower = self.lower if self.exact else min(self.lower, max(values - 1, 0))  # equal bounds would say exact
        return Distinct(min(self.ndv, values), min(lower, values), values, self.exact)


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """
    How a sketch of ours came about.

    Attributes:
        mapping: The digest of what the table's name mapping said of the column, if a file that was read had no field
            ids; None if every file had them.
        writer: The ``created-by`` of another engine's sketch that it was built on, however many runs ago; None if
            every value was hashed here.
    """

    mapping: str | None = None
    writer: str | None = None

    def to_properties(self) -> dict[str, str]:
        """The properties that note it."""
        return {
            _READING: _BY_FIELD_IDS if self.mapping is None else f"{_BY_FIELD_IDS}:{self.mapping}",
            **({} if self.writer is None else {_WRITER: self.writer}),
        }


HASHED_HERE = Provenance()


def sketch_properties(distinct: Distinct, type_: str, lg_k: int) -> dict[str, str]:
    """The properties that say what a sketch of ours tells, and the type that its values were hashed as."""
    return {
        NDV: str(distinct.ndv),
        _BOUNDS: f"{distinct.lower},{distinct.upper}",
        _TYPE: type_,
        **({} if lg_k == DEFAULT_LG_K else {_LG_K: str(lg_k)}),
    }


def when_carried(properties: Mapping[str, str], created_by: str | None) -> dict[str, str]:
    """
    The properties of a stored sketch in another file of ours, in which its maker stays known.

    Args:
        created_by: Who wrote the file that it comes from; None if that does not say.
    """
    carried = {key: value for key, value in properties.items() if key != HOME}
    if is_ours(properties):
        carried.setdefault(_READING, _UNKNOWN_READING)
    else:
        carried.setdefault(_WRITER, writer_of(properties, created_by) or "")
    return carried


def writer_of(properties: Mapping[str, str], created_by: str | None) -> str | None:
    """
    Who hashed the values of another engine's sketch; None if nobody noted it.

    Args:
        created_by: Who wrote the file that it is in, which need not be who made it.
    """
    if _WRITER in properties:
        return properties[_WRITER] or None
    return None if is_our_name(created_by) else created_by


def from_properties(properties: Mapping[str, str]) -> Distinct | None:
    """What the properties of anyone's theta blob say; None if they have no readable ``ndv``."""
    ndv = _digits(properties.get(NDV, ""))
    if ndv is None:
        return None
    lower, upper = (_digits(part) for part in properties.get(_BOUNDS, "").partition(",")[::2])
    if lower is None or upper is None or not lower <= ndv <= upper or not _is_vouched_for(properties):
        return Distinct.nominal(ndv)
    return Distinct(ndv, lower, upper, exact=lower == upper)


def is_ours(properties: Mapping[str, str]) -> bool:
    """Whether this project wrote the blob."""
    return _TYPE in properties


def is_hashed_here(properties: Mapping[str, str]) -> bool:
    """Whether this project hashed every value of the blob, and built on no other engine's."""
    return is_ours(properties) and _WRITER not in properties


def is_by_an_earlier_version(properties: Mapping[str, str]) -> bool:
    """Whether a version of this project wrote the blob that noted neither how files were read nor what it built on."""
    return is_ours(properties) and properties.get(_READING, _UNKNOWN_READING) == _UNKNOWN_READING


def is_unmarked(properties: Mapping[str, str]) -> bool:
    """Whether that version wrote the file, too, which then may hold more than sketches."""
    return is_ours(properties) and _READING not in properties


def provenance_of(properties: Mapping[str, str]) -> Provenance:
    """How a sketch came about, as far as its blob says it; of another engine's, the writer alone."""
    mapping = properties.get(_READING, "").partition(":")[2]
    return Provenance(mapping or None, properties.get(_WRITER))


def is_read_otherwise(state: TableState, column: Column, properties: Mapping[str, str]) -> bool:
    """Whether a sketch depends on what the table's name mapping said of its column, and that has changed."""
    mapping = provenance_of(properties).mapping
    return mapping is not None and mapping != mapping_digest(state, column)


def type_of(properties: Mapping[str, str]) -> str | None:
    """The type that a blob's values were hashed as; None if another engine wrote it, which does not say."""
    return properties.get(_TYPE)


def lg_k_of(properties: Mapping[str, str]) -> int:
    """The size of the sketch; other engines all use the default one."""
    return _digits(properties.get(_LG_K, "")) or DEFAULT_LG_K


def partitions_of(properties: Mapping[str, str]) -> int | None:
    """How many partitions of the same rows have sketches in the blob's file; None if that has none of them."""
    return _digits(properties.get(PARTITIONS_PROPERTY, ""))


def summary_of(properties: Mapping[str, str]) -> ColumnSummary | None:
    """What is known of the same rows besides their distinct values; None if nobody noted it."""
    return ColumnSummary.from_text(properties.get(SUMMARY_PROPERTY, ""))


def _is_vouched_for(properties: Mapping[str, str]) -> bool:
    # What an earlier version built on another engine's sketch has no summary, and may be of hashes that do not mix.
    return not is_by_an_earlier_version(properties) or SUMMARY_PROPERTY in properties


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 19 else None
