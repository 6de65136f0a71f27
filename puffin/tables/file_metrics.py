"""
What the metadata of data files tells of a column, added up over the files; whatever is not known of one is unknown.

Bounds are compared as stored values are, temporal values and decimals as whole numbers, so that no time library stands
between them and the table.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from puffin.errors import CorruptMetadataError
from puffin.values.column_summary import ColumnSummary
from puffin.values.json_values import to_json, to_scalar
from puffin.values.value_type import ValueType

_FLOATS = ("float", "double")
_UNROUNDED = decimal.Context(prec=60)


@dataclasses.dataclass(frozen=True, slots=True)
class FileMetrics:
    """
    What is known of one column in the live rows of one file; None is unknown.

    Attributes:
        lower: Not above any value, in the form of `stored_value`.
        upper: Not below any value, likewise.
        is_empty: Whether there is no value that bounds could be about: nothing but nulls.
    """

    record_count: int | None
    null_count: int | None = None
    nan_count: int | None = None
    lower: Any = None
    upper: Any = None
    is_empty: bool = False


def summarize(type_: str, files: Iterable[FileMetrics]) -> ColumnSummary:
    """The summary of a column of an appendix C type."""
    files = list(files)
    bounded = [file for file in files if not file.is_empty]
    lower, upper = [file.lower for file in bounded], [file.upper for file in bounded]
    return ColumnSummary(
        row_count=known_sum(file.record_count for file in files),
        null_count=known_sum(file.null_count for file in files),
        nan_count=known_sum(file.nan_count for file in files) if type_ in _FLOATS else None,
        min=_json(type_, min(lower)) if lower and None not in lower else None,
        max=_json(type_, max(upper)) if upper and None not in upper else None,
        total_bytes=None,
    )


def known_sum(counts: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def stored_value(type_: str, value: Any) -> Any:
    """A value in JSON single-value form as one that compares with others of its type; CorruptMetadataError if none."""
    scalar = to_scalar(type_, value)
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    found = scalar.as_py()
    if isinstance(found, decimal.Decimal):
        return int(found.scaleb(ValueType.parse(type_).scale, _UNROUNDED))
    return found


def _json(type_: str, value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no other numbers
    if type_.startswith("decimal"):
        value = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
    try:
        return to_json(type_, value)
    except CorruptMetadataError:
        return None
