"""
Writes the index: new segments beside those that are there, merged by tiers, under a new manifest.

Segments are written first and the manifest last, which makes them the index in one step. If another run was faster, its
manifest is read and the new segments are added to that. A segment that cannot be read leaves the index, so that the
next run reads its files again. Files that no snapshot has any more leave it at once, since filters can be probed for
values that were to be erased.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
from collections.abc import Mapping, Sequence, Set

from puffin.errors import ConflictError, CorruptError, CorruptMetadataError, NotFoundError, UnsupportedError
from puffin.index.manifest import (
    IndexManifest,
    commit,
    index_directory,
    newest_version,
    read_newest,
    segment_uri,
)
from puffin.index.segment import (
    ClassLayout,
    FilterRows,
    SegmentEntry,
    SegmentRows,
    SizeClass,
    check_chunk,
    read_directory,
    write_segment,
)
from puffin.index.tiers import groups_to_merge
from puffin.statistics.private_state import places
from puffin.storage import Store
from puffin.tables.snapshot import TableSnapshot

_CHECKED_BYTES = 64 * 1024 * 1024
_ATTEMPTS = 10
_UNREADABLE = (CorruptError, NotFoundError, UnsupportedError)

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class IndexHome:
    """Where the index of a table is; ``table_uuid`` is that of the table."""

    directory: str
    store: Store
    table_uuid: str | None

    @classmethod
    def of(cls, opened: TableSnapshot, home: str | None = None) -> IndexHome:
        return cls.in_private(opened, places.directory(opened.state, home))

    @classmethod
    def in_private(cls, opened: TableSnapshot, directory: str) -> IndexHome:
        """The index in this folder of private state."""
        return cls(index_directory(directory), opened.store_for(directory), opened.state.uuid)

    def uri_of(self, segment_id: str) -> str:
        return segment_uri(self.directory, segment_id)

    def newest(self) -> IndexManifest:
        """
        The newest manifest of the table's index; without its segments if it is that of a table that was here before.

        Raises as `puffin.index.manifest.read_newest`.
        """
        found = read_newest(self.directory, self.store)
        if found.table_uuid in (None, self.table_uuid):  # a table of version 1 gets its uuid with an upgrade
            return found
        # The files of another table may have the same names. Spark's CREATE OR REPLACE makes another one of Delta.
        return dataclasses.replace(found, table_uuid=None, segments=())

    def read(self, known: Index | None = None) -> Index:
        """
        The newest index, without segments whose directory cannot be read; filters are not checked.

        Segments that are in ``known`` are not read. Raises CorruptMetadataError or UnsupportedTableError for a manifest
        that cannot be read, and StorageError.
        """
        return self.with_classes(self.newest(), known)

    def with_classes(self, manifest: IndexManifest, known: Index | None) -> Index:
        """A manifest and its segments as `read` reads them; StorageError if the storage failed."""
        classes: dict[str, tuple[SizeClass, ...]] = {}
        for segment in manifest.segments:
            if known is not None and segment.id in known.classes:
                classes[segment.id] = known.classes[segment.id]
                continue
            try:
                with self.store.open_source(self.uri_of(segment.id)) as source:
                    classes[segment.id] = read_directory(segment, source)
            except _UNREADABLE as exc:
                _log.warning("index segment %s is left out, its files are read again: %s", segment.id, exc)
        return Index(manifest, classes)

    def read_to_rebuild(self) -> Index:
        """As `read`; where no manifest can be read, an index without columns, for the next manifest to replace."""
        try:
            return self.read()
        except CorruptMetadataError as exc:
            _log.warning("the index is built anew: %s", exc)
            return Index(IndexManifest(newest_version(self.directory, self.store)), {})

    def checked(self, index: Index) -> Index:
        """
        The index without segments that were found damaged, by reading about 64 MiB of filters at most.

        A larger index is checked in parts that chance chooses, so that runs find all damage in time. Raises
        StorageError.
        """
        chunks = [
            (segment, size_class.layout, number)
            for segment in index.segments
            for size_class in index.classes[segment.id]
            for number in range(len(size_class.layout.offsets))
        ]
        random.shuffle(chunks)
        left = _CHECKED_BYTES
        chosen: dict[str, list[tuple[ClassLayout, int]]] = {}
        for segment, layout, number in chunks:
            if left > 0:
                left -= layout.row_bytes * layout.rows_per_chunk
                chosen.setdefault(segment.id, []).append((layout, number))
        damaged: set[str] = set()
        for segment_id, of_segment in chosen.items():
            try:
                with self.store.open_source(self.uri_of(segment_id)) as source:
                    for layout, number in of_segment:
                        check_chunk(layout, number, source)
            except _UNREADABLE as exc:
                _log.warning("index segment %s is left out, its files are read again: %s", segment_id, exc)
                damaged.add(segment_id)
        return index.without(damaged)


def index_homes(opened: TableSnapshot) -> list[IndexHome]:
    """Where the index of a table may be, the home that its owner chose first."""
    return [IndexHome.of(opened, home) for home in places.known_homes(opened.state)]


@dataclasses.dataclass(frozen=True, slots=True)
class Index:
    """A manifest, and the size classes of its readable segments by id."""

    manifest: IndexManifest
    classes: Mapping[str, tuple[SizeClass, ...]]

    @property
    def segments(self) -> list[SegmentEntry]:
        return [segment for segment in self.manifest.segments if segment.id in self.classes]

    def paths_of(self, key: str, mapping: str | None) -> set[str]:
        """The files that a column has filters of, in the names of this mapping."""
        of_column = (s for s in self.segments if s.column.key == key and s.column.mapping in (None, mapping))
        return {path for segment in of_column for path in self.paths_in(segment)}

    def paths_in(self, segment: SegmentEntry) -> set[str]:
        return {path for size_class in self.classes[segment.id] for path in size_class.files}

    def having(self, paths: Set[str]) -> set[str]:
        """The ids of segments with one of these files."""
        return {segment.id for segment in self.segments if not self.paths_in(segment).isdisjoint(paths)}

    def without(self, segment_ids: Set[str]) -> Index:
        classes = {id_: found for id_, found in self.classes.items() if id_ not in segment_ids}
        return Index(self.manifest, classes)

    @property
    def paths(self) -> set[str]:
        """All files of all columns."""
        return {path for segment in self.segments for path in self.paths_in(segment)}


@dataclasses.dataclass(frozen=True, slots=True)
class IndexChange:
    """
    What a run makes of the index, whatever other runs made of it meanwhile.

    Attributes:
        rates: The columns that it adds or whose rate it changes, with their rates of false positives.
        dropped: The columns that it takes out.
        new: Segments that it has written.
        gone: Files that no snapshot of the table has any more.
    """

    table_uuid: str | None
    rates: Mapping[str, float]
    dropped: Set[str]
    new: Sequence[SegmentEntry]
    gone: Set[str]

    def applied(self, base: Index) -> IndexManifest:
        """The manifest after a base, without the segments that cannot be read or are of another rate."""
        rates = {**base.manifest.columns, **self.rates}
        columns = {column: rate for column, rate in rates.items() if column not in self.dropped}
        segments = tuple(s for s in (*base.segments, *self.new) if columns.get(s.column.key) == s.column.fpp)
        return IndexManifest(base.manifest.version, self.table_uuid, columns, segments)


def publish(home: IndexHome, base: Index, change: IndexChange) -> Index:
    """
    Put the manifest that names the new segments, then merge those that are due; nothing if nothing changes.

    Raises ConflictError if other runs were faster again and again, StorageError, CommitUnknownError, and
    UnsupportedError if the store cannot put a file only once.
    """
    unreadable = {segment.id for segment in base.manifest.segments} - base.classes.keys()
    for _ in range(_ATTEMPTS):
        made = change.applied(base)
        if made == base.manifest:
            return _merged(home, base, change.gone)
        try:
            committed = commit(made, home.directory, home.store)
        except ConflictError:
            base = home.read(known=base).without(unreadable)
        else:
            return _merged(home, home.with_classes(committed, base), change.gone)
    raise ConflictError(f"{home.directory}: other runs changed the index {_ATTEMPTS} times meanwhile; run again")


def _merged(home: IndexHome, index: Index, gone: Set[str]) -> Index:
    """Merge segments until none is due, and take out files that are gone; another run may be faster at any step."""
    failed: set[str] = set()
    for _ in range(_ATTEMPTS):
        mergeable = [segment for segment in index.segments if segment.id not in failed]
        groups = groups_to_merge(mergeable, index.having(gone))
        if not groups:
            break
        left = {segment.id: segment for segment in index.segments}
        for group in groups:
            try:
                made = _merge(home, index, group, gone)
            except _UNREADABLE as exc:
                _log.warning("index segments are not merged: %s", exc)
                failed |= {segment.id for segment in group}
                continue
            left = {id_: segment for id_, segment in left.items() if segment not in group}
            left |= {} if made is None else {made.id: made}
        merged = dataclasses.replace(index.manifest, segments=tuple(left.values()))
        try:
            index = home.with_classes(commit(merged, home.directory, home.store), index)
        except ConflictError:
            index = home.read(known=index)
    return index


def _merge(home: IndexHome, index: Index, group: Sequence[SegmentEntry], gone: Set[str]) -> SegmentEntry | None:
    with contextlib.ExitStack() as open_files:
        rows: list[FilterRows] = []
        taken = set(gone)
        for segment in group:
            source = open_files.enter_context(home.store.open_source(home.uri_of(segment.id)))
            for size_class in index.classes[segment.id]:
                kept = [i for i, path in enumerate(size_class.files) if path not in taken]
                taken.update(size_class.files)
                rows += [SegmentRows(source, size_class, kept)] if kept else []
        return write_segment(group[0].column, rows, home.uri_of, home.store) if rows else None
