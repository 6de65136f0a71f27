"""
The index as a kind of statistic: a Bloom filter for each data file, of all rows that the file was written with.

Deletes do not change a filter, so one filter serves every snapshot that has the file. A file that is read whole is
folded at once; the pieces of a file that was split keep the full size, so that they merge exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from puffin.format import INDEX_V1
from puffin.index.bloom import BloomFilter, BloomFilterBuilder
from puffin.index.lifting import lifted
from puffin.index.segment import NewFilters, SegmentColumn, SegmentEntry, write_segment
from puffin.index.sizes import DEFAULT_FPP
from puffin.index.value_hashes import hash_values
from puffin.sketches.hash_arrays import Rows
from puffin.statistics.kinds.kind import Builder, Kind, Need
from puffin.storage import Store
from puffin.tables.scan_task import ContentFile, FileScanTask

_TRAVELS = 64 * 1024  # bytes of filters that a batch returns to the driver
_BYTES_PER_ROW = 8  # of a file whose metadata does not count its rows


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class FileFilters:
    """
    The filters of a column, by the paths of data files.

    Attributes:
        whole: Of whole files, in their final sizes.
        pieces: Of files that were split, in the sizes for all of their rows.
        segments: Those that executors wrote, so that their filters need not travel, with the paths that they have.
    """

    whole: Mapping[str, BloomFilter] = dataclasses.field(default_factory=dict)
    pieces: Mapping[str, BloomFilter] = dataclasses.field(default_factory=dict)
    segments: Mapping[SegmentEntry, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @property
    def paths(self) -> set[str]:
        return {*self.whole, *self.pieces, *(path for paths in self.segments.values() for path in paths)}

    def merge(self, other: FileFilters) -> FileFilters:
        both = {path: made.merge(other.pieces[path]) for path, made in self.pieces.items() if path in other.pieces}
        pieces = {**self.pieces, **other.pieces, **both}
        return FileFilters({**self.whole, **other.whole}, pieces, {**self.segments, **other.segments})

    def only(self, paths: Collection[str]) -> FileFilters:
        """Those of these files; a segment stays with all of its files."""
        whole, pieces = ({path: made for path, made in of.items() if path in paths} for of in (self.whole, self.pieces))
        segments = {segment: of for segment, of in self.segments.items() if any(path in paths for path in of)}
        return FileFilters(whole, pieces, segments)

    def finished(self, fpp: float) -> FileFilters:
        """The filters when all pieces are merged."""
        folded = {path: made.folded(fpp) for path, made in self.pieces.items()}
        return FileFilters({**self.whole, **folded}, {}, self.segments)


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentPlace:
    """The folder of a table's index, and the column of new segments in it, with its name mapping."""

    directory: str
    column: SegmentColumn

    def write(self, filters: Mapping[str, BloomFilter], store: Store, *, is_mapped: bool) -> SegmentEntry:
        """Write a segment; ``is_mapped`` as for `IndexKind.spilled`. Raises StorageError."""
        column = self.column if is_mapped else dataclasses.replace(self.column, mapping=None)
        return write_segment(column, NewFilters.by_size(filters), self.directory, store).entry


@dataclasses.dataclass(frozen=True, eq=False)
class IndexKind(Kind[FileFilters]):
    """The filters of a column of one type, with a rate of false positives, and where executors put large ones."""

    type: str = ""
    fpp: float = DEFAULT_FPP
    place: SegmentPlace | None = None

    name = INDEX_V1
    title = "an index"
    needs = frozenset((Need.WRITTEN_VALUES, Need.FILES))
    is_default = False

    def start(self) -> Builder[FileFilters]:
        return _Builder(self)

    def merge(self, left: FileFilters, right: FileFilters) -> FileFilters:
        return left.merge(right)

    def spilled(self, value: FileFilters, store_for: Callable[[str], Store], *, is_mapped: bool) -> FileFilters:
        """As `Kind.spilled`; writes a segment."""
        if self.place is None or sum(made.blocks.nbytes for made in value.whole.values()) < _TRAVELS:
            return value
        segment = self.place.write(value.whole, store_for(self.place.directory), is_mapped=is_mapped)
        return FileFilters({}, value.pieces, {**value.segments, segment: tuple(value.whole)})


class LiftingIndexKind(IndexKind):
    """The same filters, lifted from Parquet files that have them, for scans that need nothing else of the values."""

    needs = IndexKind.needs | {Need.BLOOM_FILTERS}


def expected_rows(file: ContentFile) -> int:
    """The rows of a file; a guess from its size if the metadata does not count them."""
    return file.record_count or file.file_size_in_bytes // _BYTES_PER_ROW


class _Builder:
    def __init__(self, kind: IndexKind) -> None:
        self._kind = kind
        self._whole: dict[str, BloomFilter] = {}
        self._pieces: dict[str, BloomFilter] = {}
        self._of_file = BloomFilterBuilder(0, kind.fpp)
        self._is_lifted = False

    def begin_file(self, task: FileScanTask) -> None:
        self._is_lifted = False
        self._of_file = BloomFilterBuilder(expected_rows(task.data_file), self._kind.fpp)

    def lift(self, task: FileScanTask, bitsets: Sequence[bytes]) -> bool:
        """Take the filters of a file instead of its values, if they are good enough."""
        found = lifted(bitsets, self._kind.fpp)
        if found is None:
            return False
        self._is_lifted = True
        self._add(task, found)
        return True

    def update_written(self, array: pa.Array, rows: Rows | None) -> None:
        present = array if rows is None else array.filter(pa.array(rows > 0))
        self._of_file.update(hash_values(present, self._kind.type))

    def end_file(self, task: FileScanTask, live_rows: int) -> None:  # noqa: ARG002 - deletes change no filter
        if not self._is_lifted:
            self._add(task, self._of_file.compact())

    def compact(self) -> FileFilters:
        return FileFilters(self._whole, self._pieces)

    def _add(self, task: FileScanTask, made: BloomFilter) -> None:
        path = task.data_file.file_path
        if task.length >= task.data_file.file_size_in_bytes:
            self._whole[path] = made.folded(self._kind.fpp)
        elif path in self._pieces:
            self._pieces[path] = self._pieces[path].merge(made)
        else:
            self._pieces[path] = made
