"""
Bounds of a column from stored values, which may be of an older, narrower type or in another unit.

Values are converted to the column's current type as for hashing: finer times are rounded down.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from puffin.values.column_bounds import NO_VALUES, UNKNOWN, Bounds, Comparable, comparable, comparable_to_json
from puffin.values.column_chunk import Stored
from puffin.values.column_summary import JsonValue
from puffin.values.decimals import to_unscaled
from puffin.values.encoders import unit_nanos
from puffin.values.json_values import arrow_type as arrow_type_of
from puffin.values.value_type import ValueType


def stored_bounds(column: ValueType, arrow_type: pa.DataType, lower: Stored, upper: Stored) -> Bounds:
    """Bounds from two values as Arrow stores them in a plain type; unknown if they do not fit the column's type."""
    try:
        return Bounds.of(_comparable(column, arrow_type, lower), _comparable(column, arrow_type, upper))
    except (ValueError, TypeError, AttributeError, OverflowError):
        return UNKNOWN


def promoted_bound(before: str, now: str, bound: JsonValue) -> JsonValue:
    """A bound in JSON single-value form as one of a type to which its own was promoted; None if it does not fit."""
    stored = comparable(before, bound)
    if stored is None or isinstance(stored, str):  # no text is promoted
        return None
    return comparable_to_json(now, stored_bounds(ValueType.parse(now), arrow_type_of(before), stored, stored).lower)


def array_bounds(column: ValueType, values: pa.Array) -> Bounds:
    """Bounds of the non-null values in a plain array without NaN; unknown if they do not fit the type."""
    extremes = pc.min_max(values)
    if not extremes["min"].is_valid:
        return NO_VALUES
    lower, upper = (_stored(extremes[name]) for name in ("min", "max"))
    return stored_bounds(column, values.type, lower, upper)


def _stored(scalar: pa.Scalar) -> Stored:
    if isinstance(scalar, pa.StringScalar | pa.BinaryScalar):
        return scalar.as_buffer().to_pybytes()  # type: ignore[no-any-return]
    if arrow_types.is_decimal(scalar.type):
        return to_unscaled(scalar.as_py(), scalar.type.scale)
    found: Stored = scalar.value if arrow_types.is_temporal(scalar.type) else scalar.as_py()
    return found


def _comparable(column: ValueType, arrow_type: pa.DataType, stored: Stored) -> Comparable:
    if isinstance(stored, bytes):
        return stored.decode() if column.name == "string" else stored
    if column.name == "decimal":
        scale = arrow_type.scale if arrow_types.is_decimal(arrow_type) else 0
        unscaled: int = int(stored) * 10 ** (column.scale - scale)
        return unscaled
    if arrow_types.is_temporal(arrow_type):
        return int(stored) * unit_nanos(arrow_type) // unit_nanos(arrow_type_of(column.type_string))
    return float(stored) if column.name in ("float", "double") else stored
