"""
A plan of a snapshot in parts, which processes elsewhere make side by side.

For snapshots of so many files that one process would take long to plan them, and much memory to hold the tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Protocol

from puffin.storage import Store
from puffin.tables.scan_task import ContentFile, FileScanTask


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
    """The planner, and the parts that have all data files of the snapshot together, each of them small."""

    planner: PartPlanner
    parts: tuple[bytes, ...]
