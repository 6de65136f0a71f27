"""
Reading a Puffin file: the footer first, then the blobs that are wanted.

The footer is at the end, so a reader that knows its size (table metadata does) needs one read for it. One that does
not reads a generous tail, which nearly always holds it, and at most once more. Blobs are read by range, neighbours
together. What came along with the footer is kept and not read again: a small file is read whole in one go.

Every number is checked before it is used (``layout`` has the checks): a footer that breaks a rule of the layout gives
no metadata at all. The head magic is at the other end of the file; it is checked where that costs no read, and by
``check_head`` where the caller wants to be sure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from puffin.errors import CorruptPuffinError
from puffin.format import compression, footer_json, layout
from puffin.format.model import LZ4, BlobMetadata, FileMetadata, RawBlob
from puffin.format.source import Source, coalesce, open_source

TAIL_READ_SIZE = 8 * 1024  # what is read first when the footer size is not known: a footer of some forty blobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    The most that a reader is willing to hold. A file beyond them may be sound: raise them to read it.

    Attributes:
        footer_payload_size: The footer payload in bytes, as stored and decompressed.
        blob_size: One blob in bytes, as stored and decompressed.
        blob_count: The number of blobs in the footer.
    """

    footer_payload_size: int = 16 * 1024 * 1024
    blob_size: int = 256 * 1024 * 1024
    blob_count: int = 100_000


DEFAULT_LIMITS = Limits()


