"""
Partition transforms (spec, "Partition Transforms"): their result types, and partition values as text.

Here a transform is the string in a partition spec, in lower case, a type is the source column's, and a value is in the
form of manifests: days, microseconds, nanoseconds, bytes. Only a decimal is a ``Decimal``, because the width of its
bytes depends on the type; `partition_value` converts it.

The text of a partition is Iceberg's own (Java's ``PartitionSpec.partitionToPath``), which people know from the paths of
their data files.
"""

from __future__ import annotations

import base64
import functools
import re
from typing import Any

import numpy as np

from puffin.errors import CorruptMetadataError, UnsupportedTableError, UsageError
from puffin.values.decimals import to_decimal
from puffin.values.json_values import to_scalar
from puffin.values.value_type import TIMESTAMPS, ValueType

_NULL = "null"

_WITH_WIDTH = re.compile(r"(bucket|truncate)\[([0-9]{1,10})\]")
_CALENDAR = {"year": "Y", "month": "M", "day": "D", "hour": "h"}  # to the units of numpy's datetime64
_CALENDAR_TEXT = {
    "year": re.compile(r"\d{4}"),
    "month": re.compile(r"\d{4}-\d{2}"),
    "day": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "hour": re.compile(r"\d{4}-\d{2}-\d{2}-\d{2}"),
}
_DATED = frozenset({"date", *TIMESTAMPS})
_TRUNCATED = frozenset({"int", "long", "decimal", "string", "binary"})
_HASHED = _DATED | _TRUNCATED | {"time", "uuid", "fixed"}
_SOURCES = {
    "bucket": _HASHED,
    "truncate": _TRUNCATED,
    **dict.fromkeys(("year", "month", "day"), _DATED),
    "hour": frozenset(TIMESTAMPS),
}
_RESULTS = {"bucket": "int", "year": "int", "month": "int", "day": "date", "hour": "int"}


def result_type(transform: str, source_type: str) -> str:
    """
    The result type of a transform; for ``void``, the column's type.

    UnsupportedTableError if the transform is unknown, or does not take this type.
    """
    name, _ = parsed_transform(transform)
    if name in _SOURCES and _type_name(source_type) not in _SOURCES[name]:
        raise UnsupportedTableError(f"partition transform {transform} of type {source_type} is not supported")
    return earlier_result_type(transform, source_type)


def earlier_result_type(transform: str, source_type: str) -> str:
    """As `result_type`, where the source column may have had another type when the spec was in use."""
    name, _ = parsed_transform(transform)
    return _RESULTS.get(name, source_type)


def partition_value(type_: str, physical: Any) -> Any:
    """A value of a manifest's partition tuple, with decimals as numbers; CorruptMetadataError if one is invalid."""
    if physical is None or _type_name(type_) != "decimal":
        return physical
    if not isinstance(physical, bytes):
        raise CorruptMetadataError(f"expected a {type_} in a partition tuple, found {physical!r}")
    return to_decimal(int.from_bytes(physical, "big", signed=True), ValueType.parse(type_).scale)


def overflowing(truncated: int, width: int) -> list[range]:
    """The integers near the minimum of int or long for which Java's ``truncate`` overflows and returns this value."""
    return [
        range(max(-most, truncated - 2 * most), truncated - 2 * most + width)
        for most in (1 << 31, 1 << 63)
        if most - width < truncated < most
    ]


def may_be_late(transform: str, source_type: str) -> bool:
    """
    Whether a value up to 0 may be that of a moment one year, month, day or hour before.

    Iceberg's Java library up to 0.10.0 rounded moments before 1970 up.
    """
    return transform in _CALENDAR and not (transform == "day" and source_type == "date")


def calendar_value(transform: str, source_type: str, physical: int) -> int | None:
    """
    The year, month, day or hour of a date or a timestamp, as the partition field has it; None for other transforms.

    Dates may lie outside of Python's. OverflowError if the units do not fit 64 bits.
    """
    if transform not in _CALENDAR:
        return None
    units = "D" if source_type == "date" else "ns" if source_type.endswith("_ns") else "us"
    moment = np.array(physical, np.int64).astype(f"datetime64[{units}]")
    return int(moment.astype(f"datetime64[{_CALENDAR[transform]}]").astype(np.int64))


def to_partition_value(transform: str, source_type: str, text: str) -> Any:
    """
    Parse the text of a partition value as Iceberg writes it (``2024-01`` for a month).

    ``null`` is None for every type, so the string "null" has no text. UsageError if the text does not fit the partition
    field; other errors are those of `result_type`.
    """
    type_ = result_type(transform, source_type)
    if text == _NULL:
        return None
    name, width = parsed_transform(transform)
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


@functools.lru_cache(maxsize=256)
def parsed_transform(transform: str) -> tuple[str, int]:
    """The name and the width of a transform, or 0 for one without; UnsupportedTableError if it is unknown."""
    if match := _WITH_WIDTH.fullmatch(transform):
        name, width = match[1], int(match[2])
        if width:
            return name, width
    elif transform in (*_CALENDAR, "identity", "void"):
        return transform, 0
    raise UnsupportedTableError(f"partition transform {transform!r} is not known")


def is_known(transform: str) -> bool:
    """Whether this is a transform of the specification."""
    try:
        parsed_transform(transform)
    except UnsupportedTableError:
        return False
    return True


def _type_name(type_: str) -> str:
    return re.split(r"[\[(]", type_, maxsplit=1)[0]


def _calendar_value(name: str, text: str) -> int:
    if not _CALENDAR_TEXT[name].fullmatch(text):
        raise ValueError(text)
    iso = "T".join(text.rsplit("-", 1)) if name == "hour" else text
    return int(np.array(iso, f"datetime64[{_CALENDAR[name]}]").astype(int))


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
