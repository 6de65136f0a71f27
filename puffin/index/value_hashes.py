"""
Hashes of a column's values, from the bytes that Parquet's PLAIN encoding gives them.

The bytes follow a column type, not a file's: a filter built while the column was ``int`` has hashes of four bytes, and
is asked with four bytes after a promotion to ``long``. They are those of appendix D, except for decimals, whose width
in Parquet depends on the precision. Booleans have no Bloom filter in Parquet, and none here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from puffin.errors import PuffinError, UnsupportedTypeError
from puffin.index.xxhash import hash_serialized
from puffin.values.json_values import arrow_type, to_scalar
from puffin.values.plain_arrays import storage_of
from puffin.values.serialized import ByteStrings, SerializedValues, WordArray, Words
from puffin.values.single_value import single_values
from puffin.values.value_type import ValueType

_INT32_DIGITS, _INT64_DIGITS = 9, 18


def hash_values(array: pa.Array, type_: str) -> Iterator[WordArray]:
    """
    The hashes of a column's non-null values, in slices, perhaps in another order and without repetitions.

    Raises UnsupportedTypeError if the type cannot be indexed, CorruptDataFileError if the array cannot hold it.
    """
    check_indexable(type_)
    if type_.startswith("decimal"):
        return map(hash_serialized, _decimals(array, ValueType.parse(type_)))
    return map(hash_serialized, single_values(array, type_))


def is_indexable(type_: str) -> bool:
    """Whether columns of this type can have an index."""
    try:
        check_indexable(type_)
    except UnsupportedTypeError:
        return False
    return True


def check_indexable(type_: str) -> None:
    """Raise UnsupportedTypeError if columns of this type cannot have an index."""
    if ValueType.parse(type_).name == "boolean":
        raise UnsupportedTypeError("a boolean column has two values, so an index cannot exclude files")


def _decimals(array: pa.Array, column: ValueType) -> Iterator[SerializedValues]:
    """Decimals as four or eight bytes, or in the fewest bytes that hold the precision, the highest first."""
    stored = storage_of(array)
    if isinstance(stored, pa.DictionaryArray):
        stored = stored.dictionary.take(stored.indices.unique().drop_null())
    plain = stored.drop_null().cast(pa.decimal128(column.precision, column.scale))
    if len(plain) == 0:
        return
    words = np.frombuffer(plain.buffers()[1], "<u8", len(plain) * 2, plain.offset * 16).reshape(-1, 2)
    if column.precision <= _INT64_DIGITS:
        yield Words(words[:, 0].copy(), None, 4 if column.precision <= _INT32_DIGITS else 8)
        return
    width = decimal_width(column.precision)
    backwards = words.view(np.uint8)[:, ::-1][:, 16 - width :]
    yield ByteStrings(np.ascontiguousarray(backwards).ravel(), np.arange(len(plain) + 1, dtype=np.int64) * width)


def decimal_width(precision: int) -> int:
    """The fewest bytes of two's complement that hold every number of so many digits."""
    largest: int = 10**precision
    return (largest.bit_length() + 8) // 8


def hash_scalar(type_: str, stored_type: str, value: Any) -> WordArray | None:
    """
    The hashes that a filter of ``stored_type`` has if a row holds this value of ``type_``, in JSON single-value form.

    None if that is not certain, as for NaN and for types of another family. Zero has two hashes, since -0.0 equals 0.0.
    """
    scalar = to_scalar(type_, value)
    target = arrow_type(stored_type)
    values = [scalar]
    if pa.types.is_floating(scalar.type):
        number = scalar.as_py()
        if math.isnan(number):
            return None
        values = [pa.scalar(zero, scalar.type) for zero in (0.0, -0.0)] if number == 0 else values
    try:
        array = pa.array(values, scalar.type)
        cast = array.cast(target)
        if not cast.cast(scalar.type).equals(array):
            return None
        return np.concatenate(list(hash_values(cast, stored_type)))
    except (pa.ArrowException, PuffinError, ValueError):
        return None
