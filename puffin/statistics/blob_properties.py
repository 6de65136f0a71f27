"""
Reads and writes the properties of a theta blob, so that a lookup need not open the file.

Other engines read only ``ndv``: digits, since Spark fails a query over anything else (Puffin spec,
"apache-datasketches-theta-v1"). Ours have a prefix. Later metadata files repeat all properties, so ours are few and
short. Entries of very many columns keep most of them in the footer of the statistics file alone, where a blob has all
of its properties (spec, "Table Statistics": table metadata has a subset).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from puffin.cached import cached_property
from puffin.sketches.sizes import DEFAULT_LG_K
from puffin.statistics.answer import Distinct
from puffin.statistics.private_state.places import HOME
from puffin.values.column_summary import ColumnSummary
from puffin.version import is_our_name

NDV = "ndv"
_BOUNDS = "puffin-sidecar.bounds"
_TYPE = "puffin-sidecar.type"
_LG_K = "puffin-sidecar.lg-k"
PARTITIONS_PROPERTY = "puffin-sidecar.partitions"
JOINT_PROPERTY = "puffin-sidecar.joint"
"""The sets of columns with joint sketches that begin with this one: ``1+2,1+3+4``, by field id."""
SUMMARY_PROPERTY = "puffin-sidecar.summary"
LOOSE_PROPERTY = "puffin-sidecar.loose-min-max"
"""Says that min or max may be a value of deleted rows, so that a later run looks for closer bounds."""
_READING = "puffin-sidecar.reading"
_WRITER = "puffin-sidecar.writer"
_VALUES, _NO_VALUES = "puffin-sidecar.values", "none"
ABRIDGED = "sidecar"
"""On a blob without our other properties: the footer of its file has them. Short, since thousands of blobs have it."""

_BY_FIELD_IDS = "1"
_IN_FOOTER = frozenset((_BOUNDS, _TYPE, SUMMARY_PROPERTY, LOOSE_PROPERTY))
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """
    How a sketch of ours was made.

    Attributes:
        mapping: The digest of the table's name mapping for the column, if a file that was read had no field ids.
        keeps_values: Whether values of the column are kept beside the sketch: bounds, and those of a distribution.
        writer: The ``created-by`` of another engine's sketch that it was built on, however many runs ago; None if we
            hashed every value.
    """

    mapping: str | None = None
    writer: str | None = None
    keeps_values: bool = True

    def to_properties(self) -> dict[str, str]:
        return {
            _READING: _BY_FIELD_IDS if self.mapping is None else f"{_BY_FIELD_IDS}:{self.mapping}",
            **({} if self.writer is None else {_WRITER: self.writer}),
            **({} if self.keeps_values else {_VALUES: _NO_VALUES}),
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


def joint_text(sets: Iterable[Sequence[int]]) -> str:
    """The value of `JOINT_PROPERTY` for these sets of field ids."""
    return ",".join("+".join(map(str, each)) for each in sets)


def abridged(properties: Mapping[str, str]) -> dict[str, str]:
    """
    The properties that stay in table metadata if the footer of the file has all of them and `ABRIDGED`.

    What a lookup needs of every ancestor stays, and what tells whose hashes they are.
    """
    return {
        key: value
        for key, value in properties.items()
        if key not in _IN_FOOTER and (key, value) != (_READING, _BY_FIELD_IDS)
    }


@dataclasses.dataclass(frozen=True)
class SketchProperties:
    """
    What the properties of any engine's theta blob say of its sketch.

    Attributes:
        stored: As table metadata has them.
        in_footer: Reads those in the footer of the blob's file, which are needed if ``stored`` is abridged; none if the
            file is lost. Called at most once, by the properties that say so.
    """

    stored: Mapping[str, str]
    in_footer: Callable[[], Mapping[str, str]] = lambda: _NOTHING

    @property
    def is_abridged(self) -> bool:
        """Whether most properties are in the file alone; an engine that copies the footer copies all of them."""
        return ABRIDGED in self.stored and _TYPE not in self.stored

    @cached_property
    def whole(self) -> Mapping[str, str]:
        """All properties; calls ``in_footer`` if they are abridged. Where both have a key, the file's value wins."""
        found = self.in_footer() if self.is_abridged else _NOTHING
        if _TYPE not in found:
            return self.stored
        return {key: value for key, value in {**self.stored, **found}.items() if key != ABRIDGED}

    @property
    def is_ours(self) -> bool:
        """Whether this project wrote the blob, which then notes how the data files were read."""
        by_default = _BY_FIELD_IDS if self.is_abridged else ""
        return self._has_our_type and self.stored.get(_READING, by_default).partition(":")[0] == _BY_FIELD_IDS

    @property
    def is_hashed_here(self) -> bool:
        """Whether we hashed every value of the blob, without building on another engine's."""
        return self.is_ours and _WRITER not in self.stored

    @property
    def provenance(self) -> Provenance:
        """How the sketch was made, as far as its blob says; for another engine's, only the writer."""
        mapping = self.stored.get(_READING, "").partition(":")[2]
        return Provenance(mapping or None, self.stored.get(_WRITER), self.stored.get(_VALUES) != _NO_VALUES)

    @property
    def type(self) -> str | None:
        """
        The type as which the values were hashed; None for other engines, which do not note it. Calls ``in_footer``.
        """
        return self.whole.get(_TYPE) if self.is_ours else None

    @property
    def lg_k(self) -> int:
        """The size of the sketch; other engines all use the default."""
        return _digits(self.stored.get(_LG_K, "")) or DEFAULT_LG_K

    @property
    def partitions(self) -> int | None:
        """How many partitions have sketches beside the blob; None without them."""
        return _digits(self.stored.get(PARTITIONS_PROPERTY, ""))

    @cached_property
    def joint(self) -> tuple[tuple[int, ...], ...]:
        """The sets of columns with joint sketches beside the blob, by field id, those that can be read."""
        sets = (part.split("+") for part in self.stored.get(JOINT_PROPERTY, "").split(",") if part)
        ids = (tuple(map(_digits, each)) for each in sets)
        return tuple(tuple(found) for each in ids if len(found := [i for i in each if i is not None]) == len(each))

    @cached_property
    def summary(self) -> ColumnSummary | None:
        """Counts and bounds; None if they are unknown. Calls ``in_footer``."""
        return ColumnSummary.from_text(self.whole.get(SUMMARY_PROPERTY, ""))

    @property
    def has_loose_bounds(self) -> bool:
        """Whether min or max may be a value of deleted rows. Calls ``in_footer``."""
        return LOOSE_PROPERTY in self.whole

    @cached_property
    def distinct(self) -> Distinct | None:
        """The estimate; None without a readable ``ndv``. Calls ``in_footer``."""
        ndv = _digits(self.whole.get(NDV, ""))
        if ndv is None:
            return None
        lower, upper = (_digits(part) for part in self.whole.get(_BOUNDS, "").partition(",")[::2])
        if not self.is_ours or lower is None or upper is None or not lower <= ndv <= upper:
            return Distinct.nominal(ndv, self.lg_k)
        return Distinct(ndv, lower, upper, exact=lower == upper)

    def writer(self, created_by: str | None) -> str | None:
        """Who hashed another engine's sketch, if known; ``created_by`` wrote its file, but need not have made it."""
        if _WRITER in self.stored:
            return self.stored[_WRITER] or None
        # With our type but without our notes, it is neither ours nor of the file's writer.
        return None if self._has_our_type or is_our_name(created_by) else created_by

    def carried(self, created_by: str | None) -> dict[str, str]:
        """The properties in another file of ours; ``created_by`` names the writer of the old one."""
        left = {HOME} if self.is_abridged else {HOME, ABRIDGED}
        carried = {key: value for key, value in self.stored.items() if key not in left}
        if not self.is_ours:
            carried.setdefault(_WRITER, self.writer(created_by) or "")
        return carried

    @property
    def _has_our_type(self) -> bool:
        return _TYPE in self.stored or ABRIDGED in self.stored


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 19 else None
