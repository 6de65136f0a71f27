"""
Decompress blocks of data files.

In Avro and ORC a block gives its compressed size but not its decompressed size, so every codec stops at a limit:
ValueError beyond it.
"""

from __future__ import annotations

import bz2
import zlib

import pyarrow as pa

from puffin.files.varints import read_varint

_STEP = 1024 * 1024


def within_limit(content: bytes, limit: int) -> bytes:
    _check_limit(len(content), limit)
    return content


def inflate(block: bytes, limit: int) -> bytes:
    return within_limit(zlib.decompressobj(-zlib.MAX_WBITS).decompress(block, limit + 1), limit)


def unzstd(block: bytes, limit: int) -> bytes:
    content = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        # Read in steps, because the stream allocates the requested size in advance.
        while len(content) <= limit and (more := stream.read(_STEP)):
            content += more
    return within_limit(bytes(content), limit)


def unbzip2(block: bytes, limit: int) -> bytes:
    return within_limit(bz2.BZ2Decompressor().decompress(block, limit + 1), limit)


def unsnappy(block: bytes, limit: int) -> bytes:
    size, _ = read_varint(block, 0)
    _check_limit(size, limit)  # the size is stated, and the library would allocate it
    content: bytes = pa.decompress(block, size, "snappy", asbytes=True)
    return content


def unlz4(block: bytes | memoryview, limit: int) -> bytes:
    """Decompress a block of LZ4 without a frame."""
    import lz4.block

    try:
        return bytes(lz4.block.decompress(block, uncompressed_size=limit))
    except lz4.block.LZ4BlockError as exc:
        raise ValueError(f"expected a sound LZ4 block of at most {limit} bytes: {exc}") from exc


def _check_limit(size: int, limit: int) -> None:
    if size > limit:
        raise ValueError(f"a block of more than {limit} bytes")
