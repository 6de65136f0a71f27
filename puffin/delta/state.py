"""
A version of a Delta table as a `TableState`: in Iceberg's terms, so that plans, filters and jobs know one form.

A version is a snapshot whose parent is the version before it; its number is both snapshot id and sequence number. The
schema is that of the version. The state has older versions only back to the statistics that it uses: those before tell
nothing more, and each costs a read of its log entry.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from puffin.cached import cached_property
from puffin.delta.log.actions import Commit, Metadata, Protocol
from puffin.delta.log.changed_records import changed_records, with_counted_removals
from puffin.delta.log.log_files import LOG, commit_name
from puffin.delta.log.protocol import check_readable
from puffin.delta.log.replay import LogSegment
from puffin.delta.schema import FieldPath, TableSchema, maps_columns, table_schema
from puffin.delta.statistics.entries import StatisticsDirectory
from puffin.delta.statistics.files import Listing
from puffin.errors import ConflictError
from puffin.storage import join
from puffin.tables.base import NOTHING, REPLACE, Column, Snapshot, SnapshotSelector, StatisticsEntry
from puffin.tables.document import FIRST_PARTITION_FIELD_ID
from puffin.tables.schema import field_ids, primitive_columns
from puffin.tables.state import TableState
from puffin.values.value_type import is_hashable

SPEC_ID = 0
"""Of the one partition spec that a version has."""

_APPEND, _DELETE, _OVERWRITE = "append", "delete", "overwrite"


class LoggedPartition(NamedTuple):
    """A partition field: its id, and the name in the log and the type of its column."""

    field_id: str
    name: str
    type: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeltaState(TableState):
    """
    A Delta table at one version.

    Attributes:
        delta_schema: The schema with the ids of its columns, also newly assigned ones.
        known_ids: The ids that were assigned before.
        stored: The listing of the statistics directory.
    """

    segment: LogSegment
    protocol: Protocol
    metadata: Metadata
    delta_schema: TableSchema
    known_ids: Mapping[FieldPath, int]
    stored: Listing

    def keeps_column(self, column: Column) -> bool:
        """True or ConflictError: a version's schema never changes, but ids that are not stored yet may."""
        if self.columns_by_id.get(column.field_id) != column:
            raise ConflictError(
                f"{self.location}: column {column.name}: expected field id {column.field_id}; another job has "
                "given the columns other field ids meanwhile: analyze again"
            )
        return True

    def key_of(self, column: Column) -> str:
        """The physical path, since field ids may change until statistics store them."""
        return json.dumps(self.delta_schema.paths[column.field_id])

    def promotes_values(self, before: str, column: Column) -> bool:
        """Not of a partition column that was widened to doubles: its text in the log is read as another number."""
        is_read_anew = before == "float" and column.field_id in self.partitioned_ids and column.type == "double"
        return not is_read_anew and super().promotes_values(before, column)

    @property
    def padded_ids(self) -> frozenset[int]:
        return self.delta_schema.padded

    @cached_property
    def partitioned_ids(self) -> frozenset[int]:
        """The field ids of the partition columns, whose values are in the log."""
        return frozenset(field["source-id"] for field in self.partition_specs[SPEC_ID])

    @cached_property
    def vague_partition_ids(self) -> Set[int]:
        """Those of timestamps: Spark reads one without a zone in that of its session."""
        return frozenset(id_ for id_ in self.partitioned_ids if self.columns_by_id[id_].type == "timestamptz")

    @cached_property
    def logged_partitions(self) -> tuple[LoggedPartition, ...]:
        paths, columns = self.delta_schema.paths, self.columns_by_id
        ids = ((str(field["field-id"]), field["source-id"]) for field in self.partition_specs[SPEC_ID])
        return tuple(LoggedPartition(own, paths[source][0], columns[source].type) for own, source in ids)


