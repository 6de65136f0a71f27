"""Reads the stored sketches that may stay in new statistics files, with the private blobs beside them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Sequence

from puffin.errors import GONE_OR_BROKEN
from puffin.format import CREATED_BY, THETA_V1, BlobMetadata, RawBlob
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.private_state.blobs import NOTHING_PRIVATE, PrivateState
from puffin.statistics.private_state.manifest import BlobKey
from puffin.statistics.private_state.puffin_file import PuffinFile
from puffin.statistics.private_state.reading import read_private_state
from puffin.tables.base import BlobEntry, StatisticsEntry
from puffin.tables.snapshot import TableSnapshot

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class RetainedBlob:
    """A sketch of another run or engine that stays, with its entry and the private blobs that belong to it."""

    raw: RawBlob
    entry: BlobEntry
    companions: PrivateState = NOTHING_PRIVATE


@dataclasses.dataclass(frozen=True, slots=True)
class StoredSketches:
    """What is stored for the new statistics file of a snapshot; not ``is_whole`` if a file could not be read."""

    snapshot_id: int
    sketches: Sequence[RetainedBlob]
    is_whole: bool = True


def read_stored(
    opened: TableSnapshot, snapshot_id: int, entries: Iterable[StatisticsEntry], damaged: Iterable[StatisticsEntry]
) -> Iterator[StoredSketches | StatisticsEntry]:
    """
    Read the sketches of these entries for the new file of a snapshot; then those of each damaged entry for its own, or
    the repaired entry if its file is lost.

    Each file is read when it is asked for, so that only one is in memory. The first loses the sketches that cannot be
    read, with a warning. Raises StorageError if the storage failed: another run may be able to read them.
    """
    found: list[RetainedBlob] = []
    is_whole = True
    for entry in entries:
        try:
            found += stored_sketches(opened, entry)
        except GONE_OR_BROKEN as exc:
            _log.warning("statistics of other columns are dropped: cannot read their file: %s", exc)
            is_whole = False
    yield StoredSketches(snapshot_id, found, is_whole)
    for entry in damaged:
        try:
            stored = StoredSketches(entry.snapshot_id, stored_sketches(opened, entry))
        except GONE_OR_BROKEN as exc:
            _log.warning("an entry is repaired in the table's metadata only: %s", exc)
            marked = tuple(marked_entry(blob, None) for blob in entry.blobs if blob.is_sketch)
            if marked != entry.blobs:
                yield dataclasses.replace(entry, blobs=marked)
        else:
            yield stored


def stored_sketches(opened: TableSnapshot, entry: StatisticsEntry) -> list[RetainedBlob]:
    """The sketches in the file of an entry, each with its private blobs; PuffinError if the file cannot be read."""
    with PuffinFile.of(entry).open(opened) as reader:
        raws: list[RawBlob] = reader.read_all_raw()
        retained = with_entries(entry, raws, reader.file_metadata.properties.get(CREATED_BY))
    state = read_private_state(opened, entry)
    if state is None:
        return retained
    by_sketch: dict[tuple[int, int], list[BlobKey]] = {}
    for key in (*state.kept, *state.omitted):
        by_sketch.setdefault((key.field_id, key.snapshot_id), []).append(key)
    return [
        dataclasses.replace(
            each, companions=state.only(by_sketch.get((each.entry.field_id, each.entry.snapshot_id), ()))
        )
        for each in retained
    ]


def with_entries(entry: StatisticsEntry, raws: Sequence[RawBlob], created_by: str | None) -> list[RetainedBlob]:
    """
    The sketches of a stored file that the table's entry lists, marked with their maker (`SketchProperties.carried`).

    ``created_by`` is the writer of the file, from its footer.
    """
    retained = []
    for raw in raws:
        stored = raw.metadata
        listed = entry.sketches.get(stored.fields[0]) if stored.type == THETA_V1 and len(stored.fields) == 1 else None
        if listed is not None:
            listed = _whole(listed, stored)
            marked = dataclasses.replace(stored, properties=SketchProperties(stored.properties).carried(created_by))
            retained.append(RetainedBlob(dataclasses.replace(raw, metadata=marked), marked_entry(listed, created_by)))
    return retained


def marked_entry(blob: BlobEntry, created_by: str | None) -> BlobEntry:
    """A sketch's entry for another file of ours; ``created_by`` is the writer of the file it is from."""
    return dataclasses.replace(blob, properties=SketchProperties(blob.properties).carried(created_by))


def _whole(listed: BlobEntry, stored: BlobMetadata) -> BlobEntry:
    """A sketch's entry with the properties that it leaves to the file."""
    return dataclasses.replace(listed, properties=SketchProperties(listed.properties, lambda: stored.properties).whole)
