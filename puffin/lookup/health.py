"""
How well statistics and index describe a table now, as one number that sorts tables by need.

A table without statistics has 0, as does one that cannot be read. Otherwise it has 100 points, less

- up to 50 for the share of its rows in files that came or went since the statistics, all 50 if that is unknown;
- up to 30 for the share of its columns that have no statistics;
- up to 20 for the share of its files that the index lacks, all 20 if the index cannot be read;
- 10 if the next run has to read more than these changes, or has to repair an entry.

Every loss costs a point at least, and statistics are worth one whatever is lost.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from puffin.errors import in_one_line

BEST = 100
_ROWS, _COLUMNS, _INDEX, _UPKEEP = 50, 30, 20, 10


@dataclasses.dataclass(frozen=True, slots=True)
class Since:
    """
    How long ago statistics were made, and what changed since; None if unknown.

    Attributes:
        statistics_timestamp_ms: When the snapshot was made whose rows they describe, in milliseconds since the epoch.
        snapshots_behind: How many snapshots have changed the rows since.
        rows_changed_share: Rows in files that came or went since, over those of the table.
    """

    statistics_timestamp_ms: int | None = None
    snapshots_behind: int | None = None
    rows_changed_share: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """
    What the metadata of a table says of its statistics and its index, at its current snapshot.

    Attributes:
        format, snapshot_id: None if the table cannot be read; the latter also if it has no snapshot yet.
        statistics_snapshot_id: The snapshot whose rows the newest statistics describe; None without statistics.
        since_newest, since_oldest: What changed since these, and since those of the column that has the oldest.
        columns_missing: The columns that could have statistics and have none.
        columns_with_values: Columns whose values stand in statistics and should not.
        index_files_missing: Files that lack a filter of an indexed column; None if the index cannot be read.
        index_bytes_to_read: The bytes of those files.
        bytes_to_read: About the bytes of the files that the next ``auto`` run opens for statistics of columns.
        bytes_beside: About what it opens beside these for joint sketches and sketches by partition, if statistics are
            not current.
        health: From 0 to 100, see `puffin.lookup.health`; ``reason`` names the largest cause.
        error: Why the table cannot be read, in one line.
    """

    table: str
    format: str | None = None
    snapshot_id: int | None = None
    statistics_snapshot_id: int | None = None
    since_newest: Since = Since()
    since_oldest: Since = Since()
    columns_missing: tuple[str, ...] = ()
    columns_with_values: tuple[str, ...] = ()
    indexed_columns: tuple[str, ...] = ()
    index_files_missing: int | None = None
    index_bytes_to_read: int | None = None
    bytes_to_read: int | None = None
    bytes_beside: int = 0
    health: int = 0
    reason: str
    error: str | None = None

    @classmethod
    def of_error(cls, table: str, error: Exception | str) -> TableStatus:
        return cls(table=table, reason="the table cannot be read", error=in_one_line(error))

    @property
    def run_bytes(self) -> int | None:
        """About the bytes of the files that the next ``auto`` run opens for statistics of every kind."""
        return None if self.bytes_to_read is None else self.bytes_to_read + self.bytes_beside

    @property
    def need(self) -> tuple[int, int, str]:
        """Sorts tables by need: the lowest health first, then the most bytes."""
        return self.health, -(self.run_bytes or 0), self.table

    def to_json(self) -> dict[str, Any]:
        share = self.since_newest.rows_changed_share
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": self.snapshot_id,
            "stats-snapshot-id": self.statistics_snapshot_id,
            "snapshots-behind": self.since_newest.snapshots_behind,
            "rows-changed-share": None if share is None else round(share, 6),
            "columns-missing": list(self.columns_missing),
            "indexed-columns": list(self.indexed_columns),
            "index-files-missing": self.index_files_missing,
            "bytes-to-read": self.run_bytes,
            "health": self.health,
            "reason": self.reason,
            "error": self.error,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Loss:
    """Points that a table loses, and why."""

    points: float
    reason: str


def about_share(share: float) -> str:
    """A share in whole per cent; only nothing is 0 %, and only all is 100 %."""
    return "< 1 %" if 0 < share < 0.01 else "> 99 %" if 0.99 < share < 1 else f"{share * 100:.0f} %"


def rows_lost(share: float | None) -> Loss:
    """The loss for the share of rows that changed since the statistics."""
    if share is None:
        return Loss(_ROWS, "the number of rows changed since the statistics is unknown")
    return Loss(_ROWS * share, f"{about_share(share)} of the rows are in files that came or went since the statistics")


def columns_lost(missing: int, total: int) -> Loss:
    """The loss for columns without statistics."""
    have = "column has" if total == 1 else "columns have"
    return Loss(_COLUMNS * missing / max(1, total), f"{missing:,} of {total:,} {have} no statistics")


def index_lost(missing: int, total: int) -> Loss:
    """The loss for files that the index lacks."""
    return Loss(_INDEX * missing / max(1, total), f"the index lacks {missing:,} of {total:,} files")


def broken_index(error: str) -> Loss:
    return Loss(_INDEX, f"the index cannot be read: {error}")


def upkeep_needed(reason: str) -> Loss:
    return Loss(_UPKEEP, reason)


def health(losses: Sequence[Loss]) -> tuple[int, str]:
    """The points that are left after these losses, and the reason of the largest loss."""
    real = [loss for loss in losses if loss.points > 0]
    if not real:
        return BEST, "the statistics are current"
    largest = max(real, key=lambda loss: loss.points)
    return max(1, math.floor(BEST - sum(loss.points for loss in real))), largest.reason
