"""
Finds what changed between a snapshot and a later one: the files with the rows that came or went.

A ``replace`` snapshot has the rows of its parent in other files (spec, "Snapshots"), so none of its files need be read.
Each run of other snapshots contributes the difference of its two ends, whatever happened to a file in between. The sum
of these differences drops files that one run adds and another removes. If rows are compacted between two runs, the sum
lists their old file as added and their new file as removed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from puffin.errors import FileNotFound, SnapshotNotFound
from puffin.iceberg.scan.difference import difference_of_snapshots
from puffin.tables.base import Snapshot
from puffin.tables.changes import Changes, Difference, compare_rows
from puffin.tables.scan_task import FileScanTask
from puffin.tables.snapshot import TableSnapshot


def changes_between(opened: TableSnapshot, base: Snapshot) -> Changes:
    """
    The whole data files with the rows that came or went since ``base``.

    Raises:
        SnapshotNotFound: ``base`` is not an ancestor, or the table no longer has the snapshots in between.
        FileNotFound: A file was overwritten, so its old rows are lost, or a metadata file is missing.
    """
    added: list[FileScanTask] = []
    removed: list[FileScanTask] = []
    for start, end in _runs(opened, base):
        difference = difference_of_snapshots(opened, start, end)
        removed += difference.before
        added += difference.after
    total = compare_rows(removed, added)
    _refuse_written_over(total)
    return Changes(added=tuple(total.after), removed=tuple(total.before))


def moved_between_specs(opened: TableSnapshot, base: Snapshot) -> tuple[FileScanTask, ...]:
    """The files, before and after, of compactions since an ancestor that moved rows between partition specs."""
    if len(opened.state.partition_specs) < 2:
        return ()
    moved: list[FileScanTask] = []
    for earlier, later in itertools.pairwise([base, *_path(opened, base)]):
        if later.keeps_rows:
            difference = difference_of_snapshots(opened, earlier, later)
            rewritten = difference.before + difference.after
            if len({task.data_file.spec_id for task in rewritten}) > 1:
                moved += rewritten
    return tuple(moved)


def _runs(opened: TableSnapshot, base: Snapshot) -> Iterator[tuple[Snapshot, Snapshot]]:
    """The snapshot before each run of snapshots that may change rows, and the run's last, oldest run first."""
    start = base
    for keeps_rows, run in itertools.groupby(_path(opened, base), lambda s: s.keeps_rows):
        *_, end = run
        if not keeps_rows:
            yield start, end
        start = end


def _path(opened: TableSnapshot, base: Snapshot) -> list[Snapshot]:
    """The snapshots after ``base`` up to the opened one, oldest first."""
    state, target = opened.state, opened.snapshot
    ancestors = state.ancestors(target.snapshot_id)
    younger = list(itertools.takewhile(lambda snapshot: snapshot.snapshot_id != base.snapshot_id, ancestors))
    reached = younger[-1].parent_id if younger else target.snapshot_id
    if reached != base.snapshot_id or base.snapshot_id not in state.snapshots:
        raise SnapshotNotFound(
            f"{state.name}: no snapshot {base.snapshot_id} among the ancestors of {target.snapshot_id} (on another "
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
