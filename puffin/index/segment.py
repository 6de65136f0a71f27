"""
A segment: the Bloom filters of one column of many files, in one immutable Puffin file.

Filters of one size form a class. A class is stored block by block, so that one short range has all that a key needs::

    magic
    chunk blobs      class of 2^3 blocks, files a b c      row 0:  a[0] b[0] c[0] CRC-32
                                                           row 1:  a[1] b[1] c[1] CRC-32
                                                           ...
                     class of 2^4 blocks, files d e        row 0:  d[0] e[0] CRC-32
                                                           ...
    directory blob   JSON: the files of each class, in order, and the offsets of its chunks
    footer

A chunk holds some rows of one class, so that a large class is written and merged in bounded memory. Every byte that a
reader trusts is under a checksum: a flipped bit in a filter could hide rows. The checksum of a row is seeded with the
number of its block; that of the directory, which names the column, is in the index manifest.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from puffin.errors import CorruptError, CorruptMetadataError, said_by
from puffin.format import CREATED_BY, INDEX_DIRECTORY_V1, INDEX_V1, ZSTD, BlobMetadata, PuffinWriter, RawBlob
from puffin.format.compression import compress, decompress
from puffin.format.layout import FIRST_BLOB_OFFSET
from puffin.index.bloom import BLOCK_BYTES, MOST_LG_BLOCKS, WORDS, Bits, BloomFilter
from puffin.index.checksums import CRC_BYTES, row_checksums
from puffin.statistics.private_state import places
from puffin.storage import FileSource, Store, join
from puffin.tables.json_limits import MAX_DOCUMENT_BYTES, read_json
from puffin.tables.statistics_json import integer, typed
from puffin.version import created_by

CHUNK_BYTES = 8 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentColumn:
    """
    The column of a segment. Two are equal whatever their field ids, which may change in a Delta table.

    Attributes:
        key: As `TableState.key_of` names it.
        type: Its appendix C type when the filters were built.
        mapping: The digest of the name mapping by which files without field ids were read, if any were.
        fpp: The rate of false positives.
    """

    field_id: int = dataclasses.field(compare=False)
    key: str
    type: str
    mapping: str | None
    fpp: float

    def serves(self, key: str, mapping: str | None) -> bool:
        """Whether the filters are of this column, in the names of this mapping."""
        return self.key == key and self.mapping in (None, mapping)


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentEntry:
    """
    What the index manifest says of a segment.

    Attributes:
        id: A uuid, which names the file.
        files: The number of data files.
        file_size: In bytes, as are the place and length of the directory.
        directory_crc: The CRC-32 of the directory as it is stored.
    """

    id: str
    column: SegmentColumn
    files: int
    file_size: int
    directory_offset: int
    directory_length: int
    directory_crc: int


class FilterRows(Protocol):
    """The filters of one size class, read a few blocks at a time; ``files`` are the paths of its data files."""

    @property
    def lg_blocks(self) -> int: ...
    @property
    def files(self) -> Sequence[str]: ...
    def fill(self, rows: Bits, first: int) -> None:
        """Put blocks of every file, from block ``first`` on, side by side into rows of eight words for each file."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class NewFilters:
    """The filters of one size that were just built."""

    lg_blocks: int
    filters: Mapping[str, BloomFilter]

    @property
    def files(self) -> Sequence[str]:
        return tuple(self.filters)

    def fill(self, rows: Bits, first: int) -> None:
        for place, filter_ in enumerate(self.filters.values()):
            rows[:, place * WORDS : (place + 1) * WORDS] = filter_.blocks[first : first + len(rows)]

    @classmethod
    def by_size(cls, filters: Mapping[str, BloomFilter]) -> list[NewFilters]:
        """Group filters by path into classes."""
        classes: dict[int, dict[str, BloomFilter]] = {}
        for path in sorted(filters):
            classes.setdefault(filters[path].lg_blocks, {})[path] = filters[path]
        return [cls(lg_blocks, of_class) for lg_blocks, of_class in classes.items()]