def read_state(
    location: str, segment: LogSegment, directory: StatisticsDirectory, selector: SnapshotSelector
) -> DeltaState:
    """
    The table at the version of a segment.

    If the selector has a version's id, that version is current, and the segment may end with notes after it; otherwise
    the version before any trailing notes is, or the last of these that has statistics.
    """
    protocol, metadata = segment.protocol_and_metadata
    check_readable(protocol, location)
    stored = directory.listing()
    known_ids = directory.field_ids(stored)
    schema = table_schema(metadata.schema_string, metadata.configuration, known_ids, location)
    columns = primitive_columns(schema.schema)
    log = _LogEntries(segment)
    entries = directory.entries(stored, segment.version, metadata.id, schema.is_same_column, log.checksum)
    named = itertools.takewhile(lambda entry: log.keep_names_since(entry.snapshot_id), entries)
    statistics = _nearest(named, columns)
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in _versions(segment, statistics)}
    current = snapshots[segment.version]
    selected = selector.snapshot_id
    # A run may have been asked for a note by its number: the statistics are then of the note.
    known = {selected, *statistics}
    while current.snapshot_id not in known and current.is_note and current.parent_id is not None:
        current = snapshots[current.parent_id]
    return DeltaState(
        format="delta",
        uuid=metadata.id,
        metadata_location=join(location, LOG, commit_name(segment.version)),
        document=_document(location, metadata, schema),
        location=location,
        properties=metadata.configuration,
        columns=columns,
        field_ids=field_ids(schema.schema),
        snapshots=snapshots,
        current_snapshot_id=current.snapshot_id,
        refs={},
        history=() if selector.as_of_ms is None else ((selector.as_of_ms, current.snapshot_id),),
        statistics=statistics,
        segment=segment,
        protocol=protocol,
        metadata=metadata,
        delta_schema=schema,
        known_ids=known_ids,
        stored=stored,
    )


def _partition_fields(metadata: Metadata, schema: TableSchema) -> list[dict[str, Any]]:
    """The partition columns as identity fields of an Iceberg partition spec."""
    ids = {field["name"]: field["id"] for field in schema.schema["fields"]}
    return [
        {"field-id": field_id, "source-id": ids[name], "name": name, "transform": "identity"}
        for field_id, name in enumerate(metadata.partition_columns, FIRST_PARTITION_FIELD_ID)
        if name in ids
    ]


def _document(location: str, metadata: Metadata, schema: TableSchema) -> Mapping[str, Any]:
    return {
        "table-uuid": metadata.id,
        "location": location,
        "schemas": [schema.schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": SPEC_ID, "fields": _partition_fields(metadata, schema)}],
        "default-spec-id": SPEC_ID,
        "snapshots": [],
    }


def _nearest(entries: Iterable[StatisticsEntry], columns: Iterable[Column]) -> dict[int, StatisticsEntry]:
    """The nearest entries, back to the point where each column that can have statistics has them."""
    unknown = {column.field_id for column in columns if is_hashable(column.type)}
    found: dict[int, StatisticsEntry] = {}
    for entry in entries:
        found[entry.snapshot_id] = entry
        unknown -= {field_id for blob in entry.blobs for field_id in blob.fields}
        if not unknown:
            break
    return found


class _LogEntries:
    """What log entries say of statistics, newest first; reads what the snapshots need anyway, several at a time."""

    def __init__(self, segment: LogSegment) -> None:
        self._segment = segment
        self._end = segment.version + 1
        self._checksums: dict[int, str] = {}
        self._renamed = -1

    def checksum(self, version: int) -> str | None:
        self._read(version)
        return self._checksums.get(version)

    def keep_names_since(self, version: int) -> bool:
        """Whether names in files mean the columns that they meant at a version: no rows were moved to end a mapping."""
        self._read(version)
        return self._renamed <= version

    def _read(self, version: int) -> None:
        commits = self._segment.commits_left(range(version, self._end))
        self._end = min(self._end, version)
        for each, commit in commits.items():
            self._checksums[each] = commit.checksum
            metadata, moves_rows = commit.metadata, commit.adds and commit.keeps_rows
            if metadata is not None and moves_rows and not maps_columns(metadata.configuration):
                self._renamed = max(self._renamed, each)


def _versions(segment: LogSegment, statistics: Mapping[int, StatisticsEntry]) -> Iterator[Snapshot]:
    """The versions from the segment's down to the oldest that statistics describe, or that their notes follow."""
    about = [blob.snapshot_id for entry in statistics.values() for blob in entry.blobs]
    oldest = min([*statistics, *about], default=segment.version)
    since = segment.commits_left(range(oldest, segment.version + 1))
    commits = with_counted_removals(since, segment.commits_at_hand)
    for version in range(segment.version, -1, -1):
        if version < oldest:
            commits |= segment.commits_left([version])
        commit = commits.get(version)  # None if it has been cleaned up
        added, deleted = (None, None) if commit is None else changed_records(commit)
        is_last = version <= oldest and not (commit is not None and commit.is_note)
        yield Snapshot(
            snapshot_id=version,
            parent_id=None if is_last or version == 0 else version - 1,
            sequence_number=version,
            timestamp_ms=None if commit is None else segment.timestamp_ms(version),
            operation=None if commit is None else _operation(commit),
            added_records=added,
            deleted_records=deleted,
            most_deleted_records=deleted,
        )
        if is_last:
            return


def _operation(commit: Commit) -> str:
    if commit.is_note:
        return NOTHING
    if commit.keeps_rows:
        return REPLACE
    if not commit.removes:
        return _APPEND
    return _OVERWRITE if commit.adds else _DELETE
