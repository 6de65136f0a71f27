"""
What goes into a statistics file, and in which order: pure, so that the file's layout can be tested without one.

Theta blobs come first, sorted by field id, and are exactly those of the table's entry: pyiceberg cannot load a
table whose entry names any other type. What is ours besides follows, and whatever else is kept, in the footer only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from puffin.format import PARTITION_SKETCHES_V1, ROW_COUNTS_V1, THETA_V1, ZSTD, Blob, RawBlob
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry
from puffin.tables.blob_properties import to_properties
from puffin.tables.column_summary import ColumnSummary
from puffin.tables.partition_sketches import PartitionSketches
from puffin.theta import RowCounts, ThetaSketch

COMPANIONS = (ROW_COUNTS_V1, PARTITION_SKETCHES_V1)
"""The types of ours, of blobs that stand beside the sketch of the same field and snapshot, in the footer alone."""


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
    partitions: Mapping[int, PartitionSketches] | None = None,
    summaries: Mapping[int, ColumnSummary] | None = None,
) -> list[Blob]:
    """
    One theta blob of this snapshot for each of the columns.

    Args:
        partitions: Of which its properties say how many there are.
        summaries: Which its properties have.
    """
    summaries = summaries or {}
    counts = {field_id: len(sketches.keys) for field_id, sketches in (partitions or {}).items()}
    return [
        Blob(
            type=THETA_V1,
            fields=(column.field_id,),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            payload=sketches[column.field_id].to_bytes(),
            compression_codec=codec,
            properties=to_properties(
                sketches[column.field_id],
                column.type,
                lg_k,
                partitions=counts.get(column.field_id),
                summary=summaries.get(column.field_id),
            ),
        )
        for column in columns
    ]


def companion_blobs(
    type_: str,
    companions: Mapping[int, RowCounts] | Mapping[int, PartitionSketches],
    columns: Iterable[Column],
    snapshot: Snapshot,
) -> list[Blob]:
    """One blob of a type of ours for each of the columns that has one; compressed, since nobody but us reads it."""
    return [
        Blob(
            type=type_,
            fields=(column.field_id,),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            payload=companions[column.field_id].to_bytes(),
            compression_codec=ZSTD,
        )
        for column in columns
        if column.field_id in companions
    ]


def choose_retained(
    candidates: Iterable[RetainedBlob],
    *,
    snapshot_id: int,
    computed: Collection[int],
    current_fields: Collection[int],
) -> list[RetainedBlob]:
    """
    Of the blobs that were there, those to keep: of other columns, of fields the current schema still has.

    A theta blob for a field that is gone makes Spark's planner fail, and two for one first field make Trino's fail:
    of several the one of the newest rows is kept, and of equals the first. What is ours beside a sketch stays with it.

    Args:
        snapshot_id: The snapshot whose statistics file they go into.
        computed: The fields that have been computed anew.
        current_fields: Every field of the current schema, those inside of lists and maps included.
    """
    fitting = [c for c in candidates if set(c.raw.metadata.fields) <= set(current_fields)]
    sketches: dict[int, RetainedBlob] = {}
    for field_id, candidate in _newest_first(fitting, snapshot_id):
        if field_id not in computed:
            sketches.setdefault(field_id, candidate)
    kept = {(entry.fields, entry.snapshot_id) for c in sketches.values() if (entry := c.entry) is not None}
    others = {_wherever(c.raw): c for c in reversed(fitting) if c.entry is None and _stays(c.raw, kept)}
    return [*sketches.values(), *reversed(others.values())]


def with_entries(entry: StatisticsEntry, raws: Iterable[RawBlob]) -> list[RetainedBlob]:
    """Each stored blob with what the table's entry says of it; not a theta blob of which it says nothing."""
    retained = [RetainedBlob(raw, _entry_of(entry, raw)) for raw in raws]
    return [r for r in retained if r.entry is not None or r.raw.metadata.type != THETA_V1]


def assemble(computed: Sequence[Blob], retained: Sequence[RetainedBlob]) -> Contents:
    """The file's contents: computed and retained theta blobs by field id, then whatever else is retained."""
    theta: list[tuple[tuple[int, ...], Blob | RawBlob, BlobEntry]]
    theta = [(b.fields, b, _entry(b)) for b in computed if b.type == THETA_V1]
    theta += [(r.raw.metadata.fields, r.raw, r.entry) for r in retained if r.entry is not None]
    theta.sort(key=lambda item: item[0])
    rest: list[Blob | RawBlob] = [
        *(b for b in computed if b.type != THETA_V1),
        *(r.raw for r in retained if r.entry is None),
    ]
    return Contents((*(blob for _, blob, _ in theta), *rest), tuple(entry for _, _, entry in theta))


def _entry(blob: Blob) -> BlobEntry:
    return BlobEntry(blob.type, blob.snapshot_id, blob.sequence_number, blob.fields, blob.properties)


def _newest_first(candidates: Iterable[RetainedBlob], snapshot_id: int) -> Iterator[tuple[int, RetainedBlob]]:
    # In version 1 all sequence numbers are 0: there the snapshot itself is all that is known to be newer.
    listed = [(c.entry, c) for c in candidates if c.entry is not None and c.entry.fields]
    listed.sort(key=lambda e: (e[0].snapshot_id != snapshot_id, -e[0].sequence_number, len(e[0].fields)))
    for entry, candidate in listed:
        yield entry.fields[0], candidate


def _stays(raw: RawBlob, sketches: Collection[tuple[tuple[int, ...], int]]) -> bool:
    return raw.metadata.type not in COMPANIONS or (raw.metadata.fields, raw.metadata.snapshot_id) in sketches


def _wherever(raw: RawBlob) -> RawBlob:
    """The blob without its place, so that copies of it in several files are equal."""
    return dataclasses.replace(raw, metadata=dataclasses.replace(raw.metadata, offset=0))


def _entry_of(entry: StatisticsEntry, raw: RawBlob) -> BlobEntry | None:
    stored = raw.metadata
    if stored.type != THETA_V1:
        return None
    return next((b for b in entry.blobs if b.type == stored.type and b.fields == stored.fields), None)
