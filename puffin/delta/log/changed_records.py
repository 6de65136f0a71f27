"""
Counts the rows that a commit to a Delta table added and deleted, from log entries alone.

A file that is removed and added again with another deletion vector lost exactly the rows that the new vector also
deletes. A removal need not state the file's row count, and delta-rs does not. Then the log entry that added it may.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from puffin.delta.log.actions import Commit
from puffin.values.column_summary import known_sum


def changed_records(commit: Commit) -> tuple[int | None, int | None]:
    """The rows added and deleted in files with ``dataChange``; None if unknown."""
    adds = {file.path: file for file in commit.adds if file.data_change}
    removes = {file.path: file for file in commit.removes if file.data_change}
    added = [file.live_records for path, file in adds.items() if path not in removes]
    deleted = [file.live_records for path, file in removes.items() if path not in adds]
    for path in adds.keys() & removes.keys():
        fewer = adds[path].deleted_records - removes[path].deleted_records
        (deleted if fewer > 0 else added).append(abs(fewer))
    return known_sum(added), known_sum(deleted)


def with_counted_removals(
    commits: Mapping[int, Commit], at_hand: Callable[[], Mapping[int, Commit]]
) -> dict[int, Commit]:
    """
    Log entries by version; a removal that does not state the rows of its file has them from the entry that added it.

    ``at_hand`` gives the log entries in which to look beside these. It is called only if a removal lacks its rows.
    """
    if all(file.num_records is not None for commit in commits.values() for file in commit.removes):
        return dict(commits)
    found: dict[int, Commit] = {}
    rows: dict[str, int | None] = {}
    for version, commit in sorted({**at_hand(), **commits}.items()):
        if version in commits:
            removes = (
                file if file.num_records is not None else dataclasses.replace(file, num_records=rows.get(file.path))
                for file in commit.removes
            )
            found[version] = dataclasses.replace(commit, removes=tuple(removes))
        rows.update((file.path, file.num_records) for file in commit.adds)
    return found
