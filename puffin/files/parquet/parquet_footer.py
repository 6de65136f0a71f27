"""
Parse the parts of a Parquet footer that pyarrow hides: ``encoding_stats`` and the schema elements.

``encodings`` lists PLAIN and RLE_DICTIONARY both for a fully dictionary-encoded chunk (PLAIN is the dictionary page's)
and for one that fell back half way; only ``encoding_stats`` distinguishes them. pyarrow keeps them and returns the
footer as bytes, so the file is not read twice, and pyarrow has checked the footer before.

Names are those of ``parquet.thrift``; fields have their ids, as in the file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from puffin.errors import CorruptDataFileError, said_by
from puffin.files.parquet.thrift import MALFORMED, Shape, read_struct

# Physical types, encodings, page types, repetition types.
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = 0, 1, 2, 3, 4, 5, 6, 7
PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED = 0, 2, 3, 4
DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY, RLE_DICTIONARY, BYTE_STREAM_SPLIT = 5, 6, 7, 8, 9
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
WIDTHS: Mapping[int, int] = {BOOLEAN: 1, INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8}
"""The bytes of a single plain value, by physical type."""

MAX_LEVELS = 1000  # how deep groups of a schema may nest: each of them keeps its path

_NO_FOOTER = (*MALFORMED, KeyError, TypeError, AttributeError)
_MAGIC = b"PAR1"
_SIZE_AND_MAGIC = 4 + len(_MAGIC)
_UNCOUNTED_BYTES = 100  # that pyarrow allows for too, see PARQUET-816

_SCHEMA_ELEMENT: Shape = dict.fromkeys((1, 2, 3, 4, 5))  # type, type_length, repetition_type, name, num_children
_PAGE_ENCODING_STATS: Shape = {1: None, 2: None, 3: None}  # page_type, encoding, count
_COLUMN_META_DATA: Shape = {
    1: None,  # type
    2: None,  # encodings
    4: None,  # codec
    5: None,  # num_values
    6: None,  # total_uncompressed_size
    7: None,  # total_compressed_size
    9: None,  # data_page_offset
    11: None,  # dictionary_page_offset
    12: None,  # statistics
    13: _PAGE_ENCODING_STATS,
    14: None,  # bloom_filter_offset
    15: None,  # bloom_filter_length
    16: None,  # size_statistics
}
_INTEGERS, _STATISTICS, _SIZE_STATISTICS = (1, 4, 5, 6, 7, 9, 11, 14, 15), 12, 16  # of these
_STRUCTS = {_STATISTICS: "statistics", _SIZE_STATISTICS: "size_statistics"}
_COLUMN_CHUNK: Shape = {1: None, 3: _COLUMN_META_DATA, 8: None}  # file_path, meta_data, crypto_metadata
_FILE_META_DATA: Shape = {2: None, 4: {1: _COLUMN_CHUNK}}  # schema, row_groups: columns


@dataclass(frozen=True, slots=True)
class PageEncoding:
    """The number of pages of a type and encoding in a chunk (``PageEncodingStats``)."""

    page_type: int
    encoding: int
    count: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """
    A leaf of the schema.

    Attributes:
        path: The names from the root.
        schema_element: The bytes of its ``SchemaElement``.
        type_length: The bytes of a value of type FIXED_LEN_BYTE_ARRAY.
        repetition_type: Its own, not that of its structs.
        max_definition_level: The number of optional or repeated fields on the path.
        max_repetition_level: The number of repeated fields on the path.
    """

    path: tuple[str, ...]
    schema_element: bytes
    physical_type: int
    type_length: int
    repetition_type: int
    max_definition_level: int
    max_repetition_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChunk:
    """A column chunk (``ColumnMetaData``); what its writer omitted is None or empty."""

    leaf: Leaf
    physical_type: int
    codec: int
    encodings: frozenset[int]
    num_values: int
    total_uncompressed_size: int
    total_compressed_size: int
    data_page_offset: int
    dictionary_page_offset: int | None
    encoding_stats: tuple[PageEncoding, ...]
    bloom_filter_offset: int | None = None
    bloom_filter_length: int | None = None
    statistics: bytes | None = None
    size_statistics: bytes | None = None

    @property
    def unencoded_byte_array_data_bytes(self) -> int | None:
        """The total size of the chunk's strings, without their lengths; None if unknown."""
        if self.size_statistics is None:
            return None
        try:
            size = read_struct(self.size_statistics, 0, {1: None})[0].get(1)
        except MALFORMED:
            return None
        return size if isinstance(size, int) and size >= 0 else None

    @property
    def dictionary_page_size(self) -> int:
        """Bytes of the dictionary page and its header; 0 if there is none before the data pages."""
        begin = self.dictionary_page_offset
        if begin is None or not 0 < begin < self.data_page_offset < begin + self.total_compressed_size:
            return 0
        return self.data_page_offset - begin

    @property
    def first_page_offset(self) -> int:
        return self.data_page_offset - self.dictionary_page_size

    @property
    def end(self) -> int:
        """Where its pages end, or somewhat behind: old writers do not count the header of the dictionary page."""
        return self.first_page_offset + self.total_compressed_size + _UNCOUNTED_BYTES


