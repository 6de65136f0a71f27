"""
Rows, nulls, NaNs, bytes, minimum and maximum of a column.

The properties of the column's theta blob hold them as a JSON array without names, because every later metadata file
repeats properties: ``[rows, nulls, nans, bytes, min, max]``, each null if unknown.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

JsonValue: TypeAlias = bool | int | float | str | None

_MOST = 1 << 63  # of rows or bytes; far larger ones have no average
_LONGEST_TEXT = 4096  # characters; ours have a few hundred at most


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """
    A summary of a column's rows; None is unknown.

    Attributes:
        nan_count: None unless the column is a float or a double.
        min: No value is below it, apart from NaN; in JSON single-value form (table spec, appendix D), strings and bytes
            cut to 16 code points or bytes. After deletes it is a bound, maybe not the smallest value. Also None if
            there is no value, or for an infinity, which JSON does not have.
        max: Likewise, no value is above it.
        total_bytes: The size of all non-null values in binary single-value form (appendix D).
    """

    row_count: int | None
    null_count: int | None
    nan_count: int | None
    min: JsonValue
    max: JsonValue
    total_bytes: int | None

    @property
    def value_count(self) -> int | None:
        return None if self.row_count is None or self.null_count is None else self.row_count - self.null_count

    @property
    def most_distinct(self) -> int | None:
        """The most distinct values possible; None if the number of rows is unknown too."""
        return self.row_count if self.value_count is None else self.value_count

    def values_between(self, type_: str) -> int | None:
        """
        How many values a column of this type can have from min to max; None if unknown.

        Only integers, dates and booleans are counted, since other types have far more values than rows.
        """
        if type_ == "boolean":
            return 2
        low, high = self.min, self.max
        if type_ == "date" and isinstance(low, str) and isinstance(high, str):
            with contextlib.suppress(ValueError):  # years of more digits
                low, high = (datetime.date.fromisoformat(each).toordinal() for each in (low, high))
        if type(low) is not int or type(high) is not int or type_ not in ("int", "long", "date") or low > high:
            return None
        return high - low + 1

    @property
    def avg_bytes(self) -> float | None:
        """The average size of a non-null value; None if unknown or without values."""
        values = self.value_count
        return self.total_bytes / values if self.total_bytes is not None and values and values > 0 else None

    def to_text(self) -> str:
        counts = self.row_count, self.null_count, self.nan_count, self.total_bytes
        return json.dumps([*counts, self.min, self.max], ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> ColumnSummary | None:
        """Parse the text of a property; None if it is no summary."""
        if len(text) > _LONGEST_TEXT:
            return None
        try:
            rows, nulls, nans, total_bytes, low, high = json.loads(text, parse_constant=_refuse)
        except (ValueError, TypeError, RecursionError):
            return None
        counts = rows, nulls, nans, total_bytes
        if not all(map(_is_count, counts)) or not all(_is_single(value) for value in (low, high)):
            return None
        if rows is not None and max(nulls or 0, nans or 0) > rows:
            return None
        return cls(rows, nulls, nans, low, high, total_bytes)


UNKNOWN_SUMMARY = ColumnSummary(None, None, None, None, None, None)


def known_sum(counts: Iterable[int | None]) -> int | None:
    """The sum; None if one count is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < _MOST)


def _is_single(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
