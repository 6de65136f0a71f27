"""
What goes into a statistics file, and in which order: pure, so that the file's layout can be tested without one.

A file holds theta blobs of one field each, sorted by field id, and these are exactly those of the table's entry. Some
engine breaks on anything else: pyiceberg on an entry that names another type, Presto on a blob of several fields, and
Trino copies whatever stands in the footer into table metadata. What is ours besides goes into private state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from puffin.format import ROW_COUNTS_V1, THETA_V1, ZSTD, Blob, RawBlob
from puffin.statistics.blob_properties import HASHED_HERE, Provenance, is_ours, is_unmarked, when_carried
from puffin.statistics.kinds import THETA, private_kinds, to_properties
from puffin.statistics.kinds.kind import Kind, Values
from puffin.statistics.private_state.manifest import BlobKey
from puffin.statistics.private_state.places import HOME
from puffin.statistics.private_state.writing import KeptBlob, OmittedBlob, PrivateBlob
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry


@dataclasses.dataclass(frozen=True, slots=True)
class RetainedBlob:
    """
    A sketch of another run or another engine that stays.

    Attributes:
        entry: What table metadata says of it.
        beside: The private blobs that belong to it.
    """

    raw: RawBlob
    entry: BlobEntry
    beside: tuple[PrivateBlob, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """
    What a statistics file is made of.

    Attributes:
        blobs: Of the file, in order.
        entries: The same blobs as the table's entry lists them.
        private: What belongs into its private state.
    """

    blobs: tuple[Blob | RawBlob, ...]
    entries: tuple[BlobEntry, ...]
    private: tuple[PrivateBlob, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """
    What a run has computed of a column.

    Attributes:
        values: Of each kind; a sketch is always there.
        kept: Where an earlier run has stored the same value.
        lost: The kinds of which there should be a value; nobody wants those of the others that are not there.
    """

    column: Column
    values: Values
    provenance: Provenance = HASHED_HERE
    kept: Mapping[Kind[Any], KeptBlob] = dataclasses.field(default_factory=dict)
    lost: Collection[Kind[Any]] = ()


def sketch_blobs(statistics: Iterable[ColumnStatistics], snapshot: Snapshot, codec: str | None) -> list[Blob]:
    """One theta blob of this snapshot for each of the columns."""
    said = ((each, to_properties(each.values, each.column.type, each.provenance)) for each in statistics)
    return [_blob(each, THETA, snapshot, codec, properties) for each, properties in said]


def companion_blobs(statistics: Iterable[ColumnStatistics], snapshot: Snapshot) -> list[PrivateBlob]:
    """The private blobs of the columns; new ones compressed, since nobody but us reads them."""
    private: list[PrivateBlob] = []
    for each in statistics:
        for kind in private_kinds():
            if kind in each.values and kind in each.kept:
                private.append(each.kept[kind].beside(snapshot.snapshot_id))
            elif kind in each.values:
                private.append(_blob(each, kind, snapshot, ZSTD))
            elif kind.is_default and kind not in each.lost:
                private.append(OmittedBlob(BlobKey(kind.name, each.column.field_id, snapshot.snapshot_id)))
    return private


def choose_retained(
    candidates: Iterable[RetainedBlob],
    *,
    snapshot_id: int,
    computed: Collection[int],
    current_fields: Collection[int],
) -> list[RetainedBlob]:
    """
    Of the sketches that were there, those to keep: of one field, of other columns, and that the schema still has.

    A theta blob for a field that is gone makes Spark's planner fail, and two for one field make Trino's fail: of
    several the one of the newest rows is kept, and of equals the first.

    Args:
        snapshot_id: The snapshot whose statistics file they go into.
        computed: The fields that have been computed anew.
        current_fields: Every field of the current schema, those inside of lists and maps included.
    """
    wanted = {*current_fields} - {*computed}
    sketches: dict[int, RetainedBlob] = {}
    for candidate in _newest_first(candidates, snapshot_id):
        if len(candidate.entry.fields) == 1 and wanted.issuperset(candidate.entry.fields):
            sketches.setdefault(candidate.entry.fields[0], candidate)
    return list(sketches.values())


def with_entries(entry: StatisticsEntry, raws: Iterable[RawBlob], created_by: str | None) -> list[RetainedBlob]:
    """
    The sketches of a stored file, with what the table's entry says of them; not one of which it says nothing.

    In another file of ours their maker stays known (`when_carried`). What stands in the same file beside a sketch, as
    an earlier version wrote it, comes with it; row counts that it left out were not wanted.

    Args:
        created_by: Who wrote the file, as its footer says.
    """
    raws = list(raws)
    types = {kind.name for kind in private_kinds()}
    companions: dict[tuple[tuple[int, ...], int], list[RawBlob]] = {}
    for raw in raws:
        if raw.metadata.type in types:
            companions.setdefault((raw.metadata.fields, raw.metadata.snapshot_id), []).append(raw)
    retained = []
    for raw in raws:
        stored, said = raw.metadata, _entry_of(entry, raw)
        if said is not None:
            marked = dataclasses.replace(stored, properties=when_carried(stored.properties, created_by))
            retained.append(
                RetainedBlob(
                    dataclasses.replace(raw, metadata=marked),
                    dataclasses.replace(said, properties=when_carried(said.properties, created_by)),
                    _beside(said, companions.get((said.fields, said.snapshot_id), ())),
                )
            )
    return retained


def assemble(
    computed: Sequence[Blob],
    retained: Sequence[RetainedBlob],
    private: Sequence[PrivateBlob] = (),
    home: str | None = None,
) -> Contents:
    """
    The file's contents: computed and retained sketches by field id.

    Args:
        private: What belongs beside the computed ones.
        home: Where the private state is, if not in the default place; the first sketch says so.
    """
    theta: list[tuple[Blob | RawBlob, BlobEntry]] = [(blob, _entry(blob)) for blob in computed]
    theta += [(kept.raw, kept.entry) for kept in retained]
    theta.sort(key=lambda item: item[1].fields)
    if theta and home is not None:
        theta[0] = _with_home(*theta[0], home)
    beside = [blob for kept in retained for blob in kept.beside]
    return Contents(tuple(blob for blob, _ in theta), tuple(entry for _, entry in theta), (*private, *beside))


def _beside(said: BlobEntry, found: Sequence[RawBlob]) -> tuple[PrivateBlob, ...]:
    """What an earlier version wrote beside a sketch of its own; another engine's has nothing."""
    if not is_ours(said.properties):
        return ()
    if is_unmarked(said.properties) and not any(raw.metadata.type == ROW_COUNTS_V1 for raw in found):
        return (*found, OmittedBlob(BlobKey(ROW_COUNTS_V1, said.fields[0], said.snapshot_id)))
    return tuple(found)


