"""
The bytes of each column type, and the Arrow types that they can come from.

The bytes follow the type of the *table*, not of the file: an older file's ``int`` under a ``long`` column gives eight
bytes. A column accepts the narrower types that Iceberg promotes ("Schema Evolution") and Delta widens ("Type
Widening"). Each family of types has one section: a function that picks an encoder by the Arrow type, or returns None if
the array cannot be of the column type, and then the encoder. Encoders take non-empty arrays without nulls.

Times are converted to the unit of the column. Values of a finer file are rounded down, also before 1970, as Iceberg's
Java reader does for INT96 timestamps. A time zone in the Arrow type changes nothing: the stored count is always UTC.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_types

from puffin.errors import CorruptDataFileError
from puffin.values.serialized import ByteStrings, SerializedValues, Words
from puffin.values.unscaled import group_order, minimal_bytes
from puffin.values.value_type import ValueType

Encoder: TypeAlias = Callable[[pa.Array], Iterator[SerializedValues]]


def choose_encoder(column: ValueType, arrow_type: pa.DataType) -> Encoder:
    """The function that turns such arrays into bytes of a column type; CorruptDataFileError if there is none."""
    if arrow_types.is_null(arrow_type):
        return _encode_nothing
    encoder = _FAMILIES[column.name](column, arrow_type)
    if encoder is None:
        raise CorruptDataFileError(f"a column of type {column} cannot be read from Arrow {arrow_type}")
    return encoder


def _encode_nothing(_: pa.Array) -> Iterator[SerializedValues]:
    return iter(())


def _fixed_words(values: npt.NDArray[Any]) -> Words:
    return Words(values.astype(np.uint64, copy=False), None, values.dtype.itemsize)


# --- boolean ------------------------------------------------------------------------------------------------------


def _boolean(_: ValueType, arrow_type: pa.DataType) -> Encoder | None:
    return _encode_booleans if arrow_types.is_boolean(arrow_type) else None


def _encode_booleans(array: pa.Array) -> Iterator[Words]:
    yield _fixed_words(array.unique().cast(pa.uint8()).to_numpy())


# --- int, long, float, double -------------------------------------------------------------------------------------

_UP_TO_INT = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())
_NUMBERS: dict[str, tuple[pa.DataType, tuple[pa.DataType, ...]]] = {
    "int": (pa.int32(), _UP_TO_INT),
    "long": (pa.int64(), (*_UP_TO_INT, pa.uint32(), pa.int64())),
    "float": (pa.float32(), (pa.float32(),)),
    "double": (pa.float64(), (*_UP_TO_INT, pa.float32(), pa.float64())),
}


def _number(column: ValueType, arrow_type: pa.DataType) -> Encoder | None:
    target, accepted = _NUMBERS[column.name]
    return partial(_encode_numbers, target=target) if arrow_type in accepted else None


def _encode_numbers(array: pa.Array, target: pa.DataType) -> Iterator[Words]:
    bits = pa.uint32() if target.bit_width == 32 else pa.uint64()
    numbers = array if array.type == target else array.cast(target)
    yield _fixed_words(numbers.view(bits).to_numpy())


# --- date, time, timestamps ---------------------------------------------------------------------------------------

_NANOS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "day": 86_400 * 10**9}
_ArrowTest: TypeAlias = Callable[[pa.DataType], bool]
_TIMES: dict[str, tuple[str, tuple[_ArrowTest, ...]]] = {
    "date": ("day", (arrow_types.is_date,)),
    "time": ("us", (arrow_types.is_time,)),
    "timestamp": ("us", (arrow_types.is_timestamp, arrow_types.is_date32)),
    "timestamptz": ("us", (arrow_types.is_timestamp,)),
    "timestamp_ns": ("ns", (arrow_types.is_timestamp, arrow_types.is_date32)),
    "timestamptz_ns": ("ns", (arrow_types.is_timestamp,)),
}


def _time(column: ValueType, arrow_type: pa.DataType) -> Encoder | None:
    unit, tests = _TIMES[column.name]
    return partial(_encode_times, column=column, unit=unit) if any(test(arrow_type) for test in tests) else None


def _encode_times(array: pa.Array, column: ValueType, unit: str) -> Iterator[Words]:
    stored = pa.int32() if array.type.bit_width == 32 else pa.int64()
    counts = array.view(stored).to_numpy().astype(np.int64, copy=False)
    source, target = unit_nanos(array.type), _NANOS[unit]
    if source > target:
        factor = source // target
        limit = np.iinfo(np.int64).max // factor
        if counts.max() > limit or counts.min() < -limit:
            raise _unfit(array, column, f"counts within {limit} of 1970", "one beyond it")
        counts = counts * factor
    elif source < target:
        counts = counts // (target // source)
    yield _fixed_words(_days(counts, array, column) if unit == "day" else counts.view(np.uint64))


def _days(counts: npt.NDArray[np.int64], array: pa.Array, column: ValueType) -> npt.NDArray[np.uint32]:
    days = counts.astype(np.int32)
    if (days != counts).any():
        raise _unfit(array, column, "days of at most 32 bits", "one beyond them")
    return days.view(np.uint32)


def unit_nanos(arrow_type: pa.DataType) -> int:
    """The nanoseconds in one unit of a date, time or timestamp type."""
    if arrow_types.is_date32(arrow_type):
        return _NANOS["day"]
    return _NANOS["ms" if arrow_types.is_date64(arrow_type) else arrow_type.unit]


# --- decimal ------------------------------------------------------------------------------------------------------


_INTEGER_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}


def _decimal(column: ValueType, arrow_type: pa.DataType) -> Encoder | None:
    """The scale is part of the value. The precision is not, since the bytes are as few as possible."""
    if arrow_types.is_decimal(arrow_type) and arrow_type.scale == column.scale:
        return partial(_encode_decimals, column=column)
    before, after = _digits(arrow_type)
    has_room = before <= column.precision - column.scale and after <= column.scale
    return partial(_encode_as_decimals, column=column) if has_room else None


def _digits(arrow_type: pa.DataType) -> tuple[float, float]:
    """The most digits before the point and after it."""
    if arrow_types.is_decimal(arrow_type):
        return arrow_type.precision - arrow_type.scale, arrow_type.scale
    return _INTEGER_DIGITS.get(arrow_type, math.inf), 0


def _encode_as_decimals(array: pa.Array, column: ValueType) -> Iterator[Words]:
    return _encode_decimals(array.cast(pa.decimal128(column.precision, column.scale)), column)


def _encode_decimals(array: pa.Array, column: ValueType) -> Iterator[Words]:
    words = decimal_words(array)
    if words.shape[1] > 2 and (words[:, 2:] != words[:, 1:2] >> 63).any():
        raise _unfit(array, column, "values of at most 128 bits", "a longer one")
    return minimal_bytes(words[:, :2])


def order_of_decimals(array: pa.Array, type_string: str) -> npt.NDArray[np.intp]:
    """The positions of the values of a plain array in the order in which they are encoded, if in several groups."""
    column = ValueType.parse(type_string)
    is_unscaled = arrow_types.is_decimal(array.type) and array.type.scale == column.scale
    words = decimal_words(array if is_unscaled else array.cast(pa.decimal128(column.precision, column.scale)))
    return group_order(words[:, :2])


def decimal_words(array: pa.Array) -> npt.NDArray[np.int64]:
    """The words that store each decimal, the lowest first; arbitrary words for nulls."""
    width = array.type.byte_width
    words_per_value = max(width // 8, 1)
    stored_type, count = ("<i4" if width == 4 else "<i8"), len(array) * words_per_value
    stored = np.frombuffer(array.buffers()[1] or b"", stored_type, count, array.offset * width)
    return stored.astype(np.int64, copy=False).reshape(len(array), words_per_value)


# --- string, binary, fixed, uuid ----------------------------------------------------------------------------------

_IS_BINARY = (arrow_types.is_binary, arrow_types.is_large_binary, arrow_types.is_binary_view)
_IS_TEXT = (arrow_types.is_string, arrow_types.is_large_string, arrow_types.is_string_view)
_UUID_LENGTH = 16


def _byte_string(column: ValueType, arrow_type: pa.DataType) -> Encoder | None:
    """Accept text under ``binary`` and bytes under ``string``: some writers omit the annotation."""
    if any(test(arrow_type) for test in (*_IS_BINARY, *_IS_TEXT)):
        return _encode_byte_strings
    is_fixed = column.name == "binary" and arrow_types.is_fixed_size_binary(arrow_type)
    return _encode_fixed_size if is_fixed else None


def _fixed(column: ValueType, arrow_type: pa.DataType) -> Encoder | None:
    length = _UUID_LENGTH if column.name == "uuid" else column.length
    if arrow_types.is_fixed_size_binary(arrow_type):
        return _encode_fixed_size if arrow_type.byte_width == length else None
    is_binary = any(test(arrow_type) for test in _IS_BINARY)
    return partial(_encode_binary_of, column=column, length=length) if is_binary else None


def _encode_byte_strings(array: pa.Array) -> Iterator[ByteStrings]:
    yield _byte_strings_of(array)


def _encode_binary_of(array: pa.Array, column: ValueType, length: int) -> Iterator[ByteStrings]:
    strings = _byte_strings_of(array)
    wrong = np.diff(strings.offsets) != length
    if wrong.any():
        found = int(np.diff(strings.offsets)[wrong.argmax()])
        raise _unfit(array, column, f"values of {length} bytes", f"one of {found}")
    yield strings


def _encode_fixed_size(array: pa.Array) -> Iterator[SerializedValues]:
    width = array.type.byte_width
    values = _bytes_of(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]
    if width == 16:
        words = values.view(np.uint64)
        yield Words(words[0::2], words[1::2], width)
    else:
        yield ByteStrings(values, np.arange(len(array) + 1, dtype=np.int64) * width)


def _byte_strings_of(array: pa.Array) -> ByteStrings:
    is_large = arrow_types.is_large_string(array.type) or arrow_types.is_large_binary(array.type)
    stored = np.dtype("<i8" if is_large else "<i4")
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, stored, len(array) + 1, array.offset * stored.itemsize)
    return ByteStrings(_bytes_of(data), bounds.astype(np.int64, copy=False))


def _bytes_of(buffer: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    return np.frombuffer(buffer or b"", np.uint8)


def _unfit(array: pa.Array, column: ValueType, expected: str, found: str) -> CorruptDataFileError:
    return CorruptDataFileError(
        f"reading a column of type {column} from Arrow {array.type}: expected {expected}, found {found}"
    )


_FAMILIES: dict[str, Callable[[ValueType, pa.DataType], Encoder | None]] = {
    "boolean": _boolean,
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_TIMES, _time),
    "decimal": _decimal,
    **dict.fromkeys(("string", "binary"), _byte_string),
    **dict.fromkeys(("fixed", "uuid"), _fixed),
}
