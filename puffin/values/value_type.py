"""
The column types whose values can be hashed, parsed from their appendix C strings.

Only a primitive type with a binary single-value form (appendix D) has bytes to hash. The strings come from table
metadata, so this module rejects types of later format versions by name, before any data is read.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from puffin.errors import UnsupportedTypeError

TIMESTAMPS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
TIMES = ("time", *TIMESTAMPS)
TEMPORAL = ("date", *TIMES)
_NUMBERS = ("boolean", "int", "long", "float", "double")
_BYTES = ("string", "uuid", "binary")
_WITHOUT_PARAMETERS = frozenset((*_NUMBERS, *TEMPORAL, *_BYTES))
_FIXED = re.compile(r"fixed\[\s*([0-9]{1,9})\s*\]")
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")
_MAX_PRECISION = 38
_PROMOTIONS = {"int": ("long",), "float": ("double",), "date": ("timestamp", "timestamp_ns")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """
    A primitive Iceberg type that has single-value bytes.

    Attributes:
        type_string: As in table metadata: ``"decimal(9, 2)"``.
        name: The type without its parameters: ``"decimal"``.
        length: Bytes per value of ``fixed[L]``, else 0.
        precision: Digits of ``decimal(P, S)``, else 0.
        scale: Digits after the point of ``decimal(P, S)``, else 0.
    """

    type_string: str
    name: str
    length: int = 0
    precision: int = 0
    scale: int = 0

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def parse(cls, type_string: str) -> ValueType:
        """Parse an appendix C type such as ``"fixed[16]"``; UnsupportedTypeError if it has no single-value bytes."""
        if type_string in _WITHOUT_PARAMETERS:
            return cls(type_string=type_string, name=type_string)
        if fixed := _FIXED.fullmatch(type_string):
            return cls(type_string=type_string, name="fixed", length=int(fixed[1]))
        if (decimal := _DECIMAL.fullmatch(type_string)) and 1 <= int(decimal[1]) <= _MAX_PRECISION:
            precision, scale = map(int, decimal.groups())
            return cls(type_string=type_string, name="decimal", precision=precision, scale=scale)
        raise UnsupportedTypeError(f"type {type_string!r} has no single-value bytes to hash")

    def __str__(self) -> str:
        return self.type_string


def is_hashable(type_string: str) -> bool:
    """Whether a column of this appendix C type can have a theta sketch."""
    try:
        ValueType.parse(type_string)
    except UnsupportedTypeError:
        return False
    return True


def is_promoted(before: str, now: str) -> bool:
    """Whether Iceberg lets columns of one type become columns of the other, or the types are the same."""
    if before.startswith("decimal") and now.startswith("decimal"):
        first, second = ValueType.parse(before), ValueType.parse(now)
        return first.scale == second.scale and first.precision <= second.precision
    return before in (now, "unknown") or now in _PROMOTIONS.get(before, ())


def hashes_alike(one: str, other: str) -> bool:
    """Whether equal values of two types have equal hashes; the precision of decimals does not matter."""
    first, second = ValueType.parse(one), ValueType.parse(other)
    return (first.name, first.length, first.scale) == (second.name, second.length, second.scale)
