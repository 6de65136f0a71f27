"""
Lists what jobs left behind, and removes it on request.

Entries are removed before files. Then the table and all metadata that can be found are read again, and a file is
deleted only if the second search finds it too, unchanged. So a commit in between protects its files.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from puffin.index.leftovers import index_leftovers
from puffin.statistics.private_state.deletion import delete_files
from puffin.statistics.private_state.upkeep import empty_folders, lost_state
from puffin.storage import FileInfo
from puffin.tables.arguments import NameOrPath
from puffin.tables.commit import remove_dead_entries
from puffin.tables.leftovers import SAFETY_AGE, AgeLimit, Kept, Leftover, Leftovers, StoredEntry
from puffin.tables.snapshot import Table, TableSnapshot


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """
    The leftovers that were found, or removed.

    Attributes:
        limit: How old files had to be.
        files: In the order of removal.
        entries: Of Iceberg metadata; those of a Delta table are among the files.
        kept: What looks like a leftover and stays.
    """

    table: str
    format: str
    limit: AgeLimit
    files: tuple[Leftover, ...]
    entries: tuple[StoredEntry, ...]
    kept: tuple[Kept, ...]
    removed: bool

    def to_json(self) -> dict[str, Any]:
        """The document of ``puffin clean --json``; sizes are in bytes, ages in seconds."""
        return {
            "table": self.table,
            "format": self.format,
            "older-than-seconds": int(self.limit.older_than.total_seconds()),
            "files": [
                {
                    "path": leftover.file.uri,
                    "size": leftover.file.size,
                    "age-seconds": self._age_seconds(leftover),
                    "reason": leftover.reason,
                }
                for leftover in self.files
            ],
            "entries": [
                {"snapshot-id": entry.snapshot_id, "statistics-path": entry.statistics_path} for entry in self.entries
            ],
            "kept": [{"path": kept.path, "reason": kept.reason} for kept in self.kept],
            "removed": self.removed,
        }

    def _age_seconds(self, leftover: Leftover) -> int | None:
        age = self.limit.age(leftover.file)
        return None if age is None else int(age.total_seconds())


def clean(
    table: Table,
    *,
    older_than: datetime.timedelta = SAFETY_AGE,
    remove: bool = False,
    home: NameOrPath | None = None,
    now: datetime.datetime | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Cleaning:
    """
    Find what jobs left behind at a table, and remove it on request.

    Args:
        older_than: Files younger than this are kept. An age shorter than a job takes to commit is safe only while no
            job runs.
        home: A home of private state to search, besides those that the table names.
        now: The time that ages are relative to; by default the present.
        sleep: Waits between attempts to commit, in seconds.

    Raises:
        UsageError, UnsupportedTableError: The table does not support commits, and so no cleaning.
        CorruptMetadataError: The table's metadata cannot be read.
        ConflictError, CommitUnknownError: Other writers prevented the removal of entries, or it may have failed.
        StorageError: The storage failed, perhaps after some of the files were deleted.
    """
    limit = AgeLimit(older_than=older_than) if now is None else AgeLimit(now, older_than)
    opened = table.open()
    entries = opened.dead_entries()
    found = _leftovers(opened, limit, home)
    files, kept = found.files, found.kept
    if remove:
        # A job makes the folder of a file a moment before the file, so only what is empty now and then goes.
        empty = empty_folders(opened, home)
        entries = remove_dead_entries(table, sleep=sleep)
        opened = table.open()
        again = _leftovers(opened, limit, home, among={leftover.file for leftover in found.files})
        files, kept = again.files, again.kept
        for failure in delete_files((leftover.file.uri for leftover in files), opened.store_for):
            raise failure
        for folder in empty:
            opened.store_for(folder).delete_empty_directory(folder)
    return Cleaning(
        table=table.name,
        format=opened.state.format,
        limit=limit,
        files=files,
        entries=entries,
        kept=kept,
        removed=remove,
    )


def _leftovers(
    opened: TableSnapshot, limit: AgeLimit, home: NameOrPath | None, among: Collection[FileInfo] | None = None
) -> Leftovers:
    """Leftover statistics files, private state and files of the index; only those in ``among``, if given."""

    def wanted(leftovers: Iterable[Leftover]) -> list[Leftover]:
        return [leftover for leftover in leftovers if among is None or leftover.file in among]

    index = index_leftovers(opened, limit, home)
    found = opened.leftovers(limit)
    files = wanted(found.files)
    # The last, so that little time is left for a run to commit a manifest that names earlier parts.
    private = lost_state(opened, limit, home, {leftover.file.name for leftover in files})
    files += [*wanted(private.files), *wanted(index.files)]
    return Leftovers(tuple(files), (*found.kept, *private.kept, *index.kept))
