"""
Turn rows into keys: bytes that are equal exactly where Iceberg takes rows for equal in some columns.

::

    01 or 00             a value, or null                            ┐
    one or two words     the value, or its length without a fixed    │ for each column
                         width; zeros for null                       ┘
    bytes                the values without a fixed width, one after the other

Values are first converted to the column's type, so files from before and after a promotion have equal keys. Equality is
that of Iceberg's Java comparators: null is null, NaN is NaN whatever its bits, -0.0 is not 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from puffin.errors import CorruptDataFileError
from puffin.tables.base import Column
from puffin.values.encoders import choose_encoder
from puffin.values.json_values import arrow_type, unzoned_type
from puffin.values.plain_arrays import storage_of
from puffin.values.value_type import TIMES, ValueType

_NAN = pa.scalar(float("nan"))
_NO_BYTES = pa.scalar(b"", pa.large_binary())


def row_keys(columns: Sequence[Column], arrays: Sequence[pa.Array]) -> pa.LargeBinaryArray:
    """The keys of some rows by one or more columns; CorruptDataFileError if an array does not fit its column."""
    rows = len(arrays[0])
    if rows == 0:
        return pa.array([], pa.large_binary())
    words: list[npt.NDArray[np.uint8]] = []
    texts: list[pa.Array] = []
    for column, array in zip(columns, arrays, strict=True):
        values = _of_column_type(array, column)
        valid = values.is_valid().to_numpy(zero_copy_only=False).reshape(rows, 1)
        if pa.types.is_large_binary(values.type):
            values = values.fill_null(_NO_BYTES)
            texts.append(values)
            values = pc.binary_length(values)
        words += valid.view(np.uint8), (_words(values) * valid).view(np.uint8)
    header = np.concatenate(words, axis=1)
    keys = pa.Array.from_buffers(pa.binary(header.shape[1]), rows, [None, pa.py_buffer(header)]).cast(pa.large_binary())
    return pc.binary_join_element_wise(keys, *texts, _NO_BYTES) if texts else keys


def _words(values: pa.Array) -> npt.NDArray[np.int64]:
    """The one or two words that store each value; arbitrary words for nulls."""
    width, rows = values.type.byte_width, len(values)
    words = np.frombuffer(values.buffers()[1], np.int64, rows * width // 8, values.offset * width)
    return words.reshape(rows, width // 8)


def _of_column_type(array: pa.Array, column: Column) -> pa.Array:
    """Convert values to large binary, decimals of 16 bytes or longs, from any type that fits the column."""
    plain, type_ = _plain(array), ValueType.parse(column.type)
    if pa.types.is_null(plain.type):
        plain = pa.nulls(len(plain), arrow_type(column.type))
    try:
        choose_encoder(type_, plain.type)  # raises if the type does not fit
    except CorruptDataFileError as exc:
        raise CorruptDataFileError(f"column {column.name}: {exc}") from exc
    return _CASTS[type_.name](plain, type_)


def _plain(array: pa.Array) -> pa.Array:
    stored = storage_of(array)
    return _plain(stored.dictionary_decode()) if isinstance(stored, pa.DictionaryArray) else stored


def _float(array: pa.Array, _: ValueType) -> pa.Array:
    doubles = array.cast(pa.float64())
    return pc.if_else(pc.is_nan(doubles), _NAN, doubles).view(pa.int64())


def _time(array: pa.Array, type_: ValueType) -> pa.Array:
    target = unzoned_type(type_.type_string)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp(array.type.unit))  # the same counts without a zone
    if target.unit == "us" and getattr(array.type, "unit", None) == "ns":
        array = pc.floor_temporal(array, unit="microsecond")
    return array.cast(target).cast(pa.int64())


_CASTS: dict[str, Callable[[pa.Array, ValueType], pa.Array]] = {
    **dict.fromkeys(("boolean", "int", "long"), lambda array, _: array.cast(pa.int64())),
    **dict.fromkeys(("float", "double"), _float),
    "date": lambda array, _: array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()),
    **dict.fromkeys(TIMES, _time),
    "decimal": lambda array, type_: array.cast(pa.decimal128(38, type_.scale)),
    **dict.fromkeys(("string", "binary", "fixed", "uuid"), lambda array, _: array.cast(pa.large_binary())),
}
