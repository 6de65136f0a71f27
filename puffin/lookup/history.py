"""
The history of a column's statistics over the snapshots of a table, from metadata, and footers of abridged entries.

It has only snapshots whose own rows were counted: carried statistics add nothing new.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from puffin.lookup.question import Question
from puffin.statistics.ancestry import known_sketches
from puffin.statistics.answer import Distinct
from puffin.tables.base import Column, Snapshot
from puffin.tables.snapshot import TableSnapshot
from puffin.values.column_summary import ColumnSummary

MOST_POINTS = 500


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A column's statistics for the rows of one snapshot; ``summary`` is None if unknown."""

    snapshot: Snapshot
    distinct: Distinct
    summary: ColumnSummary | None

    def to_json(self) -> dict[str, Any]:
        return {
            "snapshot-id": self.snapshot.snapshot_id,
            "timestamp": iso_time(self.snapshot.timestamp_ms),
            "operation": self.snapshot.operation,
            **dataclasses.asdict(self.distinct),
            "row-count": None if self.summary is None else self.summary.row_count,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnHistory:
    """The newest `MOST_POINTS` points of a column, oldest first."""

    table: str
    column: Column
    points: tuple[HistoryPoint, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "column": self.column.name,
            "points": [point.to_json() for point in self.points],
        }


def column_history(opened: TableSnapshot, question: Question) -> ColumnHistory:
    """The history of the question's column up to the snapshot; errors as for `Lookup.history`."""
    (wanted,) = opened.state.select_columns(question.columns)
    points: dict[int, HistoryPoint] = {}
    for known in [] if opened.is_empty else known_sketches(opened, [wanted.field_id])[wanted.field_id]:
        if len(points) == MOST_POINTS:
            break
        distinct = known.properties.distinct
        if known.snapshot is None or known.snapshot.snapshot_id in points or distinct is None:
            continue
        answer = known.answer(distinct).with_summary(known.properties.summary)
        points[known.snapshot.snapshot_id] = HistoryPoint(known.snapshot, answer.distinct or distinct, answer.summary)
    return ColumnHistory(question.table, wanted, tuple(points.values())[::-1])


def iso_time(timestamp_ms: int | None) -> str | None:
    """A time in milliseconds since the epoch as ISO 8601 in UTC; None if it is unknown, or no calendar has it."""
    if timestamp_ms is None:
        return None
    try:
        at = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return None
    return at.isoformat(timespec="milliseconds")
