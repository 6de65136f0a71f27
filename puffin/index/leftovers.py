"""
Finds the files of an index that nobody needs: manifests before the newest, and segments that it does not name.

A reader may hold an older manifest for a while, so that stays with its segments until the next one is old. Young files
stay too, since a running job writes segments before the manifest that names them. If the newest manifest cannot be
read, everything stays, since it alone may name a segment.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterator

from puffin.errors import CorruptMetadataError, PuffinError
from puffin.index.home import IndexHome
from puffin.index.manifest import IndexManifest, manifest_uri, manifest_versions, newest_of
from puffin.statistics.private_state import places
from puffin.statistics.private_state.deletion import delete_files
from puffin.statistics.private_state.upkeep import directories
from puffin.storage import FileInfo, is_temporary_name, join
from puffin.tables.arguments import NameOrPath
from puffin.tables.leftovers import TEMPORARY, AgeLimit, Judged, Leftovers, judged
from puffin.tables.snapshot import TableSnapshot

_RECENT = "superseded too recently: a reader may still look for it"

_log = logging.getLogger(__name__)


def index_leftovers(opened: TableSnapshot, limit: AgeLimit, home: NameOrPath | None) -> Leftovers:
    """
    The files of a table's indexes that may go, and those that stay, in ``home`` and in the known homes.

    Raises StorageError.
    """
    return Leftovers.of(
        each
        for directory in directories(opened.state, home)
        for each in _of_home(IndexHome.in_private(opened, directory), limit, beside_named=True)
    )


def remove_old_files(home: IndexHome, limit: AgeLimit) -> None:
    """Delete what `index_leftovers` finds in one home; log failures, and raise none."""
    try:
        found = Leftovers.of(_of_home(home, limit))
        for failure in delete_files((leftover.file.uri for leftover in found.files), lambda _: home.store):
            _log.warning("files of the index are left behind: %s", failure)
    except PuffinError as exc:
        _log.warning("files of the index are left behind: %s", exc)


def _of_home(home: IndexHome, limit: AgeLimit, *, beside_named: bool = False) -> Iterator[Judged]:
    """
    The files of one home that nobody needs; ``beside_named`` also looks for temporary files in the folders of segments
    that the index has, which takes a request for each.
    """
    store, directory = home.store, home.directory
    listed = {
        version: store.list(manifest_uri(directory, version).rpartition("/")[0])
        for version in manifest_versions(directory, store)
    }
    manifests = [(v, file) for v, files in listed.items() for file in files if not is_temporary_name(file.name)]
    recent = [version for (version, _), (_, next_) in itertools.pairwise(manifests) if limit.objection(next_)]
    newest = _newest(home, listed)
    doubt = "the newest manifest of the index cannot be read" if newest is None and listed else None
    candidates: list[tuple[FileInfo, str, bool]] = []
    for version, files in listed.items():
        is_older = newest is None or version < newest.version
        for file in files:
            if is_older or is_temporary_name(file.name):  # its writer was killed, perhaps after it had put the manifest
                candidates.append((file, "an older manifest of the index", version in recent))
    named = _segments(newest)
    held = _segments(_newest(home, recent[:1]))  # what came into the index after that one is young
    segments = join(directory, places.SEGMENTS)
    for segment_id in store.directories(segments):
        if beside_named or segment_id not in named:
            found = store.list(join(segments, segment_id))
            going = [file for file in found if segment_id not in named or is_temporary_name(file.name)]
            candidates += [(file, "a segment that is not in the index", segment_id in held) for file in going]
    for file, reason, is_recent in candidates:
        if is_temporary_name(file.name):
            yield judged(file, TEMPORARY, limit.objection(file) or doubt, store)
        else:
            yield judged(file, reason, limit.objection(file) or doubt or (_RECENT if is_recent else None), store)


def _newest(home: IndexHome, versions: Collection[int]) -> IndexManifest | None:
    """The newest manifest of these versions; None if there is none, or it cannot be read."""
    try:
        return newest_of(home.directory, home.store, versions)
    except CorruptMetadataError:
        return None


def _segments(manifest: IndexManifest | None) -> set[str]:
    return set() if manifest is None else {segment.id for segment in manifest.segments}
