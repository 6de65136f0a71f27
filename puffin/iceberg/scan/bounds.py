"""
Whether files can have a value of a column in common, from what their manifests say of it.

An answer of no must be certain, an answer of yes need not be. So what is unknown is taken for anything, and a bound
may be moved outwards to make bounds comparable in numpy arrays: numbers of more than 64 bits end where those of 64 bits
do, bytes are cut short. Neither turns an order round. Types whose bounds pass over values that are there (NaN), or on
whose order writers disagree (uuid), have no bounds here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.iceberg.scan.manifests import ColumnMetrics
from puffin.values.manifest_bounds import manifest_bound
from puffin.values.value_type import ValueType

_Flags: TypeAlias = npt.NDArray[np.bool_]
_Bound: TypeAlias = int | bytes


class ColumnRanges:
    """What a column of this type, or one that was promoted to it, can hold in each of several files."""

    def __init__(self, type_: str, metrics: Iterable[ColumnMetrics | None]) -> None:
        self._type = type_
        self._order = _ORDERS.get(ValueType.parse(type_).name, _NONE)
        ranges = [self._range(each) for each in metrics]
        self._nullable = np.array([each.is_nullable for each in ranges], np.bool_)
        self._filled = np.array([each.is_filled for each in ranges], np.bool_)
        self._lower = np.array([each.lower for each in ranges], self._order.dtype)
        self._upper = np.array([each.upper for each in ranges], self._order.dtype)

    def may_share(self, start: int, metrics: ColumnMetrics | None) -> _Flags:
        """For each of the files from ``start`` on, whether it and one more file may have a value or null in common."""
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
    """There may be a null; there may be anything else, and that is not below the one bound nor above the other."""

    is_nullable: bool
    is_filled: bool
    lower: _Bound
    upper: _Bound


@dataclass(frozen=True, slots=True)
class _Order:
    """How bounds of a type compare: what each becomes, None if bounds are not used, and what nothing lies beyond."""

    outward: Callable[[Any], _Bound] | None
    dtype: npt.DTypeLike
    lowest: _Bound
    highest: _Bound

    def bound(self, type_: str, stored: Any, unknown: _Bound) -> _Bound:
        found = manifest_bound(type_, stored) if self.outward else None
        return unknown if found is None or self.outward is None else self.outward(found)


_PREFIX = 64  # bytes; writers cut at 16 characters, unless told otherwise
_LONG = -(2**63), 2**63 - 1


def _clipped(number: int) -> int:
    return min(max(number, _LONG[0]), _LONG[1])


def _prefix(value: str | bytes) -> bytes:
    return (value.encode() if isinstance(value, str) else value)[:_PREFIX]


_NONE = _Order(None, np.int64, *_LONG)
_NUMBERS = _Order(_clipped, np.int64, *_LONG)
# As Python's objects: numpy's own strings end at zero bytes and are signed in some releases.
_BYTES = _Order(_prefix, object, b"", b"\xff" * _PREFIX)
_ORDERS = {
    **dict.fromkeys(("int", "long", "date", "time", "decimal"), _NUMBERS),
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _NUMBERS),
    **dict.fromkeys(("string", "binary", "fixed"), _BYTES),
}
