"""
The statistics of a Delta table, in a directory of our own below its log, since the format has no place for them.

An entry file says which statistics file a version has, and for which columns. Files here never change: each generation
of an entry can be written only once, so one of several jobs wins and the others add to what it wrote. VACUUM ignores
directories that begin with an underscore, and log cleanup ignores these names (`puffin.delta.statistics.files`).

Readers skip files that are broken or come from a later version of this project, with a warning: an older generation or
an older version has statistics too. Superseded files stay while a reader may know them from an older listing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from puffin.delta.log.log_files import LOG
from puffin.delta.statistics.documents import (
    StatisticsDocument,
    decode_entry,
    decode_field_ids,
    encode_entry,
    encode_field_ids,
)
from puffin.delta.statistics.files import (
    Listing,
    entry_name,
    field_ids_name,
    is_statistics_name,
    new_statistics_name,
    superseded_before,
)
from puffin.errors import CorruptMetadataError, FileNotFound, PuffinError, UnsupportedTableError, UsageError
from puffin.storage import FileInfo, Store, join
from puffin.tables.base import StatisticsEntry
from puffin.tables.leftovers import SAFETY_AGE

DIRECTORY = f"{LOG}/_puffin_sidecar"

Documents: TypeAlias = Mapping[int, Mapping[int, StatisticsDocument | None]]
"""Entry files by version and generation; None for an unreadable one."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class StatisticsDirectory:
    """Where the statistics of a Delta table are; the entries it returns have paths below the table's location."""

    def __init__(self, table_location: str, store: Store) -> None:
        self._location = join(table_location, DIRECTORY)
        self._store = store

    def listing(self) -> Listing:
        """The files that are there now; empty if the directory does not exist."""
        return Listing.of(self.files())

    def entries(
        self,
        listing: Listing,
        version: int,
        table_id: str,
        is_same_column: Callable[[int, tuple[str, ...]], bool],
        log_entry: Callable[[int], str | None],
    ) -> Iterator[StatisticsEntry]:
        """
        Yield the entries of a version and of earlier ones, nearest first; reads each on demand.

        Entries of a previous table at this place, with another ``table_id``, are skipped. So are those of a version
        that was lost since: ``log_entry`` returns the checksum of a version's log entry now, None if it is not left. So
        are blobs whose field ids do not mean the same column, according to ``is_same_column``.
        """
        for candidate, generations in listing.entries.items():
            if candidate > version:
                continue
            for generation in generations:
                document = self._read_or_warn(candidate, generation)
                if document is None or document.table_id != table_id:
                    continue
                if document.log_entry is None or log_entry(candidate) in (None, document.log_entry):
                    yield self._entry(document, is_same_column)
                    break

    def put(
        self,
        entry: StatisticsEntry,
        table_id: str,
        columns: Mapping[int, tuple[str, ...]],
        generation: int,
        log_entry: str | None,
    ) -> None:
        """
        Make ``entry`` its version's entry.

        Args:
            columns: The physical path of each field id that the blobs use, at least.
            generation: The one after the newest, whose other columns the entry has kept.
            log_entry: The checksum of the version's log entry; None if that is not left.

        Raises:
            ConflictError: Another job wrote this generation.
            UnsupportedTableError: A later version of this project wrote the newest one, so data would be lost.
            CommitUnknownError: The entry may or may not have been written.
            StorageError: It has not been written.
        """
        name = entry.file_name
        about = {field_id for blob in entry.blobs for field_id in blob.fields}
        if entry.statistics_path != self._path(name) or not is_statistics_name(name, entry.snapshot_id):
            raise UsageError(f"{entry.statistics_path}: expected a statistics file of this version in {self._location}")
        if not about <= columns.keys():
            raise UsageError(f"{entry.statistics_path}: no column has the field ids {sorted(about - columns.keys())}")
        if generation > 0:
            with contextlib.suppress(CorruptMetadataError, FileNotFound):
                self._read(entry.snapshot_id, generation - 1)
        document = StatisticsDocument(
            table_id,
            dataclasses.replace(entry, statistics_path=name),
            {field_id: columns[field_id] for field_id in about},
            log_entry,
        )
        uri = self._path(entry_name(entry.snapshot_id, generation))
        self._store.put_once(uri, encode_entry(document, generation))

    def check_putting(self) -> None:
        """Refuse, with UnsupportedError or MissingDependencyError, a store that cannot `put`."""
        # Inside the directory, since pyarrow leaves an empty object in the directory's name when it deletes one.
        self._store.check_put_if_absent(self._path("probe"))

    def field_ids(self, listing: Listing) -> Mapping[tuple[str, ...], int]:
        """The assigned ids of columns by physical path; StorageError if the store fails."""
        for generation in listing.field_ids:
            ids = _or_warn(functools.partial(self._read_field_ids, generation))
            if ids is not None:
                return ids
        return {}

    def put_field_ids(self, ids: Mapping[tuple[str, ...], int], generation: int) -> None:
        """Write the ids of columns by physical path, as the generation after the newest; raises what `put` raises."""
        if generation > 0:
            with contextlib.suppress(CorruptMetadataError, FileNotFound):
                self._read_field_ids(generation - 1)
        self._store.put_once(self._path(field_ids_name(generation)), encode_field_ids(ids))

    def new_path(self, version: int) -> str:
        """A unique path for a statistics file of a version."""
        return self._path(new_statistics_name(version))

    def superseded(
        self, listing: Listing, before: datetime.datetime, documents: Documents | None = None
    ) -> tuple[FileInfo, ...]:
        """
        The entry files that readers no longer need, then the statistics files that only these entries name.

        An entry is superseded by the next generation, which must have come ``before``. A statistics file without any
        entry may be about to get one, so it is not included. ``documents`` are those of the listing, if they are read.
        """
        entries: list[FileInfo] = []
        statistics: list[FileInfo] = []
        for version, files in listing.entries.items():
            if not (gone := superseded_before(files, before)):
                continue
            of_version = self._documents(version, files) if documents is None else documents[version]
            newest = of_version[max(files)]
            if newest is None:
                continue  # readers fall back on older generations
            named_by = {
                generation: document.entry.statistics_path
                for generation, document in of_version.items()
                if document is not None and document.table_id == newest.table_id
            }
            kept = {name for generation, name in named_by.items() if generation not in gone}
            entries += (files[generation] for generation in gone if generation in named_by)
            names = {named_by[generation] for generation in gone if generation in named_by} - kept
            statistics += (listing.statistics[name] for name in sorted(names) if name in listing.statistics)
        return (*entries, *statistics)

    def superseded_field_ids(self, listing: Listing, before: datetime.datetime) -> tuple[FileInfo, ...]:
        """The files of field ids that readers no longer need, by the same rule."""
        files = listing.field_ids
        if not files or _or_warn(functools.partial(self._read_field_ids, max(files))) is None:
            return ()
        return tuple(files[generation] for generation in superseded_before(files, before))

    def documents(self, listing: Listing) -> Documents:
        """All entry files, to read each only once."""
        return {version: self._documents(version, generations) for version, generations in listing.entries.items()}

    def files(self) -> Sequence[FileInfo]:
        """All files in the directory, also foreign ones."""
        return self._store.list(self._location)

    def remove_superseded(self, listing: Listing) -> None:
        """Delete `superseded` files; a failure only logs a warning, since the commit is done."""
        try:
            for file in self.superseded(listing, datetime.datetime.now(datetime.timezone.utc) - SAFETY_AGE):
                self._store.delete(file.uri)
        except PuffinError as exc:
            _log.warning("superseded statistics are left behind: %s", exc)

    def remove_versions(self, listing: Listing, versions: Iterable[int]) -> None:
        """Delete the entries of versions, oldest generation first; a failure only logs a warning."""
        try:
            for version in versions:
                for file in reversed(tuple(listing.entries[version].values())):
                    self._store.delete(file.uri)
        except PuffinError as exc:
            _log.warning("entries of earlier versions are left behind: %s", exc)

    def _entry(
        self, document: StatisticsDocument, is_same_column: Callable[[int, tuple[str, ...]], bool]
    ) -> StatisticsEntry:
        same = {field_id for field_id, path in document.columns.items() if is_same_column(field_id, path)}
        return dataclasses.replace(
            document.entry,
            statistics_path=self._path(document.entry.statistics_path),
            blobs=tuple(blob for blob in document.entry.blobs if same.issuperset(blob.fields)),
        )

    def _documents(self, version: int, generations: Iterable[int]) -> dict[int, StatisticsDocument | None]:
        return {generation: self._read_or_warn(version, generation) for generation in generations}

    def _read_or_warn(self, version: int, generation: int) -> StatisticsDocument | None:
        return _or_warn(functools.partial(self._read, version, generation))

    def _read(self, version: int, generation: int) -> StatisticsDocument:
        uri = self._path(entry_name(version, generation))
        return decode_entry(self._store.read(uri), uri, version, generation)

    def _read_field_ids(self, generation: int) -> dict[tuple[str, ...], int]:
        uri = self._path(field_ids_name(generation))
        return decode_field_ids(self._store.read(uri), uri)

    def _path(self, name: str) -> str:
        return join(self._location, name)


def _or_warn(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except (CorruptMetadataError, UnsupportedTableError, FileNotFound) as exc:
        _log.warning("skipping unreadable statistics: %s", exc)
        return None
