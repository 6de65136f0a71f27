"""
Sketches by partition, read from private state.

A property of the sketch that table metadata lists says that they are there, so that no file is opened in vain. A file
or blob that cannot be read leaves the question to an older one.
"""

from __future__ import annotations

from collections.abc import Sequence

from puffin.errors import CorruptError, PuffinError
from puffin.format import PARTITION_SKETCHES_V1
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.statistics.blob_properties import partitions_of
from puffin.statistics.private_state.writing import KeptBlob
from puffin.statistics.resolve import Ancestry, KnownBlob
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import BlobEntry, Column, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot


class StoredPartitionSketches:
    """
    Reads the partition sketches of some columns from the files of statistics entries, each file once.

    Args:
        field_ids: Of the columns that will be asked for.
    """

    def __init__(self, opened: TableSnapshot, field_ids: Sequence[int]) -> None:
        self._blobs = StoredBlobs(opened, (PARTITION_SKETCHES_V1,), field_ids)

    def read(self, entry: StatisticsEntry, blob: BlobEntry) -> PartitionSketches:
        """
        The partition sketches beside the sketch that an entry's blob describes, of the same rows.

        Raises:
            PuffinError: The file or the blob cannot be read, or is not what the entry says.
        """
        path = entry.statistics_path
        payload = self._blobs.find(entry, blob, PARTITION_SKETCHES_V1)
        if payload is None:
            raise CorruptError(f"{path}: expected partition sketches of field {blob.fields[0]}, found none")
        try:
            if isinstance(payload, PuffinError):
                raise payload
            return PartitionSketches.from_bytes(payload)
        except CorruptError as exc:
            raise CorruptError(f"{path}: field {blob.fields[0]}: {exc}") from exc

    def kept(self, entry: StatisticsEntry, blob: BlobEntry) -> KeptBlob | None:
        """Where what `read` reads is stored; None if it is in no part, so that it has to be written anew."""
        return self._blobs.kept(entry, blob, PARTITION_SKETCHES_V1)


def nearest_partition_sketches(
    ancestry: Ancestry, column: Column, stored: StoredPartitionSketches, errors: list[PuffinError]
) -> tuple[KnownBlob, PartitionSketches] | None:
    """The partition sketches of the nearest rows that can be read; ``errors`` gets what is wrong with nearer ones."""
    for known in ancestry.blobs_of(column.field_id):
        if partitions_of(known.blob.properties) is not None:
            try:
                return known, stored.read(known.entry, known.blob)
            except PuffinError as exc:
                errors.append(exc)
    return None
