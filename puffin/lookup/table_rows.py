"""
How many live rows a table has: as statistics counted them, or as far as metadata tells.

A summary of Iceberg counts a row as deleted when a delete file names it, and again when its data file goes. So the rows
that were added less those that were deleted are only a lower bound. A Delta log counts live rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import NamedTuple

from puffin.estimates.interval import Interval
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.tables.partition_rows import rows_of_tasks
from puffin.tables.snapshot import TableSnapshot


class RowsChanged(NamedTuple):
    """The rows that came and went since statistics were made, at most; each None if unknown."""

    added: int | None
    removed: int | None

    @classmethod
    def of_any(cls, each: Iterable[tuple[int | None, int | None]]) -> RowsChanged | None:
        """The most of several; None if no rows came or went."""
        changed = [some for some in each if some != (0, 0)]
        return cls(*map(_most_of, zip(*changed, strict=True))) if changed else None


def counted_rows(opened: TableSnapshot) -> int | None:
    """The rows, as statistics of this very snapshot counted them; None without."""
    nearest = _nearest_count(opened)
    return None if nearest is None or nearest[0].age > 0 else nearest[1]


def known_rows(opened: TableSnapshot) -> Interval | None:
    """The rows, as the nearest statistics and summaries tell; None if these do not."""
    nearest, snapshot = _nearest_count(opened), opened.snapshot
    if nearest is not None and nearest[0].age == 0:
        return Interval.exactly(nearest[1])
    total, most = snapshot.total_records, math.inf if snapshot.most_records is None else snapshot.most_records
    if total is not None and total == most:
        return Interval.exactly(total)
    since = None if nearest is None else _rows_since(*nearest, are_live=opened.counts_live_rows)
    if since is not None:
        return since.within(total or 0, most)
    return None if total is None else Interval(total, total, most)


def rows_of_files(opened: TableSnapshot) -> Interval | None:
    """
    The rows that metadata counts file by file; the estimate is the upper bound. None if a Delta log does not tell.

    Reads manifests.
    """
    rows = opened.partition_rows()
    if rows is None and opened.counts_live_rows:
        return None
    rows = rows_of_tasks(opened.tasks) if rows is None else rows
    fewest, most = sum(each.lower for each in rows), sum(each.upper for each in rows)
    return Interval(most, fewest, most)


def _most_of(counts: Collection[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(counts) else None


def _nearest_count(opened: TableSnapshot) -> tuple[KnownSketch, int] | None:
    """The sketch of the nearest rows that were counted, whatever its column, and how many these are; None without."""
    every = (each for known in known_sketches(opened).values() for each in known)
    for each in sorted(every, key=lambda known: known.age):
        summary = each.properties.summary
        if summary is not None and summary.row_count is not None:
            return each, summary.row_count
    return None


def _rows_since(known: KnownSketch, rows: int, *, are_live: bool) -> Interval | None:
    """The rows that were counted, and what came and went since; None if unknown, also if more went than there were."""
    since = known.freshness
    if since.records_added is None or (since.records_deleted is None and are_live):
        return None
    most = rows + since.records_added
    left = most - (since.records_deleted or 0)
    if left < 0:
        return None
    fewest = 0 if since.most_deleted is None else max(0, most - since.most_deleted)
    return Interval.exactly(left) if are_live else Interval(left, min(fewest, left), most)
