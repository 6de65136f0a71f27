"""
Read a Puffin file: the footer first, then the requested blobs.

A caller who knows the footer's size from table metadata needs one read for the footer. Otherwise the reader fetches a
generous tail, which nearly always holds the footer, and at most one more range. Neighbouring blobs share a read, and
blobs in the tail need none, so a small file takes one read in all.

The checks of ``layout`` test every number before its use: a footer that breaks a rule yields no metadata at all. The
reader checks the head magic where that costs no read; ``check_head`` always checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from puffin.cached import cached_property
from puffin.errors import CorruptPuffinError
from puffin.format import compression, footer_json, layout
from puffin.format.model import BlobMetadata, FileMetadata, RawBlob
from puffin.format.names import LZ4
from puffin.format.source import Source, coalesce, open_source

TAIL_READ_SIZE = 8 * 1024  # the first read if the footer's size is unknown; holds a footer of about forty blobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    The most that a reader holds; sizes are in bytes and apply before and after decompression.

    A file beyond the limits may be sound: raise them to read it.
    """

    footer_payload_size: int = 16 * 1024 * 1024
    blob_size: int = 256 * 1024 * 1024
    blob_count: int = 100_000


DEFAULT_LIMITS = Limits()


class PuffinReader:
    """
    A reader of one Puffin file, which threads may share. It reads on demand, and the footer only once.

    Args:
        source: Bytes, a seekable binary file object, or any ``RangeSource``. The reader never closes it.
        footer_size: ``file-footer-size-in-bytes`` of table metadata, if known.
        file_size: The size of the file in bytes, if known; saves asking the source.

    Methods and properties that need the footer raise ``CorruptPuffinError`` if the file breaks a rule, exceeds a limit
    or differs from the sizes given.
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
        """The footer payload, with blobs of unknown types and codecs too."""
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
        """Raise ``CorruptPuffinError`` if the file does not start with the magic."""
        layout.check_magic("head-magic", self._bytes_at(0, layout.FIRST_BLOB_OFFSET), 0)

    def read(self, blob: BlobMetadata) -> bytes:
        """
        Read the decompressed payload of one blob of this file.

        Raises:
            CorruptPuffinError: The blob is not between the head magic and the footer, is not exactly one sound frame
                of its codec, or exceeds the limit.
            UnsupportedCodecError: This version does not know the codec.
        """
        return self.read_all([blob])[0]

    def read_raw(self, blob: BlobMetadata) -> RawBlob:
        """Read one blob without decompressing it, for a writer to copy."""
        return self.read_all_raw([blob])[0]

    def read_all(self, blobs: Iterable[BlobMetadata] | None = None) -> list[bytes]:
        """
        Read the decompressed payloads of several blobs, or of all, in the order given; neighbours share one read.

        The errors are those of ``read``; an unknown codec raises before any blob is read.
        """
        wanted = self._wanted(blobs)
        for blob in wanted:
            compression.check_codec(blob.compression_codec, offset=blob.offset)
        return [self.decompressed(raw) for raw in self.read_all_raw(wanted)]

    def read_all_raw(self, blobs: Iterable[BlobMetadata] | None = None) -> list[RawBlob]:
        """Read several blobs like ``read_all``, but without decompressing them."""
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

    def decompressed(self, raw: RawBlob) -> bytes:
        """The payload of a blob that was read raw; the errors are those of ``read``."""
        stored = raw.metadata
        limit = self._limits.blob_size
        return compression.decompress(stored.compression_codec, raw.stored, offset=stored.offset, limit=limit)

    def _wanted(self, blobs: Iterable[BlobMetadata] | None) -> Sequence[BlobMetadata]:
        return self.file_metadata.blobs if blobs is None else list(blobs)

    @cached_property
    def _footer(self) -> _Footer:
        try:
            return self._read_footer()
        except CorruptPuffinError:
            # A sound file looks corrupt if the caller gave a wrong size, so report that instead.
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
        """Bytes before the footer; the read of the footer may have brought them along."""
        before_start = self._footer.start - len(self._footer.before)
        if offset >= before_start:
            return self._footer.before[offset - before_start : offset - before_start + length]
        return self._fetch(offset, length)

    def _fetch(self, offset: int, length: int) -> bytes:
        content = self._source.read_at(offset, length)
        layout.check_read(offset, length, len(content))
        return content


class _Footer(NamedTuple):
    """A checked footer, and the bytes before it that came along."""

    start: int
    compressed: bool
    file_metadata: FileMetadata
    before: bytes
