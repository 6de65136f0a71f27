"""
The values of one column that a filter lets pass: spans between cuts in the order of values, NaN, and null.

A cut is before or after a value: ``(0, value, 0)`` or ``(0, value, 1)``; ``(-1,)`` is before all values, ``(1,)`` after
all. Cuts compare as tuples. A span of one value has its two cuts.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from puffin.tables.expression import Op
from puffin.values.column_bounds import comparable
from puffin.values.decimals import to_unscaled
from puffin.values.value_type import ValueType

Cut: TypeAlias = tuple[Any, ...]
Span: TypeAlias = tuple[Cut, Cut]

FIRST: Cut = (-1,)
LAST: Cut = (1,)
EVERYTHING: Span = (FIRST, LAST)

_AS_THEY_ARE = {"int": int, "long": int, "double": float, "boolean": bool}
_EPOCH = datetime.date(1970, 1, 1).toordinal()


def compared(type_: str, value: Any) -> Any:
    """A value in JSON single-value form, as the known values of a column of this type compare; strings are bytes."""
    kind = type(value)
    if kind is str and type_ == "string":
        return value.encode()
    if kind is _AS_THEY_ARE.get(type_):
        return value
    if type_ == "date":
        with contextlib.suppress(ValueError, TypeError):
            return datetime.date.fromisoformat(value).toordinal() - _EPOCH
    found = comparable(type_, value)
    if type_ == "float" and isinstance(found, float) and math.isinf(found):
        return value  # a number beyond those of the type is not infinite
    if found is None and value is not None and type_.startswith("decimal"):
        return to_unscaled(decimal.Decimal(value), ValueType.parse(type_).scale)  # of more digits than the type has
    return found.encode() if isinstance(found, str) else found


def is_point(span: Span) -> bool:
    """Whether a span is one value."""
    start, stop = span
    return len(start) == 3 == len(stop) and start[1] == stop[1]


def value_of(point: Span) -> Any:
    """The value of a span that is one value."""
    return point[0][1]


class ValueSet(NamedTuple):
    """Ascending, disjoint spans of values; and whether NaN and null pass too."""

    spans: tuple[Span, ...]
    nan: bool = False
    null: bool = False

    @classmethod
    def of(cls, op: Op, values: Sequence[Any]) -> ValueSet:
        """What passes a predicate, in SQL's reading: NaN is the largest number, and nothing compares with null."""
        if len(values) == 1:
            return _OF_ONE[op](values[0])
        if op in (Op.IS_NULL, Op.NOT_NULL):
            return NULLS if op is Op.IS_NULL else VALUES
        if op in (Op.IS_NAN, Op.NOT_NAN):
            return cls((), nan=True) if op is Op.IS_NAN else cls((EVERYTHING,))
        points = _union(((0, value, 0), (0, value, 1)) for value in values)
        return cls(points) if op is Op.IN else cls(_complement(points), nan=True)

    @property
    def points_left_out(self) -> ValueSet | None:
        """The values that do not pass, if these are single values, and neither NaN nor between the spans; else None."""
        if not self.nan:
            return None
        cuts = [cut for span in self.spans for cut in span]
        if not cuts or cuts[0] != FIRST or cuts[-1] != LAST:
            return None
        gaps = tuple(zip(cuts[1:-1:2], cuts[2:-1:2], strict=True))
        return ValueSet(gaps) if all(map(is_point, gaps)) else None

    def single_values(self, most: int) -> list[Any] | None:
        """The values, None for null, if these are at most so many; None if there are others."""
        if self.nan or len(self.spans) > most or not all(map(is_point, self.spans)):
            return None
        values = [value_of(point) for point in self.spans]
        return [*values, None] if self.null else values

    def intersection(self, other: ValueSet) -> ValueSet:
        both = [(max(a[0], b[0]), min(a[1], b[1])) for a in self.spans for b in other.spans]
        spans = _union(span for span in both if span[0] < span[1])
        return ValueSet(spans, self.nan and other.nan, self.null and other.null)

    def union(self, other: ValueSet) -> ValueSet:
        return ValueSet(_union((*self.spans, *other.spans)), self.nan or other.nan, self.null or other.null)


VALUES = ValueSet((EVERYTHING,), nan=True)
NULLS = ValueSet((), null=True)
ANY = ValueSet((EVERYTHING,), nan=True, null=True)


_OF_ONE: dict[Op, Callable[[Any], ValueSet]] = {
    Op.EQ: lambda value: ValueSet((((0, value, 0), (0, value, 1)),)),
    Op.NOT_EQ: lambda value: ValueSet(((FIRST, (0, value, 0)), ((0, value, 1), LAST)), nan=True),
    Op.LT: lambda value: ValueSet(((FIRST, (0, value, 0)),)),
    Op.LT_EQ: lambda value: ValueSet(((FIRST, (0, value, 1)),)),
    Op.GT: lambda value: ValueSet((((0, value, 1), LAST),), nan=True),
    Op.GT_EQ: lambda value: ValueSet((((0, value, 0), LAST),), nan=True),
    Op.STARTS_WITH: lambda prefix: ValueSet((span_of_prefix(prefix),)),
    Op.NOT_STARTS_WITH: lambda prefix: ValueSet(_complement((span_of_prefix(prefix),))),
}
_OF_ONE[Op.IN], _OF_ONE[Op.NOT_IN] = _OF_ONE[Op.EQ], _OF_ONE[Op.NOT_EQ]


def _union(spans: Iterable[Span]) -> tuple[Span, ...]:
    found: list[Span] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((start, stop))
    return tuple(found)


def _complement(spans: Sequence[Span]) -> tuple[Span, ...]:
    cuts = [FIRST, *(cut for span in spans for cut in span), LAST]
    pairs = zip(cuts[0::2], cuts[1::2], strict=True)
    return tuple((start, stop) for start, stop in pairs if start < stop)


def span_of_prefix(prefix: bytes) -> Span:
    """The values that start with a prefix."""
    kept = prefix.rstrip(b"\xff")
    return (0, prefix, 0), (0, kept[:-1] + bytes([kept[-1] + 1]), 0) if kept else LAST
