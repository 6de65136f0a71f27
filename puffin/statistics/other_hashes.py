"""
The values that other writers hash instead of the specification's: Presto 0.287, and Iceberg's Spark action for uuids.

A sketch of the column itself has none of these hashes, since no value of its type has such bytes, with two exceptions.
A decimal of 8 or 16 bytes may equal another value with its bytes reversed. A timestamp in milliseconds equals one a
thousandth as far from 1970: it counts only if that is so early that only a wrong clock would show it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from puffin.values.decimals import to_unscaled
from puffin.values.json_values import arrow_type
from puffin.values.value_type import ValueType

_LONG_DECIMAL_SIGN = 1 << 127
_LONGEST_SHORT_DECIMAL = 18  # digits
_FAR_FROM_1970 = 10**15  # microseconds, some 31 years


def as_hashed_elsewhere(type_: str, values: pa.Array) -> tuple[str, pa.Array] | None:
    """
    The type and values that other writers hash for values of an appendix C type; None if all known writers hash it
    alike.

    Also None if the array is not of the type's own Arrow type. Raises UnsupportedTypeError if the type has no
    single-value bytes.
    """
    column = ValueType.parse(type_)
    form = _FORMS.get(column.name)
    return None if form is None or values.type != arrow_type(type_) else form(column, values.drop_null())


def _as_long(_: ValueType, values: pa.Array) -> tuple[str, pa.Array]:
    return "long", values.view(pa.int32()).cast(pa.int64())


def _milliseconds(_: ValueType, values: pa.Array) -> tuple[str, pa.Array]:
    counts = values.view(pa.int64()).to_numpy()
    thousandths = pa.array(np.floor_divide(counts, 1000))
    is_far = (counts >= _FAR_FROM_1970) | (counts <= -_FAR_FROM_1970)
    return "long", thousandths.filter(pa.array(is_far))


def _unscaled(column: ValueType, values: pa.Array) -> tuple[str, pa.Array]:
    unscaled = [to_unscaled(value, column.scale) for value in values.to_pylist()]
    if column.precision <= _LONGEST_SHORT_DECIMAL:
        return "long", pa.array(unscaled, pa.int64())
    signed = [abs(number) | (_LONG_DECIMAL_SIGN if number < 0 else 0) for number in unscaled]
    return "binary", pa.array([number.to_bytes(16, "little") for number in signed], pa.binary())


def _text(_: ValueType, values: pa.Array) -> tuple[str, pa.Array]:
    return "string", pa.array([str(uuid.UUID(bytes=value)) for value in values.to_pylist()], pa.string())


_FORMS: dict[str, Callable[[ValueType, pa.Array], tuple[str, pa.Array]]] = {
    **dict.fromkeys(("int", "date", "float"), _as_long),
    "timestamp": _milliseconds,
    "decimal": _unscaled,
    "uuid": _text,
}
