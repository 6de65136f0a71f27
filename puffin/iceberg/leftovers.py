"""
Finds statistics files in the metadata directories of an Iceberg table that no metadata names, or not yet.

A file counts as named if any metadata file names it: the current version, earlier ones of its log, or any other in the
directories. Those others may belong to another branch, to another catalog with the same table, or to a commit under
way. They may also be left behind by a lost commit; since nothing tells these apart, metadata files stay, and so do the
files that they name.

Names contain a uuid, so they are compared without directories, and the spelling of a path does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from puffin.errors import CorruptMetadataError, FileNotFound, UnsupportedError, UsageError
from puffin.iceberg.commit.partition_stats import partition_authorship_objection
from puffin.iceberg.commit.patch import statistics_directories, stored_entries
from puffin.iceberg.metadata.document import decode_document
from puffin.storage import FileInfo, Store, is_temporary_name, place_of
from puffin.tables.leftovers import TEMPORARY, AgeLimit, Judged, Leftovers, authorship_objection, judged, link_objection
from puffin.tables.state import TableState

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_STATISTICS = re.compile(rf"([0-9]{{1,19}})-{_UUID}\.stats")
_PARTITION_STATISTICS = re.compile(rf"partition-stats-([0-9]{{1,19}})-{_UUID}\.parquet")
_METADATA = re.compile(r"[^/]*\.metadata\.json(?:\.gz)?")

_READERS = 8  # of metadata files, at the same time


def find_leftovers(state: TableState, limit: AgeLimit, store_for: Callable[[str], Store]) -> Leftovers:
    """Our old files that no metadata names, and the candidates that must stay."""
    found = _Listing(state, store_for)
    done: list[Judged] = []
    unnamed: list[FileInfo] = []
    for file, objection in found.candidates:
        store = store_for(file.uri)
        objection = limit.objection(file) or objection or _authorship_objection(file, store)
        if objection is None and not is_temporary_name(file.name):
            unnamed.append(file)
        else:
            done.append(judged(file, TEMPORARY, objection, store))
    references = _References(found.metadata.values() if unnamed else (), store_for)
    done += (
        judged(file, "no metadata names it", references.objection(file.name), store_for(file.uri)) for file in unnamed
    )
    return Leftovers.of(done)


class _Listing:
    """
    The contents of a table's metadata directories.

    Attributes:
        metadata: All metadata files except the current one, by identity; also those of the metadata log.
        candidates: Temporary files, and statistics files that the current metadata does not name, each with a reason to
            keep it or None.
    """

    def __init__(self, state: TableState, store_for: Callable[[str], Store]) -> None:
        self.metadata = {place_of(location): location for location in _logged(state)}
        self.candidates: list[tuple[FileInfo, str | None]] = []
        in_use = _named(state.document)
        for directory in statistics_directories(state):
            for file in store_for(directory).list(directory):
                if _METADATA.fullmatch(file.name):
                    self.metadata[place_of(file.uri)] = file.uri
                elif is_temporary_name(file.name):
                    self.candidates.append((file, None))
                elif (named := _statistics_name(file.name)) and file.name not in in_use:
                    self.candidates.append((file, _ownership_objection(state, directory, int(named[1]))))
        self.metadata.pop(place_of(state.metadata_location), None)


class _References:
    def __init__(self, locations: Iterable[str], store_for: Callable[[str], Store]) -> None:
        self._named_by: dict[str, str] = {}
        self._unreadable: str | None = None
        self._store_for = store_for
        with ThreadPoolExecutor(_READERS, thread_name_prefix="puffin-metadata") as pool:
            for location, names in pool.map(self._read, locations):
                if names is None:
                    self._unreadable = location
                else:
                    self._named_by.update(dict.fromkeys(names, location))

    def objection(self, name: str) -> str | None:
        """Why something may refer to a file of this name, or None."""
        if name in self._named_by:
            return f"named by {self._named_by[name]}"
        if self._unreadable is not None:
            return f"may be named by {self._unreadable}, which cannot be read"
        return None

    def _read(self, location: str) -> tuple[str, frozenset[str] | None]:
        try:
            return location, _named(decode_document(self._store_for(location).read(location), location))
        except FileNotFound:
            return location, frozenset()  # deleted metadata names nothing
        except (CorruptMetadataError, UnsupportedError, UsageError):  # broken, or not a location that can be opened
            return location, None


def _logged(state: TableState) -> Iterator[str]:
    for entry in state.document.get("metadata-log") or ():
        if not isinstance(entry, dict) or not isinstance(entry.get("metadata-file"), str):
            raise CorruptMetadataError(f"{state.metadata_location}: not an entry of a metadata log: {entry!r}")
        yield entry["metadata-file"]


def _named(document: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(entry.statistics_path.rpartition("/")[2] for entry in stored_entries(document))


def _statistics_name(name: str) -> re.Match[str] | None:
    return _STATISTICS.fullmatch(name) or _PARTITION_STATISTICS.fullmatch(name)


def _ownership_objection(state: TableState, directory: str, snapshot_id: int) -> str | None:
    """Why a file in a directory outside the table's may belong to another table, or None."""
    if snapshot_id in state.snapshots or f"{place_of(directory)}/".startswith(f"{place_of(state.location)}/"):
        return None
    return "not about a snapshot of this table, in a directory that other tables may use"


def _authorship_objection(file: FileInfo, store: Store) -> str | None:
    if (objection := link_objection(file, store)) is not None or is_temporary_name(file.name):
        return objection
    if _STATISTICS.fullmatch(file.name):
        return authorship_objection(file, store)
    return partition_authorship_objection(file, store)
