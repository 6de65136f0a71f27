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
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.iceberg.scan.manifests import ColumnMetrics
from puffin.values.value_type import ValueType

_Flags: TypeAlias = npt.NDArray[np.bool_]
_Bound: TypeAlias = int | bytes


class ColumnRanges:
    """What a column of this type, or one that was promoted to it, can hold in each of several files."""

    def __init__(self, type_: str, metrics: Iterable[ColumnMetrics | None]) -> None:
        self._order = _ORDERS.get(ValueType.parse(type_).name, _UNORDERED)
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
            lower=self._order.bound(metrics.lower_bound, self._order.lowest),
            upper=self._order.bound(metrics.upper_bound, self._order.highest),
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
    """How bounds of a type compare: what each is read as, None if that is not clear, and what nothing lies beyond."""

    read: Callable[[bytes], _Bound | None]
    dtype: npt.DTypeLike
    lowest: _Bound
    highest: _Bound

    def bound(self, stored: Any, unknown: _Bound) -> _Bound:
        read = self.read(stored) if isinstance(stored, bytes) else None
        return unknown if read is None else read


_PREFIX = 64  # bytes; writers cut at 16 characters, unless told otherwise
_LONG = -(2**63), 2**63 - 1


def _integer(stored: bytes, widths: tuple[int, ...]) -> int | None:
    return int.from_bytes(stored, "little", signed=True) if len(stored) in widths else None


def _unscaled(stored: bytes) -> int | None:
    # A scale never changes, so that unscaled values compare like the decimals.
    return min(max(int.from_bytes(stored, "big", signed=True), _LONG[0]), _LONG[1]) if stored else None


def _prefix(stored: bytes) -> bytes:
    return stored[:_PREFIX]


def _integers(*widths: int) -> _Order:
    return _Order(partial(_integer, widths=widths), np.int64, *_LONG)


_UNORDERED = _integers()
_ORDERS = {
    "int": _integers(4),
    "long": _integers(4, 8),
    "date": _integers(4),
    # Four bytes would be the days of a date that was promoted.
    **dict.fromkeys(("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _integers(8)),
    "decimal": _Order(_unscaled, np.int64, *_LONG),
    # As Python's objects: numpy's own strings end at zero bytes and are signed in some releases.
    **dict.fromkeys(("string", "binary", "fixed"), _Order(_prefix, object, b"", b"\xff" * _PREFIX)),
}
