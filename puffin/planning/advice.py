"""
Whether an index of a column would pay, from statistics and bounds alone.

A key is one of the distinct values. Bounds tell how many files it is within the bounds of. Statistics tell how often
keys repeat; the rows of each are taken to be spread by chance over those files. That gives the files that hold a key,
which no index can exclude, and the distinct values of each file, hence the size of its filter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from puffin.index.sizes import DEFAULT_FPP, check_fpp, index_bytes
from puffin.index.value_hashes import is_indexable
from puffin.planning.overlap import Numbers, files_per_key, most_distinct
from puffin.tables.base import Column
from puffin.tables.file_metrics import FileMetrics
from puffin.values.column_bounds import Comparable

_WELL_CLUSTERED = 2.0  # files per key that bounds leave; fewer do not need an index
_WORTHWHILE = 0.5  # an index has to leave at most this share of them


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IndexFacts:
    """
    What metadata tells of a column; each sequence has an item for each file.

    Attributes:
        ndv: The number of distinct values, None if there are no statistics.
        most: The upper bound of ``ndv``.
        frequencies: Shares of all rows, and how many values have each; None if all values have equally many.
        rows: The rows of the file.
        is_constant: Whether the column is an identity partition field of the file.
        buckets: A key is only in files that have the same of these, as by a bucket or truncate transform of the column.
    """

    column: Column
    ndv: int | None
    most: int | None
    frequencies: tuple[Numbers, Numbers] | None = None
    metrics: Sequence[FileMetrics]
    rows: Sequence[int]
    is_constant: Sequence[bool]
    buckets: Sequence[Hashable]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnAdvice:
    """
    Whether to index a column; None is unknown, or there can be no index.

    Attributes:
        overlap: 0 if a key is within the bounds of one file only, 1 if it is within those of all.
        by_bounds: The expected files per key with bounds only.
        by_index: The same with an index.
        bytes: Of the index.
        files_indexed: How many files need no run of ``puffin index`` for this column; 0 if the index lacks it.
        reason: Why it is recommended or not, in a few words.
    """

    column: Column
    ndv: int | None
    overlap: float | None = None
    by_bounds: float | None = None
    by_index: float | None = None
    bytes: int | None = None
    files_indexed: int | None = None
    recommended: bool = False
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "column": self.column.name,
            "field-id": self.column.field_id,
            "type": self.column.type,
            "ndv": self.ndv,
            "overlap": _rounded(self.overlap),
            "files-per-key-bounds": _rounded(self.by_bounds),
            "files-per-key-index": _rounded(self.by_index),
            "bytes": self.bytes,
            "files-indexed": self.files_indexed,
            "recommended": self.recommended,
            "reason": self.reason,
        }


def chosen_rate(fpp: float | None) -> float:
    """A rate of false positives to judge with, the default for None; raises as `check_fpp`."""
    rate = DEFAULT_FPP if fpp is None else fpp
    check_fpp(rate)
    return rate


def advise_column(facts: IndexFacts, fpp: float) -> ColumnAdvice:
    """Judge an index of a column with this rate of false positives."""
    ranges = _Ranges(facts)
    rows = float(ranges.rows.sum())
    has_index = is_indexable(facts.column.type)
    if rows == 0:
        return ColumnAdvice(column=facts.column, ndv=facts.ndv, reason="the table has no values of it")
    per_file = ranges.files_per_key()
    by_bounds = float((per_file * ranges.rows).sum() / rows)
    values = _distinct(facts, ranges)
    repeats = _repeats(facts, rows, values)
    distinct = _distinct_in_files(values, repeats, ranges.rows, per_file)
    holding = min(max(float(distinct.sum()) / values, 1.0), by_bounds)
    by_index = holding + fpp * (by_bounds - holding)
    reason, recommended = _judged(facts, ranges, (by_bounds, holding, by_index))
    files = len(per_file)
    return ColumnAdvice(
        column=facts.column,
        ndv=facts.ndv,
        overlap=(by_bounds - 1) / (files - 1) if files > 1 and ranges.has_bounds.any() else None,
        by_bounds=by_bounds,
        by_index=by_index if has_index else None,
        bytes=index_bytes(distinct[~ranges.is_constant], fpp) if has_index else None,
        recommended=recommended,
        reason=reason,
    )


class _Ranges:
    """The files that have values of a column, as arrays, and the bounds of those that have them."""

    def __init__(self, facts: IndexFacts) -> None:
        counts = [
            max((each.values if each.values is not None else rows) - (each.nulls or 0), 0)
            for each, rows in zip(facts.metrics, facts.rows, strict=True)
        ]
        chosen = [i for i, count in enumerate(counts) if count > 0]
        self.rows = np.array([counts[i] for i in chosen], np.float64)
        self.is_constant = np.array([facts.is_constant[i] for i in chosen], np.bool_)
        self._metrics = [facts.metrics[i] for i in chosen]
        self._buckets = [facts.buckets[i] for i in chosen]
        self.has_bounds = np.array([_is_known(m.lower) and _is_known(m.upper) for m in self._metrics], np.bool_)
        known = [metrics for metrics, has in zip(self._metrics, self.has_bounds, strict=True) if has]
        self.lower: list[Any] = [metrics.lower for metrics in known]
        self.upper: list[Any] = [metrics.upper for metrics in known]

    @property
    def count(self) -> int:
        return len(self._metrics)

    def files_per_key(self) -> Numbers:
        """For each file, how many files a key of it is within the bounds of; a file without bounds may hold any."""
        numbers = {bucket: number for number, bucket in enumerate(dict.fromkeys(self._buckets))}
        bucket_of = np.array([numbers[bucket] for bucket in self._buckets])
        found = np.zeros(self.count)
        for number in numbers.values():
            in_bucket = np.flatnonzero(bucket_of == number)
            bounded = in_bucket[self.has_bounds[in_bucket]]
            found[in_bucket] = len(in_bucket)
            lower, upper = ([getattr(self._metrics[i], side) for i in bounded] for side in ("lower", "upper"))
            found[bounded] = files_per_key(lower, upper) + len(in_bucket) - len(bounded)
        return found


def _is_known(bound: Comparable | None) -> bool:
    return bound is not None and bound == bound  # not NaN


def _distinct(facts: IndexFacts, ranges: _Ranges) -> float:
    """The distinct values of the table; without statistics, as many as there can be."""
    rows = float(ranges.rows.sum())
    if facts.ndv is not None and facts.most is not None:
        return rows if facts.most >= rows else float(max(facts.ndv, 1))  # an estimate cannot tell a key from nearly one
    return min(rows, most_distinct(ranges.lower, ranges.upper) if ranges.has_bounds.all() else rows)


def _repeats(facts: IndexFacts, rows: float, values: float) -> tuple[Numbers, Numbers]:
    """How often values repeat, and the share of the values that repeat so often."""
    if facts.frequencies is None or values == rows:
        return np.array([max(rows / values, 1.0)]), np.ones(1)
    shares, counts = facts.frequencies
    return np.maximum(shares * rows, 1.0), counts / counts.sum()


def _distinct_in_files(values: float, repeats: tuple[Numbers, Numbers], rows: Numbers, per_file: Numbers) -> Numbers:
    """The expected distinct values of each file, if chance spreads the rows of a value over the files of a key."""
    every = float(rows.sum())
    around = np.clip(every * per_file / len(rows), rows, every)  # rows of the files that share keys with this one
    nearby = values * around / every
    absent = np.zeros(len(rows))
    for often, share in zip(*repeats, strict=True):
        absent += share * (1 - rows / around) ** often
    return np.clip(nearby * (1 - absent), 1, rows)


def _judged(facts: IndexFacts, ranges: _Ranges, files: tuple[float, float, float]) -> tuple[str, bool]:
    """The reason, and whether the index is recommended."""
    by_bounds, holding, by_index = files
    bounds, index = f"{by_bounds:,.1f}", f"{by_index:,.1f}"
    if facts.column.type == "boolean" or not is_indexable(facts.column.type):
        return f"a column of type {facts.column.type} has no index", False
    if ranges.is_constant.all():
        return "it is a partition column, whose value excludes files already", False
    if by_bounds <= _WELL_CLUSTERED:
        return f"bounds leave {bounds} files per key already", False
    if by_index > _WORTHWHILE * by_bounds:
        return f"a value is in {holding:,.1f} of the {bounds} files that bounds leave", False
    if facts.ndv is None:
        # The smallest values of two files differ if the column has many values.
        if len({*ranges.lower, *ranges.upper}) < ranges.count:
            return "there are no statistics, and the bounds of files repeat: run puffin analyze first", False
        return f"leaves {index} files per key instead of {bounds}, if no value repeats: there are no statistics", True
    return f"leaves {index} files per key instead of {bounds}", True


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
