"""
Reads row counts from a snapshot's summary: total, added and deleted (spec, "Snapshots", optional fields).

A summary counts the rows of data files. It counts the rows that delete files delete separately, and a removed data file
counts with its deleted rows. An equality delete may delete any number of rows, so with one the counts are unknown.
A position may be named twice, or be in a file that is gone: then fewer rows are gone than are counted.
Writers omit counts that are zero, and the oldest writers omit all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from puffin.tables.base import natural_number
from puffin.values.column_summary import known_sum


def added_records(summary: Mapping[str, Any]) -> int | None:
    """The rows of added data files; None if unknown."""
    return _count(summary, "added-records") if _has_counts(summary) else None


def deleted_records(summary: Mapping[str, Any]) -> int | None:
    """The live rows of the parent snapshot that are gone, as far as delete files name each once; None if unknown."""
    if not _has_counts(summary) or _count(summary, "added-equality-deletes") != 0:
        return None
    return _sum(
        _count(summary, "deleted-records"),
        _count(summary, "added-position-deletes"),
        _count(summary, "removed-position-deletes", -1),
    )


def most_deleted_records(summary: Mapping[str, Any]) -> int | None:
    """
    No more rows are gone; None if unknown.

    A delete file that goes is no reason to count less: the rows that it names may have been gone with another one, or
    with their data file, long before.
    """
    if not _has_counts(summary) or _count(summary, "added-equality-deletes") != 0:
        return None
    return known_sum((_count(summary, "deleted-records"), _count(summary, "added-position-deletes")))


def total_records(summary: Mapping[str, Any]) -> int | None:
    """The live rows, or less if delete files name positions that are gone; None if unknown, as with more of these."""
    if "total-records" not in summary or _count(summary, "total-equality-deletes") != 0:
        return None
    total = known_sum((_count(summary, "total-records"), _count(summary, "total-position-deletes", -1)))
    return None if total is None or total < 0 else total


def most_records(summary: Mapping[str, Any]) -> int | None:
    """The rows of data files, whether they live or not; None if unknown."""
    return natural_number(summary.get("total-records"))


def _has_counts(summary: Mapping[str, Any]) -> bool:
    return any(key in summary for key in ("added-records", "deleted-records", "total-records"))


def _count(summary: Mapping[str, Any], key: str, sign: int = 1) -> int | None:
    count = natural_number(summary.get(key, "0"))
    return None if count is None else sign * count


def _sum(*counts: int | None) -> int | None:
    total = known_sum(counts)
    return None if total is None else max(total, 0)
