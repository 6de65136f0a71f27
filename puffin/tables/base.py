"""
What every table has, whatever its format: columns, snapshots and statistics entries.

The lookup and the statistics job know a table by these values alone. Each table format makes them from its own
metadata.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any

from puffin.cached import cached_property
from puffin.errors import UsageError
from puffin.format import THETA_V1

REPLACE, NOTHING = "replace", "nothing"

_INTEGER, _TEXT = (int, type(None), numbers.Integral), (str, type(None))
_LONGEST_NUMBER = 18  # digits that always fit a long


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """
    A primitive column that structs alone lead to.

    Attributes:
        name: Its dotted name.
        type: Its type, as in appendix C of the Iceberg spec.
        path: The field ids from the root to the column, its own last; they identify it in a data file. Empty for a
            column that a snapshot lacks, as `puffin.tables.state.TableState.columns_at` has it.
        defaults: The ``initial-default`` of each field along the path, in JSON single-value form, or None.
    """

    field_id: int
    name: str
    type: str
    path: tuple[int, ...]
    defaults: tuple[Any, ...] = dataclasses.field(hash=False)  # an object or a list among them has no hash

    @property
    def is_absent(self) -> bool:
        """Whether it is null in every row, whatever data files have."""
        return not self.path


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """
    A state of the table's rows: a snapshot of an Iceberg table, a version of a Delta table.

    Counts of rows are None if unknown.

    Attributes:
        timestamp_ms: Milliseconds since the epoch, UTC; None if unknown, as of a Delta version without a log entry.
        operation: As the Iceberg spec names it; `NOTHING` for a version that only adds notes; None if unknown.
        manifests: Paths of manifests, where Iceberg's format version 1 has no manifest list.
        schema_id: The schema that was current then; None if unknown.
        added_records: Rows that its parent does not have.
        deleted_records: Rows of its parent that it no longer has, most likely.
        most_deleted_records: Upper bound on its parent's rows that it no longer has.
        total_records: Its rows, most likely; the real number may be larger.
        most_records: Upper bound on its rows.
        total_files: Data files, as its summary says; None if unknown, as for the next.
        total_bytes: Of data and delete files.
        is_trino_insert: Whether a Trino query appended it.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp_ms: int | None
    operation: str | None
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    schema_id: int | None = None
    added_records: int | None = None
    deleted_records: int | None = None
    most_deleted_records: int | None = None
    total_records: int | None = None
    most_records: int | None = None
    total_files: int | None = None
    total_bytes: int | None = None
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

    @property
    def field_id(self) -> int:
        """The field of a blob of one field."""
        return self.fields[0]

    @property
    def is_sketch(self) -> bool:
        """Whether it is a theta sketch of one column, which every engine can use."""
        return self.type == THETA_V1 and len(self.fields) == 1


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionStatisticsEntry:
    """Table metadata's reference to a partition statistics file; the size is in bytes."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int


@dataclasses.dataclass(frozen=True)
class StatisticsEntry:
    """
    Table metadata's reference to a statistics file.

    Sizes are in bytes; ``file_footer_size_in_bytes`` counts the whole footer, from magic to magic. Entries read from
    metadata have none of ``partitions``, ``repairs`` and ``removals``.

    Attributes:
        partitions: The partition statistics of the same snapshot to commit with this entry, if any.
        repairs: Entries of other snapshots to commit with this one, which replace damaged ones.
        removals: Other snapshots, whose entries the commit removes.
        in_footer: A cache: the properties of its blobs by field id and snapshot, once somebody has read them.
    """

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blobs: tuple[BlobEntry, ...]
    partitions: PartitionStatisticsEntry | None = None
    repairs: tuple[StatisticsEntry, ...] = ()
    removals: tuple[int, ...] = ()
    in_footer: dict[tuple[int, int], Mapping[str, str]] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def file_name(self) -> str:
        return self.statistics_path.rpartition("/")[2]

    @cached_property
    def sketches(self) -> Mapping[int, BlobEntry]:
        """The sketches of one column each, by field id; of several for one column, the first."""
        return {blob.field_id: blob for blob in reversed(self.blobs) if blob.is_sketch}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSelector:
    """
    Which snapshot the user means, by at most one of the three; by none, the current one.

    ``as_of_ms`` selects the snapshot that was current at a time in milliseconds since the epoch. Raises UsageError for
    more than one, and for values of other types.
    """

    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None

    def __post_init__(self) -> None:
        if (self.snapshot_id, self.ref, self.as_of_ms).count(None) < 2:
            raise UsageError("expected one of a snapshot's id, a ref and a time, found several")
        if not isinstance(self.snapshot_id, _INTEGER):
            raise UsageError(f"snapshot_id: expected an integer, found {self.snapshot_id!r}")
        if not isinstance(self.as_of_ms, _INTEGER):
            raise UsageError(f"as_of_ms: expected milliseconds since the epoch, found {self.as_of_ms!r}")
        if not isinstance(self.ref, _TEXT):
            raise UsageError(f"ref: expected a name, found {self.ref!r}")


def natural_number(text: Any) -> int | None:
    """The number that a text means; None if it is anything but decimal digits, or has more than surely fit a long."""
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
    return int(text) if is_number else None
