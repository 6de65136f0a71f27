"""
Compress and decompress payloads by the codecs' names (spec, "Compression codecs").

``puffin.format.frames`` does the work. It is imported on first use: most files need no codec, and the command line has
to start fast.
"""

from __future__ import annotations

from puffin.errors import UnsupportedCodecError
from puffin.format.layout import check_limit
from puffin.format.model import LZ4, ZSTD


def check_codec(codec: str | None, *, offset: int | None = None) -> None:
    """Raise ``UnsupportedCodecError`` for an unknown codec, with the offset of the blob if there is one."""
    if codec is not None and codec not in (LZ4, ZSTD):
        where = "" if offset is None else f" of the blob at offset {offset}"
        raise UnsupportedCodecError(f"compression-codec{where}: expected {LZ4}, {ZSTD} or none, found {codec!r}")


def compress(codec: str | None, payload: bytes) -> bytes:
    """Compress a payload into a single frame with content size and checksum; None stores it as it is."""
    check_codec(codec)
    if codec is None:
        return payload
    from puffin.format import frames

    return frames.CODECS[codec]().compress(payload)


def decompress(codec: str | None, stored: bytes, *, offset: int, limit: int) -> bytes:
    """
    Decompress the bytes stored at an offset into a payload of at most ``limit`` bytes.

    Raises:
        CorruptPuffinError: They are not exactly one sound frame with its content size, or hold more than ``limit``.
        UnsupportedCodecError: This version does not know the codec.
    """
    check_codec(codec, offset=offset)
    if codec is None:
        check_limit("payload-size-limit", len(stored), limit, offset)
        return stored
    from puffin.format import frames

    return frames.Frame(codec, stored, offset).content(limit)
