"""
Decides what goes into a statistics file, and in which order, without I/O.

A file holds theta blobs of one field each, sorted by field id, exactly those of the table's entry. Anything else breaks
some engine: pyiceberg fails on an entry with another type, Presto on a blob of several fields, and Trino copies
everything in the footer into table metadata. The rest goes into private state.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from puffin.format import ZSTD, Blob, RawBlob
from puffin.statistics.blob_properties import ABRIDGED, HASHED_HERE, Provenance, SketchProperties, abridged
from puffin.statistics.deltas import payload_of
from puffin.statistics.kinds import THETA, private_kinds, to_properties
from puffin.statistics.kinds.kind import Kind, Values
from puffin.statistics.private_state.blobs import NOTHING_PRIVATE, Contents, KeptBlob, LaterBlob, PrivateState
from puffin.statistics.private_state.manifest import BlobKey
from puffin.statistics.private_state.places import HOME
from puffin.statistics.retained import RetainedBlob
from puffin.tables.base import BlobEntry, Column, Snapshot

MOST_WHOLE = 256
"""Entries of more sketches keep in table metadata what only the metadata can tell, see `abridged`."""


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """
    The computed statistics of a column, always with a sketch; ``kept`` is where an earlier run has stored the same
    values. ``deltas`` has what comes beside kept values that were not read, None if nothing does.

    Missing values of the ``lost`` kinds are lost; those of other kinds are noted as omitted.
    """

    column: Column
    values: Values
    provenance: Provenance = HASHED_HERE
    kept: Mapping[Kind[Any], KeptBlob] = dataclasses.field(default_factory=dict)
    lost: Collection[Kind[Any]] = ()
    deltas: Values = dataclasses.field(default_factory=dict)


def choose_retained(
    candidates: Iterable[RetainedBlob], ancestors: Iterable[int], wanted: Collection[int]
) -> list[RetainedBlob]:
    """
    The stored sketches of the ``wanted`` fields to keep in the file of a snapshot, one of each.

    A theta blob for a dropped field makes Spark's planner fail, and two for one field make Trino's fail: of several,
    the one of the newest rows stays, and of equals the first. ``ancestors`` are the snapshot and those before it.
    """
    sketches: dict[int, RetainedBlob] = {}
    ages = {snapshot_id: age for age, snapshot_id in enumerate(ancestors)}
    # Sequence numbers order those of expired snapshots; in version 1 all are 0.
    for candidate in sorted(
        candidates, key=lambda c: (ages.get(c.entry.snapshot_id, len(ages)), -c.entry.sequence_number)
    ):
        if candidate.entry.field_id in wanted:
            sketches.setdefault(candidate.entry.field_id, candidate)
    return list(sketches.values())


def sketch_blobs(statistics: Iterable[ColumnStatistics], snapshot: Snapshot, codec: str | None) -> list[Blob]:
    """One theta blob of this snapshot for each column."""
    described = ((each, to_properties(each.values, each.column.type, each.provenance)) for each in statistics)
    return [_blob(each, THETA, snapshot, codec, properties) for each, properties in described]


def companion_blobs(statistics: Iterable[ColumnStatistics], snapshot: Snapshot) -> PrivateState:
    """The private blobs of the columns; new ones are compressed, since only we read them."""
    kept, omitted, new = dict[BlobKey, KeptBlob](), set[BlobKey](), list[LaterBlob]()
    for each, kind in itertools.product(statistics, private_kinds()):
        key = BlobKey(kind.name, each.column.field_id, snapshot.snapshot_id)
        if kind in each.deltas or (kind in each.values and kind in each.kept):
            kept[key] = dataclasses.replace(each.kept[kind], key=key, delta=_delta(each, kind, snapshot))
        elif kind in each.values:
            new.append(LaterBlob(key, functools.partial(_blob, each, kind, snapshot, ZSTD)))
        elif kind.is_default and kind not in each.lost:
            omitted.add(key)
    return PrivateState(kept, frozenset(omitted), tuple(new))


def assemble(
    computed: Sequence[Blob],
    retained: Sequence[RetainedBlob],
    private: PrivateState = NOTHING_PRIVATE,
    home: str | None = None,
) -> Contents:
    """
    The file's contents: computed and retained sketches by field id, and the private state of both.

    The first sketch notes the home of private state, if that is not the default. The entries of very many sketches are
    abridged.
    """
    theta: list[tuple[Blob | RawBlob, BlobEntry]] = [
        (blob, BlobEntry(blob.type, blob.snapshot_id, blob.sequence_number, blob.fields, blob.properties))
        for blob in computed
    ]
    theta += [(kept.raw, kept.entry) for kept in retained]
    theta.sort(key=lambda item: item[1].fields)
    if theta and home is not None:
        theta[0] = _saying(*theta[0], {HOME: home})
    if len(theta) > MOST_WHOLE:
        theta = [_abridged(*each) for each in theta]
    states = [private, *(kept.companions for kept in retained)]
    whole = PrivateState(
        {key: kept for state in states for key, kept in state.kept.items()},
        frozenset().union(*(state.omitted for state in states)),
        private.new,
    )
    return Contents(tuple(blob for blob, _ in theta), tuple(entry for _, entry in theta), whole, home)


def _delta(statistics: ColumnStatistics, kind: Kind[Any], snapshot: Snapshot) -> Blob | None:
    payload = payload_of(kind, statistics.deltas)
    return None if payload is None else _blob(statistics, kind, snapshot, ZSTD, payload=payload)


def _blob(
    statistics: ColumnStatistics,
    kind: Kind[Any],
    snapshot: Snapshot,
    codec: str | None,
    properties: Mapping[str, str] = MappingProxyType({}),
    *,
    payload: bytes | None = None,
) -> Blob:
    return Blob(
        type=kind.name,
        fields=(statistics.column.field_id,),
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number,
        payload=kind.codec.to_bytes(statistics.values[kind]) if payload is None else payload,
        compression_codec=codec,
        properties=properties,
    )


def _abridged(blob: Blob | RawBlob, entry: BlobEntry) -> tuple[Blob | RawBlob, BlobEntry]:
    properties = SketchProperties(entry.properties)
    if not properties.is_ours or properties.is_abridged:
        return blob, entry
    blob, entry = _saying(blob, entry, {**entry.properties, ABRIDGED: "1"})
    return blob, dataclasses.replace(entry, properties=abridged(entry.properties))


def _saying(blob: Blob | RawBlob, entry: BlobEntry, properties: Mapping[str, str]) -> tuple[Blob | RawBlob, BlobEntry]:
    """A sketch and its entry, with properties of both."""
    updated = dataclasses.replace(entry, properties={**entry.properties, **properties})
    if isinstance(blob, Blob):
        return dataclasses.replace(blob, properties=updated.properties), updated
    stored = dataclasses.replace(blob.metadata, properties={**blob.metadata.properties, **properties})
    return dataclasses.replace(blob, metadata=stored), updated
