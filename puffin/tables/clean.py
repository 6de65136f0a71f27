"""
Cleaning up after jobs: what they left behind is listed, and removed if that is wanted.

Entries go before files. Then the table is read again, with all metadata that can be found, and a file is deleted only
if it is found once more, unchanged: whatever has been committed since the first look counts.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable
from typing import Any

from puffin.tables.commit import remove_dead_entries
from puffin.tables.leftovers import SAFETY_AGE, AgeLimit, Kept, Leftover, StoredEntry
from puffin.tables.table import Table


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """
    What there is to remove, or was removed.

    Attributes:
        table: What the user called it.
        format: ``"iceberg"`` or ``"delta"``.
        limit: How old files had to be.
        files: In the order in which they go.
        entries: Of Iceberg metadata; a Delta table's are among the files.
        kept: What looks like a leftover and stays.
        removed: Whether files and entries were removed.
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
                    "age-seconds": self.age_seconds(leftover),
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

    def age_seconds(self, leftover: Leftover) -> int | None:
        """How old a file was; None where the store tells no times."""
        age = self.limit.age(leftover.file)
        return None if age is None else int(age.total_seconds())


def clean(
    table: Table,
    *,
    older_than: datetime.timedelta = SAFETY_AGE,
    remove: bool = False,
    now: datetime.datetime | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Cleaning:
    """
    Find what jobs left behind at a table, and remove it if told to.

    Args:
        older_than: The age from which on files may go. Below the time that a job takes to commit, only safe where none
            is running.
        remove: Whether to remove it.
        now: What ages are reckoned from; by default the present.
        sleep: Waits between attempts to commit, a number of seconds.

    Raises:
        UsageError, UnsupportedTableError: This table cannot be committed to, so nor can it be cleaned up.
        CorruptMetadataError: The table's metadata cannot be understood.
        ConflictError, CommitUnknownError: Other writers were faster than the removal of entries, or it is unclear.
        StorageError: The storage failed, perhaps when some of the files had been deleted.
    """
    limit = AgeLimit(now or datetime.datetime.now(datetime.timezone.utc), older_than)
    state = table.load()
    entries = table.dead_entries(state)
    found = table.leftovers(state, limit)
    files, kept = found.files, found.kept
    if remove:
        entries = remove_dead_entries(table, sleep=sleep)
        again = table.leftovers(table.load(), limit)
        known = {leftover.file for leftover in found.files}
        files = tuple(leftover for leftover in again.files if leftover.file in known)
        kept = again.kept
        for leftover in files:
            table.store(leftover.file.uri).delete(leftover.file.uri)
    return Cleaning(
        table=table.name,
        format=state.format,
        limit=limit,
        files=files,
        entries=entries,
        kept=kept,
        removed=remove,
    )
