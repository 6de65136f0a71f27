"""
How the rows of a column are spread, for people: its most frequent values, and a histogram.

The buckets of a histogram of numbers, dates and times are equally wide; those of other types have equally many of the
values that statistics know. A column of few values has a bucket for each.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.interval import AT_95, Interval
from puffin.estimates.value_set import NULLS, Cut, ValueSet, span_of_prefix
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.value_bytes import to_comparables

MOST_BUCKETS = 24
MOST_HEAVY = 10
_BY_CONTENT = ("string", "binary", "fixed", "uuid")


@dataclass(frozen=True, slots=True)
class HeavyValue:
    """A value with its rows; ``is_cut`` tells that it is only the beginning of the value."""

    value: Any
    is_cut: bool
    rows: Interval


@dataclass(frozen=True, slots=True)
class Bucket:
    """The rows of the values from ``first`` to ``last``: without ``last`` if another bucket begins with it."""

    first: Any
    last: Any
    rows: Interval


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """
    Values are as `puffin.values.value_bytes.to_comparables` has them.

    Attributes:
        heavy: The values with the most rows, at most `MOST_HEAVY`, those with more rows first.
        buckets: At most `MOST_BUCKETS`, in the order of values, without null, NaN and the empty string.
        nulls: The rows with null.
        is_complete: Statistics have every value, with its rows.
    """

    heavy: tuple[HeavyValue, ...]
    buckets: tuple[Bucket, ...]
    nulls: Interval
    is_complete: bool


def shape_of(column: ColumnRows) -> ColumnShape | None:
    """The shape of a column; None if statistics do not have its values."""
    found = column.facts.distribution
    if found is None or found.values is None:
        return None
    keys = to_comparables(found.values, column.facts.type)
    low = found.low.astype(np.float64)
    likely = low + found.likely * (found.high - low)
    is_complete = found.theta == MAX_THETA
    often = np.flatnonzero(found.is_heavy | is_complete)
    most = often[np.argsort(-likely[often], kind="stable")][:MOST_HEAVY]
    heavy = (
        HeavyValue(
            keys[i].item() if isinstance(keys[i], np.generic) else keys[i],
            bool(found.is_cut[i]),
            column.as_now(Interval(float(likely[i]), float(found.low[i]), float(found.high[i]))),
        )
        for i in most
    )
    ordered = sorted(set(keys[keys == keys].tolist()))  # NaN has no place in the order
    cut = {keys[i] for i in np.flatnonzero(found.is_cut)}
    buckets = tuple(
        Bucket(first, last, column.find(ValueSet(((start, stop),)), AT_95)[0])
        for first, last, start, stop in _spans(column.facts, ordered, cut)
    )
    return ColumnShape(tuple(heavy), buckets, column.find(NULLS, AT_95)[0], is_complete)


def _spans(facts: ColumnFacts, ordered: list[Any], cut: set[Any]) -> list[tuple[Any, Any, Cut, Cut]]:
    """The spans of buckets; of ``cut`` values only the beginnings are known, which stand for all that begin so."""
    if len(ordered) <= MOST_BUCKETS:
        return [(value, value, (0, value, 0), _end_of(value, cut)) for value in ordered]
    if facts.type.startswith(_BY_CONTENT):
        edges = [ordered[i * (len(ordered) - 1) // MOST_BUCKETS] for i in range(MOST_BUCKETS + 1)]
    else:
        finite = [value for value in ordered if not math.isinf(value)]
        low = finite[0] if facts.lower is None else min(facts.lower, finite[0])
        high = finite[-1] if facts.upper is None else max(facts.upper, finite[-1])
        edges = sorted({_between(facts.type, low, high, step) for step in range(MOST_BUCKETS + 1)})
    pairs = list(itertools.pairwise(edges))
    return [
        (first, last, (0, first, 0), _end_of(last, cut) if number == len(pairs) else (0, last, 0))
        for number, (first, last) in enumerate(pairs, 1)
    ]


def _end_of(value: Any, cut: set[Any]) -> Cut:
    return span_of_prefix(value)[1] if value in cut else (0, value, 1)


def _between(type_: str, low: Any, high: Any, step: int) -> Any:
    if isinstance(low, int):
        return low + (high - low) * step // MOST_BUCKETS
    share = step / MOST_BUCKETS
    found = low * (1 - share) + high * share
    return float(np.float32(found)) if type_ == "float" else found
