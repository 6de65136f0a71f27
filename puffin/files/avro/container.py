"""
Avro object container files: a schema, and blocks of records that are compressed one by one.

::

    "Obj" 01 │ map: avro.schema, avro.codec │ sync marker             ┐ header
    long records │ long bytes │ the records, compressed │ sync marker  ┘ one block, again and again to the end

Nothing is trusted: a length never reaches past the end, and a file must end with a block. The file does not tell
whether a block is missing at its end, so callers that know the number of records compare it.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from puffin.files.block_codecs import inflate, unbzip2, unsnappy, unzstd, within_limit
from puffin.files.varints import read_varint, zigzag

MALFORMED = (
    *(ValueError, LookupError, TypeError, AttributeError, RecursionError),  # the schema, the lengths
    *(struct.error, zlib.error, OSError),  # the values, the codecs
)
"""What reading an invalid file may raise, here and in the readers of its blocks."""

MAX_BLOCK_BYTES = 256 * 1024 * 1024
"""The largest decompressed block; writers begin a new block after some kilobytes."""

_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16
_CRC_SIZE = 4
_LONGEST_VARINT = 10  # bytes
_READ_AHEAD = 1024 * 1024  # bytes; a request to an object store costs as much as a megabyte takes


class Source(Protocol):
    """An open file, read from its beginning on."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; fewer than ``size`` only at the end."""


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Some records, decompressed."""

    records: int
    content: bytes


class Container:
    """An Avro file after its header, with the writer's schema in JSON; NotImplementedError for an unknown codec."""

    def __init__(self, source: Source, size: int) -> None:
        self._input = input_ = _Input(source, size)
        if input_.take(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"not the magic {_MAGIC!r} at its beginning")
        self.metadata: Mapping[str, bytes] = dict(_header(input_))
        self._sync = input_.take(_SYNC_SIZE)
        codec = self.metadata.get("avro.codec", b"null").decode()
        if codec not in _CODECS:
            raise NotImplementedError(f"Avro codec {codec!r}: expected one of {', '.join(_CODECS)}")
        self._decompress = _CODECS[codec]
        self.schema: Any = json.loads(self.metadata["avro.schema"])

    def blocks(self) -> Iterator[Block]:
        """The blocks up to the end of the file; raises one of `MALFORMED` if something else follows."""
        input_ = self._input
        while input_.left:
            records = input_.long()
            content = self._decompress(input_.take(input_.long()), MAX_BLOCK_BYTES)
            if input_.take(_SYNC_SIZE) != self._sync:
                raise ValueError(f"another sync marker than the header's before offset {input_.at}")
            if records < 0:
                raise ValueError(f"a count of {records} in front of the block before offset {input_.at}")
            yield Block(records, content)


def _header(input_: _Input) -> Iterator[tuple[str, bytes]]:
    # A map comes in runs of entries, the last one empty; after a negative count follows the size in bytes.
    while count := input_.long():
        if count < 0:
            input_.long()
        for _ in range(abs(count)):
            yield input_.take(input_.long()).decode(), input_.take(input_.long())


def _unsnappy(block: bytes, limit: int) -> bytes:
    # Avro puts the CRC-32 of the content after Snappy's data.
    content = unsnappy(block[:-_CRC_SIZE], limit)
    if zlib.crc32(content).to_bytes(_CRC_SIZE, "big") != block[-_CRC_SIZE:]:
        raise ValueError("a block whose checksum is wrong")
    return content


_CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": within_limit,
    "deflate": inflate,
    "zstandard": unzstd,
    "snappy": _unsnappy,
    "bzip2": unbzip2,
}


class _Input:
    """Reads the bytes of the file in order, with read-ahead, and never past the end."""

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self._ahead = b""
        self._begin = 0  # the offset of what is read ahead
        self._size = size
        self.at = 0

    @property
    def left(self) -> int:
        return self._size - self.at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise ValueError(f"expected {size} bytes at offset {self.at}, found {self.left}")
        self._fetch(size)
        start = self.at - self._begin
        self.at += size
        return self._ahead[start : start + size]

    def long(self) -> int:
        self._fetch(min(_LONGEST_VARINT, self.left))
        value, end = read_varint(self._ahead, self.at - self._begin)
        self.at = self._begin + end
        return zigzag(value)

    def _fetch(self, size: int) -> None:
        start = self.at - self._begin
        if start + size > len(self._ahead):
            kept = self._ahead[start:]
            self._ahead = kept + self._source.read(max(_READ_AHEAD, size - len(kept)))
            self._begin = self.at
            if len(self._ahead) < size:
                raise ValueError(f"expected {size} bytes at offset {self.at}, found {len(self._ahead)}")
