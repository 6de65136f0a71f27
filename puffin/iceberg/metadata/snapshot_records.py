"""
Reads row counts from a snapshot's summary: total, added and deleted (spec, "Snapshots", optional fields).

A summary counts the rows of data files. It counts the rows that delete files delete separately, and a removed data file
counts with its deleted rows. An equality delete may delete any number of rows, so with one the counts are unknown.
A position may be named twice, or be in a file that is gone: then fewer rows are gone than are counted.
Writers omit what a snapshot added or removed if it is zero, and the oldest writers omit all.

Some writers do not count what delete files delete. DuckDB 1.4 counts their rows as added records, and later versions
leave out the total of equality deletes. Java and pyiceberg write no total that the snapshot before lacks, so the totals
of a table with such a snapshot never come back. What is not counted is unknown, not zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from puffin.tables.base import REPLACE, natural_number
from puffin.values.column_summary import known_sum

_ADDED_DELETES = ("added-position-deletes", "added-equality-deletes")
_TOTAL_DELETES = ("total-position-deletes", "total-equality-deletes")


def summary_of(snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
    """The summary of a snapshot; where it leaves out totals of deletes, zero if format version 1 allowed none."""
    summary: Mapping[str, Any] = snapshot.get("summary") or {}
    is_of_version_1 = not snapshot.get("sequence-number")
    return {**dict.fromkeys(_TOTAL_DELETES, "0"), **summary} if is_of_version_1 else summary


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
    An upper bound on the rows that are gone; None if unknown.

    A delete file that goes is no reason to count less: the rows that it names may have been gone with another one, or
    with their data file, long before.
    """
    if not _has_counts(summary) or _count(summary, "added-equality-deletes") != 0:
        return None
    return known_sum((_count(summary, "deleted-records"), _count(summary, "added-position-deletes")))


def total_records(summary: Mapping[str, Any]) -> int | None:
    """The live rows, or less if delete files name positions that are gone; None if unknown, as with more of these."""
    rows, by_position, by_value = (natural_number(summary.get(key)) for key in ("total-records", *_TOTAL_DELETES))
    if rows is None or by_position is None or by_value != 0:
        return None
    return rows - by_position if by_position <= rows else None


def most_records(summary: Mapping[str, Any]) -> int | None:
    """The rows of data files, whether they live or not; None if unknown."""
    return natural_number(summary.get("total-records"))


def _has_counts(summary: Mapping[str, Any]) -> bool:
    """Whether the summary counts what came and went; not if deletes may have been added uncounted."""
    if not any(key in summary for key in ("added-records", "deleted-records", "total-records")):
        return False
    if _count(summary, "added-delete-files") != 0 and not any(key in summary for key in _ADDED_DELETES):
        return False
    adds_no_deletes = summary.get("operation") in ("append", REPLACE)
    return adds_no_deletes or any(key.endswith(("-deletes", "-delete-files")) for key in summary)


def _count(summary: Mapping[str, Any], key: str, sign: int = 1) -> int | None:
    count = natural_number(summary.get(key, "0"))
    return None if count is None else sign * count


def _sum(*counts: int | None) -> int | None:
    total = known_sum(counts)
    return None if total is None else max(total, 0)
