"""The values of a column that the rows of a partition may have, from the partition's values for that column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from puffin.estimates.value_set import EVERYTHING, Span, compared, span_of_prefix
from puffin.values.transforms import may_be_late, overflowing, parsed_transform, result_type

_DAY_UNITS = {"date": 1, "timestamp": 86_400 * 10**6, "timestamp_ns": 86_400 * 10**9}


class Cell(NamedTuple):
    """A span of values, None for no values; and whether NaN and null are among them."""

    span: Span | None
    nan: bool = False
    null: bool = False

    def also(self, other: Cell) -> Cell:
        """The values that are in both."""
        span = None
        if self.span is not None and other.span is not None:
            start, stop = max(self.span[0], other.span[0]), min(self.span[1], other.span[1])
            span = (start, stop) if start < stop else None
        return Cell(span, self.nan and other.nan, self.null and other.null)


ANYTHING = Cell(EVERYTHING, nan=True, null=True)
_A_NUMBER = Cell(EVERYTHING)
_NAN = Cell(None, nan=True)
_NULL = Cell(None, null=True)


def cell_of(type_: str, fields: Iterable[tuple[str, Any]]) -> Cell:
    """What rows may have in a column of a type, by the transforms of their partition, with its values as JSON."""
    found = ANYTHING
    for transform, value in fields:
        found = found.also(_of_field(type_, transform, value))
    return found


def _of_field(type_: str, transform: str, value: Any) -> Cell:
    """Rows with a null have the value null under every transform, and other rows never."""
    if value is None:
        return _NULL
    name, width = parsed_transform(transform)
    if isinstance(value, float) and math.isnan(value):
        return _NAN
    if name == "bucket" or type_ == "float":  # an engine may compare a float with a literal in either of two widths
        return _A_NUMBER
    found = compared(result_type(transform, type_), value)
    span: Span | None = None
    if found is None:
        pass
    elif name == "identity":
        span = (0, found, 0), (0, found, 1)
    elif name == "truncate":
        span = _truncated(found, width)
    else:
        span = _moments(name, type_, found)
    return _A_NUMBER if span is None else Cell(span)


def _truncated(found: Any, width: int) -> Span | None:
    if isinstance(found, bytes):
        # Widths are in characters, of which each is a byte at least.
        return ((0, found, 0), (0, found, 1)) if len(found) < width else span_of_prefix(found)
    if overflowing(found, width):
        return None
    return (0, found, 0), (0, found + width - 1, 1)


def _moments(name: str, type_: str, found: int) -> Span | None:
    day = _DAY_UNITS.get(type_.replace("timestamptz", "timestamp"))
    if day is None:
        return None
    first = found - 1 if found <= 0 and may_be_late(name, type_) else found
    if name == "hour":
        start, stop = first * day // 24, (found + 1) * day // 24
    elif name == "day":
        start, stop = first * day, (found + 1) * day
    else:
        start, stop = (_first_day(name, each) * day for each in (first, found + 1))
    return (0, start, 0), (0, stop - 1, 1)


def _first_day(name: str, number: int) -> int:
    unit = "Y" if name == "year" else "M"
    return int(np.datetime64(number, unit).astype("datetime64[D]").astype(np.int64))  # type: ignore[call-overload]
