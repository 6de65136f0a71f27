"""What a lookup answers for one column: an NDV with its bounds, and how far it can be trusted."""

from __future__ import annotations

import dataclasses
from typing import Any

from puffin.statistics.blob_properties import Distinct
from puffin.tables.base import Column
from puffin.values.column_summary import ColumnSummary

SNAPSHOT, ANCESTOR, MISSING = "snapshot", "ancestor", "missing"


@dataclasses.dataclass(frozen=True, slots=True)
class Freshness:
    """
    What lies between the rows that statistics are of and those of the snapshot asked for; None is unknown.

    Attributes:
        snapshots_behind: How many snapshots have changed the rows since: compactions change none.
        records_added: How many rows these have added.
        records_deleted: How many rows they have deleted.
    """

    snapshots_behind: int | None = None
    records_added: int | None = None
    records_deleted: int | None = None


UNKNOWN_FRESHNESS = Freshness()


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnAnswer:
    """
    The NDV of a column, or that there is none.

    Attributes:
        distinct: None if no statistics of the snapshot or an ancestor of it have the column.
        stats_snapshot_id: The snapshot whose rows were counted; with None, ``distinct`` is None too.
        source: ``"snapshot"`` only if those are the rows of the snapshot asked for, else ``"ancestor"``.
        basis: How the statistics job came by it; None in a lookup.
        reason: Why the job read every row for it, if it did; in a lookup, why statistics that are there do not count.
        summary: What else is known of the column's values.
        freshness: How old the statistics are.
        statistics_path: The statistics file that they are from.
        is_provisional: Whether storage failed for nearer statistics, so that asking again may get another answer.
    """

    column: Column
    distinct: Distinct | None
    stats_snapshot_id: int | None
    source: str
    basis: str | None = None
    reason: str | None = None
    summary: ColumnSummary | None = None
    freshness: Freshness = UNKNOWN_FRESHNESS
    statistics_path: str | None = None
    is_provisional: bool = False

    @classmethod
    def missing(cls, column: Column, reason: str | None = None) -> ColumnAnswer:
        """There are no statistics of the column, or none that count."""
        return cls(column, None, None, MISSING, reason=reason)

    def with_summary(self, summary: ColumnSummary | None) -> ColumnAnswer:
        """The same with what else is known of the values: there are no more distinct ones than rows with a value."""
        limit = None if summary is None else summary.most_distinct
        distinct = None if self.distinct is None else self.distinct.at_most(limit)
        return dataclasses.replace(self, distinct=distinct, summary=summary)

    @property
    def ndv(self) -> int | None:
        """The estimated number of distinct values, or None."""
        return None if self.distinct is None else self.distinct.ndv

    def to_json(self) -> dict[str, Any]:
        """The answer as programs get it, with what a planner asks for or, from the statistics job, what it did."""
        distinct = self.distinct
        document = {
            "column": self.column.name,
            "field-id": self.column.field_id,
            "type": self.column.type,
            "ndv": None if distinct is None else distinct.ndv,
            "lower": None if distinct is None else distinct.lower,
            "upper": None if distinct is None else distinct.upper,
            "exact": distinct is not None and distinct.exact,
            "stats-snapshot-id": self.stats_snapshot_id,
            "source": self.source,
        }
        if self.basis is not None:
            return {**document, "basis": self.basis, "reason": self.reason}
        summary = self.summary
        return {
            **document,
            "row-count": None if summary is None else summary.row_count,
            "null-count": None if summary is None else summary.null_count,
            "nan-count": None if summary is None else summary.nan_count,
            "min": None if summary is None else summary.min,
            "max": None if summary is None else summary.max,
            "avg-bytes": None if summary is None else summary.avg_bytes,
            "snapshots-behind": self.freshness.snapshots_behind,
            "records-added": self.freshness.records_added,
            "records-deleted": self.freshness.records_deleted,
            **({} if self.reason is None else {"reason": self.reason}),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionMatch:
    """How many partitions an answer is about, and of how many; None if no column has sketches by partition."""

    matched: int | None
    of: int | None

    def to_json(self) -> dict[str, Any]:
        """The numbers as programs get them, with what they count: whole partitions."""
        return {"matched": self.matched, "of": self.of, "granularity": "partition"}


@dataclasses.dataclass(frozen=True, slots=True)
class TableAnswer:
    """
    The answers for one snapshot of a table.

    Attributes:
        snapshot_id: None while the table has none.
        partitions: What the answers are about, if not all of the rows.
    """

    table: str
    format: str
    snapshot_id: int | None
    columns: tuple[ColumnAnswer, ...]
    partitions: PartitionMatch | None = None

    @property
    def is_provisional(self) -> bool:
        """Whether storage failed for statistics of a column, so that asking again may get another answer."""
        return any(column.is_provisional for column in self.columns)

    def to_json(self) -> dict[str, Any]:
        """The answer as programs get it; ``partitions`` only if some were asked for."""
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": self.snapshot_id,
            **({} if self.partitions is None else {"partitions": self.partitions.to_json()}),
            "columns": [column.to_json() for column in self.columns],
        }
