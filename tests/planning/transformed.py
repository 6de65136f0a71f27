"""Partition transforms of single values, by pyiceberg and numpy."""

from __future__ import annotations

import functools
import uuid
from typing import Any

import numpy as np

CALENDAR = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
UNITS = {"date": "D", "timestamp_ns": "ns"}
WORD_BITS = {"int": 32, "long": 64}
OLDER_TYPES = {"long": "int"}
"""The types that a column of integers may have had before."""


def transformed(transform: str, type_: str, value: Any) -> Any:
    """The value of a partition field for a value of its source, whose type this is."""
    if transform in CALENDAR and value is not None:  # pyiceberg's end with the year 9999
        moment = np.datetime64(value, UNITS.get(type_, "us"))
        return int(moment.astype(f"datetime64[{CALENDAR[transform]}]").astype(np.int64))
    if type_ == "uuid" and value is not None:
        value = uuid.UUID(bytes=value)
    found = _transform(transform, type_)(value)
    if transform.startswith("truncate") and type_ in WORD_BITS and found is not None:
        most = 1 << (WORD_BITS[type_] - 1)
        found = (found + most) % (2 * most) - most  # as Java's integers overflow
    return found


def late(transform: str, type_: str, value: Any) -> Any:
    """As `transformed`, but moments before 1970 are rounded up, as by Iceberg's Java library up to 0.10.0."""
    found = transformed(transform, type_, value)
    if transform not in CALENDAR or value is None or found >= 0:
        return found
    moment = np.datetime64(value, UNITS.get(type_, "us"))
    return found + int(np.datetime64(found, CALENDAR[transform]) < moment)


def is_of(type_: str, value: int | None) -> bool:
    """Whether a type has an integer."""
    return value is not None and -1 << (WORD_BITS[type_] - 1) <= value < 1 << (WORD_BITS[type_] - 1)


def overflows(transform: str, type_: str, value: int) -> bool:
    """Whether a transform of an integer is another one if it is a Java integer of this type."""
    return transform.startswith("truncate") and transformed(transform, type_, value) > value


def may_have_overflowed(transform: str, truncated: Any) -> bool:
    """Whether a partition value may be that of one of the least integers, which Java's overflow to."""
    if not transform.startswith("truncate") or not isinstance(truncated, int):
        return False
    return any((1 << bits - 1) - int(transform[9:-1]) < truncated < 1 << bits - 1 for bits in WORD_BITS.values())


@functools.cache
def _transform(transform: str, type_: str) -> Any:
    from pyiceberg.transforms import parse_transform
    from pyiceberg.types import NestedField

    source = NestedField.model_validate({"id": 1, "name": "a", "type": type_, "required": False}).field_type
    return parse_transform(transform).transform(source)
