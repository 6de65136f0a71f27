"""
Decompress a page of raw Snappy, whole or as a stream.

Raw Snappy has no frames to stream by. But compressors cut their input into blocks of 64 KiB, and no copy reaches out of
its block. So the elements of neighbouring blocks are valid Snappy data once their size is put in front. Pages from
other compressors are decompressed whole, as are all pages without the kernel that finds the blocks.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from puffin.files.varints import varint
from puffin.kernels import kernels_ready
from puffin.values.serialized import words_at_every_byte

_CODEC = "snappy"
_BLOCK = 1 << 16
_BLOCKS_AT_ONCE = 256
_STORED_AT_ONCE = 1024 * 1024  # many times what a block takes


def decompress_snappy(payload: bytes | memoryview, size: int) -> memoryview:
    _check_size(payload, size)
    return memoryview(pa.decompress(payload, size, _CODEC)).cast("B")


class SnappyStream:
    """The decompressed bytes of a page: ``compressed_size`` bytes at ``offset``, which become ``size`` bytes."""

    def __init__(self, source: pa.NativeFile, offset: int, compressed_size: int, size: int) -> None:
        self._source = source
        self._offset, self._compressed_size, self._size = offset, compressed_size, size
        self._fetched = self._produced = 0
        self._stored = b""  # what is fetched and not decompressed yet
        self._ready = pa.BufferReader(b"")

    def read(self, size: int, /) -> bytes:
        parts = [self._ready.read(size)]
        missing = size - len(parts[0])
        while missing > 0 and self._produced < self._size:
            content = self._next_blocks() or self._rest()
            self._produced += len(content)
            self._ready = pa.BufferReader(content)
            parts.append(self._ready.read(missing))
            missing -= len(parts[-1])
        return b"".join(parts)

    def _next_blocks(self) -> memoryview | None:
        """The content of the next blocks; None if the page has no blocks or is broken."""
        if not kernels_ready():
            return None
        from puffin.kernels.parquet import find_snappy_blocks

        self._fetch()
        left = self._size - self._produced
        ends = np.empty(_BLOCKS_AT_ONCE, np.int64)
        found = find_snappy_blocks(words_at_every_byte(self._stored), left, ends)
        if found <= 0:
            return None
        end, size = int(ends[found - 1]), min(found * _BLOCK, left)
        blocks, self._stored = self._stored[:end], self._stored[end:]
        if size == left and (self._stored or self._fetched < self._compressed_size):
            return None
        try:
            return decompress_snappy(varint(size) + blocks, size)
        except (pa.ArrowException, OSError):
            return None

    def _fetch(self) -> None:
        more = min(_STORED_AT_ONCE - len(self._stored), self._compressed_size - self._fetched)
        stored = self._source.read_at(more, self._offset + self._fetched)
        if self._fetched == 0:
            _check_size(stored, self._size)
            self._stored = stored.removeprefix(varint(self._size))
        else:
            self._stored += stored
        self._fetched += len(stored)

    def _rest(self) -> memoryview:
        payload = self._source.read_at(self._compressed_size, self._offset)
        return decompress_snappy(payload, self._size)[self._produced :]


def _check_size(payload: bytes | memoryview, size: int) -> None:
    stated = varint(size)
    if payload[: len(stated)] != stated:
        raise ValueError(f"expected Snappy data of {size} bytes, found another size in its header")
