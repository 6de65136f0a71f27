"""
What every table has, whatever its format: columns, snapshots and statistics entries.

The lookup and the statistics job know a table by these values alone. Each table format makes them from its own
metadata.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from puffin.errors import ColumnNotFound, SnapshotNotFound, UnsupportedTypeError, UsageError
from puffin.format import THETA_V1
from puffin.storage import FileInfo
from puffin.values.value_type import is_hashable

REPLACE, NOTHING = "replace", "nothing"

_LONGEST_NUMBER = 18  # digits that always fit a long


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """
    A primitive column that structs alone lead to.

    Attributes:
        name: Its dotted name.
        type: Its type, as in appendix C of the Iceberg spec.
        path: The field ids from the root to the column, its own last; they identify it in a data file.
        defaults: The ``initial-default`` of each field along the path, in JSON single-value form, or None.
    """

    field_id: int
    name: str
    type: str
    path: tuple[int, ...]
    defaults: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """
    A state of the table's rows: a snapshot of an Iceberg table, a version of a Delta table.

    Counts of rows are None if unknown.

    Attributes:
        timestamp_ms: Milliseconds since the epoch, UTC.
        operation: As the Iceberg spec names it; `NOTHING` for a version that only adds notes; None if unknown.
        manifests: Paths of manifests, where Iceberg's format version 1 has no manifest list.
        schema_id: The schema that was current then; None if unknown.
        added_records: Rows that its parent does not have.
        deleted_records: Rows of its parent that it no longer has.
        is_trino_insert: Whether a Trino query appended it.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int
    operation: str | None
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    schema_id: int | None = None
    added_records: int | None = None
    deleted_records: int | None = None
    total_records: int | None = None
    is_trino_insert: bool = False

    @property
    def keeps_rows(self) -> bool:
        """Whether it has exactly its parent's rows, perhaps in other files (spec, "Snapshots", on ``replace``)."""
        added, deleted = self.added_records, self.deleted_records
        # Iceberg's Java compacts a file that is listed twice as two files, and may then remove only one listing.
        is_contradicted = added is not None and deleted is not None and added > deleted
        return self.operation == NOTHING or (self.operation == REPLACE and not is_contradicted)

    @property
    def is_note(self) -> bool:
        """Whether it only adds notes to the table's log, which change neither rows nor schema."""
        return self.operation == NOTHING


