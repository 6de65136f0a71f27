"""
Where the index of a table is, and what of it can be read.

A segment that cannot be read leaves the index, so that the next run reads its files again.
"""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Mapping, Set

from puffin.errors import GONE_OR_BROKEN, CorruptMetadataError
from puffin.index.manifest import IndexManifest, index_directory, newest_version, read_newest
from puffin.index.segment import ClassLayout, SegmentEntry, SizeClass, check_chunk, read_directory, segment_uri
from puffin.statistics.private_state import places
from puffin.storage import FileSource, Store
from puffin.tables.snapshot import TableSnapshot

_CHECKED_BYTES = 64 * 1024 * 1024

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

    def open_segment(self, segment_id: str) -> FileSource:
        """The file of a segment; raises as `Store.open_source`."""
        return self.store.open_source(segment_uri(self.directory, segment_id))

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
                with self.open_segment(segment.id) as source:
                    classes[segment.id] = read_directory(segment, source, self.directory)
            except GONE_OR_BROKEN as exc:
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
                with self.open_segment(segment_id) as source:
                    for layout, number in of_segment:
                        check_chunk(layout, number, source)
            except GONE_OR_BROKEN as exc:
                _log.warning("index segment %s is left out, its files are read again: %s", segment_id, exc)
                damaged.add(segment_id)
        return index.without(damaged)


def index_homes(opened: TableSnapshot) -> list[IndexHome]:
    """Where the index of a table may be, the home that its owner chose first."""
    return [IndexHome.of(opened, home) for home in places.known_homes(opened.state)]


def index_of(opened: TableSnapshot) -> Index:
    """
    The index of a table, in the first of its homes that has one, as for a planner; an empty one if none has.

    Raises as `IndexHome.read`.
    """
    for home in index_homes(opened):
        index = home.read()
        if index.manifest.version:
            return index
    return Index(IndexManifest(), {})


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
        of_column = (segment for segment in self.segments if segment.column.serves(key, mapping))
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
