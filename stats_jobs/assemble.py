"""
What goes into a statistics file, and in which order: pure, so that the file's layout can be tested without one.

Theta blobs come first, sorted by field id, and are exactly those of the table's entry: pyiceberg cannot load a
table whose entry names any other type. Whatever else is kept follows, in the footer only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from puffin.format import THETA_V1, Blob, RawBlob
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry
from puffin.tables.blob_properties import to_properties
from puffin.theta import ThetaSketch


@dataclasses.dataclass(frozen=True, slots=True)
class RetainedBlob:
    """
    A blob of another run or another engine that stays.

    Attributes:
        entry: What table metadata says of it; None for a blob that stands in the footer only.
    """

    raw: RawBlob
    entry: BlobEntry | None


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """The blobs of a statistics file in order, and those of them that the table's entry lists."""

    blobs: tuple[Blob | RawBlob, ...]
    entries: tuple[BlobEntry, ...]


def sketch_blobs(
    sketches: Mapping[int, ThetaSketch],
    columns: Iterable[Column],
    snapshot: Snapshot,
    *,
    lg_k: int,
    codec: str | None,
) -> list[Blob]:
    """One theta blob of this snapshot for each of the columns."""
    return [
        Blob(
            type=THETA_V1,
            fields=(column.field_id,),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            payload=sketches[column.field_id].to_bytes(),
            compression_codec=codec,
            properties=to_properties(sketches[column.field_id], column.type, lg_k),
        )
        for column in columns
    ]


def choose_retained(
    candidates: Iterable[RetainedBlob], *, computed: Collection[int], current_fields: Collection[int]
) -> list[RetainedBlob]:
    """
    Of the blobs that were there, those to keep: of other columns, of columns the current schema still has.

    A blob for a field that is gone makes Spark's planner fail, and two theta blobs for one first field make Trino's
    fail; of two candidates the first wins.
    """
    taken = set(computed)
    others: set[tuple[str, tuple[int, ...]]] = set()
    kept: list[RetainedBlob] = []
    for candidate in candidates:
        blob = candidate.raw.metadata
        if not blob.fields or not set(blob.fields) <= set(current_fields):
            continue
        if blob.type == THETA_V1:
            if candidate.entry is None or blob.fields[0] in taken:
                continue
            taken.add(blob.fields[0])
        else:
            if (blob.type, blob.fields) in others:
                continue
            others.add((blob.type, blob.fields))
        kept.append(candidate)
    return kept


def with_entries(entry: StatisticsEntry, raws: Iterable[RawBlob]) -> list[RetainedBlob]:
    """Each stored blob with what the table's entry says of it."""
    return [RetainedBlob(raw, _entry_of(entry, raw)) for raw in raws]


def assemble(computed: Sequence[Blob], retained: Sequence[RetainedBlob]) -> Contents:
    """The file's contents: computed and retained theta blobs by field id, then whatever else is retained."""
    theta: list[tuple[tuple[int, ...], Blob | RawBlob, BlobEntry]] = [(b.fields, b, _entry(b)) for b in computed]
    theta += [(r.raw.metadata.fields, r.raw, r.entry) for r in retained if r.entry is not None]
    theta.sort(key=lambda item: item[0])
    rest = [r.raw for r in retained if r.entry is None]
    return Contents((*(blob for _, blob, _ in theta), *rest), tuple(entry for _, _, entry in theta))


def _entry(blob: Blob) -> BlobEntry:
    return BlobEntry(blob.type, blob.snapshot_id, blob.sequence_number, blob.fields, blob.properties)


def _entry_of(entry: StatisticsEntry, raw: RawBlob) -> BlobEntry | None:
    stored = raw.metadata
    if stored.type != THETA_V1:
        return None
    return next((b for b in entry.blobs if b.type == stored.type and b.fields == stored.fields), None)
