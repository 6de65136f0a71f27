"""
Compress and decompress payloads by the codecs' names (spec, "Compression codecs").

A stored payload is exactly one frame of its codec, whose header states the content size. ``decompress`` checks that
size against the caller's limit before it allocates anything, and then against the content. It feeds input in small
steps, so that memory follows what a frame really holds, and stops at the first step that exceeds the stated size.

A codec's library is imported on first use: most files need none, and the command line has to start fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from puffin.errors import CorruptPuffinError, UnsupportedCodecError
from puffin.format.layout import check_limit
from puffin.format.names import LZ4, ZSTD

_STEP = 256  # 4 bytes of zstd can hold 128 KiB, so one step yields at most 8 MiB


def check_codec(codec: str | None, *, offset: int | None = None) -> None:
    """Raise ``UnsupportedCodecError`` for an unknown codec, with the offset of the blob if there is one."""
    if codec is not None and codec not in (LZ4, ZSTD):
        where = "" if offset is None else f" of the blob at offset {offset}"
        raise UnsupportedCodecError(f"compression-codec{where}: expected {LZ4}, {ZSTD} or no codec, found {codec!r}")


def compress(codec: str | None, payload: bytes) -> bytes:
    """Compress a payload into a single frame with content size and checksum; None stores it as it is."""
    check_codec(codec)
    return payload if codec is None else CODECS[codec]().compress(payload)


def decompress(codec: str | None, stored: bytes, *, offset: int, limit: int) -> bytes:
    """
    Decompress the bytes stored at an offset into a payload of at most ``limit`` bytes.

    Raises:
        CorruptPuffinError: The bytes are not exactly one valid frame that states its content size, or hold more than
            ``limit``.
        UnsupportedCodecError: This version does not know the codec.
    """
    check_codec(codec, offset=offset)
    if codec is None:
        check_limit("payload-size-limit", len(stored), limit, offset)
        return stored
    return _Frame(codec, stored, offset).content(limit)


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec with its library loaded; the library raises ``error`` on a damaged frame."""

    magic: bytes
    compress: Callable[[bytes], bytes]
    content_size: Callable[[bytes], int | None]
    decoder: Callable[[], _Decoder]
    error: type[Exception]


@dataclass(frozen=True, slots=True)
class _Frame:
    """Stored bytes that must be a single frame."""

    codec: str
    stored: bytes
    offset: int

    def content(self, limit: int) -> bytes:
        """Decompress the frame; CorruptPuffinError if it is not exactly one sound frame within the limit."""
        codec = CODECS[self.codec]()
        if not self.stored.startswith(codec.magic):
            raise self._broken("frame-magic", codec.magic, self.stored[: len(codec.magic)])
        try:
            claimed = codec.content_size(self.stored)
            if claimed is None:
                raise self._broken("frame-content-size", f"the content size in the {self.codec} frame", "none")
            check_limit("payload-size-limit", claimed, limit, self.offset)
            content, rest = self._stream(codec.decoder(), claimed)
        except codec.error as exc:
            raise self._broken("frame-data", f"a sound {self.codec} frame", str(exc)) from exc
        if len(content) != claimed:
            raise self._broken("frame-content-size", f"{claimed} bytes as claimed", f"{len(content)} bytes")
        if rest:
            raise self._broken("single-frame", f"one {self.codec} frame", f"{rest} bytes after it")
        return content

    def _stream(self, decoder: _Decoder, claimed: int) -> tuple[bytes, int]:
        """The content of the frame, and the number of bytes after the frame."""
        content = bytearray()
        for start in range(0, len(self.stored), _STEP):
            content += decoder.decompress(self.stored[start : start + _STEP])
            if len(content) > claimed:
                raise self._broken("frame-content-size", f"{claimed} bytes as claimed", "more")
            if decoder.eof:
                return bytes(content), len(decoder.unused_data or b"") + max(0, len(self.stored) - start - _STEP)
        raise self._broken("frame-data", f"a whole {self.codec} frame", f"its first {len(self.stored)} bytes")

    def _broken(self, rule: str, expected: object, found: object) -> CorruptPuffinError:
        return CorruptPuffinError(rule, offset=self.offset, expected=expected, found=found)


def _load_lz4() -> Codec:
    import lz4.frame

    flags_offset, has_content_size = 4, 1 << 3  # after the magic; the library reads an absent size as 0
    # The library omits the content size of empty content. This frame has it: magic, flags, 64 KiB blocks, content
    # size, header checksum, end mark, content checksum.
    empty_frame = bytes.fromhex("04224d18 6c 40 0000000000000000 09 00000000 055dcc02")

    def content_size(stored: bytes) -> int | None:
        size: int = lz4.frame.get_frame_info(stored)["content_size"]
        return size if stored[flags_offset] & has_content_size else None

    return Codec(
        magic=bytes.fromhex("04224d18"),
        compress=lambda payload: (
            lz4.frame.compress(payload, store_size=True, content_checksum=True) if payload else empty_frame
        ),
        content_size=content_size,
        decoder=lz4.frame.LZ4FrameDecompressor,
        error=RuntimeError,
    )


def _load_zstd() -> Codec:
    import zstandard

    def content_size(stored: bytes) -> int | None:
        size = zstandard.get_frame_parameters(stored).content_size
        return None if size == zstandard.CONTENTSIZE_UNKNOWN else size

    def compress(payload: bytes) -> bytes:
        # With a checksum the frame equals the one that Iceberg's Java library writes.
        return zstandard.ZstdCompressor(write_checksum=True, write_content_size=True).compress(payload)

    return Codec(
        magic=bytes.fromhex("28b52ffd"),
        compress=compress,
        content_size=content_size,
        # A window is never larger than the content, whose size is already checked against the limit.
        decoder=lambda: zstandard.ZstdDecompressor(max_window_size=1 << zstandard.WINDOWLOG_MAX).decompressobj(),
        error=zstandard.ZstdError,
    )


CODECS: dict[str, Callable[[], Codec]] = {LZ4: _load_lz4, ZSTD: _load_zstd}
"""The codecs by the names of the spec; loading one imports its library."""
