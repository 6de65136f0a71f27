"""
The codecs of Avro blocks.

A block gives its compressed size but not its decompressed size, so every codec stops at a limit.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable

import pyarrow as pa

from puffin.files.varints import read_varint

MAX_BLOCK_BYTES = 256 * 1024 * 1024
"""The largest decompressed block; writers begin a new block after some kilobytes."""

_CRC_SIZE = 4
_STEP = 1024 * 1024


def codec_named(name: str) -> Callable[[bytes], bytes]:
    """The function that decompresses a block; NotImplementedError if the codec is unknown."""
    try:
        return _CODECS[name]
    except KeyError:
        raise NotImplementedError(f"Avro codec {name!r}: expected one of {', '.join(_CODECS)}") from None


def _within_limit(content: bytes) -> bytes:
    if len(content) > MAX_BLOCK_BYTES:
        raise ValueError(f"a block of more than {MAX_BLOCK_BYTES} bytes")
    return content


def _inflate(block: bytes) -> bytes:
    return _within_limit(zlib.decompressobj(-zlib.MAX_WBITS).decompress(block, MAX_BLOCK_BYTES + 1))


def _unzstd(block: bytes) -> bytes:
    content = bytearray()
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        # Read in steps, because the stream allocates the requested size in advance.
        while len(content) <= MAX_BLOCK_BYTES and (more := stream.read(_STEP)):
            content += more
    return _within_limit(bytes(content))


def _unbzip2(block: bytes) -> bytes:
    return _within_limit(bz2.BZ2Decompressor().decompress(block, MAX_BLOCK_BYTES + 1))


def _unsnappy(block: bytes) -> bytes:
    # Avro puts the CRC-32 of the content after Snappy's data.
    compressed, checksum = block[:-_CRC_SIZE], block[-_CRC_SIZE:]
    size, _ = read_varint(compressed, 0)
    if size > MAX_BLOCK_BYTES:
        raise ValueError(f"a block of more than {MAX_BLOCK_BYTES} bytes")
    content: bytes = pa.decompress(compressed, size, "snappy", asbytes=True)
    if zlib.crc32(content).to_bytes(_CRC_SIZE, "big") != checksum:
        raise ValueError("a block whose checksum is wrong")
    return content


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": _within_limit,
    "deflate": _inflate,
    "zstandard": _unzstd,
    "snappy": _unsnappy,
    "bzip2": _unbzip2,
}
