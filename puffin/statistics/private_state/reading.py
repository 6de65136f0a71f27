"""Reads the manifest of a statistics file, and says where the blobs that it lists are stored."""

from __future__ import annotations

import logging

from puffin.errors import CorruptError, FileNotFound, UnsupportedError
from puffin.statistics.private_state import places
from puffin.statistics.private_state.blobs import KeptBlob, PrivateState
from puffin.statistics.private_state.manifest import decode
from puffin.tables.base import StatisticsEntry
from puffin.tables.snapshot import TableSnapshot

_log = logging.getLogger(__name__)


def read_private_state(opened: TableSnapshot, entry: StatisticsEntry) -> PrivateState | None:
    """What the manifest of an entry's statistics file lists, if it has one; StorageError if the storage failed."""
    directory = places.directory(opened.state, places.home_of(entry))
    uri = places.manifest_uri(directory, entry.file_name)
    try:
        found = decode(opened.store_for(uri).read(uri), uri)
        objection = found.objection(opened.state, entry)
    except FileNotFound:
        return None
    except (CorruptError, UnsupportedError) as exc:
        objection = str(exc)
    if objection is not None:
        _log.warning("private state is ignored: %s: %s", uri, objection)
        return None
    kept = {key: KeptBlob(key, stored, directory) for key, stored in found.blobs.items()}
    return PrivateState(kept, found.omitted - kept.keys())
