"""
Finds and removes private state that nobody needs: manifests without a statistics file, parts without a manifest, and
what runs that did not end have kept.

A manifest stays as long as its statistics file, whoever refers to that. A job writes a part, then the manifest, and
then commits; so a young file stays, since a commit may be about to refer to it.
"""

from __future__ import annotations

import datetime
import functools
import logging
from collections.abc import Collection, Iterator

from puffin.errors import CorruptError, FileNotFound, PuffinError, UnsupportedError
from puffin.statistics.private_state import places
from puffin.statistics.private_state.deletion import delete_files
from puffin.statistics.private_state.manifest import Manifest, decode
from puffin.storage import FileInfo, Store, is_temporary_name, join
from puffin.tables.arguments import NameOrPath
from puffin.tables.leftovers import SAFETY_AGE, AgeLimit, Kept, Leftover, Leftovers, link_objection
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState

_STATISTICS = ".stats"

_log = logging.getLogger(__name__)


def has_private_state(opened: TableSnapshot) -> bool:
    """Whether a known home has a manifest; StorageError if the storage failed."""
    return any(
        file.name.endswith(_STATISTICS)
        for directory in directories(opened.state, None)
        for file in opened.store_for(directory).list(directory)
    )


def directories(state: TableState, home: NameOrPath | None) -> list[str]:
    """The known folders of private state: those of the caller's home, the owner's, the default, and of entries."""
    return list(dict.fromkeys(places.directory(state, each) for each in places.known_homes(state, home)))


def lost_state(
    opened: TableSnapshot, limit: AgeLimit, home: NameOrPath | None, going: Collection[str] = ()
) -> Leftovers:
    """
    The files of private state that may go, manifests before the parts that only they refer to, and those that stay.

    Searches ``home`` besides the known ones; ``going`` names statistics files that are about to be deleted. Raises
    StorageError.
    """
    statistics = _StatisticsFiles(opened, going)
    files: list[Leftover] = []
    kept: list[Kept] = []
    for directory in directories(opened.state, home):
        found = _Folder(directory, opened.store_for(directory), limit, statistics)
        files += found.files
        kept += found.kept
    return Leftovers(tuple(files), tuple(kept))


def remove_lost_state(opened: TableSnapshot, home: NameOrPath | None) -> None:
    """
    Delete private state that has been lost for longer than any job takes; log failures, and raise none.

    Parts are looked at only if a manifest goes.
    """
    limit = AgeLimit(datetime.datetime.now(datetime.timezone.utc), SAFETY_AGE)
    try:
        statistics = _StatisticsFiles(opened)
        for directory in directories(opened.state, home):
            store = opened.store_for(directory)
            if any(limit.objection(file) is None and statistics.is_gone(file.name) for file in store.list(directory)):
                found = _Folder(directory, store, limit, statistics)
                for failure in delete_files((leftover.file.uri for leftover in found.files), opened.store_for):
                    _log.warning("private state is left behind: %s", failure)
    except PuffinError as exc:
        _log.warning("private state is left behind: %s", exc)


class _StatisticsFiles:
    """Knows which statistics files exist; files outside the current directory for them count as gone."""

    def __init__(self, opened: TableSnapshot, going: Collection[str] = ()) -> None:
        self._named = {entry.statistics_path.rpartition("/")[2] for entry in opened.state.statistics.values()}
        self._going = going
        directory = opened.new_statistics_file(0).path.rpartition("/")[0]
        self._there = functools.cache(lambda: {file.name for file in opened.store_for(directory).list(directory)})

    def is_gone(self, name: str) -> bool:
        """Whether this is the name of a manifest whose file does not exist or is about to go."""
        if not name.endswith(_STATISTICS) or name in self._named:
            return False
        return name in self._going or name not in self._there()


class _Folder:
    """The private state in one folder: the files that may go, in order, and those that stay, with the reason."""

    def __init__(self, directory: str, store: Store, limit: AgeLimit, statistics: _StatisticsFiles) -> None:
        self.files: list[Leftover] = []
        self.kept: list[Kept] = []
        self._store = store
        self._limit = limit
        held: list[Manifest | None] = []
        for file in store.list(directory):
            if is_temporary_name(file.name):
                self._judge(file, "a temporary file of a job that did not end")
            elif file.name.endswith(_STATISTICS):
                manifest = self._read(file)
                if manifest is None:
                    self.kept.append(Kept(file.uri, "not a manifest of private state that can be read"))
                    held.append(manifest)
                elif not statistics.is_gone(file.name) or not self._judge(file, "private state of a file that is gone"):
                    held.append(manifest)
        self._judge_parts(directory, held)
        for _, file in self._files_of(directory, places.PROGRESS):
            if is_temporary_name(file.name) or file.name == places.PART_NAME:
                self._judge(file, "a part of what a run had read that did not end")

    def _judge_parts(self, directory: str, held: Collection[Manifest | None]) -> None:
        referred = {part.id for manifest in held if manifest is not None for part in manifest.parts}
        doubt = "a manifest that cannot be read may refer to it" if None in held else None
        for part_id, file in self._files_of(directory, places.PARTS):
            if is_temporary_name(file.name):
                self._judge(file, "a temporary file of a job that did not end")
            elif file.name == places.PART_NAME and part_id not in referred:
                self._judge(file, "a part of private state that no manifest refers to", doubt)

    def _files_of(self, directory: str, kind: str) -> Iterator[tuple[str, FileInfo]]:
        folder = join(directory, kind)
        for own in self._store.directories(folder):
            for file in self._store.list(join(folder, own)):
                yield own, file

    def _judge(self, file: FileInfo, reason: str, objection: str | None = None) -> bool:
        objection = self._limit.objection(file) or objection or link_objection(file, self._store)
        if objection is None:
            self.files.append(Leftover(file, reason))
        else:
            self.kept.append(Kept(file.uri, objection))
        return objection is None

    def _read(self, file: FileInfo) -> Manifest | None:
        try:
            return decode(self._store.read(file.uri), file.uri)
        except (CorruptError, UnsupportedError, FileNotFound):
            return None
