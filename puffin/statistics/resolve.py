"""
From statistics entries to answers: which entry speaks for a column of a snapshot.

Ancestry decides, not time: statistics of another branch, or of a snapshot that was rolled back, say nothing
about this one. Of the ancestors' entries the one whose rows are nearest wins; an entry may keep a blob that was
computed from an older snapshot than its own, so it is the blob's snapshot that counts. A sketch that Trino extended
over changes that it may lack comes last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from puffin.errors import PuffinError, StorageError, UnsupportedError
from puffin.sketches import DEFAULT_LG_K
from puffin.statistics.answer import ANCESTOR, SNAPSHOT, UNKNOWN_FRESHNESS, ColumnAnswer, Freshness
from puffin.statistics.blob_properties import (
    MAPPING_CHANGED,
    Distinct,
    from_properties,
    is_ours,
    is_read_otherwise,
    lg_k_of,
    summary_of,
)
from puffin.statistics.extended_sketches import may_lack_changes
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry, TableState
from puffin.tables.snapshot import TableSnapshot

SketchReader = Callable[[StatisticsEntry, BlobEntry], Distinct | PuffinError]


@dataclasses.dataclass(frozen=True, slots=True)
class KnownBlob:
    """
    A sketch of a column that table metadata knows.

    Attributes:
        snapshot: Whose rows were counted; None if the table no longer has it.
        age: How many snapshots lie between those rows and the ones asked for.
        freshness: What these snapshots did, as far as it is known.
    """

    entry: StatisticsEntry
    blob: BlobEntry
    snapshot: Snapshot | None
    age: int
    freshness: Freshness

    def answer(self, column: Column, distinct: Distinct) -> ColumnAnswer:
        """What the sketch says of its column."""
        return ColumnAnswer(
            column,
            distinct,
            self.blob.snapshot_id,
            SNAPSHOT if self.age == 0 else ANCESTOR,
            freshness=self.freshness,
            statistics_path=self.entry.statistics_path,
        )


class Ancestry:
    """What is known of a snapshot's columns from its own statistics and those of its ancestors."""

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
        """Statistics entries, the nearest first."""

    def blobs_of(self, field_id: int) -> list[KnownBlob]:
        """The theta blobs of a column, those of the nearest rows first, and of equals the nearest entry's."""
        known = []
        for entry in self.entries:
            blob = entry.sketch_of(field_id)
            if blob is not None:
                known.append(KnownBlob(entry, blob, *self._by_id.get(blob.snapshot_id, self._unknown)))
        return sorted(known, key=lambda k: k.age)


def resolve(opened: TableSnapshot, columns: Sequence[Column], read_sketch: SketchReader) -> tuple[ColumnAnswer, ...]:
    """
    The answer for each column, in the order asked.

    Args:
        read_sketch: Asked for a blob whose properties have no ``ndv``, or not the size of the sketch; an error means
            that the file cannot tell either.
    """
    ancestry = Ancestry(opened)
    return tuple(_resolve(opened.state, ancestry.blobs_of(column.field_id), column, read_sketch) for column in columns)


def provisional_after(errors: Iterable[PuffinError], answer: ColumnAnswer) -> ColumnAnswer:
    """The answer that was found after these errors: what storage failed to give may be there the next time."""
    failed = any(isinstance(error, StorageError) for error in errors)
    return dataclasses.replace(answer, is_provisional=True) if failed else answer


def _resolve(state: TableState, known: Sequence[KnownBlob], column: Column, read_sketch: SketchReader) -> ColumnAnswer:
    errors: list[PuffinError] = []
    for candidate in sorted(known, key=lambda each: may_lack_changes(state, each.blob)):
        properties = candidate.blob.properties
        if is_read_otherwise(state, column, properties):
            errors.append(UnsupportedError(MAPPING_CHANGED))
            continue
        found = _stated(candidate, known) or read_sketch(candidate.entry, candidate.blob)
        if isinstance(found, PuffinError):
            errors.append(found)
        distinct = from_properties(properties) if isinstance(found, PuffinError) else found
        if distinct is not None:
            return provisional_after(errors, candidate.answer(column, distinct).with_summary(summary_of(properties)))
    return provisional_after(errors, ColumnAnswer.missing(column, str(errors[0]) if errors else None))


def _stated(candidate: KnownBlob, known: Sequence[KnownBlob]) -> Distinct | None:
    """What a sketch's properties say; None if they do not, or leave its size in doubt."""
    properties = candidate.blob.properties
    if not is_ours(properties) and any(lg_k_of(each.blob.properties) != DEFAULT_LG_K for each in known):
        return None  # an engine that extends one of ours keeps its size, and says nothing of it
    return from_properties(properties)


def _since_each(ancestors: Iterable[Snapshot]) -> Iterator[Freshness]:
    """For each snapshot, the nearest first, what came after it."""
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
