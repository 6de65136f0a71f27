"""
Describes a Delta deletion vector as Iceberg describes one.

Delta stores vectors as records of a file. A record has the same bytes as the payload of Iceberg's
``deletion-vector-v1`` blob (`puffin.format.deletion_vector`)::

    u8       version of the file, 1
    u32 BE   size of the data               ┐
    data     magic D1 D3 39 64, the vector  │ a record, at the descriptor's offset
    u32 BE   CRC-32 of the data             ┘

A vector in the log is the data alone; it gets size and checksum here, so one reader serves both.
"""

from __future__ import annotations

import re
import struct
import uuid
import zlib
from urllib.parse import unquote

from puffin.delta.log.actions import DeletionVectorDescriptor
from puffin.errors import CorruptMetadataError
from puffin.storage import join
from puffin.storage.data_uri import data_uri
from puffin.storage.uri import split
from puffin.tables.scan_task import POSITION_DELETES, ContentFile

_BY_UUID, _BY_PATH, _INLINE = "u", "p", "i"
_FORMAT = "DELETION_VECTOR"

_NUMBER = struct.Struct(">I")
_AROUND_DATA = 2 * _NUMBER.size  # size and checksum
_MAX_SIZE = 2**31 - 1  # of a deletion vector
_MOST_SHOWN = 80  # characters of an id, in an error

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: digit for digit, character in enumerate(_Z85)}
_NOT_Z85 = re.compile(f"[^{re.escape(_Z85)}]")
_GROUP, _GROUP_BYTES = 5, 4  # characters of a group, and the bytes that it stands for
_UUID_CHARACTERS = 16 // _GROUP_BYTES * _GROUP


def deletion_vector_file(descriptor: DeletionVectorDescriptor, table_location: str) -> ContentFile:
    """
    A data file's deletion vector as a delete file (protocol, "Deletion Vector Descriptor Schema").

    Its content is the vector's record; its path is absolute, or a ``data:`` URI.
    """
    offset, size = descriptor.offset or 0, descriptor.size_in_bytes
    if offset < 0 or not 0 <= size <= _MAX_SIZE or descriptor.cardinality < 0:
        found = f"{offset}, {size} and {descriptor.cardinality}"
        raise _corrupt(descriptor, table_location, "an offset, a size and a cardinality from 0 on", found)
    return ContentFile(
        content=POSITION_DELETES,
        file_path=_uri(descriptor, table_location),
        file_format=_FORMAT,
        spec_id=0,
        partition={},
        record_count=descriptor.cardinality,
        file_size_in_bytes=offset + size + _AROUND_DATA,  # at least
        content_offset=offset,
        content_size_in_bytes=size + _AROUND_DATA,
    )


def _uri(descriptor: DeletionVectorDescriptor, table_location: str) -> str:
    kind, text = descriptor.storage_type, descriptor.path_or_inline_dv
    try:
        if kind == _BY_UUID:
            prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
            name = f"deletion_vector_{uuid.UUID(bytes=_from_z85(encoded))}.bin"
            return join(table_location, prefix, name) if prefix else join(table_location, name)
        if kind == _BY_PATH and (split(text) is not None or text.startswith("/")):
            return unquote(text)
        if kind == _INLINE:
            return data_uri(_record(_from_z85(text), descriptor.size_in_bytes))
    except ValueError as exc:
        raise _corrupt(descriptor, table_location, "Z85 of its bytes", exc) from exc
    raise _corrupt(descriptor, table_location, "a UUID (u), an absolute path (p) or the vector (i)", f"{kind} {text}")


def _record(padded: bytes, size: int) -> bytes:
    if size > len(padded):
        raise ValueError(f"{len(padded)} bytes for {size}")
    data = padded[:size]
    return _NUMBER.pack(size) + data + _NUMBER.pack(zlib.crc32(data))


def _from_z85(text: str) -> bytes:
    """Decode ZeroMQ's base 85 (RFC 32): each group of five digits, highest first, stands for four bytes."""
    if (wrong := _NOT_Z85.search(text)) or len(text) % _GROUP:
        raise ValueError(f"{wrong[0]!r} in it" if wrong else f"{len(text)} characters")
    decoded = bytearray()
    for start in range(0, len(text), _GROUP):
        number = 0
        for character in text[start : start + _GROUP]:
            number = number * len(_Z85) + _DIGITS[character]
        if number >> 8 * _GROUP_BYTES:
            raise ValueError(f"{text[start : start + _GROUP]} for more than 32 bits")
        decoded += number.to_bytes(_GROUP_BYTES, "big")
    return bytes(decoded)


def _corrupt(
    descriptor: DeletionVectorDescriptor, table_location: str, expected: str, found: object
) -> CorruptMetadataError:
    return CorruptMetadataError(
        f"{table_location}: deletion vector {descriptor.unique_id[:_MOST_SHOWN]}: expected {expected}, found {found}"
    )
