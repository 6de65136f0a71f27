"""
Partition transforms (spec, "Partition Transforms"): what they make of a type and of a value, and a partition as text.

Everywhere in here a transform is the string that a partition spec has, a type is the source column's, and a value is
as manifests hold it: days, microseconds, nanoseconds, bytes. A decimal alone is a ``Decimal``, since its bytes are
padded to a width that a wider type changes; `partition_value` makes that of what a manifest holds.

The text of a partition is Iceberg's own (Java's ``PartitionSpec.partitionToPath``), since people know it from the
paths of their data files.
"""

from __future__ import annotations

import base64
import decimal
import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import numpy as np

from puffin.errors import CorruptMetadataError, UnsupportedTableError, UsageError
from puffin.tables.values import to_json, to_scalar
from puffin.theta.value_type import ValueType

_NULL = "null"

_WITH_WIDTH = re.compile(r"(bucket|truncate)\[([0-9]{1,10})\]", re.IGNORECASE)
_CALENDAR = {"year": "Y", "month": "M", "day": "D", "hour": "h"}  # to the units of numpy's datetime64
_CALENDAR_TEXT = {
    "year": re.compile(r"\d{4}"),
    "month": re.compile(r"\d{4}-\d{2}"),
    "day": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "hour": re.compile(r"\d{4}-\d{2}-\d{2}-\d{2}"),
}
_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATED = _TIMESTAMPS | {"date"}
_TRUNCATED = frozenset({"int", "long", "decimal", "string", "binary"})
_HASHED = _DATED | _TRUNCATED | {"time", "uuid", "fixed"}
_SOURCES = {
    "bucket": _HASHED,
    "truncate": _TRUNCATED,
    **dict.fromkeys(("year", "month", "day"), _DATED),
    "hour": _TIMESTAMPS,
}
_RESULTS = {"bucket": "int", "year": "int", "month": "int", "day": "date", "hour": "int"}

_HOURS_A_DAY = 24
_MICROS_AN_HOUR = 3_600_000_000
_NANOS_A_MICRO = 1000
_UNROUNDED = decimal.Context(prec=60)
_MASK, _SIGN = 0xFFFF_FFFF, 0x8000_0000


def result_type(transform: str, source_type: str) -> str:
    """
    The type of what a transform makes of a column; of ``void``, the column's.

    Raises:
        UnsupportedTableError: The transform is not known, or not of this type.
    """
    name, _ = _parsed(transform)
    if name in _SOURCES and _type_name(source_type) not in _SOURCES[name]:
        raise UnsupportedTableError(f"partition transform {transform} of type {source_type} is not supported")
    return _RESULTS.get(name, source_type)


def apply(transform: str, source_type: str, value: Any) -> Any:
    """
    What a transform makes of a value; None of None.

    Raises:
        UnsupportedTableError: The transform is not known, or not of this type.
    """
    result_type(transform, source_type)
    name, width = _parsed(transform)
    if value is None or name == "void":
        return None
    if name == "bucket":
        return (_murmur3_x86_32(_bytes_to_hash(source_type, value)) & ~_SIGN) % width
    if name == "truncate":
        return _truncated(source_type, value, width)
    if name in _CALENDAR:
        return _calendar_ordinal(name, source_type, value)
    return value


def partition_value(type_: str, physical: Any) -> Any:
    """
    A value of a partition tuple as a manifest holds it, a decimal as a number.

    Raises:
        CorruptMetadataError: It should be a decimal and is not.
    """
    if physical is None or _type_name(type_) != "decimal":
        return physical
    if not isinstance(physical, bytes):
        raise CorruptMetadataError(f"expected a {type_} in a partition tuple, found {physical!r}")
    unscaled = int.from_bytes(physical, "big", signed=True)
    return decimal.Decimal(unscaled).scaleb(-ValueType.parse(type_).scale, _UNROUNDED)


