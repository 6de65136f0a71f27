"""
Decompress pages, whole or as streams, with pyarrow's codecs or, where these are slower, with the codecs' libraries.

A page must decompress to exactly the size in its header. Of pyarrow's one-shot functions only ZSTD's checks that; the
others silently return uninitialized memory after a short page. So BROTLI is streamed into place, and GZIP where
libdeflate, twice as fast, finds no single member; SNAPPY has its size in front. For LZ4_RAW the library lz4 tells how
much it has found, or a kernel adds up the lengths. These libraries are imported on first use.
"""

from __future__ import annotations

import functools
import threading
from typing import Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.block_codecs import unlz4
from puffin.files.parquet.snappy import SnappyStream, decompress_snappy
from puffin.kernels import kernels_ready

UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW = 0, 1, 2, 4, 6, 7  # CompressionCodec
CODECS = frozenset((UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD, LZ4_RAW))
"""The codecs supported here. LZ4 (5) is not: writers disagree on it."""

_FRAMED = {GZIP: "gzip", BROTLI: "brotli", ZSTD: "zstd"}
_BUFFER = 1024 * 1024
_NOT_STATED = -1  # what zstandard says of such a content size
_MOST_NOT_STATED = 1 << 16
_MOST_WINDOW = 8 * 1024 * 1024  # what every decoder should support; larger frames are left to pyarrow
_LARGE_PAGE = 512 * 1024  # pyarrow is the fastest from here on; the library lz4 has such a page in memory twice


Numbers: TypeAlias = npt.NDArray[np.int64]


class Stream(Protocol):
    """Bytes that are read one after the other."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; fewer than asked for only at the end."""


def decompress(codec: int, payload: bytes | memoryview, size: int) -> bytes | memoryview:
    """Decompress a page with one of `CODECS`; ValueError if it is broken or has another size."""
    try:
        content = _decompress(codec, payload, size)
    except (pa.ArrowException, OSError) as exc:
        raise ValueError(f"expected a sound page: {exc}") from exc
    if len(content) != size:
        raise ValueError(f"expected a page of {size} bytes, found another size")
    return content


def decompress_all(codec: int, data: bytes, places: Numbers, sizes: Numbers) -> list[memoryview] | None:
    """
    Decompress neighbouring pages at once, which takes much less time if they are small.

    ``places`` has the offset and the bytes of each in ``data``, ``sizes`` what it becomes. None if they have to be
    decompressed one by one: by their codec, because one is large or empty, or because one is broken. Bytes after a page
    are ignored. The interpreter lock is released.
    """
    if codec != ZSTD or len(sizes) == 1 or not 0 < sizes.min() <= sizes.max() < _LARGE_PAGE:
        return None
    zstd = _zstd_of_thread()
    try:
        frames = zstd.segments(data, places.astype(np.uint64).tobytes())
        of_frames = sizes.astype(np.uint64).tobytes()
        found = zstd.decompressor.multi_decompress_to_buffer(frames, decompressed_sizes=of_frames, threads=0)
    except zstd.error:
        return None
    return [memoryview(cast("bytes", found[number])) for number in range(len(found))]


def pooled_buffer(size: int) -> pa.Buffer:
    """New memory from Arrow's pool, which keeps what is freed; otherwise it may take longer to get than to fill."""
    return pa.allocate_buffer(size)


def open_stream(codec: int, source: pa.NativeFile, offset: int, compressed_size: int, size: int) -> Stream:
    """
    Decompress a page while it is read, if its codec can do that; LZ4_RAW cannot.

    The page begins at ``offset``, takes ``compressed_size`` bytes and becomes ``size`` bytes, at least one, which the
    stream does not check. Errors are raised here or when the stream is read.
    """
    stream: Stream
    if codec == SNAPPY:
        stream = SnappyStream(source, offset, compressed_size, size)
    elif codec == LZ4_RAW:
        stream = pa.BufferReader(unlz4(source.read_at(compressed_size, offset), size))
    elif codec == UNCOMPRESSED:
        stream = pa.BufferedInputStream(source.get_stream(offset, compressed_size), _BUFFER)
    else:
        stream = pa.CompressedInputStream(source.get_stream(offset, compressed_size), _FRAMED[codec])
    return stream


