"""
Files in the statistics directory of a Delta table that no reader needs, and temporary files there and in the log.

Everything in that directory is ours, so the question is which readers may still look for a file:

- an older generation of an entry or of field ids may go when the next one is old;
- the entry of a version that can no longer be made may go when it is old and newer old entries cover all of its
  columns; until then, lookups of later versions fall back on it;
- the entry of a table that was replaced by this one may go when it is old and no version of that can be made any more;
- a statistics file may go with the last entry that names it, or if no entry names it and it is old with a sound footer.

An unreadable entry may name any file, so while there is one, no statistics file counts as unnamed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence, Set

from puffin.delta.log.log_files import LOG
from puffin.delta.state import DeltaState
from puffin.delta.statistics.documents import StatisticsDocument
from puffin.delta.statistics.entries import StatisticsDirectory
from puffin.errors import GONE_OR_BROKEN
from puffin.storage import FileInfo, Store, is_temporary_name, join
from puffin.tables.leftovers import (
    TEMPORARY,
    AgeLimit,
    Judged,
    Kept,
    Leftover,
    Leftovers,
    authorship_objection,
    judged,
    link_objection,
)


def find_leftovers(state: DeltaState, limit: AgeLimit, directory: StatisticsDirectory, store: Store) -> Leftovers:
    """The files that may go, entries before the statistics files that they name, and those that stay for now."""
    find = _Finder(state, limit, directory, store)
    gone = (*find.gone_versions(), *find.gone_tables())
    found = Leftovers.of((*find.superseded(), *gone, *find.unnamed(), *find.temporary()))
    files: dict[str, Leftover] = {}
    for leftover in found.files:
        files.setdefault(leftover.file.uri, leftover)
    return Leftovers(tuple(files.values()), tuple(kept for kept in found.kept if kept.path not in files))


class _Finder:
    def __init__(self, state: DeltaState, limit: AgeLimit, directory: StatisticsDirectory, store: Store) -> None:
        self._state = state
        self._limit = limit
        self._directory = directory
        self._store = store
        self._documents = directory.documents(state.stored)

    def superseded(self) -> Iterator[Judged]:
        now, stored, directory = self._limit.now, self._state.stored, self._directory
        entries = functools.partial(directory.superseded, documents=self._documents)
        for find in (entries, directory.superseded_field_ids):
            old = find(stored, now - self._limit.older_than)
            yield from self._together(old, "superseded")
            for file in find(stored, now):
                if file not in old:
                    yield Kept(file.uri, "superseded too recently: a reader may still look for it")

    def gone_versions(self) -> Iterator[Judged]:
        first = -1
        covered: set[tuple[int, tuple[str, ...]]] = set()
        for version in self._documents:  # from the newest on, so that what later ones cover only grows
            document = self._document(version)
            if document is None or not self._is_old(version):
                continue
            columns = set(_columns(document))
            still = self._state.segment.first_since(version)
            if still != first:
                first, covered = still, set()
            if still > version and columns <= covered and not self._may_be_lost(still):
                reason = f"of version {version}, which can no longer be made and whose columns later versions cover"
                yield from self._together([*self._entry_files(version), *self._statistics_files(version)], reason)
            if still >= version:
                covered |= columns

    def gone_tables(self) -> Iterator[Judged]:
        for version, generations in self._documents.items():
            ids = {None if document is None else document.table_id for document in generations.values()}
            if not ids & {None, self._state.metadata.id} and self._is_old(version) and self._are_gone(ids, version):
                reason = f"of version {version} of another table, of which no version can be made any more"
                yield from self._together([*self._entry_files(version), *self._statistics_files(version)], reason)

    def unnamed(self) -> Iterator[Judged]:
        documents = [document for generations in self._documents.values() for document in generations.values()]
        named = {document.entry.statistics_path for document in documents if document is not None}
        for name, file in self._state.stored.statistics.items():
            if name not in named:
                unreadable = "an entry that cannot be read may name it" if None in documents else None
                objection = self._limit.objection(file) or unreadable or authorship_objection(file, self._store)
                yield judged(file, "no entry names it", objection, self._store)

    def temporary(self) -> Iterator[Judged]:
        log = join(self._state.location, LOG)
        for file in (*self._store.list(log), *self._directory.files()):
            if is_temporary_name(file.name):
                yield judged(file, TEMPORARY, self._limit.objection(file), self._store)

    def _document(self, version: int) -> StatisticsDocument | None:
        """The newest entry of a version, if all its generations are readable and belong to this table."""
        generations: Mapping[int, StatisticsDocument | None] = self._documents[version]
        if any(each is None or each.table_id != self._state.metadata.id for each in generations.values()):
            return None
        return generations[max(generations)]

    def _may_be_lost(self, version: int) -> bool:
        """Whether readers may skip entries of a version, as of one that was lost before this one got its number."""
        noted = {document.log_entry for document in self._documents.get(version, {}).values() if document}
        try:
            now = self._state.segment.checksum(version)
        except GONE_OR_BROKEN:
            return True
        return now is not None and not noted <= {None, now}

    def _are_gone(self, ids: Set[str | None], version: int) -> bool:
        """Whether every version from this one on that can be made, and so be restored, is of none of these tables."""
        segment = self._state.segment
        oldest = segment.first_since(version)
        later = range(oldest + 1, segment.newest_version + 1)
        try:
            changes = [commit.metadata for commit in segment.commits_left(later).values()]
            found = [segment.at(oldest).protocol_and_metadata[1], *changes]
        except GONE_OR_BROKEN:
            return False
        return len(changes) == len(later) and ids.isdisjoint(metadata.id for metadata in found if metadata)

    def _is_old(self, version: int) -> bool:
        return all(self._limit.objection(file) is None for file in self._state.stored.entries[version].values())

    def _entry_files(self, version: int) -> list[FileInfo]:
        """The newest generation last, so that what superseded the others outlives them."""
        files = self._state.stored.entries[version]
        return [files[generation] for generation in sorted(files)]

    def _statistics_files(self, version: int) -> list[FileInfo]:
        """The files that entries of the version name; no other version names them."""
        names = {document.entry.statistics_path for document in self._documents[version].values() if document}
        return [self._state.stored.statistics[name] for name in sorted(names) if name in self._state.stored.statistics]

    def _together(self, files: Sequence[FileInfo], reason: str) -> Iterator[Judged]:
        """All of them may go or none, so that no entry names a deleted file."""
        objection = next((link for file in files if (link := link_objection(file, self._store))), None)
        return (judged(file, reason, objection, self._store) for file in files)


def _columns(document: StatisticsDocument) -> Iterator[tuple[int, tuple[str, ...]]]:
    about = {field_id for blob in document.entry.blobs for field_id in blob.fields}
    return ((field_id, path) for field_id, path in document.columns.items() if field_id in about)
