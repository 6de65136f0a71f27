"""
Hashes of a column's values, from the bytes that Parquet's PLAIN encoding gives them.

The bytes follow a column type, not a file's: a filter built while the column was ``int`` has hashes of four bytes, and
is asked with four bytes after a promotion to ``long``. They are those of appendix D, except for decimals, whose width
in Parquet depends on the precision. Booleans have no Bloom filter in Parquet, and none here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from puffin.errors import PuffinError, UnsupportedTypeError
from puffin.index.xxhash import hash_serialized
from puffin.values.decimals import plain_width
from puffin.values.json_values import arrow_type, to_scalar
from puffin.values.plain_arrays import storage_of
from puffin.values.serialized import ByteStrings, SerializedValues, WordArray, Words
from puffin.values.single_value import single_values
from puffin.values.value_type import ValueType, hashes_alike

_NO_HASHES: WordArray = np.zeros(0, np.uint64)


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


def hash_scalar(type_: str, stored_type: str, value: Any) -> WordArray | None:
    """
    The hashes, one of which a filter of ``stored_type`` has if a row holds this value of ``type_``, in JSON form.

    There are none if the column was widened and no row of the files can hold the value. None if the hashes are not
    certain, as for NaN, for types of another family and for a decimal of more digits than the column has. Zero has two,
    since -0.0 equals 0.0.
    """
    stored = _widest_alike(stored_type)
    try:
        array = _as_stored(to_scalar(type_, value), arrow_type(stored))
        return None if array is None else np.concatenate(list(hash_values(array, stored)))
    except pa.ArrowInvalid:  # out of range
        return _NO_HASHES if _is_widened(stored_type, type_) else None
    except (pa.ArrowException, PuffinError, ValueError):
        return None


def _decimals(array: pa.Array, column: ValueType) -> Iterator[SerializedValues]:
    """Decimals as four or eight bytes, or in the fewest bytes that hold the precision, the highest first."""
    stored = storage_of(array)
    if isinstance(stored, pa.DictionaryArray):
        stored = stored.dictionary.take(stored.indices.unique().drop_null())
    plain = stored.drop_null().cast(pa.decimal128(column.precision, column.scale))
    if len(plain) == 0:
        return
    words = np.frombuffer(plain.buffers()[1], "<u8", len(plain) * 2, plain.offset * 16).reshape(-1, 2)
    width = plain_width(column.precision)
    if width <= 8:
        yield Words(words[:, 0].copy(), None, width)
        return
    backwards = words.view(np.uint8)[:, ::-1][:, 16 - width :]
    yield ByteStrings(np.ascontiguousarray(backwards).ravel(), np.arange(len(plain) + 1, dtype=np.int64) * width)


def _as_stored(scalar: pa.Scalar, target: pa.DataType) -> pa.Array | None:
    """The values of a stored type that may be equal to one; None if not certain, ArrowInvalid if it is out of range."""
    if pa.types.is_floating(scalar.type) and pa.types.is_floating(target):
        # Some engines apply a filter in the type of the file, and round a double to a float.
        number = scalar.cast(target).as_py()
        if math.isnan(number):
            return None
        return pa.array([0.0, -0.0] if number == 0 else [number], target)
    array = pa.array([scalar], scalar.type)
    cast = array.cast(target)
    return cast if cast.cast(scalar.type).equals(array) else None


def _is_widened(before: str, now: str) -> bool:
    """Whether two types differ in their range alone, so that a value out of one's range is in no file of that type."""
    return (before, now) == ("int", "long") or (now.startswith("decimal") and hashes_alike(before, now))


@functools.lru_cache(maxsize=1024)
def _widest_alike(type_: str) -> str:
    """
    The decimal of most digits whose values have as many bytes; other types as they are.

    A filter that was lifted from a Parquet file may have values of more digits than the column had.
    """
    column = ValueType.parse(type_)
    if column.name != "decimal":
        return type_
    digits = max(each for each in range(1, 39) if plain_width(each) == plain_width(column.precision))
    return f"decimal({digits}, {column.scale})"
