"""
Writing a Puffin file: blobs one after the other, then the footer.

Blobs go to the sink as they are added; only their metadata is kept. A writer is done when ``finish`` returned or when
a write failed, and refuses all use from then on: after a failed write nobody knows where the file ends.

The writer does not own its sink and never closes it. ``finish`` is always said aloud, because its answer is what the
caller has to record in table metadata; a ``with`` block is there to catch that it was forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Protocol

from puffin.errors import ClosedWriterError, StorageError, UsageError
from puffin.format import compression, footer_json, layout
from puffin.format.model import LZ4, Blob, BlobMetadata, FileMetadata, Properties, RawBlob, WrittenFile


class Sink(Protocol):
    """What a writer writes to, from its beginning: the ``write`` of a binary file."""

    def write(self, data: bytes, /) -> int | None:
        """Write all of ``data`` and return how many bytes that is; None means all of them."""
        ...


class PuffinWriter:
    """
    A writer of one Puffin file.

    Used as a context manager it hands the writer to the block, and a block that ends without ``finish`` and without
    another error ends with a ``UsageError``.

    Args:
        sink: Where the bytes go. The file begins where the sink stands.
        properties: Properties of the file; ``created-by`` is recommended by the spec and up to the caller.
        compress_footer: Whether to compress the footer payload with LZ4. The spec allows it and most readers cannot
            read it.
    """

    def __init__(
        self, sink: Sink, *, properties: Mapping[str, str] | None = None, compress_footer: bool = False
    ) -> None:
        self._sink = sink
        self._properties = Properties(properties)
        self._compress_footer = compress_footer
        self._blobs: list[BlobMetadata] = []
        self._offset = 0
        self._closed_by: str | None = None

    def __enter__(self) -> PuffinWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        unfinished = self._closed_by is None
        self._closed_by = self._closed_by or "the end of its with block"
        if unfinished and error is None:
            raise UsageError("the with block of a Puffin writer ended without finish(): the file has no footer")

    def add(self, blob: Blob) -> BlobMetadata:
        """
        Compress a blob as it asks for and write it; returns its metadata, with the offset and the length it got.

        Raises:
            UnsupportedCodecError: Its codec is not known; the writer can still be used.
            ClosedWriterError: The writer finished or failed before.
            StorageError: The sink failed or wrote less than it was given.
        """
        self._check_open()
        stored = compression.compress(blob.compression_codec, blob.payload)
        metadata = BlobMetadata(
            type=blob.type,
            fields=blob.fields,
            snapshot_id=blob.snapshot_id,
            sequence_number=blob.sequence_number,
            offset=layout.FIRST_BLOB_OFFSET,
            length=len(stored),
            compression_codec=blob.compression_codec,
            properties=blob.properties,
        )
        return self.copy(RawBlob(metadata=metadata, stored=stored))

    def copy(self, raw: RawBlob) -> BlobMetadata:
        """
        Write a blob of another file as it is stored there, whatever its codec; errors are those of `add`.

        Returns its metadata with the offset it has in this file.
        """
        self._check_open()
        self._write_head()
        metadata = replace(raw.metadata, offset=self._offset)
        self._write(raw.stored)
        self._blobs.append(metadata)
        return metadata

    def finish(self) -> WrittenFile:
        """
        Write the footer. The sink is left open and not flushed.

        Returns:
            What was written: the sizes that table metadata asks for, and the blobs.

        Raises:
            ClosedWriterError, StorageError: As ``add``.
            UsageError: The footer payload is larger than its 4-byte size can say.
        """
        self._check_open()
        self._write_head()
        blobs = tuple(self._blobs)
        payload = footer_json.render(FileMetadata(blobs=blobs, properties=self._properties))
        if self._compress_footer:
            payload = compression.compress(LZ4, payload)
        if len(payload) > layout.LARGEST_FOOTER_PAYLOAD:
            raise UsageError(
                f"footer payload: expected at most {layout.LARGEST_FOOTER_PAYLOAD} bytes, found {len(payload)}"
            )
        end = layout.FooterStruct(len(payload), self._compress_footer)
        self._write(layout.MAGIC + payload + end.to_bytes())
        self._closed_by = "finish()"
        return WrittenFile(blobs=blobs, file_size=self._offset, footer_size=end.footer_size)

    def _check_open(self) -> None:
        if self._closed_by is not None:
            raise ClosedWriterError(f"this Puffin writer takes nothing more: closed by {self._closed_by}")

    def _write_head(self) -> None:
        """Write the head magic once; a writer that is never used leaves its sink alone."""
        if self._offset == 0:
            self._write(layout.MAGIC)

    def _write(self, data: bytes) -> None:
        place = f"{len(data)} bytes at offset {self._offset}"
        self._closed_by = f"a failed write of {place}"
        try:
            written = self._sink.write(data)
        except OSError as exc:
            raise StorageError(f"writing {place} failed: {exc}") from exc
        if written is not None and written != len(data):
            raise StorageError(f"short write: expected to write {place}, wrote {written}")
        self._closed_by = None
        self._offset += len(data)
