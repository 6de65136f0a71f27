"""
Answers for the columns of a snapshot from the statistics entries of its ancestry, and from sketches without an ``ndv``.

Ancestry decides, not time: statistics of another branch, or of a snapshot that was rolled back, do not apply. The
ancestor's entry with the nearest rows wins; an entry may keep a blob of an older snapshot than its own, so the blob's
snapshot counts. Sketches that Trino extended and that may lack changes come last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from puffin.errors import PuffinError, StorageError, UnsupportedError
from puffin.sketches import DEFAULT_LG_K
from puffin.sketches.partition_sketches import PartitionSketches
from puffin.statistics.answer import ANCESTOR, SNAPSHOT, UNKNOWN_FRESHNESS, ColumnAnswer, Freshness
from puffin.statistics.blob_properties import (
    MAPPING_CHANGED,
    Distinct,
    from_properties,
    is_ours,
    is_read_otherwise,
    lg_k_of,
    partitions_of,
    summary_of,
)
from puffin.statistics.extended_sketches import may_lack_changes
from puffin.statistics.kinds import PARTITION_SKETCHES, THETA
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState


@dataclasses.dataclass(frozen=True, slots=True)
class KnownBlob:
    """
    A sketch of a column in table metadata; ``snapshot`` is None if the table no longer has the one whose rows were
    counted.

    ``age`` is how many snapshots lie between those rows and the ones asked for, ``freshness`` what these changed.
    """

    entry: StatisticsEntry
    blob: BlobEntry
    snapshot: Snapshot | None
    age: int
    freshness: Freshness

    def answer(self, column: Column, distinct: Distinct) -> ColumnAnswer:
        return ColumnAnswer(
            column,
            distinct,
            self.blob.snapshot_id,
            SNAPSHOT if self.age == 0 else ANCESTOR,
            freshness=self.freshness,
            statistics_path=self.entry.statistics_path,
        )


class Ancestry:
    """The statistics of a snapshot and its ancestors; ``entries`` lists the nearest first."""

    def __init__(self, opened: TableSnapshot) -> None:
        state = opened.state
        ancestors = tuple(state.ancestors(opened.snapshot.snapshot_id))
        self._by_id = {
            ancestor.snapshot_id: (ancestor, age, freshness)
            for age, (ancestor, freshness) in enumerate(zip(ancestors, _since_each(ancestors), strict=True))
        }
        # A blob from a snapshot that is no longer known is older than every ancestor that is.
        self._unknown = None, len(ancestors), UNKNOWN_FRESHNESS
        self.entries = tuple(state.statistics[a.snapshot_id] for a in ancestors if a.snapshot_id in state.statistics)

    def blobs_of(self, field_id: int) -> list[KnownBlob]:
        """The theta blobs of a column, by the distance of their rows and then of their entries."""
        known = []
        for entry in self.entries:
            blob = entry.sketch_of(field_id)
            if blob is not None:
                known.append(KnownBlob(entry, blob, *self._by_id.get(blob.snapshot_id, self._unknown)))
        return sorted(known, key=lambda k: k.age)


def answer_columns(opened: TableSnapshot, columns: Sequence[Column], stored: StoredBlobs) -> tuple[ColumnAnswer, ...]:
    """
    The answer for each column, in the order given.

    Our own sketches always have an ``ndv``, so only those of other engines are read. If a file is gone or broken, an
    older entry answers.
    """
    ancestry = Ancestry(opened)
    return tuple(_resolve(opened.state, ancestry.blobs_of(column.field_id), column, stored) for column in columns)


def nearest_partition_sketches(
    ancestry: Ancestry, column: Column, stored: StoredBlobs, errors: list[PuffinError]
) -> tuple[KnownBlob, PartitionSketches] | None:
    """
    The nearest readable partition sketches of a column; appends what is wrong with nearer ones to ``errors``.

    A property in table metadata announces them, so that no file is opened in vain.
    """
    for known in ancestry.blobs_of(column.field_id):
        if partitions_of(known.blob.properties) is not None:
            try:
                return known, stored.require(known.entry, known.blob, PARTITION_SKETCHES, column)
            except PuffinError as exc:
                errors.append(exc)
    return None


def provisional_after(errors: Iterable[PuffinError], answer: ColumnAnswer) -> ColumnAnswer:
    """The answer that was found after these errors: if storage failed, a retry may give another one."""
    failed = any(isinstance(error, StorageError) for error in errors)
    return dataclasses.replace(answer, is_provisional=True) if failed else answer


def _resolve(state: TableState, known: Sequence[KnownBlob], column: Column, stored: StoredBlobs) -> ColumnAnswer:
    errors: list[PuffinError] = []
    for candidate in sorted(known, key=lambda each: may_lack_changes(state, each.blob)):
        properties = candidate.blob.properties
        if is_read_otherwise(state, column, properties):
            errors.append(UnsupportedError(MAPPING_CHANGED))
            continue
        distinct = _stated(candidate, known)
        if distinct is None:
            try:
                distinct = Distinct.foreign(stored.require(candidate.entry, candidate.blob, THETA, column))
            except PuffinError as exc:
                errors.append(exc)
                distinct = from_properties(properties)
        if distinct is not None:
            return provisional_after(errors, candidate.answer(column, distinct).with_summary(summary_of(properties)))
    return provisional_after(errors, ColumnAnswer.missing(column, str(errors[0]) if errors else None))


def _stated(candidate: KnownBlob, known: Sequence[KnownBlob]) -> Distinct | None:
    """The estimate in a sketch's properties; None without one, or if the sketch's size is in doubt."""
    properties = candidate.blob.properties
    if not is_ours(properties) and any(lg_k_of(each.blob.properties) != DEFAULT_LG_K for each in known):
        return None  # an engine that extends our sketch keeps its size, and does not note it
    return from_properties(properties)


def _since_each(ancestors: Iterable[Snapshot]) -> Iterator[Freshness]:
    """What changed after each snapshot, the nearest first."""
    behind, added, deleted = 0, 0, 0
    unknown_added, unknown_deleted = False, False
    for ancestor in ancestors:
        yield Freshness(behind, None if unknown_added else added, None if unknown_deleted else deleted)
        if not ancestor.keeps_rows:
            behind += 1
            added += ancestor.added_records or 0
            deleted += ancestor.deleted_records or 0
            unknown_added |= ancestor.added_records is None
            unknown_deleted |= ancestor.deleted_records is None