@dataclasses.dataclass(frozen=True, slots=True)
class BlobEntry:
    """A blob as table metadata describes it: everything except its place in the file."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...]
    properties: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionStatisticsEntry:
    """Table metadata's reference to a partition statistics file; the size is in bytes."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class StatisticsEntry:
    """
    Table metadata's reference to a statistics file.

    Sizes are in bytes; ``file_footer_size_in_bytes`` counts the whole footer, from magic to magic. Entries read from
    metadata have neither ``partitions`` nor ``repairs``.

    Attributes:
        partitions: The partition statistics of the same snapshot to commit with this entry, if any.
        repairs: Entries of other snapshots to commit with this one, which replace damaged ones.
    """

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blobs: tuple[BlobEntry, ...]
    partitions: PartitionStatisticsEntry | None = None
    repairs: tuple[StatisticsEntry, ...] = ()

    def sketch_of(self, field_id: int) -> BlobEntry | None:
        """The theta blob of this field alone, or None."""
        return next((b for b in self.blobs if b.type == THETA_V1 and b.fields == (field_id,)), None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSelector:
    """
    Which snapshot the user means, by at most one of the three; by none, the current one.

    ``as_of_ms`` selects the snapshot that was current at a time in milliseconds since the epoch. Raises UsageError for
    more than one.
    """

    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None

    def __post_init__(self) -> None:
        if (self.snapshot_id, self.ref, self.as_of_ms).count(None) < 2:
            raise UsageError("expected one of a snapshot's id, a ref and a time, found several")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableState:
    """
    A table at one version of its metadata.

    Attributes:
        format: ``"iceberg"`` or ``"delta"``.
        uuid: The table's identity; None where the format version has none.
        document: The metadata document, unknown fields included, or a Delta table's description in the same terms
            (`puffin.tables.document`). Nothing changes it in place.
        columns: The primitive leaves of the current schema, in schema order.
        field_ids: The ids of all fields of the current schema, also inside lists and maps.
        snapshots: Every snapshot the table still has, by id.
        refs: Snapshot ids by branch and tag name.
        history: Each change of the current snapshot, in order: milliseconds since the epoch and snapshot id.
        statistics: Entries by snapshot id.
        partition_statistics: The snapshots that have partition statistics.
        metadata_file: The file at ``metadata_location`` as it was read, if a recreated table may reuse its name; else
            None.
    """

    format: str
    uuid: str | None
    metadata_location: str
    document: Mapping[str, Any]
    location: str
    properties: Mapping[str, str]
    columns: tuple[Column, ...]
    field_ids: frozenset[int]
    snapshots: Mapping[int, Snapshot]
    current_snapshot_id: int | None
    refs: Mapping[str, int]
    history: tuple[tuple[int, int], ...]
    statistics: Mapping[int, StatisticsEntry]
    partition_statistics: frozenset[int] = frozenset()
    metadata_file: FileInfo | None = None

    def select_snapshot(self, selector: SnapshotSelector) -> Snapshot | None:
        """
        The selected snapshot; None if the selector means the current one and the table has none yet.

        Raises SnapshotNotFound if the table has no such snapshot, branch or tag, or had none at that time.
        """
        if selector.snapshot_id is not None:
            return self.snapshot(selector.snapshot_id)
        if selector.ref is not None:
            if selector.ref not in self.refs:
                known = ", ".join(sorted(self.refs)) or "none"
                raise SnapshotNotFound(f"{self.location}: no branch or tag {selector.ref!r}; it has {known}")
            return self.snapshot(self.refs[selector.ref])
        if selector.as_of_ms is not None:
            past = [snapshot_id for at, snapshot_id in self.history if at <= selector.as_of_ms]
            if not past:
                raise SnapshotNotFound(f"{self.location}: no snapshot as old as {_iso(selector.as_of_ms)}")
            return self.snapshot(past[-1])
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot with this id; SnapshotNotFound if the table does not have it, or no longer."""
        try:
            return self.snapshots[snapshot_id]
        except KeyError:
            raise SnapshotNotFound(
                f"{self.location}: no snapshot {snapshot_id} (it never existed, or has expired)"
            ) from None

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """The newest version up to this one that is not a mere note; usually the snapshot itself."""
        return next((older for older in self.ancestors(snapshot.snapshot_id) if not older.is_note), snapshot)

    def number_property(self, name: str, default: int) -> int:
        """
        A natural number from the table's properties; the default if the property is missing or not a natural number.
        """
        number = natural_number(self.properties.get(name))
        return default if number is None else number

    def still_has(self, column: Column) -> bool:
        """
        Whether the table still has a column of an earlier state; ConflictError if another job gave it another id first.
        """
        return column.field_id in self.field_ids

    def ancestors(self, snapshot_id: int) -> Iterator[Snapshot]:
        """The snapshot and its parents, nearest first, down to the oldest one the table still has."""
        seen: set[int] = set()
        at: int | None = snapshot_id
        while at is not None and at in self.snapshots and at not in seen:
            seen.add(at)
            yield self.snapshots[at]
            at = self.snapshots[at].parent_id

    def select_columns(self, names: Sequence[str] | None) -> tuple[Column, ...]:
        """
        The columns of these names, in this order; None selects every column that can be hashed.

        Raises ColumnNotFound if the schema has no such primitive column, UnsupportedTypeError if one has no
        single-value bytes.
        """
        if names is None:
            return tuple(c for c in self.columns if is_hashable(c.type))
        chosen = tuple({column.field_id: column for column in map(self._column, names)}.values())
        for column in chosen:
            if not is_hashable(column.type):
                raise UnsupportedTypeError(f"column {column.name}: type {column.type} has no single-value bytes")
        return chosen

    def _column(self, name: str) -> Column:
        try:
            return self._columns_by_name[name]
        except KeyError:
            raise ColumnNotFound(f"{self.location}: no primitive column {name!r} outside lists and maps") from None

    @functools.cached_property
    def _columns_by_name(self) -> dict[str, Column]:
        # A whole name takes precedence over a dotted path, so the shorter path wins.
        return {c.name: c for c in sorted(self.columns, key=lambda c: -len(c.path))}


def natural_number(text: Any) -> int | None:
    """The number that a text means; None if it is anything but decimal digits, or has more than surely fit a long."""
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
    return int(text) if is_number else None


def _iso(ms: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since the epoch"
