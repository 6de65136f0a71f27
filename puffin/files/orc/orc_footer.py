"""
Read what pyarrow does not tell from the end of an ORC file.

::

    "ORC" │ stripes │ metadata │ footer │ postscript │ its length, a byte
    a stripe:          indexes │ data │ stripe footer
    a message:         varint: field << 3 │ kind │ a varint, 8 bytes, or a length and bytes, or 4 bytes    ┐ a field
    compressed data:   3 bytes: length << 1 │ is original │ bytes                                          ┐ a chunk
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping
from typing import TypeAlias

import pyarrow as pa

from puffin.files.block_codecs import inflate, unlz4, unsnappy, unzstd
from puffin.files.varints import read_varint, zigzag

Message: TypeAlias = Mapping[int, list[int | bytes]]
"""The values of each field, in their order."""

TIMESTAMP, STRUCT, CHAR, TIMESTAMP_INSTANT = 9, 12, 17, 18  # kinds of columns
MALFORMED = (LookupError, TypeError, OverflowError, zlib.error)
"""What an invalid file may raise besides ValueError and OSError."""

_MAGIC = b"ORC"
_LONGEST_POSTSCRIPT = 255
_VARINT, _LONG, _BYTES, _INT = 0, 1, 2, 5
_CHUNK_HEADER = 3
_LARGEST_BLOCK = 1 << 23  # the limit of a chunk's header
_MAX_CONTENT = 512 * 1024 * 1024  # bytes of a stream or a footer, decompressed; stripes have some 64 MiB in all


@dataclasses.dataclass(frozen=True, slots=True)
class Stripe:
    """The lengths of a stripe and its offset in the file, in bytes, and its number of rows."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int


@dataclasses.dataclass(frozen=True, slots=True)
class Footer:
    """
    A file's footer.

    Attributes:
        compression: The number of the codec.
        columns: Number and kind of the columns at the root, by name.
        types: By number, the kind of each column and the numbers of those inside it.
        millis: The smallest and the largest timestamp of a column, rounded down, by number; zeros if it has only nulls.
    """

    compression: int
    block_size: int
    stripes: tuple[Stripe, ...]
    columns: Mapping[str, tuple[int, int]]
    types: tuple[tuple[int, list[int]], ...]
    millis: Mapping[int, tuple[int, int]]


def is_encrypted(source: pa.NativeFile) -> bool:
    """
    Whether an ORC file has encrypted columns, which pyarrow reads as nulls; False if it is not ORC.

    Only encrypted files have ``stripeStatisticsLength``.
    """
    try:
        return 7 in _postscript(source)[0]
    except (ValueError, IndexError):
        return False


def read_footer(source: pa.NativeFile) -> Footer:
    """The footer of an ORC file; NotImplementedError if its codec is unknown here."""
    postscript, end = _postscript(source)
    length, compression, block_size = (integer(postscript, field) for field in (1, 2, 3))
    if length > end:
        raise ValueError(f"a footer of {length} bytes that ends at {end}")
    if block_size > _LARGEST_BLOCK:
        raise ValueError(f"blocks of {block_size} bytes")
    footer = read_message(decompress(source.read_at(length, end - length), compression, block_size))
    messages = [read_message(type_) for type_ in footer.get(4, ()) if isinstance(type_, bytes)]
    types = tuple((integer(type_, 1), _packed(type_.get(2, ()))) for type_ in messages)
    stripes = [read_message(stripe) for stripe in footer.get(3, ()) if isinstance(stripe, bytes)]
    statistics = [read_message(of_one) for of_one in footer.get(7, ()) if isinstance(of_one, bytes)]
    names = [name.decode() for name in messages[0].get(3, ()) if isinstance(name, bytes)]
    return Footer(
        compression,
        block_size,
        tuple(Stripe(*(integer(stripe, field) for field in (1, 2, 3, 4, 5))) for stripe in stripes),
        {name: (number, types[number][0]) for name, number in zip(names, types[0][1], strict=True)},
        types,
        {number: found for number, of_one in enumerate(statistics) if (found := _millis(of_one)) is not None},
    )


def read_message(data: bytes) -> Message:
    """The fields of a protobuf message; IndexError or ValueError if it is invalid."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = read_varint(data, at)
        elif kind in (_LONG, _INT, _BYTES):
            size, at = read_varint(data, at) if kind == _BYTES else (8 if kind == _LONG else 4, at)
            if size > len(data) - at:
                raise ValueError(f"expected {size} bytes at {at} of a message, found {len(data) - at}")
            value = data[at : at + size]
            at += size
        else:
            raise ValueError(f"a field of kind {kind} in a message")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def integer(message: Message, field: int) -> int:
    """The field's value, 0 if it is missing."""
    value = message.get(field, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field}: expected an integer")
    return value


def decompress(data: bytes, compression: int, block_size: int) -> bytes:
    """Decompress chunks; errors are those of `read_footer`."""
    if compression == 0:
        return data
    if compression not in _CODECS:
        raise NotImplementedError(f"ORC compression {compression}")
    pieces, at, size = [], 0, 0
    while at < len(data):
        header = int.from_bytes(data[at : at + _CHUNK_HEADER], "little")
        at += _CHUNK_HEADER
        chunk = data[at : at + (header >> 1)]
        if len(chunk) != header >> 1:
            raise ValueError(f"expected a chunk of {header >> 1} bytes, found {len(chunk)}")
        pieces.append(chunk if header & 1 else _CODECS[compression](chunk, block_size))
        at += len(chunk)
        size += len(pieces[-1])
        if size > _MAX_CONTENT:
            raise ValueError(f"more than {_MAX_CONTENT} bytes in chunks")
    return b"".join(pieces)


def _postscript(source: pa.NativeFile) -> tuple[Message, int]:
    """The postscript and its offset."""
    size = source.size()
    longest = min(size, _LONGEST_POSTSCRIPT + 1)
    tail = source.read_at(longest, size - longest)
    postscript = tail[-1 - tail[-1] : -1]
    if not postscript.endswith(_MAGIC):
        raise ValueError("not the magic 'ORC' in its postscript")
    return read_message(postscript), size - 1 - len(postscript)


def _packed(values: list[int | bytes] | tuple[()]) -> list[int]:
    numbers: list[int] = []
    for value in values:
        at = 0
        if isinstance(value, int):
            numbers.append(value)
        while isinstance(value, bytes) and at < len(value):
            number, at = read_varint(value, at)
            numbers.append(number)
    return numbers


def _millis(statistics: Message) -> tuple[int, int] | None:
    of_timestamps = statistics.get(9, [b""])[-1]
    fields = read_message(of_timestamps) if isinstance(of_timestamps, bytes) else {}
    if statistics.get(1) == [0]:
        return 0, 0  # nulls alone
    # In UTC, or in the zone of the writer where it is older.
    found = [[zigzag(integer(fields, field)) for field in pair if field in fields] for pair in ((3, 1), (4, 2))]
    return (found[0][0], found[1][0]) if all(found) else None


_CODECS: Mapping[int, Callable[[bytes, int], bytes]] = {1: inflate, 2: unsnappy, 4: unlz4, 5: unzstd}