@dataclasses.dataclass(frozen=True, slots=True)
class ClassLayout:
    """
    Where the filters of one size are in a segment.

    Attributes:
        count: The number of files.
        offsets: Where each chunk begins, which holds ``rows_per_chunk`` blocks of each file.
    """

    lg_blocks: int
    count: int
    rows_per_chunk: int
    offsets: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return row_bytes(self.count)

    def offset_of(self, block: int) -> int:
        chunk, row = divmod(block, self.rows_per_chunk)
        return self.offsets[chunk] + row * self.row_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class SizeClass:
    """The filters of one size in a segment; ``files`` are the paths of their data files, in order."""

    layout: ClassLayout
    files: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A segment, and what its directory says."""

    entry: SegmentEntry
    classes: tuple[SizeClass, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentRows:
    """Reads a class of a segment, without the files that are not in ``kept``."""

    source: FileSource
    size_class: SizeClass
    kept: Sequence[int]

    @property
    def lg_blocks(self) -> int:
        return self.size_class.layout.lg_blocks

    @property
    def files(self) -> Sequence[str]:
        return [self.size_class.files[i] for i in self.kept]

    def fill(self, rows: Bits, first: int) -> None:
        done = 0
        for blocks in read_rows(self.source, self.size_class.layout, first, len(rows)):
            rows[done : done + len(blocks)] = blocks[:, self.kept].reshape(len(blocks), -1)
            done += len(blocks)


def segment_uri(directory: str, segment_id: str) -> str:
    """The file of a segment of the index in this directory."""
    return join(directory, places.SEGMENTS, segment_id, places.PART_NAME)


def row_bytes(files: int) -> int:
    return files * BLOCK_BYTES + CRC_BYTES


def read_rows(source: FileSource, layout: ClassLayout, first: int, count: int) -> Iterator[Bits]:
    """
    Some blocks of each file of a class, as arrays of blocks by files by eight words, one for each chunk.

    Raises CorruptError if the range is cut off or a checksum is wrong.
    """
    block, size = first, layout.row_bytes
    while block < first + count:
        rest_of_chunk = layout.rows_per_chunk - block % layout.rows_per_chunk
        rows = min(first + count - block, rest_of_chunk)
        rows = min(rows, max(1, CHUNK_BYTES // size))  # a chunk of another writer may be larger
        yield parse_rows(source.read_at(layout.offset_of(block), rows * size), layout.count, block, rows)
        block += rows


def check_chunk(layout: ClassLayout, number: int, source: FileSource) -> None:
    """Read a chunk of a class; CorruptError if a filter in it has changed."""
    first = number * layout.rows_per_chunk
    count = min(layout.rows_per_chunk, (1 << layout.lg_blocks) - first)
    for _ in read_rows(source, layout, first, count):
        pass


def parse_rows(data: bytes, files: int, first: int, count: int = 1) -> Bits:
    """The blocks of files from block ``first`` on, as for `read_rows`; CorruptError if a checksum is wrong."""
    if len(data) != count * row_bytes(files):
        raise CorruptError(f"expected {count * row_bytes(files)} bytes from block {first} on, found {len(data)}")
    rows = np.frombuffer(data, "<u4").reshape(count, -1)
    wrong = row_checksums(rows, first) != rows[:, -1]
    if wrong.any():
        raise CorruptError(f"block {first + int(wrong.argmax())}: expected another CRC-32 of its {files} files")
    return rows[:, :-1].reshape(count, files, WORDS)


def write_segment(column: SegmentColumn, filters: Sequence[FilterRows], directory: str, store: Store) -> WrittenSegment:
    """Write a new segment into an index directory. Raises StorageError."""
    segment_id = str(uuid.uuid4())
    properties = {"type": column.type, "fpp": str(column.fpp)}
    with store.create(segment_uri(directory, segment_id)) as sink:
        writer = PuffinWriter(sink, properties={CREATED_BY: created_by()})

        def add(type_: str, stored: bytes, more: Mapping[str, str], codec: str | None = None) -> int:
            metadata = BlobMetadata(
                type=type_,
                fields=(column.field_id,),
                snapshot_id=-1,
                sequence_number=-1,
                offset=FIRST_BLOB_OFFSET,
                length=len(stored),
                compression_codec=codec,
                properties={**properties, **more},
            )
            return writer.copy(RawBlob(metadata=metadata, stored=stored)).offset

        table = _table_of(directory)
        classes: list[dict[str, Any]] = []
        for lg_blocks in sorted({group.lg_blocks for group in filters}):
            of_size = [group for group in filters if group.lg_blocks == lg_blocks]
            classes.append(_write_class(lg_blocks, of_size, add, table))
        # Segments of two columns may have the same files and sizes; only this keeps one from passing for the other.
        subject = {"column": column.key, "type": column.type, "name-mapping": column.mapping}
        document = {**subject, "classes": classes}
        stored = compress(ZSTD, json.dumps(document, separators=(",", ":")).encode())
        offset = add(INDEX_DIRECTORY_V1, stored, {}, ZSTD)
        written = writer.finish()
    entry = SegmentEntry(
        id=segment_id,
        column=column,
        files=sum(len(group.files) for group in filters),
        file_size=written.file_size,
        directory_offset=offset,
        directory_length=len(stored),
        directory_crc=zlib.crc32(stored),
    )
    return WrittenSegment(entry, tuple(_size_class(each, table) for each in classes))


def read_directory(entry: SegmentEntry, source: FileSource, directory: str) -> tuple[SizeClass, ...]:
    """
    The classes of a segment in an index directory.

    CorruptError if the segment's directory is not the one that its manifest entry names.
    """
    table = _table_of(directory)
    stored = source.read_at(entry.directory_offset, entry.directory_length)
    if len(stored) != entry.directory_length or zlib.crc32(stored) != entry.directory_crc:
        raise CorruptError(f"segment {entry.id}: expected a directory with CRC-32 {entry.directory_crc}, found another")
    try:
        text = decompress(ZSTD, stored, offset=entry.directory_offset, limit=MAX_DOCUMENT_BYTES)
        document = read_json(text)
        return tuple(_size_class(found, table) for found in typed(document, "classes", list))
    except (TypeError, AttributeError, ValueError, RecursionError) as exc:
        raise CorruptMetadataError(f"segment {entry.id}: not a directory of an index: {said_by(exc)}") from exc


def _write_class(
    lg_blocks: int, groups: Sequence[FilterRows], add: Callable[[str, bytes, Mapping[str, str]], int], table: str | None
) -> dict[str, Any]:
    files = [_from_table(path, table) for group in groups for path in group.files]
    per_chunk = min(max(1, CHUNK_BYTES // row_bytes(len(files))), 1 << lg_blocks)
    offsets = []
    for first in range(0, 1 << lg_blocks, per_chunk):
        count = min(per_chunk, (1 << lg_blocks) - first)
        rows = np.empty((count, len(files) * WORDS + 1), "<u4")
        begin = 0
        for group in groups:
            end = begin + len(group.files) * WORDS
            group.fill(rows[:, begin:end], first)
            begin = end
        rows[:, -1] = row_checksums(rows, first)
        more = {"lg-blocks": str(lg_blocks), "first-block": str(first)}
        offsets.append(add(INDEX_V1, rows.tobytes(), more))
    return {"lg-blocks": lg_blocks, "rows-per-chunk": per_chunk, "offsets": offsets, "files": files}


def _table_of(directory: str) -> str | None:
    """The directory of the table to which this one of its index belongs; None if the index has a home elsewhere."""
    own = f"/{places.FOLDER}/{places.INDEX}"
    return directory.removesuffix(own) if directory.endswith(own) else None


def _from_table(path: str, table: str | None) -> str:
    """A path as it is stored, so that a table can be moved or copied with its index."""
    return f".{path[len(table) :]}" if table is not None and path.startswith(f"{table}/") else path


def _size_class(document: Mapping[str, Any], table: str | None) -> SizeClass:
    stored = _texts(typed(document, "files", list))
    # Two copies of a table may share a home elsewhere; names there have to tell their files apart.
    files = stored if table is None else tuple(table + path[1:] if path.startswith("./") else path for path in stored)
    found = ClassLayout(
        typed(document, "lg-blocks", int),
        len(files),
        typed(document, "rows-per-chunk", int),
        tuple(integer("offsets", offset) for offset in typed(document, "offsets", list)),
    )
    if not 0 <= found.lg_blocks <= MOST_LG_BLOCKS:
        raise ValueError(f"lg-blocks: expected 0 to {MOST_LG_BLOCKS}, found {found.lg_blocks}")
    if found.rows_per_chunk < 1:
        raise ValueError(f"rows-per-chunk: expected at least 1, found {found.rows_per_chunk}")
    if len(found.offsets) != -(-(1 << found.lg_blocks) // found.rows_per_chunk):
        raise ValueError(f"expected an offset for each chunk, found {len(found.offsets)}")
    return SizeClass(found, files)


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    found = tuple(values)
    if not all(isinstance(value, str) for value in found):
        raise TypeError("files: expected paths")
    return found
