"""
Finds the files of an index that nobody needs: manifests before the newest, and segments that it does not name.

A reader may hold an older manifest for a while, and a running job writes segments before the manifest that names them;
so young files stay. If the newest manifest cannot be read, everything stays, since it alone may name a segment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from puffin.errors import CorruptMetadataError, PuffinError
from puffin.index.home import IndexHome
from puffin.index.manifest import manifest_uri, manifest_versions, newest_of
from puffin.statistics.private_state import places
from puffin.statistics.private_state.deletion import delete_files
from puffin.statistics.private_state.upkeep import directories
from puffin.storage import FileInfo, is_temporary_name, join
from puffin.tables.arguments import NameOrPath
from puffin.tables.leftovers import TEMPORARY, AgeLimit, Judged, Leftovers, judged
from puffin.tables.snapshot import TableSnapshot

_log = logging.getLogger(__name__)


def index_leftovers(opened: TableSnapshot, limit: AgeLimit, home: NameOrPath | None) -> Leftovers:
    """
    The files of a table's indexes that may go, and those that stay, in ``home`` and in the known homes.

    Raises StorageError.
    """
    return Leftovers.of(
        each
        for directory in directories(opened.state, home)
        for each in _of_home(IndexHome.in_private(opened, directory), limit)
    )


def remove_old_files(home: IndexHome, limit: AgeLimit) -> None:
    """Delete what `index_leftovers` finds in one home; log failures, and raise none."""
    try:
        found = Leftovers.of(_of_home(home, limit))
        for failure in delete_files((leftover.file.uri for leftover in found.files), lambda _: home.store):
            _log.warning("files of the index are left behind: %s", failure)
    except PuffinError as exc:
        _log.warning("files of the index are left behind: %s", exc)


def _of_home(home: IndexHome, limit: AgeLimit) -> Iterator[Judged]:
    store, directory = home.store, home.directory
    versions = manifest_versions(directory, store)
    candidates: list[tuple[FileInfo, str]] = []
    try:
        newest = newest_of(directory, store, versions)
    except CorruptMetadataError:
        newest = None
    doubt = "the newest manifest of the index cannot be read" if newest is None and versions else None
    for version in versions:
        is_older = newest is None or version < newest.version
        for file in store.list(manifest_uri(directory, version).rpartition("/")[0]):
            if is_older or is_temporary_name(file.name):  # its writer was killed, perhaps after it had put the manifest
                candidates.append((file, "an older manifest of the index"))
    named = set() if newest is None else {segment.id for segment in newest.segments}
    segments = join(directory, places.SEGMENTS)
    for segment_id in store.directories(segments):
        if segment_id not in named:
            found = store.list(join(segments, segment_id))
            candidates += [(file, "a segment that is not in the index") for file in found]
    for file, reason in candidates:
        why = TEMPORARY if is_temporary_name(file.name) else reason
        yield judged(file, why, limit.objection(file) or doubt, store)
