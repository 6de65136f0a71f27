"""
Counts the rows that a commit to a Delta table added and deleted, from its log entry alone.

A file that is removed and added again with another deletion vector lost exactly the rows that the new vector also
deletes. A removal need not state the file's row count; then only such a pair is countable.
"""

from __future__ import annotations

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
