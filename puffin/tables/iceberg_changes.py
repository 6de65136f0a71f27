"""
What changed between a snapshot and a later one: the files to read for the rows that came and for those that went.

A ``replace`` snapshot holds the rows of its parent in other files (spec, "Snapshots"), so that nothing of it need be
read, however much it rewrote. Each run of other snapshots contributes the difference of its two ends, and what happened
to a file in between need not be known. The contributions are added up: what one run adds and another one removes nobody
reads, and rows that were compacted between two runs come in their old file and go in the new one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

from puffin.errors import FileNotFound, SnapshotNotFound
from puffin.tables.base import Snapshot, TableState
from puffin.tables.iceberg_difference import Difference, difference_of_snapshots, difference_of_tasks
from puffin.tables.scan_task import POSITION_DELETES, FileScanTask


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """
    The rows of the later snapshot are those of the earlier one, and ``added``, less ``removed``.

    A data file of which rows were deleted is in both, each time with the deletes of that time; see `narrowed`.
    """

    added: tuple[FileScanTask, ...]
    removed: tuple[FileScanTask, ...]


def changes_between(state: TableState, base: Snapshot, target: Snapshot, io_properties: Mapping[str, str]) -> Changes:
    """
    The whole data files to read for the rows that came after ``base`` and those that are gone in ``target``.

    Raises:
        SnapshotNotFound: ``base`` is no ancestor of ``target``, or the table no longer has those between them.
        FileNotFound: A file has been written over, so that its rows of then are nowhere; or metadata is not there.
        UnsupportedTableError: A file of them is of a kind or format that this version does not read.
        CorruptMetadataError, CorruptDataFileError: A manifest list, a manifest or a delete file cannot be understood.
        StorageError: The storage failed.
    """
    added: list[FileScanTask] = []
    removed: list[FileScanTask] = []
    for start, end in _runs(state, base, target):
        difference = difference_of_snapshots(state, start, end, io_properties)
        removed += difference.before
        added += difference.after
    total = difference_of_tasks(removed, added)
    _refuse_written_over(total)
    return Changes(added=tuple(total.after), removed=tuple(total.before))


def narrowed(changes: Changes) -> Changes:
    """
    The same changes, with fewer rows to read: of a file of which rows were deleted, these rows alone.

    Equality deletes name no rows, so a file that has any is left as it is.
    """
    added, removed = _by_path(changes.added), _by_path(changes.removed)
    both = {p for p in added.keys() & removed.keys() if _is_by_position(added[p]) and _is_by_position(removed[p])}
    return Changes(
        added=tuple(_less(task, removed) if task.data_file.file_path in both else task for task in changes.added),
        removed=tuple(_less(task, added) if task.data_file.file_path in both else task for task in changes.removed),
    )


def _by_path(tasks: Iterable[FileScanTask]) -> dict[str, FileScanTask]:
    """The tasks by the path of their data file; not those of a file that has two."""
    found: dict[str, list[FileScanTask]] = {}
    for task in tasks:
        found.setdefault(task.data_file.file_path, []).append(task)
    return {path: of_path[0] for path, of_path in found.items() if len(of_path) == 1}


def _is_by_position(task: FileScanTask) -> bool:
    return all(file.content == POSITION_DELETES for file in task.delete_files)


def _less(task: FileScanTask, others: Mapping[str, FileScanTask]) -> FileScanTask:
    """Of the task's rows those that are not in the other task of its file."""
    return dataclasses.replace(task, deleted_by=others[task.data_file.file_path].delete_files)


def _runs(state: TableState, base: Snapshot, target: Snapshot) -> Iterator[tuple[Snapshot, Snapshot]]:
    """For each run of snapshots that may change rows, oldest first: the snapshot before it, and its last."""
    start = base
    for is_replace, run in itertools.groupby(_path(state, base, target), lambda s: s.is_replace):
        *_, end = run
        if not is_replace:
            yield start, end
        start = end


def _path(state: TableState, base: Snapshot, target: Snapshot) -> list[Snapshot]:
    """The snapshots from the one after ``base`` to ``target``, oldest first."""
    ancestors = state.ancestors(target.snapshot_id)
    younger = list(itertools.takewhile(lambda snapshot: snapshot.snapshot_id != base.snapshot_id, ancestors))
    reached = younger[-1].parent_id if younger else target.snapshot_id
    if reached != base.snapshot_id or base.snapshot_id not in state.snapshots:
        raise SnapshotNotFound(
            f"{state.location}: no snapshot {base.snapshot_id} among the ancestors of {target.snapshot_id} (on another "
            "branch, or those between have expired)"
        )
    return younger[::-1]


def _refuse_written_over(difference: Difference[FileScanTask]) -> None:
    files = {task.data_file.file_path: task.data_file for task in difference.before}
    for task in difference.after:
        now, then = task.data_file, files.get(task.data_file.file_path, task.data_file)
        if (now.file_size_in_bytes, now.record_count) != (then.file_size_in_bytes, then.record_count):
            raise FileNotFound(
                f"{now.file_path}: expected the file of {then.file_size_in_bytes} bytes and {then.record_count} rows "
                f"that was there, found one of {now.file_size_in_bytes} bytes and {now.record_count} rows"
            )
