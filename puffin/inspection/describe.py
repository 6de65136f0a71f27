"""
Describe a Puffin file: its footer, its blobs and the payloads of known types.

Blobs are read one by one, so that memory holds one at a time and a bad one does not affect its neighbours. Payloads of
unknown types are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from puffin.errors import CorruptError, CorruptPuffinError, StorageError, UnsupportedError, UsageError
from puffin.format import DELETION_VECTOR_V1, ROW_COUNTS_V1, BlobMetadata, PuffinReader
from puffin.inspection.contents import SUMMARIES, Summary
from puffin.storage import FileSource, open_source

_OF_OTHER_FILES = {"file-size", "tail-magic"}  # a file that ends as a Puffin file does is a broken one
_KINDS = {
    b"PAR1": "a Parquet file",
    b"PARE": "an encrypted Parquet file",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"\x1f\x8b": "a gzip file",
    b"{": "a JSON file",
}
"""By the bytes with which they begin; those that lie beside Puffin files."""
_LONGEST_MAGIC = max(map(len, _KINDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobDescription:
    """
    One blob of a file; ``index`` is its position in the footer, from 0.

    ``summary`` is None if the type is not in ``SUMMARIES``, or if the payload is bad for the reason in ``error``.
    """

    index: int
    metadata: BlobMetadata
    summary: Summary | None
    error: str | None

    def to_json(self) -> dict[str, Any]:
        metadata = self.metadata
        summary = None if self.summary is None else self.summary.to_json()
        key = "deletion-vector" if metadata.type == DELETION_VECTOR_V1 else "sketch"
        document = {
            "index": self.index,
            "type": metadata.type,
            "fields": list(metadata.fields),
            "snapshot-id": metadata.snapshot_id,
            "sequence-number": metadata.sequence_number,
            "offset": metadata.offset,
            "length": metadata.length,
            "compression-codec": metadata.compression_codec,
            "properties": dict(metadata.properties),
            **({"sketch": None, "row-counts": summary} if metadata.type == ROW_COUNTS_V1 else {key: summary}),
        }
        return document if self.error is None else {**document, "error": self.error}


class FileDescription(NamedTuple):
    """
    A file with a sound footer, and all its blobs in the order of the footer, or the one requested.

    Sizes are in bytes; the footer's is from magic to magic.
    """

    path: str
    file_size: int
    footer_size: int
    footer_compressed: bool
    properties: Mapping[str, str]
    blobs: tuple[BlobDescription, ...]

    def to_json(self) -> dict[str, Any]:
        document = {name.replace("_", "-"): value for name, value in self._asdict().items()}
        return {**document, "properties": dict(self.properties), "blobs": [blob.to_json() for blob in self.blobs]}


def describe(
    path: str, *, only: int | None = None, opened_by: Callable[[str], FileSource] = open_source
) -> FileDescription:
    """
    Describe a Puffin file.

    Args:
        path: A local path, a URI, or ``-`` for standard input.
        only: The index of the only blob to describe, from 0.
        opened_by: Opens the file if it needs other credentials than those of the environment.

    Raises:
        UsageError: The file has no blob ``only``.
        CorruptPuffinError: The file breaks a rule of the layout.
        NotFoundError, StorageError, SetupError, UnsupportedError: The file cannot be opened or read.
    """
    with open_puffin(path, opened_by) as reader:
        metadata = reader.file_metadata
        count = len(metadata.blobs)
        indexes = range(count) if only is None else [_checked_index(path, only, count)]
        return FileDescription(
            path=path,
            file_size=reader.file_size,
            footer_size=reader.footer_size,
            footer_compressed=reader.footer_compressed,
            properties=metadata.properties,
            blobs=tuple(_describe_blob(reader, index) for index in indexes),
        )


def read_payload(path: str, index: int, *, opened_by: Callable[[str], FileSource] = open_source) -> bytes:
    """Read the decompressed payload of one blob of any type; raises as ``describe`` and ``PuffinReader.read``."""
    with open_puffin(path, opened_by) as reader:
        blobs = reader.file_metadata.blobs
        return reader.read(blobs[_checked_index(path, index, len(blobs))])


@contextmanager
def open_puffin(path: str, opened_by: Callable[[str], FileSource] = open_source) -> Iterator[PuffinReader]:
    """Open a file for the block, and check its head; errors about a file of another kind say of which."""
    with opened_by(path) as source:
        try:
            reader = PuffinReader(source)
            reader.check_head()
            yield reader
        except CorruptPuffinError as exc:
            suspicion = _suspicion(exc, source)
            if suspicion is None:
                raise
            raise CorruptPuffinError(
                exc.rule, offset=exc.offset, expected=exc.expected, found=exc.found, suspicion=suspicion
            ) from exc


def _suspicion(exc: CorruptPuffinError, source: FileSource) -> str | None:
    """What a file without a magic, or too short for one, seems to be; None if it is a broken Puffin file."""
    if exc.rule not in _OF_OTHER_FILES:
        return None
    try:
        head = source.read_at(0, _LONGEST_MAGIC)
    except StorageError:
        return None
    found = next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), None)
    if found is not None:
        return found
    if not head:
        return "an empty file"
    return None if exc.rule == "file-size" else "no Puffin file, or cut short"


def _checked_index(path: str, index: int, count: int) -> int:
    if not 0 <= index < count:
        known = f"0 to {count - 1}" if count else "none, the file has no blobs"
        raise UsageError(f"{path}: blob index: expected {known}, found {index}")
    return index


def _describe_blob(reader: PuffinReader, index: int) -> BlobDescription:
    metadata = reader.file_metadata.blobs[index]
    summary, error = None, None
    if metadata.type in SUMMARIES:
        try:
            summary = SUMMARIES[metadata.type].of(reader.read(metadata))
        except (CorruptError, UnsupportedError) as exc:
            error = str(exc)
    return BlobDescription(index=index, metadata=metadata, summary=summary, error=error)
