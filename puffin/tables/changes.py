"""
Changes of a table's rows, told by the files to read for them.

What two lists of files have in common need not be read; of a file that both have with other deletes, only the rows that
came or went.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from puffin.tables.scan_task import POSITION_DELETES, FileScanTask

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """
    The rows of the later snapshot are those of the earlier one, and ``added``, less ``removed``.

    A data file of which rows were deleted is in both, each time with the deletes of that time; see `narrowed`.
    """

    added: tuple[FileScanTask, ...]
    removed: tuple[FileScanTask, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference(Generic[_Item]):
    """What the earlier side alone has, what both have, and what the later side alone has."""

    before: list[_Item]
    both: list[_Item]
    after: list[_Item]

    def where(self, condition: Callable[[_Item], bool]) -> Difference[_Item]:
        """What of it meets a condition."""
        return Difference(*(list(filter(condition, side)) for side in (self.before, self.both, self.after)))


def narrowed(changes: Changes) -> Changes:
    """
    The same changes, with fewer rows to read: of a file of which rows were deleted, these rows alone.

    Equality deletes name no rows, so a file that has any is left as it is.
    """
    added, removed = _by_path(changes.added), _by_path(changes.removed)
    both = {p for p in added.keys() & removed.keys() if _differ_by_positions(added[p], removed[p])}
    return Changes(
        added=tuple(_less(task, removed) if task.data_file.file_path in both else task for task in changes.added),
        removed=tuple(_less(task, added) if task.data_file.file_path in both else task for task in changes.removed),
    )


def compare(before: Iterable[_Item], after: Iterable[_Item], key: Callable[[_Item], Hashable]) -> Difference[_Item]:
    """The difference of two multisets, whose items are the same if their keys are."""
    before = list(before)
    unmatched = Counter(map(key, before))
    both: list[_Item] = []
    only_after: list[_Item] = []
    for item in after:
        (both if _take(unmatched, key(item)) else only_after).append(item)
    return Difference([item for item in before if _take(unmatched, key(item))], both, only_after)


def difference_of_tasks(before: Iterable[FileScanTask], after: Iterable[FileScanTask]) -> Difference[FileScanTask]:
    """The difference of two sets of whole files to read; tasks for the same rows are the same."""
    return compare(before, after, rows_of)


def rows_of(task: FileScanTask) -> Hashable:
    """What tasks that mean the same rows of the same partition have in common."""
    file = task.data_file
    deletes = frozenset((delete.file_path, delete.content_offset) for delete in task.delete_files)
    is_whole = task.deleted_by is None
    return file.file_path, _partition(task), file.file_size_in_bytes, file.record_count, deletes, is_whole


def _by_path(tasks: Iterable[FileScanTask]) -> dict[str, FileScanTask]:
    """The tasks by the path of their data file; not those of a file that has two."""
    found: dict[str, list[FileScanTask]] = {}
    for task in tasks:
        found.setdefault(task.data_file.file_path, []).append(task)
    return {path: of_path[0] for path, of_path in found.items() if len(of_path) == 1}


def _differ_by_positions(task: FileScanTask, other: FileScanTask) -> bool:
    deletes = (*task.delete_files, *other.delete_files)
    # In another partition a row may have other values.
    return _partition(task) == _partition(other) and all(file.content == POSITION_DELETES for file in deletes)


def _less(task: FileScanTask, others: Mapping[str, FileScanTask]) -> FileScanTask:
    """Of the task's rows those that are not in the other task of its file."""
    return dataclasses.replace(task, deleted_by=others[task.data_file.file_path].delete_files)


def _partition(task: FileScanTask) -> Hashable:
    # The same file may be listed in several, whose values stand for columns that it lacks.
    return task.data_file.spec_id, repr(sorted(task.data_file.partition.items()))


def _take(counter: Counter[Hashable], key: Hashable) -> bool:
    """Take one of a key, if there is one left."""
    found = counter[key] > 0
    counter[key] -= found
    return found