def partition_to_path(
    spec_fields: Sequence[Mapping[str, Any]], types: Mapping[int, str], values: Mapping[int, Any]
) -> str:
    """
    A partition as text: ``ts_day=2024-01-02/id_bucket=3``, each part as in a URL's query.

    Args:
        spec_fields: The fields of the partition spec, as `puffin.tables.document.partition_specs` has them.
        types: The types of the source columns by field id, as `source_types` has them.
        values: The partition tuple by partition field id, as a manifest holds it.

    Raises:
        UnsupportedTableError: A transform is not known, or no schema has its source column any more.
        CorruptMetadataError: A value is not one of its type.
    """
    return "/".join(_part(field, types, values) for field in spec_fields)


def to_text(transform: str, source_type: str, value: Any) -> str:
    """
    A partition value for people, as Iceberg writes it (``2024-01`` for a month); ``null`` for None.

    Raises:
        UnsupportedTableError: The transform is not known, or not of this type.
        CorruptMetadataError: The value is not one of its type.
    """
    type_ = result_type(transform, source_type)
    name, _ = _parsed(transform)
    if value is None or name == "void":
        return _NULL
    try:
        return _calendar_text(name, value) if name in _CALENDAR else _plain_text(type_, value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise CorruptMetadataError(f"expected a {type_} in a partition tuple, found {value!r}") from exc


def to_partition_value(transform: str, source_type: str, text: str) -> Any:
    """
    The partition value that a text means, as people write it: the inverse of `to_text`.

    ``null`` is None for every type, so the string of these four letters cannot be named.

    Raises:
        UsageError: The text is none of a value of this partition field.
        UnsupportedTableError: The transform is not known, or not of this type.
    """
    type_ = result_type(transform, source_type)
    if text == _NULL:
        return None
    name, width = _parsed(transform)
    try:
        if name in _CALENDAR:
            return _calendar_value(name, text)
        value = _plain_value(type_, text)
    except (ValueError, OverflowError, CorruptMetadataError) as exc:
        raise UsageError(f"expected a value of {transform} of type {source_type}, found {text!r}") from exc
    if name == "void" or (name == "bucket" and not 0 <= value < width):
        allowed = "null" if name == "void" else f"a bucket from 0 to {width - 1}"
        raise UsageError(f"expected {allowed}, found {text!r}")
    return value


def _part(field: Mapping[str, Any], types: Mapping[int, str], values: Mapping[int, Any]) -> str:
    try:
        name, transform, source_id = field["name"], field["transform"], field["source-id"]
    except KeyError as exc:
        raise CorruptMetadataError(f"a partition field without {exc}") from exc
    if source_id not in types:
        raise UnsupportedTableError(f"partition field {name}: no schema has column {source_id} any more")
    source_type = types[source_id]
    value = partition_value(result_type(transform, source_type), values.get(field["field-id"]))
    return f"{_escape(name)}={_escape(to_text(transform, source_type, value))}"


def _murmur3_x86_32(data: bytes) -> int:
    """The 32-bit Murmur3 hash (x86, seed 0) of appendix B, as a number without sign."""
    hash_ = 0
    whole = len(data) & ~3
    for offset in range(0, whole, 4):
        hash_ ^= _mixed(int.from_bytes(data[offset : offset + 4], "little"))
        hash_ = (_rotated(hash_, 13) * 5 + 0xE654_6B64) & _MASK
    hash_ ^= _mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    hash_ = ((hash_ ^ hash_ >> 16) * 0x85EB_CA6B) & _MASK
    hash_ = ((hash_ ^ hash_ >> 13) * 0xC2B2_AE35) & _MASK
    return hash_ ^ hash_ >> 16


def _mixed(block: int) -> int:
    return _rotated(block * 0xCC9E_2D51 & _MASK, 15) * 0x1B87_3593 & _MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK


@functools.lru_cache(maxsize=256)
def _parsed(transform: str) -> tuple[str, int]:
    """The name and the width, which is 0 where a transform has none."""
    if match := _WITH_WIDTH.fullmatch(transform):
        name, width = match[1].lower(), int(match[2])
        if width:
            return name, width
    elif (name := transform.lower()) in (*_CALENDAR, "identity", "void"):
        return name, 0
    raise UnsupportedTableError(f"partition transform {transform!r} is not known")


def _type_name(type_: str) -> str:
    return re.split(r"[\[(]", type_, maxsplit=1)[0]


def _bytes_to_hash(type_: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, decimal.Decimal):
        unscaled = _unscaled(type_, value)
        return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)
    number: int = value // _NANOS_A_MICRO if type_.endswith("_ns") else value
    return number.to_bytes(8, "little", signed=True)


