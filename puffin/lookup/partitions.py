"""
The NDV of some partitions: the union of their sketches.

The columns of a table have the sketches of its partitions beside theirs, in private state. A property of the sketch
that table metadata lists says that they are there, so that no file is opened in vain. A file or blob that cannot be
read leaves the question to an older one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from puffin.errors import CorruptError, PuffinError
from puffin.format import PARTITION_SKETCHES_V1
from puffin.lookup.answer import ColumnAnswer, PartitionMatch
from puffin.lookup.resolve import Ancestry, KnownBlob, provisional_after
from puffin.storage import Store
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry, TableState
from puffin.tables.blob_properties import Distinct, partitions_of
from puffin.tables.partition_sketches import PartitionSketches
from puffin.tables.partition_tuples import PartitionKey
from puffin.tables.private_state.writing import KeptBlob
from puffin.tables.stored_blobs import StoredBlobs


def answer_partitions(
    store_for: Callable[[str], Store],
    state: TableState,
    snapshot: Snapshot,
    columns: Sequence[Column],
    is_meant: Callable[[PartitionKey], bool],
) -> tuple[tuple[ColumnAnswer, ...], PartitionMatch]:
    """
    The answer for each column, in the order asked, and how many partitions it is about.

    These are counted where the sketches of the nearest rows are, if columns have them of different snapshots.
    """
    ancestry = Ancestry(state, snapshot)
    stored = StoredPartitionSketches(state, store_for, [column.field_id for column in columns])
    answers = []
    match, nearest = PartitionMatch(None, None), None
    for column in columns:
        errors: list[PuffinError] = []
        found = nearest_partition_sketches(ancestry, column, stored, errors)
        if found is None:
            answers.append(provisional_after(errors, ColumnAnswer.missing(column, str(errors[0]) if errors else None)))
            continue
        known, sketches = found
        answers.append(provisional_after(errors, known.answer(column, Distinct.of(sketches.union(is_meant)))))
        if nearest is None or known.age < nearest:
            nearest, match = known.age, PartitionMatch(sum(map(is_meant, sketches.keys)), len(sketches.keys))
    return tuple(answers), match


class StoredPartitionSketches:
    """
    Reads the partition sketches of some columns from the files of statistics entries, each file once.

    Args:
        field_ids: Of the columns that will be asked for.
    """

    def __init__(self, state: TableState, store_for: Callable[[str], Store], field_ids: Sequence[int]) -> None:
        self._blobs = StoredBlobs(state, store_for, (PARTITION_SKETCHES_V1,), field_ids)

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
