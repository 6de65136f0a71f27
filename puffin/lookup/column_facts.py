"""
What statistics say of the rows of a column, or of the tuples of several, for estimates.

Statistics may be older than the snapshot that is asked for. Facts then tell how many rows came and went since.
"""

from __future__ import annotations

import logging
import math
from typing import NamedTuple

from puffin.errors import PuffinError, StorageError
from puffin.estimates.counted import Counted
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.interval import Interval
from puffin.estimates.value_set import compared
from puffin.sketches.row_counts import RowCounts
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.answer import Freshness
from puffin.statistics.joint import FoundJoint
from puffin.statistics.kinds import DISTRIBUTION, ROW_COUNTS
from puffin.statistics.kinds.kind import Kind, T
from puffin.statistics.resolve import answer_columns
from puffin.statistics.stored_blobs import StoredBlobs
from puffin.tables.base import Column
from puffin.tables.snapshot import TableSnapshot
from puffin.values.column_summary import UNKNOWN_SUMMARY

_log = logging.getLogger(__name__)


class ReadFacts(NamedTuple):
    """
    What the statistics of a column say, as far as they can be read.

    Attributes:
        counts: Its row counts, if there are any.
        freshness: What changed since; None without statistics.
        failure: Why values that are stored with the statistics are left out, or None.
        is_provisional: Whether storage failed, so that a retry may give other facts.
    """

    facts: ColumnFacts
    counts: RowCounts | None = None
    freshness: Freshness | None = None
    failure: PuffinError | None = None
    is_provisional: bool = False


def facts_of_nothing(type_: str, now: Interval) -> ColumnFacts:
    """What is known of a column of ``now`` rows without statistics."""
    return ColumnFacts(
        type=type_, rows=int(now.upper), now=now, added=None, removed=None, nulls=None, nans=None, ndv=None
    )


def facts_of_column(opened: TableSnapshot, column: Column, now: Interval) -> ReadFacts:
    """
    What the nearest statistics of a column say.

    ``now`` is the number of rows of the snapshot. Raises what `known_sketches` raises.
    """
    stored = StoredBlobs(opened, [column.field_id])
    nearest = known_sketches(opened, [column.field_id])[column.field_id]
    (answer,) = answer_columns({column.field_id: nearest}, [column], lambda: stored)
    usable = [each for each in nearest if each.column_mismatch is None]
    of = next((each for each in usable if each.blob.snapshot_id == answer.stats_snapshot_id), None)
    summary, distinct = answer.summary or UNKNOWN_SUMMARY, answer.distinct
    added, removed = answer.freshness.records_added, _most_removed(answer.freshness, summary.row_count, now)
    if of is not None and of.age == 0:
        added = removed = 0
    if summary.row_count is None and not now.is_exact:
        added = removed = None
    distribution = counts = None
    errors: list[PuffinError] = []
    if of is not None:
        distribution, counts = _read(stored, of, DISTRIBUTION, errors), _read(stored, of, ROW_COUNTS, errors)
        distribution = None if distribution is None or counts is None else distribution.with_exact(counts)
    type_ = column.type if of is None or of.type is None else of.type
    # Without a usable sketch, the stored bounds may be those of other values.
    least, greatest = (None, None) if of is None else (summary.min, summary.max)
    is_required = column.field_id in opened.state.required_columns and not summary.null_count
    is_required &= not opened.columns_by_id[column.field_id].is_absent
    facts = ColumnFacts(
        type=type_,
        rows=int(now.upper) if summary.row_count is None else summary.row_count,
        now=now,
        added=added,
        removed=removed,
        nulls=0 if is_required else summary.null_count,
        is_required=is_required,
        nans=0 if type_ not in ("float", "double") else summary.nan_count,
        ndv=None if distinct is None else Interval(distinct.ndv, distinct.lower, distinct.upper),
        lower=compared(type_, least),
        upper=compared(type_, greatest),
        distribution=distribution,
        counts=None if distribution is None else counts,
    )
    failed = answer.is_provisional or any(isinstance(error, StorageError) for error in errors)
    since = None if distinct is None else answer.freshness
    return ReadFacts(facts, counts, since, errors[0] if errors else None, failed)


def facts_of_tuples(found: FoundJoint, now: Interval) -> tuple[ColumnFacts, Counted]:
    """What a joint sketch says of the tuples of its columns, none of which is null, and how their rows are counted."""
    changed, is_same = found.known.freshness, found.known.age == 0
    distribution = found.distribution.with_exact(found.counts)
    facts = ColumnFacts(
        type="struct",
        rows=distribution.rows,
        now=now,
        added=0 if is_same else changed.records_added,
        removed=0 if is_same else _most_removed(changed, distribution.rows, now),
        nulls=0,
        nans=0,
        ndv=None,
        distribution=distribution,
        counts=found.counts,
    )
    return facts, Counted.of(distribution, found.counts, 0)


def _most_removed(since: Freshness, rows: int | None, now: Interval) -> int | None:
    """The rows that went, at most, since so many were counted; None if unknown."""
    if since.most_deleted is None or since.records_added is None or rows is None:
        return since.most_deleted
    # Of deletion vectors that were written again, all positions are new ones; the rows that are left tell more.
    return max(0, min(since.most_deleted, rows + since.records_added - math.floor(now.lower)))


def _read(stored: StoredBlobs, known: KnownSketch, kind: Kind[T], errors: list[PuffinError]) -> T | None:
    try:
        return stored.read(known, kind)
    except PuffinError as exc:
        _log.warning("%s: %s is left out: %s", known.entry.statistics_path, kind.title, exc)
        errors.append(exc)
        return None