def _truncated(type_: str, value: Any, width: int) -> Any:
    if isinstance(value, str | bytes):
        return value[:width]  # characters of the one, bytes of the other
    if isinstance(value, decimal.Decimal):
        unscaled = _unscaled(type_, value)
        return decimal.Decimal(unscaled - unscaled % width).scaleb(-ValueType.parse(type_).scale, _UNROUNDED)
    return value - value % width


def _unscaled(type_: str, value: decimal.Decimal) -> int:
    return int(value.scaleb(ValueType.parse(type_).scale, _UNROUNDED))


def _calendar_ordinal(name: str, source_type: str, value: int) -> int:
    """How many whole units from 1970 on; before it they are negative, and whole downwards."""
    if source_type == "date":
        days = value
    else:
        an_hour = _MICROS_AN_HOUR * (_NANOS_A_MICRO if source_type.endswith("_ns") else 1)
        if name == "hour":
            return value // an_hour
        days = value // (_HOURS_A_DAY * an_hour)
    return days if name == "day" else int(np.datetime64(days, "D").astype(f"datetime64[{_CALENDAR[name]}]").astype(int))


def _calendar_text(name: str, value: int) -> str:
    return str(np.array(value, f"datetime64[{_CALENDAR[name]}]")).replace("T", "-")


def _calendar_value(name: str, text: str) -> int:
    if not _CALENDAR_TEXT[name].fullmatch(text):
        raise ValueError(text)
    iso = "T".join(text.rsplit("-", 1)) if name == "hour" else text
    return int(np.array(iso, f"datetime64[{_CALENDAR[name]}]").astype(int))


def _plain_text(type_: str, value: Any) -> str:
    name = _type_name(type_)
    if name == "boolean":
        return str(value).lower()
    if name in ("float", "double"):
        return _java_text(np.float32(value) if name == "float" else np.float64(value))
    if name in ("fixed", "binary"):
        return base64.b64encode(value).decode()
    if name == "time":  # to the minute, the second, the thousandth or the millionth, whichever says it all
        whole, _, fraction = str(to_json(type_, value)).partition(".")
        return f"{whole}.{fraction.removesuffix('000')}" if int(fraction) else whole.removesuffix(":00")
    if name in _TIMESTAMPS:
        whole, _, rest = str(to_json(type_, value)).partition(".")
        fraction, plus, offset = rest.partition("+")
        return f"{whole}.{fraction.rstrip('0')}".removesuffix(".") + plus + offset
    return str(value if name == "decimal" else to_json(type_, value))


def _plain_value(type_: str, text: str) -> Any:
    name = _type_name(type_)
    json_form: Any = text
    if name == "boolean":
        if text not in ("true", "false"):
            raise ValueError(text)
        json_form = text == "true"
    elif name in ("int", "long"):
        json_form = int(text)
    elif name in ("float", "double"):
        json_form = float(text)
    elif name in ("fixed", "binary"):
        json_form = base64.b64decode(text, validate=True).hex()
    scalar = to_scalar(type_, json_form)
    return scalar.value if name in _DATED or name == "time" else scalar.as_py()


def _java_text(value: np.float32 | np.float64) -> str:
    """As Java's ``toString`` of the same number: the fewest digits that mean it, an exponent where it is far from 1."""
    magnitude = abs(float(value))
    if not math.isfinite(magnitude):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(float(value))]
    if magnitude == 0 or 1e-3 <= magnitude < 1e7:
        return np.format_float_positional(value, trim="0")
    return np.format_float_scientific(value, trim="0", exp_digits=1).replace("e+", "E").replace("e", "E")


def _escape(text: str) -> str:
    # Java's URLEncoder keeps the star and not the tilde, Python's the other way round.
    return quote_plus(text, safe="*").replace("~", "%7E")
