"""The answer of a lookup: the NDV of each column with its bounds, its source and its freshness."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from puffin.errors import NotFoundError, PuffinError, StorageError
from puffin.tables.base import Column
from puffin.values.column_summary import UNKNOWN_SUMMARY, ColumnSummary

if TYPE_CHECKING:
    from puffin.sketches.theta_sketch import ThetaSketch

SNAPSHOT, ANCESTOR, MISSING = "snapshot", "ancestor", "missing"


@dataclasses.dataclass(frozen=True, slots=True)
class Distinct:
    """
    How many distinct values a column has.

    Attributes:
        ndv: The estimate, rounded down.
        lower, upper: Its 95 % bounds, rounded outwards.
        exact: Whether it is a count, not an estimate.
    """

    ndv: int
    lower: int
    upper: int
    exact: bool

    @classmethod
    def of(cls, sketch: ThetaSketch, *, is_foreign: bool = False) -> Distinct:
        """The estimate of a sketch; that of another engine is never exact."""
        return cls(
            ndv=sketch.ndv,
            lower=math.floor(sketch.lower_bound()),
            upper=math.ceil(sketch.upper_bound()),
            exact=not (sketch.estimating or is_foreign),
        )

    @classmethod
    def nominal(cls, ndv: int, lg_k: int) -> Distinct:
        """An estimate that came without bounds, with those of a sketch of this size; never exact."""
        error = 2 / math.sqrt(1 << lg_k)  # two standard deviations
        return cls(ndv, math.floor(ndv * (1 - error)), math.ceil(ndv * (1 + error)), exact=False)

    def at_most(self, values: int | None) -> Distinct:
        """Limited to the number of values that the column has, if known."""
        if values is None or self.upper <= values:
            return self
        lower = self.lower
        if not self.exact and lower >= values:  # the sketch is further off than its bounds say: see `Interval.at_most`
            likely = math.floor(self.ndv - math.hypot(self.ndv - values, self.ndv - lower))
            lower = max(0, min(likely, values - 1))  # equal bounds would mean exact
        return Distinct(min(self.ndv, values), min(lower, values), values, self.exact)


@dataclasses.dataclass(frozen=True, slots=True)
class Freshness:
    """
    How the rows changed between the statistics and the snapshot asked for; None is unknown.

    Compactions do not count among ``snapshots_behind``. ``records_deleted`` is likely, and ``most_deleted`` certain.
    """

    snapshots_behind: int | None = None
    records_added: int | None = None
    records_deleted: int | None = None
    most_deleted: int | None = None

    @classmethod
    def of_oldest(cls, each: Iterable[Freshness]) -> Freshness:
        """That of the oldest of several statistics; what is unknown of one of them is unknown."""
        different = set(each)
        if len(different) == 1:
            return different.pop()
        since = ((one.snapshots_behind, one.records_added, one.records_deleted, one.most_deleted) for one in different)
        return cls(*(max(counts) if None not in counts else None for counts in zip(*since, strict=True)))

    def to_json(self) -> dict[str, int | None]:
        return {
            "snapshots-behind": self.snapshots_behind,
            "records-added": self.records_added,
            "records-deleted": self.records_deleted,
        }


UNKNOWN_FRESHNESS = Freshness()


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnAnswer:
    """
    The NDV of a column, or that there is none.

    Attributes:
        distinct: None if neither the snapshot nor an ancestor has statistics of the column.
        stats_snapshot_id: The snapshot whose rows were counted; None if ``distinct`` is.
        source: ``"snapshot"``, ``"ancestor"`` or ``"missing"``: whose rows were counted.
        basis: How the statistics job got it; None in a lookup, and if the job computed nothing.
        reason: Why the job read every row, or why a lookup ignores statistics that exist.
        statistics_path: The statistics file that the answer is from.
        is_provisional: Whether storage failed for nearer statistics, so that a retry may give another answer.
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
        return cls(column, None, None, MISSING, reason=reason)

    def with_summary(self, summary: ColumnSummary | None) -> ColumnAnswer:
        """
        Add a summary, whose rows with a value limit the NDV.

        The values between min and max limit its upper bound alone: the NDV stays the one that other engines see.
        """
        distinct, known = self.distinct, summary or UNKNOWN_SUMMARY
        if distinct is not None:
            between = known.values_between(self.column.type)
            distinct = distinct.at_most(known.most_distinct)
            distinct = distinct.at_most(None if between is None else max(between, distinct.ndv))
        return dataclasses.replace(self, distinct=distinct, summary=summary)

    def found_after(self, errors: Iterable[PuffinError]) -> ColumnAnswer:
        """The answer that was found after these errors: if storage failed, a retry may give another one."""
        failed = any(isinstance(error, StorageError) for error in errors)
        return dataclasses.replace(self, is_provisional=True) if failed else self

    @property
    def ndv(self) -> int | None:
        return None if self.distinct is None else self.distinct.ndv

    def to_job_json(self) -> dict[str, Any]:
        """The JSON of the statistics job."""
        return {**self._distinct_json(), "basis": self.basis, "reason": self.reason}

    def to_json(self) -> dict[str, Any]:
        """The JSON of a lookup."""
        summary = self.summary or UNKNOWN_SUMMARY
        return {
            **self._distinct_json(),
            "row-count": summary.row_count,
            "null-count": summary.null_count,
            "nan-count": summary.nan_count,
            "min": summary.min,
            "max": summary.max,
            "avg-bytes": summary.avg_bytes,
            **self.freshness.to_json(),
            **({} if self.reason is None else {"reason": self.reason}),
        }

    def _distinct_json(self) -> dict[str, Any]:
        distinct = self.distinct
        return {
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


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionMatch:
    """How many partitions an answer covers, out of how many; None if no column has sketches by partition."""

    matched: int | None
    of: int | None

    def to_json(self) -> dict[str, Any]:
        return {"matched": self.matched, "of": self.of, "granularity": "partition"}


@dataclasses.dataclass(frozen=True, slots=True)
class TableAnswer:
    """The answers for one snapshot of a table, or for some of its partitions; ``snapshot_id`` is None without one."""

    table: str
    format: str
    snapshot_id: int | None
    columns: tuple[ColumnAnswer, ...]
    partitions: PartitionMatch | None = None

    @property
    def is_provisional(self) -> bool:
        """Whether storage failed for statistics of a column, so that a retry may give another answer."""
        return any(column.is_provisional for column in self.columns)

    @property
    def statistics_path(self) -> str:
        """The statistics file that answers, for the first column if they differ; NotFoundError if none does."""
        path = next((column.statistics_path for column in self.columns if column.statistics_path), None)
        if path is None:
            raise NotFoundError(f"{self.table}: no statistics file")
        return path

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": self.snapshot_id,
            **({} if self.partitions is None else {"partitions": self.partitions.to_json()}),
            "columns": [column.to_json() for column in self.columns],
        }
