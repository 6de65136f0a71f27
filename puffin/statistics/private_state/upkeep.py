"""
Finds and removes private state that nobody needs: manifests without a statistics file, parts without a manifest, and
what runs that did not end have kept.

A manifest stays as long as its statistics file, whoever refers to that. A job writes a part, then the manifest, and
then commits; so a young file stays, since a commit may be about to refer to it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Collection, Iterable, Iterator

from puffin.errors import CorruptError, FileNotFound, PuffinError, UnsupportedError
from puffin.statistics.private_state import places
from puffin.statistics.private_state.deletion import delete_files
from puffin.statistics.private_state.manifest import Manifest, decode
from puffin.storage import FileInfo, Store, is_temporary_name, join, place_of
from puffin.tables.arguments import NameOrPath
from puffin.tables.leftovers import TEMPORARY, AgeLimit, Judged, Kept, Leftover, Leftovers, judged
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
    statistics = _KnownFiles(opened, going)
    return Leftovers.of(
        each
        for directory in directories(opened.state, home)
        for each in _of_folder(directory, opened.store_for(directory), limit, statistics)
    )


def empty_folders(opened: TableSnapshot, home: NameOrPath | None) -> list[str]:
    """
    The folders for one file each that have none: a job was killed before it made the file, or a cleaning after it
    deleted it. Searches as `lost_state` does, and the index too.
    """
    found = []
    for directory in directories(opened.state, home):
        store = opened.store_for(directory)
        for kind in (places.PARTS, places.PROGRESS, places.INDEX, join(places.INDEX, places.SEGMENTS)):
            for name in store.directories(join(directory, kind)):
                file = join(directory, kind, name, places.PART_NAME)
                folder = file.rpartition("/")[0]
                if places.has_own_folder(file) and not store.list(folder):
                    found.append(folder)
    return found


def remove_lost_state(opened: TableSnapshot, home: NameOrPath | None) -> None:
    """
    Delete private state that has been lost for longer than any job takes; log failures, and raise none.

    Parts are looked at only if a manifest goes.
    """
    limit = AgeLimit()
    try:
        statistics = _KnownFiles(opened)
        for directory in directories(opened.state, home):
            store = opened.store_for(directory)
            if any(limit.objection(file) is None and statistics.is_gone(file.name) for file in store.list(directory)):
                found = Leftovers.of(_of_folder(directory, store, limit, statistics))
                for failure in delete_files((leftover.file.uri for leftover in found.files), opened.store_for):
                    _log.warning("private state is left behind: %s", failure)
    except PuffinError as exc:
        _log.warning("private state is left behind: %s", exc)


class _KnownFiles:
    """
    Knows which statistics files exist: in a directory that the table has now for them, or elsewhere as a manifest
    notes, outside of the table. Others count as gone.
    """

    def __init__(self, opened: TableSnapshot, going: Collection[str] = ()) -> None:
        self._named = {entry.file_name for entry in opened.state.statistics.values()}
        self._going = going
        self._here = opened.statistics_directories()
        self._table = f"{place_of(opened.state.location)}/"
        self._names_in = functools.cache(lambda uri: {file.name for file in opened.store_for(uri).list(uri)})

    def is_gone(self, name: str) -> bool:
        """Whether this is the name of a manifest whose file does not exist or is about to go."""
        if not name.endswith(_STATISTICS) or name in self._named:
            return False
        return name in self._going or not any(name in self._names_in(directory) for directory in self._here)

    def may_be_elsewhere(self, manifest: Manifest) -> bool:
        """Whether a copy of the table, which has the same uuid, has the file of a manifest, or may have it."""
        directory = manifest.statistics_directory
        if directory is None or directory in map(place_of, self._here) or f"{directory}/".startswith(self._table):
            return False
        try:
            return manifest.statistics_file in self._names_in(directory)
        except PuffinError:
            return True  # this table's credentials need not be for the other one


def _of_folder(directory: str, store: Store, limit: AgeLimit, statistics: _KnownFiles) -> Iterator[Judged]:
    """The files of private state in one folder that may go, in order, and those that stay."""
    held: list[Manifest | None] = []
    parts = [*_files_of(join(directory, places.PARTS), store)]  # before the manifests, so that none of them is missed
    for file in store.list(directory):
        if is_temporary_name(file.name):
            yield judged(file, TEMPORARY, limit.objection(file), store)
        elif file.name.endswith(_STATISTICS):
            manifest, found = _read(file, store), None
            if manifest is None:
                yield Kept(file.uri, "not a manifest of private state that can be read")
            elif statistics.is_gone(file.name) and not statistics.may_be_elsewhere(manifest):
                yield (found := judged(file, "private state of a file that is gone", limit.objection(file), store))
            if not isinstance(found, Leftover):
                held.append(manifest)
    yield from _of_parts(parts, store, limit, held)
    for _, file in _files_of(join(directory, places.PROGRESS), store):
        if is_temporary_name(file.name) or file.name == places.PART_NAME:
            yield judged(file, "a step of a run that did not end", limit.objection(file), store)


def _of_parts(
    parts: Iterable[tuple[str, FileInfo]], store: Store, limit: AgeLimit, held: Collection[Manifest | None]
) -> Iterator[Judged]:
    referred = {part.id for manifest in held if manifest is not None for part in manifest.parts}
    doubt = "a manifest that cannot be read may refer to it" if None in held else None
    for part_id, file in parts:
        if is_temporary_name(file.name):
            yield judged(file, TEMPORARY, limit.objection(file), store)
        elif file.name == places.PART_NAME and part_id not in referred:
            reason = "a part of private state that no manifest refers to"
            yield judged(file, reason, limit.objection(file) or doubt, store)


def _read(file: FileInfo, store: Store) -> Manifest | None:
    try:
        return decode(store.read(file.uri), file.uri)
    except (CorruptError, UnsupportedError, FileNotFound):
        return None


def _files_of(folder: str, store: Store) -> Iterator[tuple[str, FileInfo]]:
    for own in store.directories(folder):
        for file in store.list(join(folder, own)):
            yield own, file
