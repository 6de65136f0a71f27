"""
Single values in JSON form (appendix D): partition values and default values, as constants of a column.

A manifest holds a partition value in physical form (days, microseconds, unscaled bytes), and a scan task in JSON form;
a schema holds default values in JSON form. Arrow reads and writes ISO 8601, because Python's own parser has no
nanoseconds.
"""

from __future__ import annotations

import decimal
import json
import math
import re
import uuid
from typing import Any

import pyarrow as pa

from puffin.errors import CorruptMetadataError
from puffin.values.decimals import decimal_text, to_decimal
from puffin.values.value_type import TEMPORAL, ValueType

_ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "uuid": pa.binary(16),
    "binary": pa.binary(),
}
_EPOCH_DAY = "1970-01-01T"
_UNITS_OF_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_YEARS, _DAYS = 400, 146_097
"""The calendar repeats after this many years; Arrow has no text for years beyond four digits."""
_FIRST_YEAR = 1770  # of a cycle around 1970, which nanoseconds reach too
_LAST_PLAIN_YEAR = 9999  # ISO 8601 has a sign before the years after it, and before those below 0
_YEAR = re.compile(r"(?:[0-9]{4}|[+-][0-9]{4,7})(?=-)")


def arrow_type(type_: str) -> pa.DataType:
    """The Arrow type of the values of a primitive type; UnsupportedTypeError if it has no single values."""
    value_type = ValueType.parse(type_)
    if value_type.name == "decimal":
        return pa.decimal128(value_type.precision, value_type.scale)
    return pa.binary(value_type.length) if value_type.name == "fixed" else _ARROW_TYPES[value_type.name]


def to_json(type_: str, physical: Any) -> Any:
    """The JSON form of a value from a manifest; None stays None. CorruptMetadataError if the type is wrong."""
    if physical is None:
        return None
    try:
        if type_ == "time":
            return str(pa.scalar(physical, arrow_type(type_)).cast(pa.string()))
        if type_ in TEMPORAL:
            return _moment_text(physical, unzoned_type(type_)) + ("+00:00" if type_.startswith("timestamptz") else "")
        if type_ == "uuid":
            return str(uuid.UUID(bytes=physical))
        if type_.startswith("decimal"):
            return decimal_text(to_decimal(int.from_bytes(physical, "big", signed=True), ValueType.parse(type_).scale))
        return physical.hex() if isinstance(physical, bytes) else physical
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as exc:
        raise CorruptMetadataError(f"expected a {type_} in a partition tuple, found {physical!r}") from exc


def has_no_word(value: Any) -> bool:
    """Whether a value is a number for which JSON has no word: NaN or an infinite one."""
    return isinstance(value, float) and not math.isfinite(value)


def in_words(value: Any) -> Any:
    """A value in JSON form; if JSON has no word for it, the text that Java writes."""
    return json.dumps(value) if has_no_word(value) else value


def to_scalar(type_: str, value: Any) -> pa.Scalar:
    """The constant of a JSON form; None is null. CorruptMetadataError if the type is wrong."""
    target = arrow_type(type_)
    try:
        return pa.scalar(None if value is None else _physical(type_, value, target), target)
    except (ValueError, TypeError, AttributeError, ArithmeticError, pa.ArrowException) as exc:
        raise CorruptMetadataError(f"expected a {type_} in JSON single-value form, found {value!r}") from exc


def _physical(type_: str, value: Any, target: pa.DataType) -> Any:
    if isinstance(value, bool) is not pa.types.is_boolean(target):  # Arrow takes true for the number 1
        raise TypeError(type(value).__name__)
    if type_ == "date":
        return moment(value, target)
    if type_ in TEMPORAL:
        text = (_EPOCH_DAY if type_ == "time" else "") + value.removesuffix("+00:00").removesuffix("Z")
        return moment(text, pa.timestamp(target.unit))
    if type_ == "uuid":
        return uuid.UUID(value).bytes
    if pa.types.is_binary(target) or pa.types.is_fixed_size_binary(target):
        return bytes.fromhex(value)
    if pa.types.is_decimal(target):
        return decimal.Decimal(value)
    if pa.types.is_integer(target) and type(value) is not int:  # Arrow would drop a fraction
        raise TypeError(type(value).__name__)
    return value


def moment(text: str, type_: pa.DataType) -> int:
    """The days, or the units of a timestamp, from 1970 to a text in ISO 8601; ArrowInvalid if it is none."""
    cycles, year = 0, _YEAR.match(text)
    if year is not None:
        cycles, in_cycle = divmod(int(year[0]) - _FIRST_YEAR, _YEARS)
        text = f"{_FIRST_YEAR + in_cycle}{text[year.end() :]}"
    value: int = pa.scalar(text).cast(type_).value
    return value + cycles * _units_of_cycle(type_)


def _moment_text(physical: Any, type_: pa.DataType) -> str:
    cycle = _units_of_cycle(type_)
    cycles, in_cycle = divmod(pa.scalar(physical, type_).value + cycle // 2, cycle)
    text = str(pa.scalar(in_cycle - cycle // 2, type_).cast(pa.string())).replace(" ", "T")
    year = int(text[:4]) + cycles * _YEARS
    sign = "-" if year < 0 else "+" if year > _LAST_PLAIN_YEAR else ""
    return f"{sign}{abs(year):04}{text[4:]}"


def _units_of_cycle(type_: pa.DataType) -> int:
    return _DAYS * (1 if pa.types.is_date(type_) else _UNITS_OF_DAY[type_.unit])


def unzoned_type(type_: str) -> pa.DataType:
    """The Arrow type of a primitive type, without a time zone."""
    target = arrow_type(type_)
    return pa.timestamp(target.unit) if pa.types.is_timestamp(target) else target
