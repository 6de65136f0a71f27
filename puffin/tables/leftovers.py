"""
What jobs leave behind that were killed or lost a race, and what proves that a file is one of those.

A file may go if it is ours, if nothing refers to it and if it is old: a job that runs writes its file a moment before
the metadata that names it. Whoever wrote a file says so in it, by ``created-by``; a temporary file does by its name.
What refers to files only a table's format can tell.

Ages are by this machine's clock and the store's times; that the two may disagree is a reason for a safety age of days.
"""

from __future__ import annotations

import dataclasses
import datetime

from puffin.errors import CorruptError, FileNotFound, UnsupportedError
from puffin.format import CREATED_BY, PuffinReader
from puffin.storage import FileInfo, Store

SAFETY_AGE = datetime.timedelta(days=7)
"""
How old a file has to be unless told otherwise.

No job takes as long from writing a file to referring to it, and no reader holds on to an old listing or version for as
long; it is what VACUUM waits, and more than the three days of Iceberg's ``remove_orphan_files``.
"""

APPLICATION = "puffin-sidecar"

NO_TIME = datetime.timedelta()


@dataclasses.dataclass(frozen=True, slots=True)
class Leftover:
    """A file that may go, and why."""

    file: FileInfo
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A file that looks like a leftover of ours and stays, and why."""

    path: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Leftovers:
    """The files that may go, in the order in which they have to, and those that stay."""

    files: tuple[Leftover, ...]
    kept: tuple[Kept, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class StoredEntry:
    """
    What an entry in table metadata refers to, whoever wrote it.

    Attributes:
        of_partitions: Whether it is an entry of partition statistics.
    """

    snapshot_id: int
    statistics_path: str
    of_partitions: bool


@dataclasses.dataclass(frozen=True, slots=True)
class AgeLimit:
    """The age from which on files may go, at one moment."""

    now: datetime.datetime
    older_than: datetime.timedelta

    def age(self, file: FileInfo) -> datetime.timedelta | None:
        """Since a file has changed; zero for a time to come, None where the store tells no times."""
        return None if file.mtime is None else max(self.now - file.mtime, NO_TIME)

    def objection(self, file: FileInfo) -> str | None:
        """Why a file is not old, or None if it is."""
        age = self.age(file)
        if age is None:
            return "the store does not tell its age"
        if age < self.older_than:
            return f"changed {age.total_seconds():.0f} s ago: a job may be about to refer to it"
        return None


def link_objection(file: FileInfo, store: Store) -> str | None:
    """Why a file is none of a job's, if it is a link: no job makes any."""
    return f"{file.uri} is a link, which no job of ours makes" if store.is_link(file.uri) else None


def authorship_objection(file: FileInfo, store: Store) -> str | None:
    """Why a file is no statistics file of ours; None if its footer is sound and says that we wrote it."""
    try:
        with store.open_source(file.uri) as source:
            reader = PuffinReader(source)
            reader.check_head()
            created_by = reader.file_metadata.properties.get(CREATED_BY)
    except FileNotFound:
        return "gone meanwhile"
    except (CorruptError, UnsupportedError) as exc:
        return f"not a Puffin file that can be read: {exc}"
    return None if is_our_name(created_by) else f"created by {created_by!r}, not by {APPLICATION}"


def is_our_name(created_by: str | None) -> bool:
    """Whether a ``created-by`` is this project's, of whatever version."""
    return created_by is not None and created_by.partition(" ")[0] == APPLICATION
