"""
Plans a large version in parts of some rows of its checkpoint each.

Only paths and sizes are read here. What commits say after the checkpoint travels with each part: a file that they are
about is in the checkpoint no longer, or has come anew.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator

import numpy as np

from puffin.delta.log.actions import AddFile, FileKey
from puffin.delta.log.checkpoints import CheckpointRows, files_in
from puffin.delta.scan.plan import Tasks
from puffin.delta.state import DeltaState
from puffin.storage import Store
from puffin.tables.parted_plan import Part, PartedPlan, RemoteMap
from puffin.tables.scan_task import ContentFile, FileScanTask

LEAST_FILES = 100_000
"""Files in the checkpoint that make a version large."""

MOST_CHANGED = 20_000
"""Files that commits after the checkpoint are about, with which each process that plans a part is burdened."""

_WORTH_A_LOOK = 2 * 1024 * 1024  # bytes of a checkpoint: paths have random names, of 16 bytes at least
_PART_ROWS = 50_000  # a part decodes its whole row group, in a fraction of the time that it takes to make tasks
_ADDED = b""  # the part of the files that commits added


def plan_in_parts(state: DeltaState) -> PartedPlan | None:
    """The parts of a version, and what plans them; None unless it is large, with few changes since its checkpoint."""
    found = state.segment.outline(_PART_ROWS, LEAST_FILES, _WORTH_A_LOOK)
    if found is None:
        return None
    outline, changed = found
    if len(changed) > MOST_CHANGED or len(np.unique(outline.paths)) < len(outline.paths):
        return None  # a path that is there twice has to count once, which no part can know
    added = tuple(file for file in changed.values() if file is not None)
    planner = _Planner(Tasks.of(state), frozenset(changed), added)
    parts = [Part(json.dumps(dataclasses.astuple(rows)).encode(), rows.stop - rows.start) for rows in outline.rows]

    def prepare(_: RemoteMap) -> _Planner:
        return planner

    total = outline.bytes + sum(file.size for file in added)
    return PartedPlan(total, prepare, (*parts, Part(_ADDED, len(added))))


@dataclasses.dataclass(frozen=True, slots=True)
class _Planner:
    """
    Plans rows of a checkpoint, which a part has as JSON.

    Attributes:
        changed: Files that commits after the checkpoint are about.
        added: Those of them that are live.
    """

    to_tasks: Tasks
    changed: frozenset[FileKey]
    added: tuple[AddFile, ...]

    @property
    def shared_deletes(self) -> tuple[ContentFile, ...]:
        """None: a deletion vector belongs to one file."""
        return ()

    def tasks(self, part: bytes, store_for: Callable[[str], Store]) -> Iterator[FileScanTask]:
        if part == _ADDED:
            return map(self.to_tasks.task_of, self.added)
        rows = CheckpointRows(*json.loads(part))
        files = files_in(rows, store_for(rows.uri))
        return (self.to_tasks.task_of(file) for file in files if file.key not in self.changed)
