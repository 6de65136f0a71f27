"""
The interface of a kind of statistic, as the job and the statistics files use it.

A kind is a frozen value, in the size that a run wants. It takes the values of a column, merges the parts of a job,
combines them with an earlier base or says why it cannot, and is stored as a blob or as properties. A new kind is one
module with a subclass of `Kind`, and one line in `puffin.statistics.kinds.KINDS`.
"""

from __future__ import annotations

import dataclasses
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from puffin.sketches.sizes import DEFAULT_LG_K
from puffin.statistics.blob_properties import SketchProperties
from puffin.storage import Store
from puffin.tables.base import Column

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Need(enum.Enum):
    """
    What the builder of a kind is given, and by which method.

    Null, the empty string and empty bytes have no hash, as in other libraries of theta sketches.
    """

    HASHES = "update_hashes(hashes)"
    COUNTED_HASHES = "update_hashes(hashes, rows): the rows with each hash, None if each has one"
    HASHED_VALUES = "update_hashed(hashes, rows, values): as COUNTED_HASHES, with the serialized value of each hash"
    VALUES = "update_values(array, rows): an Arrow array, and the rows with each value, None if each has one"
    COUNTED_VALUES = "as VALUES, and the rows are exact: VALUES may get all of a dictionary, used or not"
    WRITTEN_VALUES = "update_written(array, rows): as VALUES, but of deleted rows too"
    SUMMARIES = "update_summary(RowSummary)"
    BLOOM_FILTERS = "lift(FileScanTask, bitsets): Parquet's of a whole file; false to be given its values"
    ROWS_OF_COLUMNS = "update_rows(arrays by field id), of equal lengths: the rows of the columns ``side_by_side``"
    FILES = "begin_file(FileScanTask) before the values of a file, end_file(FileScanTask, its live rows) after them"


EVERY_ROW = frozenset((Need.COUNTED_HASHES, Need.COUNTED_VALUES, Need.HASHED_VALUES, Need.ROWS_OF_COLUMNS))
"""The needs that a dictionary alone cannot meet, so that every row is read."""


class Home(enum.Enum):
    FILE = "a blob of the statistics file"
    PRIVATE = "a blob of the private state beside it"
    PROPERTIES = "the properties of the column's sketch"


class Unsubtractable(Exception):
    """Rows cannot be taken out of earlier statistics; the message tells the user why."""


class Builder(Protocol[T_co]):
    """Takes the values of a column, by the methods for its kind's needs."""

    def compact(self) -> T_co:
        """The result so far."""


@dataclasses.dataclass(frozen=True, eq=False)
class Kind(ABC, Generic[T]):
    """
    A kind of statistic. Kinds of one name are equal whatever their size, since a column has one value of each.

    Attributes:
        lg_k: Base-2 logarithm of the nominal entries, for kinds that are sketches.
        name: The type of its blobs; any name for a kind without blobs.
        title: The name of its values in messages.
        codec: Its ``to_bytes`` and ``from_bytes`` write and read the payload of a blob, and the values that a long run
            keeps of each step; reading raises CorruptError.
        is_default: Whether every run stores it, or notes it as omitted.
    """

    lg_k: int = DEFAULT_LG_K

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[frozenset[Need]]
    codec: ClassVar[Any]
    home: ClassVar[Home] = Home.PRIVATE
    is_default: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, Kind) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def of(self, values: Values) -> T | None:
        """The value of this kind in those of a column."""
        return values.get(self)

    @property
    def side_by_side(self) -> frozenset[int]:
        """The field ids of the columns whose rows it needs side by side."""
        return frozenset()

    def is_taken(self, others: Collection[Kind[Any]]) -> bool:
        """Whether it is computed from rows, and not from another of these kinds."""
        return True

    @abstractmethod
    def start(self) -> Builder[T]:
        """Start to compute a value."""

    @abstractmethod
    def merge(self, left: T, right: T) -> T:
        """Merge the values of two parts of the rows."""

    def spilled(self, value: T, store_for: Callable[[str], Store], *, is_mapped: bool) -> T:
        """
        What an executor returns of a value; a kind with large values may store them first, and raise StorageError.

        ``is_mapped`` tells that the table's name mapping resolved the column.
        """
        return value

    def combined(self, parts: Parts, made: Values) -> T | None:
        """
        The value after rows were added and removed; None if there is no earlier value to build on.

        ``made`` has the values of the kinds before this one in the table of kinds. Raises Unsubtractable if the removed
        rows cannot be subtracted, which `cannot_subtract` did not foresee.
        """
        added = self.of(parts.added)
        if added is None:
            added = self.start().compact()
        if parts.base is None:
            return added
        base = self.of(parts.base)
        return None if base is None else self.merge(base, added)

    def cannot_subtract(self, values: Values) -> str | None:
        """Why removed rows cannot be subtracted from a column's stored values, or None."""
        return f"rows were deleted, which cannot be taken out of {self.title}"

    def properties(self, values: Values, type_: str) -> dict[str, str]:
        """The properties that the column's sketch gets for this kind's value in ``values``."""
        return {}

    def read(self, properties: SketchProperties, column: Column, payload: bytes | None) -> T | None:
        """The value stored with a column's sketch of these properties; ``payload`` is that of the kind's own blob."""
        return None if payload is None else self.codec.from_bytes(payload)

    def mismatch(self, values: Values) -> str | None:
        """Why the stored value of this kind is not of the same rows as the others, or None."""
        return None


Values: TypeAlias = Mapping[Kind[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The values of earlier rows (None if every row was read), and of the rows added and removed since."""

    base: Values | None
    added: Values
    removed: Values


def merged(left: Values, right: Values) -> Values:
    """Merge the values of two parts of the rows."""
    both = {kind: kind.merge(left[kind], right[kind]) for kind in left if kind in right}
    # Each is asked for once, since it may be made then.
    return {kind: both[kind] if kind in both else of[kind] for of in (left, right) for kind in of}
