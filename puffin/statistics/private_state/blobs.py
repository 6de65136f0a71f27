"""The private blobs of a statistics file: new ones, those that an earlier run stored, and those that nobody wants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from puffin.format import DISTRIBUTION_V1, PARTITION_SKETCHES_V1, Blob, BlobMetadata, RawBlob
from puffin.statistics.private_state import places
from puffin.statistics.private_state.manifest import BlobKey, StoredKey
from puffin.tables.base import BlobEntry

WITH_VALUES = frozenset((DISTRIBUTION_V1, PARTITION_SKETCHES_V1))
"""The types of blobs that hold values of the table, and not only their hashes."""


@dataclasses.dataclass(frozen=True, slots=True)
class KeptBlob:
    """A private blob that an earlier run stored in this folder; its key has the snapshot id of its sketch."""

    key: BlobKey
    stored: StoredKey
    directory: str

    @property
    def part_uri(self) -> str:
        return places.part_uri(self.directory, self.stored.part.id)

    def beside(self, snapshot_id: int) -> KeptBlob:
        """The same blob for the sketch of a snapshot with the same rows."""
        return dataclasses.replace(self, key=self.key._replace(snapshot_id=snapshot_id))


@dataclasses.dataclass(frozen=True, slots=True)
class OmittedBlob:
    """Notes that nobody wants a private blob, so that it is not missing; `key` is that of its sketch."""

    key: BlobKey


@dataclasses.dataclass(frozen=True, slots=True)
class DeltaBlob:
    """A private blob that an earlier run stored, its key with the snapshot id of its new sketch, and one more delta."""

    kept: KeptBlob
    delta: Blob


@dataclasses.dataclass(frozen=True, slots=True)
class LaterBlob:
    """A private blob that is made when it is written, each time: those of a wide table need not fit into memory."""

    key: BlobKey
    make: Callable[[], Blob | RawBlob]


NewBlob: TypeAlias = Blob | RawBlob | LaterBlob
PrivateBlob: TypeAlias = NewBlob | KeptBlob | OmittedBlob | DeltaBlob


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """The blobs of a statistics file in order, the same blobs in its entry, and its private state with its home."""

    blobs: tuple[Blob | RawBlob, ...]
    entries: tuple[BlobEntry, ...]
    private: tuple[PrivateBlob, ...]
    home: str | None


def blob_key(stored: NewBlob | BlobMetadata) -> BlobKey:
    """What a blob is found by in its part."""
    if isinstance(stored, LaterBlob):
        return stored.key
    said = stored.metadata if isinstance(stored, RawBlob) else stored
    return BlobKey(said.type, said.fields[0], said.snapshot_id)
