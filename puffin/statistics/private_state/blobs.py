"""The private blobs beside sketches: new ones, those that an earlier run stored, and those that nobody wants."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from puffin.format import DISTRIBUTION_V1, PARTITION_SKETCHES_V1, Blob, BlobMetadata, RawBlob
from puffin.statistics.private_state import places
from puffin.statistics.private_state.manifest import BlobKey, StoredKey
from puffin.tables.base import BlobEntry

WITH_VALUES = frozenset((DISTRIBUTION_V1, PARTITION_SKETCHES_V1))
"""The types of blobs that hold values of the table, and not only their hashes."""


@dataclasses.dataclass(frozen=True, slots=True)
class KeptBlob:
    """
    A private blob that an earlier run stored in this folder; its key has the snapshot id of its sketch.

    ``delta`` is to be written as one more delta of it.
    """

    key: BlobKey
    stored: StoredKey
    directory: str
    delta: Blob | None = None

    @property
    def part_uri(self) -> str:
        return places.part_uri(self.directory, self.stored.part.id)


@dataclasses.dataclass(frozen=True, slots=True)
class LaterBlob:
    """A private blob that is made when it is written, each time: those of a wide table need not fit into memory."""

    key: BlobKey
    make: Callable[[], Blob | RawBlob]


NewBlob: TypeAlias = Blob | RawBlob | LaterBlob


@dataclasses.dataclass(frozen=True, slots=True)
class PrivateState:
    """
    The private blobs beside some sketches.

    Attributes:
        kept: Those that are stored.
        omitted: Those that nobody wants, so that they are not missing.
        new: Those that are yet to be written.
    """

    kept: Mapping[BlobKey, KeptBlob] = dataclasses.field(default_factory=dict)
    omitted: frozenset[BlobKey] = frozenset()
    new: tuple[LaterBlob, ...] = ()

    def has(self, key: BlobKey) -> bool:
        """Whether a blob is stored, or noted as omitted."""
        return key in self.kept or key in self.omitted

    def only(self, keys: Collection[BlobKey]) -> PrivateState:
        """What is stored or omitted of these."""
        return PrivateState({key: self.kept[key] for key in keys if key in self.kept}, self.omitted.intersection(keys))


NOTHING_PRIVATE = PrivateState()


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """The blobs of a statistics file in order, the same blobs in its entry, and its private state with its home."""

    blobs: tuple[Blob | RawBlob, ...]
    entries: tuple[BlobEntry, ...]
    private: PrivateState
    home: str | None


def blob_key(stored: NewBlob | BlobMetadata) -> BlobKey:
    """What a blob is found by in its part."""
    if isinstance(stored, LaterBlob):
        return stored.key
    metadata = stored.metadata if isinstance(stored, RawBlob) else stored
    return BlobKey(metadata.type, metadata.fields[0], metadata.snapshot_id)


def blobs_by_key(blobs: Iterable[BlobMetadata]) -> dict[BlobKey, BlobMetadata]:
    """The blobs of a part, without those that are none of ours: each of ours has one column."""
    return {blob_key(blob): blob for blob in blobs if len(blob.fields) == 1}
