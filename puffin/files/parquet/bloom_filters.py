"""
Read the Bloom filters that are stored in a Parquet file.

::

    BloomFilterHeader: numBytes, BLOCK, XXHASH, UNCOMPRESSED │ bitset, numBytes long

Parquet has no checksum here. A bit that is lost in a filter hides a value, from us as from every reader that skips row
groups by it. Two things are checked. The length in the footer has to be that of header and bitset together; a filter
whose length the footer omits is not taken. And each inserted value sets a bit in all eight words of its block, so a
block has bits in all words or in none. Otherwise the bits are trusted, as they are by the readers of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from puffin.errors import CorruptDataFileError
from puffin.files.file_columns import FileColumn
from puffin.files.parquet.parquet_footer import ColumnChunk, RowGroup
from puffin.files.parquet.thrift import MALFORMED, Shape, read_struct
from puffin.values.decimals import plain_width
from puffin.values.value_type import ValueType

_BLOCK_BYTES, _WORDS = 32, 8
_MOST_BYTES = 128 * 1024 * 1024  # of a bitset, in parquet-mr and Arrow C++
_MOST_HEADER_BYTES = 64
_BLOCK = _XXHASH = _UNCOMPRESSED = 1  # the only members of their unions
_HEADER: Shape = {1: None, 2: {_BLOCK: None}, 3: {_XXHASH: None}, 4: {_UNCOMPRESSED: None}}


def read_bloom_filters(
    source: pa.NativeFile, metadata: pq.FileMetaData, row_groups: Sequence[RowGroup], column: FileColumn, place: int
) -> Sequence[bytes]:
    """
    Implements `puffin.files.data_file.DataFile.bloom_filters`; OSError if the storage fails.

    ``place`` is that of the column among the leaves.
    """
    is_alike = _hashes_plain_bytes(metadata.schema.column(place), column.column.type)
    if not is_alike or len(row_groups) != metadata.num_row_groups:
        return ()
    found = []
    for index, group in enumerate(row_groups):
        if metadata.row_group(index).num_rows > 0:
            bitset = _read(source, group, place, column.names)
            if bitset is None:
                return ()
            found.append(bitset)
    return found


def _read(source: pa.NativeFile, group: RowGroup, leaf: int, names: tuple[str, ...]) -> bytes | None:
    """The bitset of a chunk's filter; None if there is none, or none that can be trusted."""
    try:
        chunk = group[leaf]
    except CorruptDataFileError:
        return None
    if chunk is None or chunk.leaf.path != names or chunk.leaf.max_repetition_level > 0:
        return None
    try:
        return parse_bloom_filter(_read_range(source, chunk))
    except MALFORMED:
        return None


def parse_bloom_filter(data: bytes) -> bytes:
    """The bitset after a header, both without anything around them; ValueError or IndexError if they are not sound."""
    header, begin = read_struct(data, 0, _HEADER)
    bitset = data[begin:]
    unions = (header.get(2), header.get(3), header.get(4))
    if not all(isinstance(union, dict) and union.keys() == {1} for union in unions):
        raise ValueError(f"expected a filter of blocks with XXHASH, uncompressed, found {header}")
    if header.get(1) != len(bitset):
        raise ValueError(f"expected a filter of {header.get(1)} bytes, found {len(bitset)}")
    if not _is_sound(bitset):
        raise ValueError("expected a power of two of blocks with bits in all of their words or in none")
    return bitset


def _read_range(source: pa.NativeFile, chunk: ColumnChunk) -> bytes:
    """The header and bitset of a chunk's filter; nothing if the footer does not tell where they are."""
    offset, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
    if offset is None or length is None or offset <= 0:
        return b""
    if not 0 < length <= min(_MOST_BYTES + _MOST_HEADER_BYTES, source.size() - offset):
        return b""
    data: bytes = source.read_at(length, offset)
    return data


def _is_sound(bitset: bytes) -> bool:
    blocks, rest = divmod(len(bitset), _BLOCK_BYTES)
    if rest or blocks == 0 or blocks & (blocks - 1):
        return False
    has_bits = np.frombuffer(bitset, "<u4").reshape(-1, _WORDS) != 0
    has_values = has_bits.any(axis=1)
    return bool(has_values.any() and (has_bits.all(axis=1) == has_values).all())


# --- types whose values have the same PLAIN bytes in the file and in the index ------------------------------------

_SIGNED = {8, 16, 32}


def _hashes_plain_bytes(leaf: pq.ColumnSchema, type_: str) -> bool:
    """Whether PLAIN encoding gives each value of a leaf the bytes that it gives to the column's type."""
    column = ValueType.parse(type_)
    logical = json.loads(leaf.logical_type.to_json())
    test = _SAME_BYTES.get(column.name)
    return test is not None and test(leaf, logical, column)


def _is(physical: str, *kinds: str, unit: str | None = None) -> Callable[..., bool]:
    def test(leaf: pq.ColumnSchema, logical: Mapping[str, object], _: ValueType) -> bool:
        return leaf.physical_type == physical and logical["Type"] in kinds and logical.get("timeUnit") == unit

    return test


def _integer(leaf: pq.ColumnSchema, logical: Mapping[str, object], column: ValueType) -> bool:
    physical, widths = ("INT32", _SIGNED) if column.name == "int" else ("INT64", {64})
    is_signed = logical["Type"] == "Int" and logical["isSigned"] is True and logical["bitWidth"] in widths
    return leaf.physical_type == physical and (logical["Type"] == "None" or is_signed)


def _decimal(leaf: pq.ColumnSchema, logical: Mapping[str, object], column: ValueType) -> bool:
    if logical["Type"] != "Decimal" or logical["scale"] != column.scale:
        return False
    width = plain_width(column.precision)
    if width <= 8:
        return bool(leaf.physical_type == ("INT32" if width == 4 else "INT64"))
    return bool(leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" and leaf.length == width)


def _fixed(leaf: pq.ColumnSchema, logical: Mapping[str, object], column: ValueType) -> bool:
    length = 16 if column.name == "uuid" else column.length
    is_plain = logical["Type"] in (("UUID", "None") if column.name == "uuid" else ("None",))
    return bool(leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" and leaf.length == length and is_plain)


_SAME_BYTES: Mapping[str, Callable[..., bool]] = {
    **dict.fromkeys(("int", "long"), _integer),
    "float": _is("FLOAT", "None"),
    "double": _is("DOUBLE", "None"),
    "date": _is("INT32", "Date"),
    "time": _is("INT64", "Time", unit="microseconds"),
    **dict.fromkeys(("timestamp", "timestamptz"), _is("INT64", "Timestamp", unit="microseconds")),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), _is("INT64", "Timestamp", unit="nanoseconds")),
    "decimal": _decimal,
    **dict.fromkeys(("string", "binary"), _is("BYTE_ARRAY", "String", "None")),
    **dict.fromkeys(("fixed", "uuid"), _fixed),
}
