"""
Plans a snapshot in parts, in other processes in parallel.

For snapshots of so many files that one process would take long to plan them, and much memory to hold the tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from puffin.storage import Store
from puffin.tables.scan_task import ContentFile, FileScanTask

MOST_AT_ONCE = 1_000_000
"""Files of the parts that other processes work on at once: what comes back has some 0.1 kB for each."""

_Shared = TypeVar("_Shared")
_Result = TypeVar("_Result")


class RemoteMap(Protocol):
    """Calls a function of a module in other processes; everything is pickled on the way."""

    def __call__(
        self, function: Callable[[_Shared, bytes], _Result], shared: _Shared, documents: Sequence[bytes]
    ) -> list[_Result]:
        """What the function returns for each document, in order."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """Some files of a plan as a document, and how many they are about."""

    document: bytes
    files: int


def waves(parts: Iterable[Part]) -> Iterator[list[bytes]]:
    """The documents of parts that are worked on at once."""
    wave: list[bytes] = []
    files = 0
    for part in parts:
        if wave and files + part.files > MOST_AT_ONCE:
            yield wave
            wave, files = [], 0
        wave.append(part.document)
        files += part.files
    if wave:
        yield wave


class PartPlanner(Protocol):
    """Plans parts of a snapshot; it can be pickled, with what all parts need."""

    @property
    def shared_deletes(self) -> tuple[ContentFile, ...]:
        """Delete files that tasks of several parts may have, the same objects as in these tasks."""
        ...

    def tasks(self, part: bytes, store_for: Callable[[str], Store]) -> Iterator[FileScanTask]:
        """One task for each whole data file of a part; raises as `TableSnapshot.tasks`."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class PartedPlan:
    """
    The parts that have all data files of a snapshot together, each of a few thousand where that can be.

    Attributes:
        bytes: Of the data files, about.
        prepare: Finds, here and in other processes, what all parts need; None if that is too much to send to everybody.
            Raises as `TableSnapshot.tasks`.
    """

    bytes: int
    prepare: Callable[[RemoteMap], PartPlanner | None]
    parts: tuple[Part, ...]
