"""
What killed jobs and lost races leave behind, and how to prove that a file is such a leftover.

A file may be deleted if it is ours, if nothing refers to it, and if it is old: a running job writes its file a moment
before the metadata that names it. Statistics files name their writer in ``created-by``, temporary files in their names.
Only a table's format knows what refers to files.

Ages compare this machine's clock with the store's times. The two may disagree, hence a safety age of days.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import TypeAlias

from puffin.errors import CorruptError, FileNotFound, UnsupportedError
from puffin.format import CREATED_BY
from puffin.storage import FileInfo, Store
from puffin.version import APPLICATION, is_our_name

SAFETY_AGE = datetime.timedelta(days=7)
"""
The default age from which on files may be deleted.

No job takes that long between writing a file and referring to it, and no reader keeps an old listing or version that
long. VACUUM waits as long, and Iceberg's ``remove_orphan_files`` three days.
"""

TEMPORARY = "a temporary file of a job that did not end"


@dataclasses.dataclass(frozen=True, slots=True)
class Leftover:
    """A file that may be deleted, and why."""

    file: FileInfo
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A file that looks like our leftover but stays, and why."""

    path: str
    reason: str


Judged: TypeAlias = Leftover | Kept


@dataclasses.dataclass(frozen=True, slots=True)
class Leftovers:
    """The files that may be deleted, in the order in which they must be, and those that stay."""

    files: tuple[Leftover, ...]
    kept: tuple[Kept, ...]

    @classmethod
    def of(cls, judged: Iterable[Judged]) -> Leftovers:
        both = tuple(judged)
        files = tuple(each for each in both if isinstance(each, Leftover))
        return cls(files, tuple(each for each in both if isinstance(each, Kept)))


@dataclasses.dataclass(frozen=True, slots=True)
class StoredEntry:
    """
    What an entry in table metadata refers to: a file of statistics or, if ``of_partitions``, of partition statistics.
    """

    snapshot_id: int
    statistics_path: str
    of_partitions: bool


@dataclasses.dataclass(frozen=True, slots=True)
class AgeLimit:
    """How old files must be at one moment, by default now, before they may be deleted."""

    now: datetime.datetime = dataclasses.field(default_factory=lambda: datetime.datetime.now(datetime.timezone.utc))
    older_than: datetime.timedelta = SAFETY_AGE

    def age(self, file: FileInfo) -> datetime.timedelta | None:
        """The time since a file changed: zero for a time in the future, None if the store gives no times."""
        return None if file.mtime is None else max(self.now - file.mtime, datetime.timedelta())

    def objection(self, file: FileInfo) -> str | None:
        """Why a file is not old enough, or None if it is."""
        age = self.age(file)
        if age is None:
            return "the store gives no time of its last change"
        if age < self.older_than:
            return f"changed {age.total_seconds():.0f} s ago: a job may be about to refer to it"
        return None


def judged(file: FileInfo, reason: str, objection: str | None, store: Store) -> Judged:
    """A file that may be deleted for this reason, unless there is an objection or it is a link."""
    objection = objection or link_objection(file, store)
    return Leftover(file, reason) if objection is None else Kept(file.uri, objection)


def link_objection(file: FileInfo, store: Store) -> str | None:
    """Why a link must stay; None for a file that is not a link."""
    return f"{file.uri} is a link, and our jobs make no links" if store.is_link(file.uri) else None


def authorship_objection(file: FileInfo, store: Store) -> str | None:
    """Why a file is not our statistics file; None if its footer is sound and says that we wrote it."""
    from puffin.format import PuffinReader  # only those who clean need it

    try:
        with store.open_source(file.uri) as source:
            reader = PuffinReader(source)
            reader.check_head()
            created_by = reader.file_metadata.properties.get(CREATED_BY)
    except FileNotFound:
        return "deleted meanwhile"
    except (CorruptError, UnsupportedError) as exc:
        return f"not a Puffin file that can be read: {exc}"
    return None if is_our_name(created_by) else f"created by {created_by!r}, not by {APPLICATION}"
