"""
Write a Puffin file: one blob after the other, then the footer.

The writer passes each blob to the sink at once and keeps only the metadata. It refuses all use after ``finish`` and
after a failed write, when nobody knows where the file ends. It never closes the sink. Callers always call ``finish``,
because table metadata records the answer; a ``with`` block catches a forgotten call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from puffin.errors import ClosedWriterError, StorageError, UsageError
from puffin.format import compression, footer_json, layout
from puffin.format.model import Blob, BlobMetadata, FileMetadata, Properties, RawBlob, WrittenFile
from puffin.format.names import LZ4


class Sink(Protocol):
    """The ``write`` method of a binary file."""

    def write(self, data: bytes, /) -> int | None:
        """Write all of ``data`` and return the number of bytes written; None means all."""


class PuffinWriter:
    """
    A writer of one Puffin file; its ``with`` block raises a ``UsageError`` if it ends without ``finish``.

    Args:
        sink: The file begins at its current position.
        properties: Properties of the file; the spec recommends ``created-by``.
        compress_footer: Compress the footer payload with LZ4. The spec allows it, but most readers cannot read it.
    """

    def __init__(
        self, sink: Sink, *, properties: Mapping[str, str] | None = None, compress_footer: bool = False
    ) -> None:
        if not callable(getattr(sink, "write", None)):
            raise UsageError(f"sink: expected a binary file that is open for writing, found {type(sink).__name__}")
        self._sink = sink
        self._properties = Properties(properties)
        self._compress_footer = compress_footer
        self._blobs: list[BlobMetadata] = []
        self._offset = 0
        self._closed_by: str | None = None

    def __enter__(self) -> PuffinWriter:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        unfinished = self._closed_by is None
        self._closed_by = self._closed_by or "the end of its with block"
        if unfinished and error is None:
            raise UsageError("the with block of a Puffin writer ended without finish(): the file has no footer")

    def add(self, blob: Blob) -> BlobMetadata:
        """
        Compress a blob with its codec, write it and return its metadata.

        Raises:
            UnsupportedCodecError: This version does not know the codec; the writer stays usable.
            ClosedWriterError: The writer finished or failed before.
            StorageError: The sink failed or did not write everything.
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
        """Write a blob of another file unchanged, whatever its codec; returns and raises as ``add``."""
        self._check_open()
        self._write_head()
        metadata = replace(raw.metadata, offset=self._offset)
        self._write(raw.stored)
        self._blobs.append(metadata)
        return metadata

    def finish(self) -> WrittenFile:
        """
        Write the footer, without flushing or closing the sink.

        Raises:
            ClosedWriterError, StorageError: As ``add``.
            UsageError: The footer payload is too large for its 4-byte size.
        """
        self._check_open()
        self._write_head()
        blobs = tuple(self._blobs)
        payload = footer_json.render(FileMetadata(blobs=blobs, properties=self._properties))
        if self._compress_footer:
            payload = compression.compress(LZ4, payload)
        if len(payload) > layout.LARGEST_FOOTER_PAYLOAD:
            largest = layout.LARGEST_FOOTER_PAYLOAD
            raise UsageError(f"footer payload: expected at most {largest} bytes, found {len(payload)}")
        end = layout.FooterStruct(len(payload), self._compress_footer)
        self._write(layout.MAGIC + payload + end.to_bytes())
        self._closed_by = "finish()"
        return WrittenFile(blobs=blobs, file_size=self._offset, footer_size=end.footer_size)

    def _check_open(self) -> None:
        if self._closed_by is not None:
            raise ClosedWriterError(f"this Puffin writer takes nothing more: closed by {self._closed_by}")

    def _write_head(self) -> None:
        """Write the head magic before the first blob, so that an unused writer leaves its sink alone."""
        if self._offset == 0:
            self._write(layout.MAGIC)

    def _write(self, data: bytes) -> None:
        place = f"{len(data)} bytes at offset {self._offset}"
        self._closed_by = f"a failed write of {place}"
        try:
            written = self._sink.write(data)
        except (OSError, ValueError) as exc:  # ValueError if the file is closed
            raise StorageError(f"writing {place} failed: {exc}") from exc
        if written is not None and written != len(data):
            raise StorageError(f"short write: expected to write {place}, wrote {written}")
        self._closed_by = None
        self._offset += len(data)
