"""
What statistics say of the rows of a column, or of the tuples of several, for estimates.

Statistics may be older than the snapshot that is asked for. Facts then tell how many rows came and went since.
"""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

from puffin.errors import PuffinError, StorageError
from puffin.estimates.counted import Counted
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.interval import Interval
from puffin.estimates.value_set import compared
from puffin.statistics.ancestry import KnownSketch, known_sketches
from puffin.statistics.answer import Freshness
from puffin.statistics.joint import FoundJoint
from puffin.statistics.kinds import DISTRIBUTION, ROW_COUNTS
from puffin.statistics.kinds.kind import Kind, Values
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
        freshness: What changed since; None without statistics.
        failure: Why values that are stored with the statistics are left out, or None.
        is_provisional: Whether storage failed, so that a retry may give other facts.
    """

    facts: ColumnFacts
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
    sketch = next((each for each in usable if each.blob.snapshot_id == answer.stats_snapshot_id), None)
    promoted = any(each.is_promoted for each in nearest if each.blob.snapshot_id == answer.stats_snapshot_id)
    summary, distinct = answer.summary or UNKNOWN_SUMMARY, answer.distinct
    is_same = sketch is not None and sketch.age == 0
    added, removed = _changed_since(answer.freshness, summary.row_count, now, is_same=is_same)
    values, errors = ({}, []) if sketch is None else _read(stored, sketch)
    distribution, counts = DISTRIBUTION.of(values), ROW_COUNTS.of(values)
    distribution = None if distribution is None or counts is None else distribution.with_exact(counts)
    if distribution is not None and summary.null_count is None:
        distribution = None  # it has no nulls and no empty strings, so how many rows have which would be unknown
        if sketch is not None and sketch.footer_error is not None:
            errors.append(sketch.footer_error)
    type_ = column.type if sketch is None or sketch.type is None else sketch.type
    # Without a usable sketch, the stored bounds may be those of other values, but for those that were promoted.
    least, greatest = (None, None) if sketch is None and not promoted else (summary.min, summary.max)
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
    return ReadFacts(facts, since, errors[0] if errors else None, failed)


def facts_of_tuples(found: FoundJoint, now: Interval) -> tuple[ColumnFacts, Counted]:
    """What a joint sketch says of the tuples of its columns, none of which is null, and how their rows are counted."""
    known, distribution = found.known, found.distribution.with_exact(found.counts)
    added, removed = _changed_since(known.freshness, distribution.rows, now, is_same=known.age == 0)
    facts = ColumnFacts(
        type="struct",
        rows=distribution.rows,
        now=now,
        added=added,
        removed=removed,
        nulls=0,
        nans=0,
        ndv=None,
        distribution=distribution,
        counts=found.counts,
    )
    return facts, Counted.of(distribution, found.counts, 0)


def _changed_since(
    since: Freshness, rows: int | None, now: Interval, *, is_same: bool
) -> tuple[int | None, int | None]:
    """The rows that came, and those that went at most, since so many were counted; None if unknown."""
    if rows is None and not now.is_exact:
        return None, None
    if is_same:
        return 0, 0
    added, removed = since.records_added, since.most_deleted
    if added is None or removed is None or rows is None:
        return added, removed
    # Of deletion vectors that were written again, all positions are new ones; the rows that are left tell more.
    return added, max(0, min(removed, rows + added - math.floor(now.lower)))


def _read(stored: StoredBlobs, known: KnownSketch) -> tuple[Values, list[PuffinError]]:
    """The distribution and the row counts beside a sketch, as far as they can be read, and why they cannot."""
    values: dict[Kind[Any], Any] = {}
    errors = []
    for kind in (DISTRIBUTION, ROW_COUNTS):
        try:
            values[kind] = stored.read(known, kind)
        except PuffinError as exc:
            _log.warning("%s: %s is left out: %s", known.entry.statistics_path, kind.title, exc)
            errors.append(exc)
    return values, errors
