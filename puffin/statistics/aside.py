"""
Values of columns that are put aside, so that a run of thousands of columns holds those of one at a time.

Those of a column with many values take a megabyte or two in memory, and a fifth of that as they are put aside.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from puffin.statistics.kinds.kind import Kind, Values
from puffin.storage.shelf import Shelf

PutAside: TypeAlias = Callable[[Values], Values]
Packed: TypeAlias = "Mapping[Kind[Any], bytes]"
"""Values as they travel between the processes of a job."""

MANY = 64
"""The values of up to this many columns stay in memory together, which is faster; those of more are put aside."""


@dataclass(frozen=True, slots=True)
class Later:
    """A value that is made each time somebody asks for it."""

    make: Callable[[], Any]


class LaterValues(Mapping[Kind[Any], Any]):
    """The values of a column, of which some are made `Later`; which kinds there are is known."""

    def __init__(self, found: Mapping[Kind[Any], Any]) -> None:
        self._found = found

    def __getitem__(self, kind: Kind[Any]) -> Any:
        value = self._found[kind]
        return value.make() if isinstance(value, Later) else value

    def __contains__(self, kind: object) -> bool:
        return kind in self._found

    def __iter__(self) -> Iterator[Kind[Any]]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def unmade(self) -> dict[Kind[Any], Any]:
        """The values, without making any."""
        return {**self._found}


class Aside:
    """Puts values aside into one temporary file, which goes when none of them is needed any more."""

    def __init__(self) -> None:
        self._shelf = Shelf()

    def put(self, values: Values) -> Values:
        """The same values, to be read again when they are asked for; StorageError if there is no room."""
        return values if isinstance(values, LaterValues) else self.put_packed(pack(values))

    def put_packed(self, packed: Packed) -> Values:
        """As `put`, for packed values."""
        return LaterValues({kind: Later(_Taking(self._shelf, content)) for kind, content in packed.items()})


def are_many(columns: int) -> bool:
    """Whether a run of this many columns puts their values aside."""
    return columns > MANY


def put_aside(columns: int) -> PutAside:
    """What takes the values of each column and returns them, put aside if the columns are many."""
    return Aside().put if are_many(columns) else _as_they_are


def pack(values: Values) -> Packed:
    """Values for another process, pickled one by one."""
    return {kind: pickle.dumps(value) for kind, value in values.items()}


def unpack(packed: Packed) -> Values:
    """Values from another process of this job."""
    return {kind: pickle.loads(content) for kind, content in packed.items()}  # noqa: S301 - from a process of this job


def chosen(values: Values, kinds: Collection[Kind[Any]]) -> Values:
    """The values of these kinds, in their own order, without making any."""
    unmade = _unmade(values)
    return _values({kind: unmade[kind] for kind in unmade if kind in kinds})


def changed(values: Values, others: Values) -> Values:
    """The values, with others in place of or beside them, without making any."""
    return _values({**_unmade(values), **_unmade(others)})


def changed_later(values: Values, kind: Kind[Any], change: Callable[[Any], Any]) -> Values:
    """The values, with that of a kind as ``change`` makes it; at once if they are in memory."""
    unmade = _unmade(values)
    value = unmade[kind]
    made = Later(lambda: change(value.make())) if isinstance(value, Later) else change(value)
    return _values({**unmade, kind: made})


class _Taking:
    def __init__(self, shelf: Shelf, content: bytes) -> None:
        self._place = shelf.put(content)

    def __call__(self) -> Any:
        return pickle.loads(self._place.take())  # noqa: S301 - this process has put it aside


def _as_they_are(values: Values) -> Values:
    return values


def _unmade(values: Values) -> dict[Kind[Any], Any]:
    return values.unmade() if isinstance(values, LaterValues) else {**values}


def _values(found: Mapping[Kind[Any], Any]) -> Values:
    return LaterValues(found) if any(isinstance(value, Later) for value in found.values()) else found
