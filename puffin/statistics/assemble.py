"""
Decides what goes into a statistics file, and in which order, without I/O.

A file holds theta blobs of one field each, sorted by field id, exactly those of the table's entry. Anything else breaks
some engine: pyiceberg fails on an entry with another type, Presto on a blob of several fields, and Trino copies
everything in the footer into table metadata. The rest goes into private state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from puffin.format import ROW_COUNTS_V1, THETA_V1, ZSTD, Blob, RawBlob
from puffin.statistics.blob_properties import HASHED_HERE, Provenance, SketchProperties
from puffin.statistics.kinds import THETA, private_kinds, to_properties
from puffin.statistics.kinds.kind import Kind, Values
from puffin.statistics.private_state.manifest import BlobKey
from puffin.statistics.private_state.places import HOME
from puffin.statistics.private_state.writing import KeptBlob, OmittedBlob, PrivateBlob
from puffin.tables.base import BlobEntry, Column, Snapshot, StatisticsEntry


@dataclasses.dataclass(frozen=True, slots=True)
class RetainedBlob:
    """A sketch of another run or engine that stays, with its entry and the private blobs that belong to it."""

    raw: RawBlob
    entry: BlobEntry
    beside: tuple[PrivateBlob, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """The blobs of a statistics file in order, the same blobs in its entry, and its private state."""

    blobs: tuple[Blob | RawBlob, ...]
    entries: tuple[BlobEntry, ...]
    private: tuple[PrivateBlob, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """
    The computed statistics of a column, always with a sketch; ``kept`` is where an earlier run has stored the same
    values.

    Missing values of the ``lost`` kinds are lost; those of other kinds are noted as omitted.
    """

    column: Column
    values: Values
    provenance: Provenance = HASHED_HERE
    kept: Mapping[Kind[Any], KeptBlob] = dataclasses.field(default_factory=dict)
    lost: Collection[Kind[Any]] = ()


def sketch_blobs(statistics: Iterable[ColumnStatistics], snapshot: Snapshot, codec: str | None) -> list[Blob]:
    """One theta blob of this snapshot for each column."""
    said = ((each, to_properties(each.values, each.column.type, each.provenance)) for each in statistics)
    return [_blob(each, THETA, snapshot, codec, properties) for each, properties in said]


def companion_blobs(statistics: Iterable[ColumnStatistics], snapshot: Snapshot) -> list[PrivateBlob]:
    """The private blobs of the columns; new ones are compressed, since only we read them."""
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
    The stored sketches to keep in the file of a snapshot: of one field, not computed anew, and still in the schema.

    A theta blob for a dropped field makes Spark's planner fail, and two for one field make Trino's fail: of several,
    the one of the newest rows stays, and of equals the first. ``current_fields`` includes those inside lists and maps.
    """
    wanted = {*current_fields} - {*computed}
    sketches: dict[int, RetainedBlob] = {}
    # In version 1 all sequence numbers are 0, and only this snapshot's own blobs are known to be newer.
    for candidate in sorted(candidates, key=lambda c: (c.entry.snapshot_id != snapshot_id, -c.entry.sequence_number)):
        if len(candidate.entry.fields) == 1 and wanted.issuperset(candidate.entry.fields):
            sketches.setdefault(candidate.entry.fields[0], candidate)
    return list(sketches.values())


def with_entries(entry: StatisticsEntry, raws: Iterable[RawBlob], created_by: str | None) -> list[RetainedBlob]:
    """
    The sketches of a stored file that the table's entry lists, marked with their maker (`SketchProperties.carried`).

    What an earlier version stored in the same file beside a sketch stays with it; row counts that it left out were not
    wanted. ``created_by`` is the writer of the file, from its footer.
    """
    raws = list(raws)
    types = {kind.name for kind in private_kinds()}
    companions: dict[tuple[tuple[int, ...], int], list[RawBlob]] = {}
    for raw in raws:
        if raw.metadata.type in types:
            companions.setdefault((raw.metadata.fields, raw.metadata.snapshot_id), []).append(raw)
    listed = {blob.fields: blob for blob in reversed(entry.blobs) if blob.type == THETA_V1}
    retained = []
    for raw in raws:
        stored = raw.metadata
        said = listed.get(stored.fields) if stored.type == THETA_V1 else None
        if said is not None:
            marked = dataclasses.replace(stored, properties=SketchProperties(stored.properties).carried(created_by))
            retained.append(
                RetainedBlob(
                    dataclasses.replace(raw, metadata=marked),
                    dataclasses.replace(said, properties=SketchProperties(said.properties).carried(created_by)),
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
    The file's contents: computed and retained sketches by field id, and the private state of both.

    The first sketch notes the home of private state, if that is not the default.
    """
    theta: list[tuple[Blob | RawBlob, BlobEntry]] = [
        (blob, BlobEntry(blob.type, blob.snapshot_id, blob.sequence_number, blob.fields, blob.properties))
        for blob in computed
    ]
    theta += [(kept.raw, kept.entry) for kept in retained]
    theta.sort(key=lambda item: item[1].fields)
    if theta and home is not None:
        theta[0] = _with_home(*theta[0], home)
    beside = [blob for kept in retained for blob in kept.beside]
    return Contents(tuple(blob for blob, _ in theta), tuple(entry for _, entry in theta), (*private, *beside))


def _beside(said: BlobEntry, found: Sequence[RawBlob]) -> tuple[PrivateBlob, ...]:
    """What an earlier version wrote beside its own sketch; other engines' sketches have nothing."""
    properties = SketchProperties(said.properties)
    if not properties.is_ours:
        return ()
    if properties.is_unmarked and not any(raw.metadata.type == ROW_COUNTS_V1 for raw in found):
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


def _with_home(blob: Blob | RawBlob, entry: BlobEntry, home: str) -> tuple[Blob | RawBlob, BlobEntry]:
    said = dataclasses.replace(entry, properties={**entry.properties, HOME: home})
    if isinstance(blob, Blob):
        return dataclasses.replace(blob, properties=said.properties), said
    stored = dataclasses.replace(blob.metadata, properties={**blob.metadata.properties, HOME: home})
    return dataclasses.replace(blob, metadata=stored), said
