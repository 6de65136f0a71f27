"""
Builds the next version of a metadata document, with entries of (partition) statistics replaced or removed.

It patches the document, so unknown fields survive, and makes the changes of every commit: ``last-updated-ms`` and
``metadata-log`` (spec, "Table Metadata").
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from puffin.errors import CorruptMetadataError, said_by
from puffin.iceberg.metadata.document import partition_entry_to_json
from puffin.storage import place_of
from puffin.tables.base import PartitionStatisticsEntry, StatisticsEntry
from puffin.tables.leftovers import StoredEntry
from puffin.tables.state import TableState
from puffin.tables.statistics_json import entry_to_json, integer, typed

_LOG_LENGTH, _LOG_LENGTH_DEFAULT = "write.metadata.previous-versions-max", 100
_DELETE_OLD = "write.metadata.delete-after-commit.enabled"
_METADATA_PATH = "write.metadata.path"
_VERSION = re.compile(r"(?:^|/)v?(\d+)[^/]*$")
_STATISTICS, _PARTITION_STATISTICS = "statistics", "partition-statistics"


@dataclasses.dataclass(frozen=True, slots=True)
class NextVersion:
    """A metadata document to commit, and the metadata files that leave its log and are to be deleted."""

    document: dict[str, Any]
    superseded: tuple[str, ...]


def with_statistics(base: TableState, entry: StatisticsEntry, now_ms: int) -> NextVersion:
    """
    The version after ``base`` with ``entry`` as its snapshot's only entry, and likewise its partition statistics.

    Raises CorruptMetadataError if what every commit changes is not in the form of the spec.
    """
    document = dict(base.document)
    others = [e for e in document.get(_STATISTICS) or () if e.get("snapshot-id") not in entry.removals]
    for each in (entry, *entry.repairs):
        others = _replaced(others, entry_to_json(each))
    document[_STATISTICS] = others
    if entry.partitions is not None:
        document = with_partition_statistics(document, entry.partitions)
    return _following(base, document, now_ms)


def without_entries(base: TableState, entries: Iterable[StoredEntry], now_ms: int) -> NextVersion:
    """The version after ``base`` without these entries."""
    gone = {(_key(entry), entry.snapshot_id) for entry in entries}
    document = dict(base.document)
    for key in {key for key, _ in gone}:
        document[key] = [e for e in document.get(key) or () if (key, e.get("snapshot-id")) not in gone]
    return _following(base, document, now_ms)


def removal_update(entry: StoredEntry) -> dict[str, Any]:
    """The REST protocol's update that removes an entry."""
    return {"action": f"remove-{_key(entry)}", "snapshot-id": entry.snapshot_id}


def stored_entries(document: Mapping[str, Any]) -> Iterator[StoredEntry]:
    """
    Every entry of statistics and partition statistics in a metadata document, dead or not.

    Raises CorruptMetadataError if an entry is not in the form of the spec.
    """
    try:
        for key in (_STATISTICS, _PARTITION_STATISTICS):
            for entry in document.get(key) or ():
                yield StoredEntry(
                    snapshot_id=typed(entry, "snapshot-id", int),
                    statistics_path=typed(entry, "statistics-path", str),
                    of_partitions=key == _PARTITION_STATISTICS,
                )
    except (TypeError, AttributeError) as exc:
        raise CorruptMetadataError(
            f"{document.get('location')}: not a list of statistics entries: {said_by(exc)}"
        ) from exc


def with_partition_statistics(document: Mapping[str, Any], entry: PartitionStatisticsEntry) -> dict[str, Any]:
    """The document with ``entry`` as its snapshot's only partition statistics entry."""
    return {
        **document,
        _PARTITION_STATISTICS: _replaced(document.get(_PARTITION_STATISTICS), partition_entry_to_json(entry)),
    }


def partition_statistics_update(entry: PartitionStatisticsEntry) -> dict[str, Any]:
    """The REST protocol's update that sets partition statistics."""
    return {"action": f"set-{_PARTITION_STATISTICS}", _PARTITION_STATISTICS: partition_entry_to_json(entry)}


def metadata_directory(state: TableState) -> str:
    """Where metadata and statistics files go: ``write.metadata.path``, or the default."""
    return state.properties.get(_METADATA_PATH, default_metadata_directory(state)).rstrip("/")


def default_metadata_directory(state: TableState) -> str:
    return f"{state.location}/metadata"


def statistics_directories(state: TableState) -> list[str]:
    """Where metadata and statistics files are: where they are written, where they would be by default, and metadata."""
    current = state.metadata_location.rpartition("/")[0]
    candidates = (metadata_directory(state), default_metadata_directory(state), current)
    return list({place_of(directory): directory for directory in reversed(candidates)}.values())


def statistics_path(state: TableState, snapshot_id: int) -> str:
    """A new path for a statistics file, in the form of Iceberg's own writers."""
    return f"{metadata_directory(state)}/{snapshot_id}-{uuid.uuid4()}.stats"


def partition_statistics_path(state: TableState, snapshot_id: int) -> str:
    """A new path for a partition statistics file, in the form of Iceberg's own writer."""
    return f"{metadata_directory(state)}/partition-stats-{snapshot_id}-{uuid.uuid4()}.parquet"


def next_metadata_location(state: TableState, *, compress: bool) -> str:
    """Where a catalog's table stores its next version: the next number, and a uuid."""
    extension = "gz.metadata.json" if compress else "metadata.json"
    return f"{metadata_directory(state)}/{version_of(state.metadata_location) + 1:05d}-{uuid.uuid4()}.{extension}"


def version_of(metadata_location: str) -> int:
    """The number that begins a metadata file's name (``v3.metadata.json``, ``00003-….metadata.json``), else 0."""
    match = _VERSION.search(metadata_location)
    return int(match[1]) if match else 0


def _following(base: TableState, document: dict[str, Any], now_ms: int) -> NextVersion:
    try:
        updated_ms = integer("last-updated-ms", document.get("last-updated-ms", now_ms))
        log = [
            *(document.get("metadata-log") or ()),
            {"timestamp-ms": updated_ms, "metadata-file": base.metadata_location},
        ]
        files = [typed(logged, "metadata-file", str) for logged in log]
    except (TypeError, AttributeError) as exc:
        raise CorruptMetadataError(f"{base.metadata_location}: not Iceberg table metadata: {exc}") from exc
    kept = max(1, base.number_property(_LOG_LENGTH, _LOG_LENGTH_DEFAULT))
    document["metadata-log"] = log[-kept:]
    document["last-updated-ms"] = max(now_ms, updated_ms)
    if base.properties.get(_DELETE_OLD, "false").lower() != "true":
        return NextVersion(document, ())
    still_listed = frozenset(files[-kept:])
    return NextVersion(document, tuple(file for file in dict.fromkeys(files[:-kept]) if file not in still_listed))


def _key(entry: StoredEntry) -> str:
    return _PARTITION_STATISTICS if entry.of_partitions else _STATISTICS


def _replaced(entries: Any, entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    others = [e for e in entries or () if e.get("snapshot-id") != entry["snapshot-id"]]
    return [*others, entry]