def _blob(
    statistics: ColumnStatistics,
    kind: Kind[Any],
    snapshot: Snapshot,
    codec: str | None,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> Blob:
    return Blob(
        type=kind.name,
        fields=(statistics.column.field_id,),
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number,
        payload=kind.codec.to_bytes(statistics.values[kind]),
        compression_codec=codec,
        properties=properties,
    )


def _entry(blob: Blob) -> BlobEntry:
    return BlobEntry(blob.type, blob.snapshot_id, blob.sequence_number, blob.fields, blob.properties)


def _with_home(blob: Blob | RawBlob, entry: BlobEntry, home: str) -> tuple[Blob | RawBlob, BlobEntry]:
    said = dataclasses.replace(entry, properties={**entry.properties, HOME: home})
    if isinstance(blob, Blob):
        return dataclasses.replace(blob, properties=said.properties), said
    stored = dataclasses.replace(blob.metadata, properties={**blob.metadata.properties, HOME: home})
    return dataclasses.replace(blob, metadata=stored), said


def _newest_first(candidates: Iterable[RetainedBlob], snapshot_id: int) -> list[RetainedBlob]:
    # In version 1 all sequence numbers are 0: there the snapshot itself is all that is known to be newer.
    return sorted(candidates, key=lambda c: (c.entry.snapshot_id != snapshot_id, -c.entry.sequence_number))


def _entry_of(entry: StatisticsEntry, raw: RawBlob) -> BlobEntry | None:
    stored = raw.metadata
    if stored.type != THETA_V1:
        return None
    return next((b for b in entry.blobs if b.type == stored.type and b.fields == stored.fields), None)