@dataclass(frozen=True, slots=True)
class RowGroup:
    """
    The chunks of a row group in the order of leaves; None for one that is encrypted or in another file.

    Accessing an invalid chunk raises CorruptDataFileError.
    """

    _columns: Sequence[dict[int, Any]]
    _schema: _Schema

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[ColumnChunk | None]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> ColumnChunk | None:
        try:
            return _chunk(self._columns[place], self._schema.leaves[place])
        except _NO_FOOTER as exc:
            raise _broken(exc) from exc

    def find(self, path: tuple[str, ...]) -> ColumnChunk | None:
        """The chunk of the leaf with this path; also None if there is no such leaf."""
        place = self._schema.places.get(path)
        return None if place is None else self[place]


def read_footer(metadata: pq.FileMetaData) -> tuple[RowGroup, ...]:
    """The column chunks of a file by row group; CorruptDataFileError if the footer is invalid."""
    with pa.BufferOutputStream() as sink:
        try:
            metadata.write_metadata_file(sink)  # a file with only the footer
        except (pa.ArrowException, OSError) as exc:
            raise CorruptDataFileError(f"cannot rewrite a Parquet footer: {exc}") from exc
        file = sink.getvalue().to_pybytes()
    return parse_footer(file[len(_MAGIC) : -_SIZE_AND_MAGIC])


def parse_footer(data: bytes) -> tuple[RowGroup, ...]:
    """The column chunks in a ``FileMetaData`` by row group; CorruptDataFileError if the bytes are invalid."""
    try:
        fields, _ = read_struct(data, 0, _FILE_META_DATA)
        schema = _schema(tuple(fields[2]))
        row_groups = tuple([RowGroup(group[1], schema) for group in fields.get(4, ())])
        for group in row_groups:
            if len(group) != len(schema.leaves):
                raise ValueError(f"expected {len(schema.leaves)} columns in a row group, found {len(group)}")
        return row_groups
    except _NO_FOOTER as exc:
        raise _broken(exc) from exc


def _broken(error: Exception) -> CorruptDataFileError:
    return CorruptDataFileError(f"expected a Parquet footer: {said_by(error)}")


@dataclass(frozen=True, slots=True)
class _Schema:
    leaves: tuple[Leaf, ...]
    places: Mapping[tuple[str, ...], int]


@functools.lru_cache(maxsize=16)
def _schema(elements: tuple[bytes, ...]) -> _Schema:
    """The leaves of a schema, cached because most files of a table share it."""
    leaves = tuple(_leaves(elements))
    return _Schema(leaves, {leaf.path: place for place, leaf in enumerate(leaves)})


def _leaves(elements: Iterable[bytes]) -> Iterator[Leaf]:
    # The schema is a tree in depth-first order; only leaves have a type, and chunks come in the order of leaves.
    groups: list[tuple[int, tuple[str, ...], int, int]] = []  # the children still to come, and what each inherits
    for element in elements:
        fields, _ = read_struct(element, 0, _SCHEMA_ELEMENT)
        path: tuple[str, ...] = ()
        own, repetition, definition = fields.get(3, REQUIRED), 0, 0
        if groups:  # the root's name and repetition do not count
            children, path, definition, repetition = groups.pop()
            if children > 1:
                groups.append((children - 1, path, definition, repetition))
            if len(path) >= MAX_LEVELS:
                raise ValueError(f"more than {MAX_LEVELS} levels in a schema")
            path = (*path, fields[4].decode())
            definition += own in (OPTIONAL, REPEATED)  # as Arrow, if it is neither of these nor required
            repetition += own == REPEATED
        if 1 in fields:
            length = fields.get(2)
            yield Leaf(path, element, fields[1], length if isinstance(length, int) else 0, own, definition, repetition)
        elif fields.get(5, 0) > 0:
            groups.append((fields[5], path, definition, repetition))


@functools.lru_cache(maxsize=1024)
def _page_encoding(page_type: int, encoding: int, count: int) -> PageEncoding:
    """The same value for all chunks that say the same: to make one takes longer than to find it."""
    return PageEncoding(page_type, encoding, count)


def _chunk(column: dict[int, Any], leaf: Leaf) -> ColumnChunk | None:
    if 1 in column or 8 in column or 3 not in column:
        return None
    meta_data = column[3]
    # A field may have any type in the file, so check the types before use.
    for field_id in _INTEGERS:
        if type(meta_data.get(field_id, 0)) is not int:
            raise TypeError(f"field {field_id} of a column chunk: expected an integer, found {meta_data[field_id]!r}")
    for field_id, name in _STRUCTS.items():
        if not isinstance(meta_data.get(field_id, b""), bytes):
            raise TypeError(f"expected {name}, found {meta_data[field_id]!r}")
    return ColumnChunk(
        leaf=leaf,
        physical_type=meta_data[1],
        codec=meta_data[4],
        encodings=frozenset(meta_data[2]),
        num_values=meta_data[5],
        total_uncompressed_size=meta_data[6],
        total_compressed_size=meta_data[7],
        data_page_offset=meta_data[9],
        dictionary_page_offset=meta_data.get(11),
        encoding_stats=tuple([_page_encoding(stats[1], stats[2], stats[3]) for stats in meta_data.get(13, ())]),
        bloom_filter_offset=meta_data.get(14),
        bloom_filter_length=meta_data.get(15),
        statistics=meta_data.get(_STATISTICS),
        size_statistics=meta_data.get(_SIZE_STATISTICS),
    )