class PuffinReader:
    """
    A reader of one Puffin file; nothing is read before it is asked for, and the footer is read once.

    Args:
        source: Bytes, a seekable binary file object, or any ``RangeSource``. It is never closed.
        footer_size: The size of the footer in bytes, if known: ``file-footer-size-in-bytes`` of table metadata.
        file_size: The size of the file in bytes, if known: the source is then not asked for it.
        limits: The most to hold.

    Whatever needs the footer raises ``CorruptPuffinError`` where the file breaks a rule, where its sizes are not those
    given, and beyond the limits.
    """

    def __init__(
        self,
        source: Source,
        *,
        footer_size: int | None = None,
        file_size: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._source = open_source(source)
        self._known_footer_size = footer_size
        self._known_file_size = file_size
        self._limits = limits

    @property
    def file_metadata(self) -> FileMetadata:
        """The footer payload: all blobs, whatever their types and codecs, and the properties of the file."""
        return self._footer.file_metadata

    @cached_property
    def file_size(self) -> int:
        """The size of the file in bytes."""
        return self._source.size() if self._known_file_size is None else self._known_file_size

    @property
    def footer_size(self) -> int:
        """The size of the footer in bytes, magic to magic."""
        return self.file_size - self._footer.start

    @property
    def footer_compressed(self) -> bool:
        """Whether the footer payload is compressed."""
        return self._footer.compressed

    def check_head(self) -> None:
        """
        Check the magic at the start, with a read if the footer's did not bring it along; CorruptPuffinError if wrong.
        """
        layout.check_magic("head-magic", self._bytes_at(0, layout.FIRST_BLOB_OFFSET), 0)

    def read(self, blob: BlobMetadata) -> bytes:
        """
        Read the payload of one blob of this file, decompressed.

        Raises:
            CorruptPuffinError: The blob is not between the head magic and the footer, its bytes are not one frame of
                its codec with the content size it claims, or it is larger than the limit, stored or decompressed.
            UnsupportedCodecError: Its codec is not known.
        """
        return self.read_all([blob])[0]

    def read_raw(self, blob: BlobMetadata) -> RawBlob:
        """Read one blob of this file as it is stored, so that a writer can copy it; the errors are those of ranges."""
        return self.read_all_raw([blob])[0]

    def read_all(self, blobs: Iterable[BlobMetadata] | None = None) -> list[bytes]:
        """
        Read the payloads of several blobs, decompressed, neighbours with one read; None for all of the footer.

        They come in the order asked for. Errors are those of `read`; an unknown codec is refused before any blob is
        read.
        """
        wanted = self._wanted(blobs)
        for blob in wanted:
            compression.check_codec(blob.compression_codec, offset=blob.offset)
        return [
            compression.decompress(
                raw.metadata.compression_codec, raw.stored, offset=raw.metadata.offset, limit=self._limits.blob_size
            )
            for raw in self.read_all_raw(wanted)
        ]

    def read_all_raw(self, blobs: Iterable[BlobMetadata] | None = None) -> list[RawBlob]:
        """Read several blobs as they are stored; arguments, order and reads are those of ``read_all``."""
        wanted = self._wanted(blobs)
        for blob in wanted:
            layout.check_blob_range(blob, self._footer.start)
            layout.check_limit("blob-size-limit", blob.length, self._limits.blob_size, blob.offset)
        stored: dict[tuple[int, int], bytes] = {(blob.offset, blob.end): b"" for blob in wanted}
        for group in coalesce(place for place in stored if place[0] < place[1]):
            first, last = group[0][0], max(end for _, end in group)
            chunk = self._bytes_at(first, last - first)
            stored.update({(start, end): chunk[start - first : end - first] for start, end in group})
        return [RawBlob(metadata=blob, stored=stored[blob.offset, blob.end]) for blob in wanted]

    def _wanted(self, blobs: Iterable[BlobMetadata] | None) -> Sequence[BlobMetadata]:
        return self.file_metadata.blobs if blobs is None else list(blobs)

    @cached_property
    def _footer(self) -> _Footer:
        try:
            return self._read_footer()
        except CorruptPuffinError:
            # A wrong size given makes a sound file look corrupt: say so instead.
            if self._known_file_size is not None:
                layout.check_known_file_size(self._known_file_size, self._source.size())
            raise

    def _read_footer(self) -> _Footer:
        known, file_size = self._known_footer_size, self.file_size
        layout.check_smallest_file(file_size)
        if known is not None:
            layout.check_known_footer_range(known, file_size)
            self._check_footer_limit(known - layout.FOOTER_OVERHEAD, file_size - known)
        tail_size = min(TAIL_READ_SIZE, file_size) if known is None else known
        tail = self._fetch(file_size - tail_size, tail_size)

        end = layout.FooterStruct.parse(tail[-layout.FOOTER_STRUCT_SIZE :], file_size=file_size)
        if known is not None:
            layout.check_known_footer_size(known, end.footer_size, file_size)
        start = file_size - end.footer_size
        self._check_footer_limit(end.payload_size, start)
        if end.footer_size > tail_size:
            tail = self._fetch(start, end.footer_size - tail_size) + tail

        before, footer = tail[: -end.footer_size], tail[-end.footer_size :]
        if len(before) == start:  # the tail reaches back to the head of the file
            layout.check_magic("head-magic", before[: len(layout.MAGIC)], 0)
        return _Footer(start, end.payload_compressed, self._parse_footer(footer, start, end), before)

    def _parse_footer(self, footer: bytes, start: int, end: layout.FooterStruct) -> FileMetadata:
        layout.check_magic("footer-magic", footer[: len(layout.MAGIC)], start)
        payload_offset = start + len(layout.MAGIC)
        payload = compression.decompress(
            LZ4 if end.payload_compressed else None,
            footer[len(layout.MAGIC) : -layout.FOOTER_STRUCT_SIZE],
            offset=payload_offset,
            limit=self._limits.footer_payload_size,
        )
        metadata = footer_json.parse(payload, offset=payload_offset, max_blobs=self._limits.blob_count)
        for blob in metadata.blobs:
            layout.check_blob_range(blob, start)
        layout.check_blob_overlap(metadata.blobs)
        return metadata

    def _check_footer_limit(self, payload_size: int, start: int) -> None:
        layout.check_limit("footer-size-limit", payload_size, self._limits.footer_payload_size, start)

    def _bytes_at(self, offset: int, length: int) -> bytes:
        """Bytes before the footer, from what came with it if they did."""
        before_start = self._footer.start - len(self._footer.before)
        if offset >= before_start:
            return self._footer.before[offset - before_start : offset - before_start + length]
        return self._fetch(offset, length)

    def _fetch(self, offset: int, length: int) -> bytes:
        content = self._source.read_at(offset, length)
        layout.check_read(offset, length, len(content))
        return content


class _Footer(NamedTuple):
    """A footer that was read and checked, and the bytes before it that came along."""

    start: int
    compressed: bool
    file_metadata: FileMetadata
    before: bytes
