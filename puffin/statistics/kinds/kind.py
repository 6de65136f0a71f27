"""
The seam behind which each kind of statistic lives: what the job and the statistics files ask of one.

A kind is a frozen value, in the size that a run wants. It takes the values of a column, merges the parts of a job,
combines them with an earlier base or says that it cannot, and becomes bytes or properties that it can read back. A new
kind is one module with a subclass of `Kind`, and one line in `puffin.statistics.kinds.KINDS`.
"""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from puffin.sketches import DEFAULT_LG_K
from puffin.tables.base import BlobEntry, Column

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Need(enum.Enum):
    """What the builder of a kind is given of the rows, and by which method."""

    HASHES = "update_hashes(hashes)"
    COUNTED_HASHES = "update_hashes(hashes, rows): how many rows have each, None where it is one"
    VALUES = "update_values(array, rows): likewise, and a value may have none; see COUNTED_VALUES"
    COUNTED_VALUES = "as VALUES, where it matters how many rows have a value, and not only whether one has"
    SUMMARIES = "update_summary(RowSummary)"
    FILES = "end_file(FileScanTask): all since the last call was of this file, which has live rows"


EVERY_ROW = frozenset((Need.COUNTED_HASHES, Need.COUNTED_VALUES))
"""The needs for which every row is read where a dictionary alone would tell the values."""


class Home(enum.Enum):
    """Where the values of a kind are stored."""

    FILE = "a blob of the statistics file"
    PRIVATE = "a blob of the private state beside it"
    PROPERTIES = "the properties of the column's sketch"


class Unsubtractable(Exception):
    """Rows cannot be taken out of earlier statistics; the message is the reason that the user gets."""


class Builder(Protocol[T_co]):
    """Takes the values of a column by the methods that its kind's needs name."""

    def compact(self) -> T_co:
        """What has been taken so far."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Kind(ABC, Generic[T]):
    """
    A kind of statistic; kinds of one name are equal whatever their size, since a column has one value of each.

    Attributes:
        lg_k: Base-2 logarithm of the nominal entries, for kinds that are sketches.
        name: The type of its blobs; of a kind without blobs, any name.
        title: What people call its values.
        codec: Its ``to_bytes`` and ``from_bytes`` make the payload of a blob and read it, or raise CorruptError.
        is_default: Whether every run keeps it, so that it is missed where it is neither stored nor noted as omitted.
        is_reported: Whether a report tells of it, so that a dry run takes it too.
    """

    lg_k: int = DEFAULT_LG_K

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[frozenset[Need]]
    codec: ClassVar[Any]
    home: ClassVar[Home] = Home.PRIVATE
    is_default: ClassVar[bool] = True
    is_reported: ClassVar[bool] = False

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, Kind) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def of(self, values: Values) -> T | None:
        """The value of this kind among those of a column."""
        return values.get(self)

    def is_taken(self, beside: Collection[Kind[Any]]) -> bool:
        """Whether it has to take values itself; it need not if it follows from another one of these kinds."""
        return True

    @abstractmethod
    def start(self) -> Builder[T]:
        """Something that takes the values of a column."""

    @abstractmethod
    def merge(self, left: T, right: T) -> T:
        """What two parts of the rows amount to together."""

    def combined(self, parts: Parts, made: Values) -> T | None:
        """
        The value after rows came and went; None if there is no earlier value to build on.

        Args:
            made: The values of the column's kinds that come before this one in the table of kinds.

        Raises:
            Unsubtractable: The rows that went cannot be taken out; `cannot_forget` did not foresee it.
        """
        added = self.of(parts.added)
        if added is None:
            added = self.start().compact()
        if parts.base is None:
            return added
        base = self.of(parts.base)
        return None if base is None else self.merge(base, added)

    def cannot_forget(self, values: Values) -> str | None:
        """Why rows that went cannot be taken out of a column's stored values; None if they can."""
        return f"rows were deleted, which cannot be taken out of {self.title}"

    def properties(self, values: Values, type_: str) -> dict[str, str]:
        """What the properties of the column's sketch say of this kind's value, which is among ``values``."""
        return {}

    def read(self, blob: BlobEntry, column: Column, payload: bytes | None) -> T | None:
        """The value stored beside a column's sketch, or with it; ``payload`` is that of the kind's own blob."""
        return None if payload is None else self.codec.from_bytes(payload)

    def contradiction(self, values: Values) -> str | None:
        """Why the stored value of this kind is not of the same rows as the others; None if it may be."""
        return None


Values: TypeAlias = Mapping[Kind[Any], Any]
"""The values of a column by their kinds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The values of earlier rows, None where every row was read, and of the rows that came and went since."""

    base: Values | None
    added: Values
    removed: Values


def merged(left: Values, right: Values) -> Values:
    """The values of two parts of the rows together."""
    both = {kind: kind.merge(value, right[kind]) for kind, value in left.items() if kind in right}
    return {**left, **right, **both}
