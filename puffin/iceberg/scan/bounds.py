"""
Decides whether files may share a value of a column, from what their manifests say of it.

A no must be certain; a yes need not be. Unknown bounds mean any value, and bounds may move outwards to fit numpy
arrays: numbers beyond 64 bits are clipped, bytes are cut short. Neither reverses an order. A type has no bounds here if
they leave out existing values (NaN), or if writers disagree on its order (uuid).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.iceberg.scan.manifests import ColumnMetrics
from puffin.values.manifest_bounds import manifest_bound
from puffin.values.value_type import TEMPORAL, ValueType

_Flags: TypeAlias = npt.NDArray[np.bool_]
_Bound: TypeAlias = int | bytes


class ColumnRanges:
    """The possible values of a column of this type, or one promoted to it, in each of several files."""

    def __init__(self, type_: str, metrics: Iterable[ColumnMetrics | None]) -> None:
        self._type = type_
        self._order = _ORDERS.get(ValueType.parse(type_).name, _NONE)
        ranges = [self._range(each) for each in metrics]
        self._nullable = np.array([each.is_nullable for each in ranges], np.bool_)
        self._filled = np.array([each.is_filled for each in ranges], np.bool_)
        self._lower = np.array([each.lower for each in ranges], self._order.dtype)
        self._upper = np.array([each.upper for each in ranges], self._order.dtype)

    def may_share(self, start: int, metrics: ColumnMetrics | None) -> _Flags:
        """For each file from ``start`` on, whether it and another file may share a value or null."""
        other = self._range(metrics)
        shared = np.zeros(len(self._nullable) - start, np.bool_)
        if other.is_filled:
            shared |= self._filled[start:]
            shared &= self._lower[start:] <= np.array(other.upper, self._order.dtype)
            shared &= self._upper[start:] >= np.array(other.lower, self._order.dtype)
        if other.is_nullable:
            shared |= self._nullable[start:]
        return shared

    def _range(self, metrics: ColumnMetrics | None) -> _Range:
        if metrics is None:
            return _Range(True, True, self._order.lowest, self._order.highest)
        nulls = metrics.null_value_count
        return _Range(
            is_nullable=nulls != 0,
            is_filled=nulls is None or nulls != metrics.value_count,
            lower=self._order.bound(self._type, metrics.lower_bound, self._order.lowest),
            upper=self._order.bound(self._type, metrics.upper_bound, self._order.highest),
        )


@dataclass(frozen=True, slots=True)
class _Range:
    """Whether there may be nulls and other values, and the bounds of the latter."""

    is_nullable: bool
    is_filled: bool
    lower: _Bound
    upper: _Bound


@dataclass(frozen=True, slots=True)
class _Order:
    """How to compare bounds of a type: a conversion, None if bounds are not used, and the widest bounds."""

    outward: Callable[[Any], _Bound] | None
    dtype: npt.DTypeLike
    lowest: _Bound
    highest: _Bound

    def bound(self, type_: str, stored: Any, unknown: _Bound) -> _Bound:
        found = manifest_bound(type_, stored) if self.outward else None
        return unknown if found is None or self.outward is None else self.outward(found)


_PREFIX = 64  # bytes; writers cut at 16 characters by default
_LONG = -(2**63), 2**63 - 1


def _clipped(number: int) -> int:
    return min(max(number, _LONG[0]), _LONG[1])


def _prefix(value: str | bytes) -> bytes:
    return (value.encode() if isinstance(value, str) else value)[:_PREFIX]


_NONE = _Order(None, np.int64, *_LONG)
_NUMBERS = _Order(_clipped, np.int64, *_LONG)
# As Python objects, since numpy's strings end at zero bytes and are signed in some releases.
_BYTES = _Order(_prefix, object, b"", b"\xff" * _PREFIX)
_ORDERS = {
    **dict.fromkeys(("int", "long", "decimal", *TEMPORAL), _NUMBERS),
    **dict.fromkeys(("string", "binary", "fixed"), _BYTES),
}
