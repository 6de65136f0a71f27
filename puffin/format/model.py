"""
The values of a Puffin file: frozen, typed, named and ordered as in the spec ("FileMetadata", "BlobMetadata").

Two pairs mirror each other. ``Blob`` is what a caller hands to the writer and ``BlobMetadata`` is where it ended up;
``RawBlob`` is a blob as it is stored, so that it can move to another file without being decompressed, and
``WrittenFile`` is what a finished file is: the numbers that table metadata asks for.

Every value checks itself when it is made, so that whatever the writer accepts the reader accepts too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from puffin.errors import UsageError

# Blob types of the spec. The set is open: any other string is a valid type too.
THETA_V1 = "apache-datasketches-theta-v1"
DELETION_VECTOR_V1 = "deletion-vector-v1"
# Some of our own, in footers only: some readers of table metadata know no other types than those of the spec.
ROW_COUNTS_V1 = "puffin-sidecar-row-counts-v1"
PARTITION_SKETCHES_V1 = "puffin-sidecar-partition-sketches-v1"

# The codecs of the spec.
LZ4 = "lz4"
ZSTD = "zstd"

# The file property that says which application wrote the file.
CREATED_BY = "created-by"

# What the spec calls an int and a long.
INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)


class Properties(Mapping[str, str]):
    """String properties in the order given: a mapping that is immutable, hashable and can be pickled."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
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
    One blob of a file, as its footer describes it.

    Attributes:
        type: What the payload is; any string.
        fields: The ids of the fields the blob was computed for, in the order they were computed in.
        snapshot_id: The snapshot the blob was computed from.
        sequence_number: The sequence number of that snapshot.
        offset: Where the blob begins in the file, in bytes.
        length: How many bytes it takes there, after compression.
        compression_codec: The name of its codec, or None if it is stored as it is.
        properties: Whatever the application adds, such as ``ndv``.
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
        """The offset of the first byte after the blob."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetadata:
    """The footer payload: every blob in the order of the footer, and the properties of the file."""

    blobs: tuple[BlobMetadata, ...]
    properties: Mapping[str, str] = field(default_factory=Properties)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blobs", tuple(self.blobs))
        object.__setattr__(self, "properties", Properties(self.properties))


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """
    A blob to be written.

    Attributes:
        payload: Its bytes, not compressed.
        compression_codec: What the writer shall compress it with: ``"lz4"``, ``"zstd"`` or None for not at all.

    The other attributes are those of ``BlobMetadata``.
    """

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
    """A blob as it is stored in a file: its metadata there, and its bytes still compressed."""

    metadata: BlobMetadata
    stored: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _check_bytes("stored", self.stored)
        if len(self.stored) != self.metadata.length:
            raise UsageError(
                f"stored: expected {self.metadata.length} bytes as in the metadata, found {len(self.stored)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """
    A finished file.

    Attributes:
        blobs: Where each blob is, in the order written.
        file_size: The size of the file in bytes: ``file-size-in-bytes`` of table metadata.
        footer_size: The size of the footer in bytes, magic to magic: ``file-footer-size-in-bytes`` of table metadata.
    """

    blobs: tuple[BlobMetadata, ...]
    file_size: int
    footer_size: int


def _freeze_description(blob: Blob | BlobMetadata) -> None:
    """Check what a blob and its metadata have in common, and make its collections immutable."""
    object.__setattr__(blob, "fields", tuple(blob.fields))
    object.__setattr__(blob, "properties", Properties(blob.properties))
    _check_text("type", blob.type)
    for index, field_id in enumerate(blob.fields):
        _check_integer(f"fields[{index}]", field_id, INT32)
    _check_integer("snapshot_id", blob.snapshot_id, INT64)
    _check_integer("sequence_number", blob.sequence_number, INT64)
    if blob.compression_codec is not None:
        _check_text("compression_codec", blob.compression_codec)


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
