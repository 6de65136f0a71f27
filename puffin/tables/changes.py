"""
Changes of a table's rows, as the files to read for them.

A file that both sides list need not be read. If its deletes differ, only the rows that came or went are read.
"""

from __future__ import annotations

import array
import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from puffin.cached import cached_property
from puffin.tables.scan_task import POSITION_DELETES, ContentFile, FileScanTask

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True)
class Changes:
    """
    The later snapshot has the rows of the earlier one, plus ``added``, minus ``removed``.

    A data file that lost rows is in both, each time with the deletes of that time.
    """

    added: tuple[FileScanTask, ...]
    removed: tuple[FileScanTask, ...]

    @cached_property
    def narrowed(self) -> Changes:
        """
        The same changes, but a file that only lost rows stands for just these rows.

        Equality deletes do not name rows, so files with equality deletes stay as they are.
        """
        added, removed = _by_path(self.added), _by_path(self.removed)
        both = {p for p in added.keys() & removed.keys() if _differ_by_positions(added[p], removed[p])}
        return Changes(
            added=tuple(_less(task, removed) if task.data_file.file_path in both else task for task in self.added),
            removed=tuple(_less(task, added) if task.data_file.file_path in both else task for task in self.removed),
        )

    @cached_property
    def rows_added(self) -> int:
        """About how many rows came."""
        return sum(task.rows for task in self.added)


@dataclasses.dataclass(frozen=True, slots=True)
class Difference(Generic[_Item]):
    """The items of the earlier side alone, of both sides, and of the later side alone."""

    before: list[_Item]
    both: list[_Item]
    after: list[_Item]

    def where(self, condition: Callable[[_Item], bool]) -> Difference[_Item]:
        """The difference of those items that meet a condition."""
        return Difference(*(list(filter(condition, side)) for side in (self.before, self.both, self.after)))


def compare(before: Iterable[_Item], after: Iterable[_Item], key: Callable[[_Item], Hashable]) -> Difference[_Item]:
    """The difference of two multisets; items with equal keys are the same."""
    before, after = list(before), list(after)
    if not before or not after:  # the keys of very many files take more memory than these
        return Difference(before, [], after)
    unmatched = Counter(map(key, before))
    both: list[_Item] = []
    only_after: list[_Item] = []
    for item in after:
        (both if _take(unmatched, key(item)) else only_after).append(item)
    return Difference([item for item in before if _take(unmatched, key(item))], both, only_after)


def compare_rows(before: Iterable[FileScanTask], after: Iterable[FileScanTask]) -> Difference[FileScanTask]:
    """The difference of two multisets of tasks; those with the same rows of the same partition are the same."""
    return compare(before, after, RowKeys())


class RowKeys:
    """
    Keys that tasks have in common if they mean the same rows of the same partition.

    Thousands of data files may have the same thousands of delete files. So each delete file is looked at once and gets
    a number, the numbers are packed, and a task with the delete files of the one before has its numbers too.
    """

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int | None], int] = {}
        self._by_id: dict[int, int] = {}
        self._seen: list[ContentFile] = []  # kept alive, so that no other object gets the same id()
        self._last: tuple[tuple[ContentFile, ...], bytes] = (), b""

    def __call__(self, task: FileScanTask) -> Hashable:
        file, is_whole = task.data_file, task.deleted_by is None
        return (
            file.file_path,
            _partition(task),
            file.file_size_in_bytes,
            file.record_count,
            self._deletes(task),
            is_whole,
        )

    def _deletes(self, task: FileScanTask) -> bytes:
        if task.delete_files == self._last[0]:
            return self._last[1]
        numbers = set(map(self._by_id.get, map(id, task.delete_files)))
        if None in numbers:
            numbers = set(map(self._number, task.delete_files))
        packed = array.array("q", sorted(number for number in numbers if number is not None)).tobytes()
        self._last = task.delete_files, packed
        return packed

    def _number(self, delete: ContentFile) -> int:
        number = self._by_place.setdefault((delete.file_path, delete.content_offset), len(self._by_place))
        self._by_id[id(delete)] = number
        self._seen.append(delete)
        return number


def _by_path(tasks: Iterable[FileScanTask]) -> dict[str, FileScanTask]:
    found: dict[str, list[FileScanTask]] = {}
    for task in tasks:
        found.setdefault(task.data_file.file_path, []).append(task)
    return {path: of_path[0] for path, of_path in found.items() if len(of_path) == 1}


def _differ_by_positions(task: FileScanTask, other: FileScanTask) -> bool:
    deletes = (*task.delete_files, *other.delete_files)
    # In another partition a row may have other values.
    return _partition(task) == _partition(other) and all(file.content == POSITION_DELETES for file in deletes)


def _less(task: FileScanTask, others: Mapping[str, FileScanTask]) -> FileScanTask:
    """The task's rows that the other task of its file deletes."""
    return dataclasses.replace(task, deleted_by=others[task.data_file.file_path].delete_files)


def _partition(task: FileScanTask) -> Hashable:
    # A file may be listed in several partitions, whose values fill columns that it lacks.
    return task.data_file.spec_id, repr(sorted(task.data_file.partition.items()))


def _take(counter: Counter[Hashable], key: Hashable) -> bool:
    found = counter[key] > 0
    counter[key] -= found
    return found
