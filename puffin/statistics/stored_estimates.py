"""The answers for the columns of a snapshot, from metadata and, where that lacks an ``ndv``, from the sketches."""

from __future__ import annotations

from collections.abc import Sequence

from puffin.errors import PuffinError
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.statistics.answer import ColumnAnswer
from puffin.statistics.blob_properties import Distinct, partitions_of
from puffin.statistics.kinds import PARTITION_SKETCHES, THETA
from puffin.statistics.resolve import Ancestry, KnownBlob, resolve
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import BlobEntry, Column, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot


def answer_columns(opened: TableSnapshot, columns: Sequence[Column], stored: StoredBlobs) -> tuple[ColumnAnswer, ...]:
    """
    The answer for each column, in the order asked.

    Our own sketches always have an ``ndv``, so those that are read are other engines'. A file that is gone or broken
    leaves the question open for an older entry.
    """
    by_id = {column.field_id: column for column in columns}

    def read(entry: StatisticsEntry, blob: BlobEntry) -> Distinct | PuffinError:
        try:
            return Distinct.foreign(stored.require(entry, blob, THETA, by_id[blob.fields[0]]))
        except PuffinError as exc:
            return exc

    return resolve(opened, columns, read)


def nearest_partition_sketches(
    ancestry: Ancestry, column: Column, stored: StoredBlobs, errors: list[PuffinError]
) -> tuple[KnownBlob, PartitionSketches] | None:
    """
    The partition sketches of the nearest rows that can be read; ``errors`` gets what is wrong with nearer ones.

    A property of the sketch that table metadata lists says that they are there, so no file is opened in vain.
    """
    for known in ancestry.blobs_of(column.field_id):
        if partitions_of(known.blob.properties) is not None:
            try:
                return known, stored.require(known.entry, known.blob, PARTITION_SKETCHES, column)
            except PuffinError as exc:
                errors.append(exc)
    return None
