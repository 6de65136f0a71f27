"""
The codecs of the spec ("Compression codecs") by name: which there are, and from payload to stored bytes and back.

What a stored payload looks like, and which library makes it, is the business of ``puffin.format.frames``. That is
imported when a codec is first used: most files need none, and a command line has to start fast.
"""

from __future__ import annotations

from puffin.errors import UnsupportedCodecError
from puffin.format.layout import check_limit
from puffin.format.model import LZ4, ZSTD


def check_codec(codec: str | None, *, offset: int | None = None) -> None:
    """
    Raise UnsupportedCodecError, with the blob's offset, unless this version knows the codec; None is no compression.
    """
    if codec is not None and codec not in (LZ4, ZSTD):
        where = "" if offset is None else f" of the blob at offset {offset}"
        raise UnsupportedCodecError(f"compression-codec{where}: expected {LZ4}, {ZSTD} or none, found {codec!r}")


def compress(codec: str | None, payload: bytes) -> bytes:
    """Compress a payload into a single frame with content size and checksum; None leaves it as it is."""
    check_codec(codec)
    if codec is None:
        return payload
    from puffin.format import frames

    return frames.CODECS[codec]().compress(payload)


def decompress(
    codec: str | None,
    stored: bytes,
    *,
    offset: int,
    limit: int,
) -> bytes:
    """
    Decompress what is stored at an offset into a payload of at most ``limit`` bytes.

    Raises:
        CorruptPuffinError: They are not a frame of the codec, have no content size, are damaged, are not as long as
            they claim, have more bytes after them, or hold more than ``limit``.
        UnsupportedCodecError: The codec is not known.
    """
    check_codec(codec, offset=offset)
    if codec is None:
        check_limit("payload-size-limit", len(stored), limit, offset)
        return stored
    from puffin.format import frames

    return frames.Frame(codec, stored, offset).content(limit)
