"""
The index of a table as a planner asks it: which files of a list may hold one of some values of a column.

A value touches one block in every filter of a size, and these stand side by side, so a value costs one short range of
each size and segment. Segments never change: where their files stand in the list is found once, and ranges are kept.

An index can only be too cautious. A file that no segment has may hold the value; so may every file of a segment that
cannot be read or fails a checksum, which a probe tells.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from puffin.errors import PuffinError
from puffin.index.bloom import Bits, block_numbers, has_all, masks
from puffin.index.home import IndexHome
from puffin.index.manifest import IndexManifest
from puffin.index.segment import ClassLayout, SegmentEntry, parse_rows, read_directory
from puffin.index.value_hashes import hash_scalar
from puffin.sketches.hash_arrays import Flags
from puffin.storage import Store
from puffin.values.serialized import WordArray

_BLOCK_CACHE_BYTES = 64 * 1024 * 1024


class RowCache:
    """Rows of segments, the least recently used first to go; any thread may use it."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, Bits] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, load: Callable[[], Bits]) -> Bits:
        """The row of a key; ``load`` reads one that is missing."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        row = load()
        with self._lock:
            if key not in self._held and row.nbytes <= _BLOCK_CACHE_BYTES:
                self._held[key] = row
                self._size += row.nbytes
                while self._size > _BLOCK_CACHE_BYTES:
                    self._size -= self._held.popitem(last=False)[1].nbytes
        return row


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnKey:
    """A column as the index knows it: its key, its type now, and the digest of its name mapping."""

    key: str
    type: str
    mapping: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """A truth value for each file, by position; ``unread`` has a line for each segment that could not be read."""

    flags: Flags
    unread: tuple[str, ...]


class FilePositions:
    """Where the paths of a list of files stand in it; a table may list a file several times."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._first: dict[str, int] = {}
        self._first_of_each = np.array([self._first.setdefault(path, i) for i, path in enumerate(paths)], np.int64)

    def __len__(self) -> int:
        return len(self._first_of_each)

    def of(self, paths: Iterable[str]) -> npt.NDArray[np.int64]:
        """The first position of each path; -1 for one that is not in the list."""
        return np.array([self._first.get(path, -1) for path in paths], np.int64)

    def spread(self, flags: Flags) -> Flags:
        """Give the flag of the first position of a path to its other ones."""
        is_unique = len(self._first) == len(self._first_of_each)
        return flags if is_unique else flags[self._first_of_each]


@dataclasses.dataclass(frozen=True, slots=True)
class _Placed:
    """The layout of a size class, and the first positions of its files in the list; -1 for one that is not in it."""

    layout: ClassLayout
    places: npt.NDArray[np.int64]


class TableIndex:
    """
    The index of some files, by their positions in a list. Any thread may use it.

    Args:
        positions: Those of the list.
        rows: Shared by the indexes of a process.
    """

    def __init__(self, manifest: IndexManifest, home: IndexHome, positions: FilePositions, rows: RowCache) -> None:
        self.manifest = manifest
        self.home = home
        self._positions = positions
        self._rows = rows
        self._placed: dict[str, Sequence[_Placed]] = {}

    def reopened(self, store: Store) -> TableIndex:
        """This index, read through another store, whose credentials may be fresher; shares what was read."""
        made = copy.copy(self)
        made.home = dataclasses.replace(self.home, store=store)
        return made

    def covered(self, column: ColumnKey) -> Probe:
        """The files that some segment of the column has."""
        found = np.zeros(len(self._positions), np.bool_)
        unread = []
        for segment in self._segments_of(column):
            try:
                for placed in self._open(segment):
                    found[placed.places[placed.places >= 0]] = True
            except PuffinError as exc:
                unread.append(f"index segment {segment.id} is left out: {exc}")
        return Probe(self._positions.spread(found), tuple(unread))

    def may_hold(self, column: ColumnKey, values: Sequence[Any]) -> Probe:
        """For each file whether it may hold one of these values, in JSON single-value form."""
        kept = np.ones(len(self._positions), np.bool_)
        unread = []
        for segment in self._segments_of(column):
            hashes = [hash_scalar(column.type, segment.column.type, value) for value in values]
            if not hashes or any(each is None for each in hashes):
                continue
            wanted = np.unique(np.concatenate([each for each in hashes if each is not None]))
            try:
                for placed in self._open(segment):
                    found = self._probe(segment, placed.layout, wanted)
                    kept[placed.places[(placed.places >= 0) & ~found]] = False
            except PuffinError as exc:
                unread.append(f"index segment {segment.id} is left out: {exc}")
        return Probe(self._positions.spread(kept), tuple(unread))

    def _segments_of(self, column: ColumnKey) -> list[SegmentEntry]:
        return [each for each in self.manifest.segments if each.column.serves(column.key, column.mapping)]

    def _open(self, segment: SegmentEntry) -> Sequence[_Placed]:
        if segment.id not in self._placed:  # two threads may both read it, and find the same
            with self.home.open_segment(segment.id) as source:
                classes = read_directory(segment, source, self.home.directory)
            self._placed[segment.id] = [_Placed(each.layout, self._positions.of(each.files)) for each in classes]
        return self._placed[segment.id]

    def _probe(self, segment: SegmentEntry, layout: ClassLayout, hashes: WordArray) -> Flags:
        found = np.zeros(layout.count, np.bool_)
        blocks = block_numbers(hashes, layout.lg_blocks)
        for block, mask in zip(blocks.tolist(), masks(hashes), strict=True):
            found |= has_all(self._row(segment, layout, block), mask)
        return found

    def _row(self, segment: SegmentEntry, layout: ClassLayout, block: int) -> Bits:
        def load() -> Bits:
            with self.home.open_segment(segment.id) as source:
                data = source.read_at(layout.offset_of(block), layout.row_bytes)
            row: Bits = parse_rows(data, layout.count, block)[0]
            return row

        # The id alone is not enough: a table that somebody else writes may have a segment of the same id.
        return self._rows.get((self.home.directory, segment.id, layout.count, layout.offset_of(block)), load)
