"""
Excludes files by counts and bounds of a column, for all files at once.

A file is excluded only if no row can pass under SQL's reading of the filter, where NaN is the largest number, nor under
Iceberg's, where a null differs from every value and -0.0 is less than 0.0. Writers may cut bounds, but only
outwards.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.planning.flags import Flags, all_of, any_of, none_of
from puffin.tables.expression import Op, Predicate
from puffin.tables.file_metrics import FileMetrics
from puffin.values.column_bounds import Comparable, comparable
from puffin.values.value_type import TEMPORAL

Order: TypeAlias = "Callable[[npt.NDArray[Any]], npt.NDArray[Any]]"
"""Makes values that compare in some order."""
Places: TypeAlias = "npt.NDArray[np.int64]"

_UNKNOWN = -1
_INTEGERS = ("int", "long", *TEMPORAL)
_WORDS: dict[str, type[Any]] = {**dict.fromkeys(_INTEGERS, np.int64), "float": np.float64, "double": np.float64}


class FileBounds:
    """The counts and bounds of a column in every file, as arrays."""

    def __init__(self, type_: str, of_files: Sequence[FileMetrics]) -> None:
        self._type = type_
        self._count = len(of_files)
        values, nulls, nans = (_counts([getattr(m, name) for m in of_files]) for name in ("values", "nulls", "nans"))
        self._is_float = type_ in ("float", "double")
        self._no_nulls, self._no_nans = nulls == 0, (nans == 0) | (not self._is_float)
        self._only_nulls = (nulls != _UNKNOWN) & (nulls == values)
        self._only_nans = (nans > 0) & (nans == values)
        self._lower = _Side(type_, [m.lower for m in of_files])
        self._upper = _Side(type_, [m.upper for m in of_files])

    def may_match(self, predicate: Predicate) -> Flags:
        """For each file whether some of its rows may pass."""
        op = predicate.op
        if op is Op.IS_NULL:
            return none_of(self._no_nulls)
        if op is Op.IS_NAN:
            return none_of(self._no_nans, self._only_nulls)
        if op is Op.NOT_NULL:
            return none_of(self._only_nulls)
        if op is Op.NOT_NAN:
            return none_of(self._only_nans)
        everything = np.ones(self._count, np.bool_)
        values = [value for each in predicate.values if (value := comparable(self._type, each)) is not None]
        is_unclear = len(values) < len(predicate.values) or any(value != value for value in values)
        if is_unclear:
            return everything
        if op in (Op.NOT_EQ, Op.NOT_IN):
            # A number that was rounded to a ``float`` may differ from all of them.
            pairs = zip(values, predicate.values, strict=True)
            exact = [value for value, given in pairs if self._type != "float" or value == given]
            return none_of(all_of((self._is_one_of(exact), self._no_nulls, self._no_nans)))
        if op is Op.NOT_STARTS_WITH:
            (prefix,) = values
            sides = (side.prefix_is(operator.eq, prefix) for side in (self._lower, self._upper))
            return none_of(all_of((self._no_nulls, *sides)))
        if self._type == "float" and op not in (Op.EQ, Op.IN):
            # An engine may round the number to the column's type, or compare the values as doubles.
            values = [(max if op in (Op.LT, Op.LT_EQ) else min)(*values, *predicate.values)]
        if op is Op.IN:
            in_bounds = self._is_around_one_of(values)
        else:
            in_bounds = any_of(
                self._is_in_order(op, value, order) for value in values for order in self._orders([value])
            )
        return all_of((in_bounds, none_of(self._only_nulls)))

    def _is_one_of(self, values: Sequence[Comparable]) -> Flags:
        """Where both bounds are the same one of these values, in every order."""
        order = self._orders(values)[-1]  # what is equal in it is equal in the others
        (first, after_first), (last, after_last) = self._places(values, order)
        return all_of((first == last, first < after_first, last < after_last))

    def _is_around_one_of(self, values: Sequence[Comparable]) -> Flags:
        """Where one of these values is within the bounds in some order; quick for any number of them."""
        places = [self._places(values, order) for order in self._orders(values)]
        is_around = any_of(first < after_last for (first, _), (_, after_last) in places)
        return all_of((is_around, none_of(self._only_nans)))

    def _places(self, values: Sequence[Comparable], order: Order) -> Sequence[tuple[Places, Places]]:
        """Of the lower and of the upper bounds: how many values are less, and how many are not greater."""
        return self._lower.places(values, order, 0), self._upper.places(values, order, len(values))

    def _orders(self, values: Sequence[Comparable]) -> Sequence[Order]:
        if self._is_float and 0 in values:
            return _as_they_are, _zeros_apart
        return (_as_they_are, _signed_halves) if self._type == "uuid" else (_as_they_are,)

    def _is_in_order(self, op: Op, value: Comparable, order: Order) -> Flags:
        if self._type == "uuid" and op is not Op.EQ:  # bounds in one order say nothing about a range in the other one
            return np.ones(self._count, np.bool_)
        if op in (Op.LT, Op.LT_EQ):
            beyond = self._lower.compare(operator.ge if op is Op.LT else operator.gt, value, order)
            return none_of(beyond, self._only_nans)
        if op in (Op.GT, Op.GT_EQ):
            beyond = self._upper.compare(operator.le if op is Op.GT else operator.lt, value, order)
            return none_of(all_of((beyond, self._no_nans)))
        if op is Op.STARTS_WITH:
            return none_of(self._lower.prefix_is(operator.gt, value), self._upper.prefix_is(operator.lt, value))
        outside = self._lower.compare(operator.gt, value, order), self._upper.compare(operator.lt, value, order)
        return none_of(*outside, self._only_nans)


class _Side:
    """The lower or the upper bounds of all files."""

    def __init__(self, type_: str, bounds: Sequence[Comparable | None]) -> None:
        self.known = np.array([bound is not None for bound in bounds], np.bool_)
        present = [bound for bound in bounds if bound is not None]
        self.values: npt.NDArray[Any] = np.empty(len(present), object)
        self.values[:] = present
        if type_ in _WORDS:
            self.values = self.values.astype(_WORDS[type_])
        self._in_order: dict[Order, npt.NDArray[Any]] = {}

    def compare(self, test: Callable[[Any, Any], Any], value: Comparable, order: Order) -> Flags:
        """Where the bound is known and the test of it holds in an order."""
        # As an array of objects, since numpy's own strings lose zeros at their end.
        return self._where(test(self._ordered(order), order(np.array([value], self.values.dtype))))

    def places(self, values: Sequence[Comparable], order: Order, unknown: int) -> tuple[Places, Places]:
        """For each bound how many values are less, and how many are not greater; ``unknown`` for those not known."""
        of_type = np.empty(len(values), self.values.dtype)
        of_type[:] = values
        of_type, bounds = np.sort(order(of_type)), self._ordered(order)
        less, not_greater = (np.full(len(self.known), unknown, np.int64) for _ in range(2))
        is_number = bounds == bounds  # NaN has no place
        known = np.flatnonzero(self.known)[is_number]
        less[known] = np.searchsorted(of_type, bounds[is_number], "left")
        not_greater[known] = np.searchsorted(of_type, bounds[is_number], "right")
        return less, not_greater

    def _ordered(self, order: Order) -> npt.NDArray[Any]:
        if order not in self._in_order:
            self._in_order[order] = order(self.values)
        return self._in_order[order]

    def prefix_is(self, test: Callable[[Any, Any], bool], prefix: Any) -> Flags:
        """Where the bound is known, and the test holds of its first characters, as many as the prefix has."""
        return self._where([test(bound[: len(prefix)], prefix) for bound in self.values])

    def _where(self, holds: Any) -> Flags:
        found = np.zeros(len(self.known), np.bool_)
        found[self.known] = holds
        return found


def _as_they_are(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values


def _zeros_apart(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As Iceberg compares numbers: -0.0 is less than 0.0."""
    return np.where(numbers == 0, np.copysign(np.finfo(np.float64).smallest_subnormal, numbers), numbers)


def _signed_halves(uuids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As Java compares uuids: two signed numbers of eight bytes. Other writers compare unsigned bytes."""
    found = np.empty_like(uuids)
    found[:] = [bytes([uuid[0] ^ 0x80]) + uuid[1:8] + bytes([uuid[8] ^ 0x80]) + uuid[9:] for uuid in uuids]
    return found


def _counts(counts: Sequence[int | None]) -> npt.NDArray[np.int64]:
    return np.array([_UNKNOWN if count is None else count for count in counts], np.int64)
