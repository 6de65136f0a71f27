"""
What writers that do not hash as the specification says hash instead: Presto 0.287, and of uuids Iceberg's Spark action.

A sketch of a column's own values has none of these hashes, since no value of its type has such bytes, with two
exceptions. Decimals of 8 or 16 bytes may: that of the value with its bytes the other way round. A timestamp's are
those of another one, a thousandth as far from 1970: they count where that is as early as only a wrong clock shows.
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
    The type and the values whose hashes are in the sketches of others, for values of an appendix C type.

    Returns:
        None if all who are known hash this type alike, or if the array is not of the type's own Arrow type.

    Raises:
        UnsupportedTypeError: The type has no single-value bytes.
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
