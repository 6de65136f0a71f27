"""
The values of a Puffin file, named and ordered as in the spec ("FileMetadata", "BlobMetadata").

A caller hands a ``Blob`` to the writer and gets its ``BlobMetadata`` back. A ``RawBlob`` moves to another file without
being decompressed. Every value checks itself, so the reader accepts whatever the writer accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from puffin.errors import UsageError

INT32 = range(-(2**31), 2**31)  # an int of the spec
INT64 = range(-(2**63), 2**63)  # a long

_Value = TypeVar("_Value")


class Properties(Mapping[str, str]):
    """String properties in the order given: an immutable, hashable and picklable mapping."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        if values is not None and not isinstance(values, Mapping):
            raise UsageError(f"properties: expected a mapping, found {values!r}")
        self._values = dict(values or {})
        for key, value in self._values.items():
            _check_text("a property name", key)
            _check_text(f"property {key!r}", value)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return repr(self._values)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMetadata:
    """
    One blob of a file, as the footer describes it.

    Attributes:
        type: Any string.
        fields: The ids of the fields that the blob describes, in the order of computation.
        snapshot_id, sequence_number: The snapshot that the blob was computed from.
        offset, length: The stored bytes in the file, after compression.
        compression_codec: None if the blob is not compressed.
        properties: Whatever the writing application adds, such as ``ndv``.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=Properties)

    def __post_init__(self) -> None:
        _freeze_description(self)
        for name, value in (("offset", self.offset), ("length", self.length)):
            _check_integer(name, value, INT64)
            if value < 0:
                raise UsageError(f"{name}: expected a non-negative integer, found {value}")

    @property
    def end(self) -> int:
        """The offset of the next byte after the blob."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetadata:
    """The footer payload: the blobs in order, and the properties of the file."""

    blobs: tuple[BlobMetadata, ...]
    properties: Mapping[str, str] = field(default_factory=Properties)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blobs", _frozen("blobs", self.blobs))
        object.__setattr__(self, "properties", Properties(self.properties))


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A blob to write: an uncompressed payload, and attributes as in ``BlobMetadata``."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    payload: bytes = field(repr=False)
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=Properties)

    def __post_init__(self) -> None:
        _freeze_description(self)
        _check_bytes("payload", self.payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBlob:
    """A blob as another file stores it, still compressed."""

    metadata: BlobMetadata
    stored: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _check_bytes("stored", self.stored)
        if len(self.stored) != self.metadata.length:
            expected = f"{self.metadata.length} bytes as in the metadata"
            raise UsageError(f"stored: expected {expected}, found {len(self.stored)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file: its blobs in the order written, and the sizes in bytes that table metadata needs."""

    blobs: tuple[BlobMetadata, ...]
    file_size: int
    footer_size: int


def _freeze_description(blob: Blob | BlobMetadata) -> None:
    """Check the attributes that blobs and their metadata share, and make the collections immutable."""
    object.__setattr__(blob, "fields", _frozen("fields", blob.fields))
    object.__setattr__(blob, "properties", Properties(blob.properties))
    _check_text("type", blob.type)
    for index, field_id in enumerate(blob.fields):
        _check_integer(f"fields[{index}]", field_id, INT32)
    _check_integer("snapshot_id", blob.snapshot_id, INT64)
    _check_integer("sequence_number", blob.sequence_number, INT64)
    if blob.compression_codec is not None:
        _check_text("compression_codec", blob.compression_codec)


def _frozen(name: str, values: Iterable[_Value]) -> tuple[_Value, ...]:
    try:
        return tuple(values)
    except TypeError as exc:
        raise UsageError(f"{name}: expected a sequence, found {values!r}") from exc


def _check_integer(name: str, value: object, bounds: range) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value not in bounds:
        raise UsageError(f"{name}: expected an integer from {bounds[0]} to {bounds[-1]}, found {value!r}")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{name}: expected a str, found {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise UsageError(f"{name}: expected text that UTF-8 can encode, found {value!r}") from exc


def _check_bytes(name: str, value: object) -> None:
    if not isinstance(value, bytes):
        raise UsageError(f"{name}: expected bytes, found {type(value).__name__}")