def read_exactly(stream: Stream, size: int, left: int) -> bytes:
    """Read ``size`` bytes of a stream that should have ``left`` bytes; ValueError if it does not."""
    if size > left:
        raise ValueError(f"expected {size} more bytes in a page that has {left}")
    found = stream.read(size)
    if len(found) != size:
        raise ValueError(f"expected {size} more bytes in a page, found {len(found)}")
    return found


def read_to_end(stream: Stream, left: int) -> None:
    """Read the rest of a stream, so that its checksum is checked; ValueError if it is longer than ``left``."""
    while left > 0:
        size = min(left, _BUFFER)
        read_exactly(stream, size, left)
        left -= size
    if stream.read(1):
        raise ValueError("expected the end of a page, found more of it")


def decompress_gzip_member(stored: bytes | memoryview, size: int) -> memoryview | None:
    """
    Decompress bytes that are a single sound gzip member (RFC 1952) of ``size`` bytes; None otherwise.

    The library does not tell where a member ends, so all that is checked of bytes after it is that the last four are
    the size once more.
    """
    import deflate

    if int.from_bytes(stored[-4:], "little") != size:
        return None
    try:
        content = deflate.gzip_decompress(stored, size)
    except deflate.DeflateError:
        return None
    return memoryview(content) if len(content) == size else None


def decompress_zstd_frame(stored: bytes | memoryview, size: int) -> bytes | None:
    """
    Decompress bytes that are a single sound frame of ``size`` bytes; None otherwise.

    None too for a frame of many bytes whose header does not say how many, as those of Java's streams: it would be
    decompressed to another place first.
    """
    zstd = _zstd_of_thread()
    try:
        stated = zstd.content_size(stored)
        if stated == size or (stated == _NOT_STATED and size <= _MOST_NOT_STATED):
            content = zstd.decompressor.decompress(stored, max_output_size=size, allow_extra_data=False)
            return content if len(content) == size else None
    except zstd.error:
        pass
    return None


def _decompress(codec: int, payload: bytes | memoryview, size: int) -> bytes | memoryview:
    if codec == UNCOMPRESSED:
        return payload
    if size == 0:  # only nulls; the payload may be empty or not
        return b""
    if codec == SNAPPY:
        return decompress_snappy(payload, size)
    if codec == LZ4_RAW:
        return _decompress_lz4(payload, size)
    if codec == ZSTD:
        content = decompress_zstd_frame(payload, size) if size < _LARGE_PAGE else None
        return _pooled(payload, size, _FRAMED[ZSTD]) if content is None else content
    if codec == GZIP and (member := decompress_gzip_member(payload, size)) is not None:
        return member
    return bytes(pa.CompressedInputStream(pa.BufferReader(payload), _FRAMED[codec]).read(size + 1))


def _decompress_lz4(payload: bytes | memoryview, size: int) -> bytes | memoryview:
    if size < _LARGE_PAGE or not kernels_ready():
        return unlz4(payload, size)
    from puffin.kernels.parquet import lz4_size

    if lz4_size(np.frombuffer(payload, np.uint8)) != size:
        raise ValueError(f"expected an LZ4 block of {size} bytes, found another size")
    return _pooled(payload, size, "lz4_raw")


def _pooled(payload: bytes | memoryview, size: int, codec: str) -> memoryview:
    """Decompress with pyarrow, into memory as that of `pooled_buffer`."""
    return memoryview(pa.decompress(payload, size, codec)).cast("B")


@functools.cache
def _zstd_of_thread() -> _ZstdOfThread:
    return _ZstdOfThread()


class _ZstdOfThread(threading.local):
    """A decompressor for each thread: to make one takes longer than to decompress some KiB."""

    def __init__(self) -> None:
        import zstandard

        self.content_size = zstandard.frame_content_size
        self.segments = zstandard.BufferWithSegments
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW)
        self.error = zstandard.ZstdError
