"""
Converts partition values from the text of a Delta log to the JSON form of appendix D.

It accepts what the protocol names ("Partition Value Serialization") and what writers produce: numbers and NaN as Java
and Rust spell them, and timestamps with or without a zone. Without one Spark takes the zone of its session, which the
log does not name; here it is taken as UTC, and `depends_on_zone` tells plans. Nothing is rounded: text that is not a
value of the column's type, or is too precise for it, is refused.
"""

from __future__ import annotations

import decimal
import functools
import re
from typing import Any

import pyarrow as pa

from puffin.errors import CorruptMetadataError
from puffin.values.decimals import decimal_text
from puffin.values.json_values import moment, to_json, to_scalar
from puffin.values.value_type import ValueType, is_hashable

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DATE = re.compile(r"([0-9]{4}|[+-][0-9]{4,7})-([0-9]{1,2})-([0-9]{1,2})")
_ESCAPED_BYTES = re.compile(r"(\\u00[0-9A-Fa-f]{2})+")
_ZONE = re.compile(r"(Z|[+-][0-9]{2}:?[0-9]{2})$")
_BOOLEANS = {"true": True, "false": False}
_EXACT = decimal.Context(prec=60, traps=[decimal.InvalidOperation, decimal.Inexact])
_MOST_SHOWN = 80  # characters of what is wrong, in an error


def partition_json(type_: str, text: str | None, where: str) -> Any:
    """
    The JSON form of a partition value of an appendix C type; CorruptMetadataError for invalid text.

    None and the empty text are null. A type without single values keeps the text.
    """
    if not text:
        return None
    try:
        return _parsed(type_, text)
    except (ValueError, KeyError, ArithmeticError, pa.ArrowException, CorruptMetadataError) as exc:
        raise CorruptMetadataError(
            f"{where}: partition value: expected a {type_}, found {text[:_MOST_SHOWN]!r}"
        ) from exc


def depends_on_zone(type_: str, text: str | None) -> bool:
    """Whether a partition value is another moment in another time zone: Spark takes that of the session that reads."""
    return type_ == "timestamptz" and text is not None and _ZONE.search(text.strip()) is None


@functools.lru_cache(maxsize=1 << 16)
def _parsed(type_: str, text: str) -> Any:
    if not is_hashable(type_):
        return text
    name = ValueType.parse(type_).name
    if name == "string":
        text.encode()  # half of a surrogate pair is not text
        return text
    if name == "binary":
        return _bytes(text).hex()
    value = _json_form(type_, name, text.strip())
    scalar = to_scalar(type_, value)
    return scalar.as_py() if name == "float" else value


def _json_form(type_: str, name: str, text: str) -> Any:
    if name in ("int", "long"):
        return int(_matched(_INTEGER, text)[0])
    if name in ("float", "double"):
        return float(text if _NO_NUMBER.fullmatch(text) else _matched(_NUMBER, text)[0])
    if name == "decimal":
        one = decimal.Decimal(1).scaleb(-ValueType.parse(type_).scale, _EXACT)
        return decimal_text(decimal.Decimal(_matched(_NUMBER, text)[0]).quantize(one, context=_EXACT))
    if name == "boolean":
        return _BOOLEANS[text.lower()]
    if name == "date":
        year, month, day = _matched(_DATE, text).groups()
        return to_json(type_, moment(f"{year}-{month:0>2}-{day:0>2}", pa.date32()))
    # Arrow parses a zone only if the target type has one.
    stored = pa.timestamp("us", "UTC" if _ZONE.search(text) else None)
    return to_json(type_, moment(text, stored))


def _bytes(text: str) -> bytes:
    """The bytes of the text: escaped one by one, as delta-rs writes them, or the text's own, as Spark does."""
    if _ESCAPED_BYTES.fullmatch(text):
        return bytes.fromhex(text.replace("\\u00", ""))
    return text.encode()


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match
