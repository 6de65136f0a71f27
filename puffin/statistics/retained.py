"""
Which stored sketches stay in a new statistics file, with the private blobs beside them.

It also tells which entries are damaged: those that list blobs which some engine cannot load, and those of files of an
earlier version, from which engines would copy such blobs.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Sequence

from puffin.errors import PuffinError
from puffin.format import CREATED_BY, ROW_COUNTS_V1, THETA_V1, PuffinReader, RawBlob
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.kinds import private_kinds
from puffin.statistics.private_state.manifest import BlobKey
from puffin.statistics.private_state.reading import read_private_state
from puffin.statistics.private_state.writing import OmittedBlob, PrivateBlob
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.state import TableState

PRESTOS = ("presto-sum-data-size-bytes-v1", "presto-kll-sketch-bytes-v1")
"""Types that Presto lists in entries, and pyiceberg cannot load."""

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class RetainedBlob:
    """A sketch of another run or engine that stays, with its entry and the private blobs that belong to it."""

    raw: RawBlob
    entry: BlobEntry
    beside: tuple[PrivateBlob, ...] = ()


def retain(
    opened: TableSnapshot, entries: Iterable[StatisticsEntry], snapshot_id: int, computed: Collection[int]
) -> list[RetainedBlob]:
    """
    The sketches of these entries to keep in the file of a snapshot, beside those of the ``computed`` fields.

    A file that cannot be read loses its sketches, with a warning.
    """
    found: list[RetainedBlob] = []
    for entry in entries:
        try:
            found += stored_sketches(opened, entry)
        except PuffinError as exc:
            _log.warning("statistics of other columns are dropped: cannot read their file: %s", exc)
    fields = opened.state.field_ids
    return choose_retained(found, snapshot_id=snapshot_id, computed=computed, current_fields=fields)


def stored_sketches(opened: TableSnapshot, entry: StatisticsEntry) -> list[RetainedBlob]:
    """The sketches in the file of an entry, each with its private blobs; PuffinError if the file cannot be read."""
    path = entry.statistics_path
    with opened.store_for(path).open_source(path) as source:
        reader = PuffinReader(source, file_size=entry.file_size_in_bytes, footer_size=entry.file_footer_size_in_bytes)
        raws: list[RawBlob] = reader.read_all_raw()
        retained = with_entries(entry, raws, reader.file_metadata.properties.get(CREATED_BY))
    state = read_private_state(opened, entry)
    if state is None:
        return retained
    beside: dict[tuple[int, int], list[PrivateBlob]] = {}
    for key, blob in state.items():
        beside.setdefault((key.field_id, key.snapshot_id), []).append(blob)
    return [
        dataclasses.replace(each, beside=tuple(beside.get((each.entry.fields[0], each.entry.snapshot_id), ())))
        for each in retained
    ]


def with_entries(entry: StatisticsEntry, raws: Sequence[RawBlob], created_by: str | None) -> list[RetainedBlob]:
    """
    The sketches of a stored file that the table's entry lists, marked with their maker (`SketchProperties.carried`).

    What an earlier version stored in the same file beside a sketch stays with it; row counts that it left out were not
    wanted. ``created_by`` is the writer of the file, from its footer.
    """
    types = {kind.name for kind in private_kinds()}
    companions: dict[tuple[tuple[int, ...], int], list[RawBlob]] = {}
    for raw in raws:
        if raw.metadata.type in types:
            companions.setdefault((raw.metadata.fields, raw.metadata.snapshot_id), []).append(raw)
    retained = []
    for raw in raws:
        stored = raw.metadata
        said = entry.sketches.get(stored.fields[0]) if stored.type == THETA_V1 and len(stored.fields) == 1 else None
        if said is not None:
            marked = dataclasses.replace(stored, properties=SketchProperties(stored.properties).carried(created_by))
            retained.append(
                RetainedBlob(
                    dataclasses.replace(raw, metadata=marked),
                    marked_entry(said, created_by),
                    _beside(said, companions.get((said.fields, said.snapshot_id), ())),
                )
            )
    return retained


def choose_retained(
    candidates: Iterable[RetainedBlob],
    *,
    snapshot_id: int,
    computed: Collection[int],
    current_fields: Collection[int],
) -> list[RetainedBlob]:
    """
    The stored sketches to keep in the file of a snapshot: not computed anew, and still in the schema.

    A theta blob for a dropped field makes Spark's planner fail, and two for one field make Trino's fail: of several,
    the one of the newest rows stays, and of equals the first. ``current_fields`` includes those inside lists and maps.
    """
    wanted = {*current_fields} - {*computed}
    sketches: dict[int, RetainedBlob] = {}
    # In version 1 all sequence numbers are 0, and only this snapshot's own blobs are known to be newer.
    for candidate in sorted(candidates, key=lambda c: (c.entry.snapshot_id != snapshot_id, -c.entry.sequence_number)):
        if candidate.entry.fields[0] in wanted:
            sketches.setdefault(candidate.entry.fields[0], candidate)
    return list(sketches.values())


def marked_entry(blob: BlobEntry, created_by: str | None) -> BlobEntry:
    """A sketch's entry for another file of ours; ``created_by`` is the writer of the file it is from."""
    return dataclasses.replace(blob, properties=SketchProperties(blob.properties).carried(created_by))


def damaged_entries(state: TableState) -> list[StatisticsEntry]:
    """The entries of any snapshot that a run repairs, from table metadata alone."""
    # Blobs of unknown types stay: their writer may need them.
    types = {kind.name for kind in private_kinds()}.union(PRESTOS)

    def is_damage(blob: BlobEntry) -> bool:
        return blob.type in types or SketchProperties(blob.properties).is_unmarked

    return [entry for entry in state.statistics.values() if any(map(is_damage, entry.blobs))]


def _beside(said: BlobEntry, found: Sequence[RawBlob]) -> tuple[PrivateBlob, ...]:
    """What an earlier version wrote beside its own sketch; other engines' sketches have nothing."""
    properties = SketchProperties(said.properties)
    if not properties.is_ours:
        return ()
    if properties.is_unmarked and not any(raw.metadata.type == ROW_COUNTS_V1 for raw in found):
        return (*found, OmittedBlob(BlobKey(ROW_COUNTS_V1, said.fields[0], said.snapshot_id)))
    return tuple(found)
