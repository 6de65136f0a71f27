"""
Pages decompressed, whole or as streams, by the codecs that pyarrow has.

A page's header says what it takes uncompressed, and exactly that has to come out. Of pyarrow's one-shot functions only
ZSTD's sees to it; the others hand out what a page does not fill as it was found in memory, and say nothing. So GZIP and
BROTLI are streamed into place, and the two codecs that cannot be are asked in a way that shows.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from puffin.files.parquet.snappy import SnappyStream, decompress_snappy

UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW = 0, 1, 2, 4, 6, 7
"""``CompressionCodec``."""

CODECS = frozenset((UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW))
"""What is decompressed here. LZ4 (5) is not: what writers have put under that name differs."""

_FRAMED = {GZIP: "gzip", BROTLI: "brotli", ZSTD: "zstd"}
_LZ4_RAW = "lz4_raw"
_BUFFER = 1024 * 1024


class Stream(Protocol):
    """Bytes that are read one after the other."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; fewer than asked for only at the end."""


def decompress(codec: int, payload: bytes, size: int) -> bytes:
    """
    Decompress a page.

    Args:
        codec: One of `CODECS`.
        size: What comes out.
    """
    try:
        content = _decompress(codec, payload, size)
    except (pa.ArrowException, OSError) as exc:
        raise ValueError(f"expected a sound page: {exc}") from exc
    if len(content) != size:
        raise ValueError(f"expected a page of {size} bytes, found another size")
    return content


def open_stream(codec: int, source: pa.NativeFile, offset: int, compressed_size: int, size: int) -> Stream:
    """
    Decompress a page while it is read, as far as its codec has a way to that; LZ4_RAW has none.

    What is wrong with the page, or with the file, is told by errors of pyarrow (OSError among them) or a ValueError,
    here or by the stream.

    Args:
        codec: One of `CODECS`.
        source: The file, in which the page begins at ``offset`` and takes ``compressed_size`` bytes.
        size: What comes out, one byte at least; the stream does not see to that.
    """
    stream: Stream
    if codec == SNAPPY:
        stream = SnappyStream(source, offset, compressed_size, size)
    elif codec == LZ4_RAW:
        stream = pa.BufferReader(_decompress_lz4(source.read_at(compressed_size, offset), size))
    elif codec == UNCOMPRESSED:
        stream = pa.BufferedInputStream(source.get_stream(offset, compressed_size), _BUFFER)
    else:
        stream = pa.CompressedInputStream(source.get_stream(offset, compressed_size), _FRAMED[codec])
    return stream


def read_exactly(stream: Stream, size: int, left: int) -> bytes:
    """
    Read some bytes of a stream.

    Args:
        left: What the page has left, by its header.
    """
    if size > left:
        raise ValueError(f"expected {size} more bytes in a page that has {left}")
    found = stream.read(size)
    if len(found) != size:
        raise ValueError(f"expected {size} more bytes in a page, found {len(found)}")
    return found


def read_to_end(stream: Stream, left: int) -> None:
    """
    Read the rest of a stream for what is wrong with it: checksums stand at the end.

    Args:
        left: What the page has left, by its header.
    """
    while left > 0:
        size = min(left, _BUFFER)
        read_exactly(stream, size, left)
        left -= size
    if stream.read(1):
        raise ValueError("expected the end of a page, found more of it")


def _decompress(codec: int, payload: bytes, size: int) -> bytes:
    if codec == UNCOMPRESSED:
        return payload
    if size == 0:  # nothing but nulls: whatever the payload is, it may be nothing too
        return b""
    if codec == SNAPPY:
        return decompress_snappy(payload, size)
    if codec == LZ4_RAW:
        return _decompress_lz4(payload, size)
    if codec == ZSTD:
        return bytes(pa.decompress(payload, size, _FRAMED[ZSTD], asbytes=True))
    return bytes(pa.CompressedInputStream(pa.BufferReader(payload), _FRAMED[codec]).read(size + 1))


def _decompress_lz4(payload: bytes, size: int) -> bytes:
    try:
        pa.decompress(payload, size - 1, _LZ4_RAW, asbytes=True)
    except (pa.ArrowException, OSError):  # it takes more, as it should
        return bytes(pa.decompress(payload, size, _LZ4_RAW, asbytes=True))
    raise ValueError(f"expected LZ4 data of {size} bytes, found fewer")
