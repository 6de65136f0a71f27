"""
The smallest and the largest value of some rows, in a form that compares.

All bounds are made here, whether from values, from file metadata or from statistics. Numbers compare as they are;
dates, times and decimals as the counts behind them (days or microseconds since 1970, unscaled numbers); strings by code
point; bytes and uuids unsigned. NaN has no place in the order; -0.0 becomes 0.0. Strings and bytes are cut to 16
characters. If the rows have no value, a union keeps the other bound; if a bound is unknown, so is its union with any
value.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from puffin.errors import PuffinError
from puffin.values.column_summary import JsonValue
from puffin.values.decimals import decimal_text, to_decimal, to_unscaled
from puffin.values.json_values import to_json, to_scalar
from puffin.values.manifest_bounds import manifest_bound
from puffin.values.truncation import truncate_lower, truncate_upper
from puffin.values.value_type import ValueType


class Missing(enum.Enum):
    """A bound that is not a value."""

    NO_VALUE = enum.auto()  # the rows have no value
    UNKNOWN = enum.auto()  # the rows may have any value


Comparable: TypeAlias = bool | int | float | str | bytes
Bound: TypeAlias = Comparable | Missing


@dataclass(frozen=True, slots=True)
class Bounds:
    """No value is below ``lower`` or above ``upper``; strings and bytes are cut short."""

    lower: Bound
    upper: Bound

    @classmethod
    def of(cls, lower: Comparable | None, upper: Comparable | None) -> Bounds:
        """The bounds of rows with no value below or above these; None is unknown."""
        if isinstance(lower, str | bytes):
            lower = truncate_lower(lower)
        if isinstance(upper, str | bytes):
            upper = truncate_upper(upper)
        return cls(_sound(lower), _sound(upper))

    @classmethod
    def from_json(cls, type_: str, lower: JsonValue, upper: JsonValue) -> Bounds:
        """Read bounds in JSON single-value form; None, or a value of another type, is unknown."""
        return cls.of(comparable(type_, lower), comparable(type_, upper))

    @classmethod
    def from_manifest(cls, type_: str, lower: Any, upper: Any) -> Bounds:
        """Read bounds from a manifest; unclear bounds are unknown."""
        return cls.of(manifest_bound(type_, lower), manifest_bound(type_, upper))

    def to_json(self, type_: str) -> tuple[JsonValue, JsonValue]:
        """The bounds in JSON single-value form; None if a bound is missing or JSON cannot express it."""
        return comparable_to_json(type_, self.lower), comparable_to_json(type_, self.upper)

    def is_inside(self, other: Bounds) -> bool:
        """Whether it is certain that the values of these rows are all strictly between the bounds of others."""
        if self == NO_VALUES:
            return True
        bounds = (self.lower, self.upper, other.lower, other.upper)
        return not any(isinstance(bound, Missing) for bound in bounds) and bool(
            other.lower < self.lower and self.upper < other.upper  # type: ignore[operator]
        )

    def intersection(self, other: Bounds) -> Bounds:
        """The bounds of rows for which both hold."""
        return Bounds(_inner(max, self.lower, other.lower), _inner(min, self.upper, other.upper))

    def union(self, other: Bounds) -> Bounds:
        """The bounds of the rows of both."""
        return Bounds(_outer(min, self.lower, other.lower), _outer(max, self.upper, other.upper))


NO_VALUES = Bounds(Missing.NO_VALUE, Missing.NO_VALUE)
UNKNOWN = Bounds(Missing.UNKNOWN, Missing.UNKNOWN)


def _sound(value: Comparable | None) -> Bound:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Missing.UNKNOWN
    return value + 0.0 if isinstance(value, float) else value  # turns -0.0 into 0.0


def _outer(choose: Callable[[Any, Any], Any], one: Bound, other: Bound) -> Bound:
    if Missing.NO_VALUE in (one, other):
        return other if one is Missing.NO_VALUE else one
    return Missing.UNKNOWN if Missing.UNKNOWN in (one, other) else choose(one, other)


def _inner(choose: Callable[[Any, Any], Any], one: Bound, other: Bound) -> Bound:
    if Missing.UNKNOWN in (one, other):
        return other if one is Missing.UNKNOWN else one
    return Missing.NO_VALUE if Missing.NO_VALUE in (one, other) else choose(one, other)


def comparable_to_json(type_: str, bound: Bound) -> JsonValue:
    """A bound in JSON single-value form; None if it is no value, infinite, or has no text that can be read back."""
    if isinstance(bound, Missing) or (isinstance(bound, float) and math.isinf(bound)):
        return None
    column = ValueType.parse(type_)
    try:
        is_decimal = column.name == "decimal"
        found = decimal_text(to_decimal(int(bound), column.scale)) if is_decimal else to_json(type_, bound)
    except PuffinError:
        return None
    # For a time beyond the day, Arrow writes text that cannot be parsed.
    return found if comparable(type_, found) == bound else None


def comparable(type_: str, value: JsonValue) -> Comparable | None:
    """A value in JSON single-value form, as bounds compare; None for null and for a value of another type."""
    if value is None:
        return None
    try:
        return _physical(ValueType.parse(type_), value)
    except (PuffinError, ValueError, TypeError, AttributeError, ArithmeticError):
        return None


def _physical(column: ValueType, value: Any) -> Comparable:
    if column.name in ("binary", "fixed"):  # a cut bound is too short for ``fixed[L]``
        return bytes.fromhex(value)
    if type(value) is int and column.name in _INTEGERS and -_INTEGERS[column.name] <= value < _INTEGERS[column.name]:
        return value  # the metadata of very many files has most often these
    scalar = to_scalar(column.type_string, value)
    if column.name == "decimal":
        return to_unscaled(scalar.as_py(), column.scale)
    found: Comparable = scalar.as_py() if column.name in _COMPARED_AS_PYTHON else scalar.value
    return found


_INTEGERS = {"int": 1 << 31, "long": 1 << 63}
_COMPARED_AS_PYTHON = frozenset(("boolean", "int", "long", "float", "double", "string", "uuid"))
