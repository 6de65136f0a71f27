"""
Literals as a column has them: pyiceberg rounds, cuts or refuses those of another scale, and shifts those out of range.

What comes out means the same and is within the type of the column, so that pyiceberg binds it as it is.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_MOST_DIGITS = 1000  # of numbers in filters
_LARGEST_FLOAT = 3.4028234663852886e38
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIMESTAMP = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}"
    rf"(?:[ T]{_CLOCK}(?::[0-9]{{2}}(?:[.,][0-9]{{1,6}})?)?(?P<zone>Z| UTC|[+-]{_CLOCK})?)?"
)
"""Forms that mean the same to Spark, Trino and DuckDB, where they take them."""

BEYOND = {"int": 1 << 31, "date": 1 << 31, "long": 1 << 63}
"""Values of a type are from minus this number to one less than it."""


def values_of(test: Any) -> list[Any]:
    """The values of a test's literals, bound or not; a constant and a test of null have none."""
    literals = getattr(test, "literals", None) or ([test.literal] if hasattr(test, "literal") else [])
    return [each.value for each in literals]


def to_column(expression: Any, schema: Schema) -> Any:
    """
    The same filter with numbers in the scale of each column, lists without those that a column cannot have, and
    timestamps in the one form that pyiceberg reads.

    ValueError if a text is no number or no time and its column has these, or if a prefix is asked of one without text.
    """
    from pyiceberg import expressions
    from pyiceberg.types import TimestampType, TimestamptzType

    e: Any = expressions
    if isinstance(expression, e.Not):
        return e.Not(to_column(expression.child, schema))
    if isinstance(expression, e.And | e.Or):
        return type(expression)(*(to_column(each, schema) for each in (expression.left, expression.right)))
    given = set(values_of(expression))
    if not given:
        return expression
    type_ = schema.find_type(expression.term.name)
    if isinstance(expression, e.StartsWith | e.NotStartsWith) and str(type_) not in ("string", "binary"):
        raise ValueError(f"expected a column of strings for like, found {expression.term.name} of type {type_}")
    _check_times(given, str(type_))
    if isinstance(type_, TimestampType | TimestamptzType):
        moments = {moment_of(each, str(type_)).isoformat() if isinstance(each, str) else each for each in given}
        return _with_values(expression, moments)
    expression = _to_scale(expression, given, type_)
    beyond = BEYOND.get(str(type_))
    if beyond is None or not isinstance(expression, e.SetPredicate):
        return expression
    # pyiceberg replaces a number out of range by the type's largest or smallest.
    held = {value for value in values_of(expression) if isinstance(value, str) or -beyond <= value < beyond}
    return _with_values(expression, held)


def to_step(value: Any, scale: int, rounding: str) -> decimal.Decimal:
    """A number with so many digits after its point."""
    step = decimal.Decimal(1).scaleb(-scale)
    return decimal.Decimal(value).quantize(step, rounding, decimal.Context(prec=_MOST_DIGITS))


def units_of_text(type_: str, text: str) -> int:
    """
    The days or units of a time as pyiceberg reads it; ValueError if that reads none.

    It sends texts as they are, and reads more forms of ISO 8601 than the protocol has.
    """
    from pyiceberg.utils import datetime

    if type_ == "date":
        return datetime.date_str_to_days(text)
    if type_ == "time":
        return datetime.time_str_to_micros(text)
    is_zoned, is_nano = type_.startswith("timestamptz"), type_.endswith("_ns")
    if is_nano:
        return (datetime.timestamptz_to_nanos if is_zoned else datetime.timestamp_to_nanos)(text)
    return (datetime.timestamptz_to_micros if is_zoned else datetime.timestamp_to_micros)(text)


def is_beyond_floats(expression: Any, schema: Schema) -> bool:
    """Whether a column of floats is compared with a number that none but infinity reaches."""
    from pyiceberg.types import FloatType

    with contextlib.suppress(ValueError, TypeError):
        beyond = any(abs(float(value)) > _LARGEST_FLOAT for value in values_of(expression))
        return beyond and isinstance(schema.find_type(expression.term.name), FloatType)
    return False


def with_doubles(schema: Schema) -> Schema:
    """The schema with doubles for floats: pyiceberg takes infinity for a number that no float is equal to."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, FloatType, StructType

    def wide(fields: Iterable[Any]) -> list[Any]:
        found = []
        for field in fields:
            type_ = field.field_type
            if isinstance(type_, FloatType):
                type_ = DoubleType()
            elif isinstance(type_, StructType):
                type_ = StructType(*wide(type_.fields))
            found.append(field.model_copy(update={"field_type": type_}))
        return found

    return Schema(*wide(schema.fields))


def _with_values(test: Any, values: set[Any]) -> Any:
    """The test with other literals, as many as it takes."""
    from pyiceberg.expressions import SetPredicate

    return type(test)(test.term, *([values] if isinstance(test, SetPredicate) else values))


def _check_times(given: Iterable[Any], type_: str) -> None:
    """Refuse texts of which pyiceberg would drop a zone or digits."""
    for value in given if type_ == "time" else ():
        if isinstance(value, str) and _TIME.fullmatch(value) is None:
            raise ValueError(f"expected a time such as '12:30:00.000001', found {value!r}")


def moment_of(value: str, type_: str) -> datetime.datetime:
    """The time that a text says for a column of timestamps; ValueError if it says none, or not with its zone."""
    is_zoned, found = type_ == "timestamptz", _TIMESTAMP.fullmatch(value)
    zone = found["zone"] if found else None
    if found and (zone is not None) == is_zoned:
        moment, _, fraction = value.removesuffix(zone or "").replace(",", ".").partition(".")
        offset = "+00:00" if zone in ("Z", " UTC") else zone or ""
        with contextlib.suppress(ValueError):  # there is no such day or time
            read = datetime.datetime.fromisoformat(moment + offset)
            return read.replace(microsecond=int(f"{fraction:0<6}"))
    message = f"expected a timestamp such as '2026-01-31T12:00:00{'+00:00' if is_zoned else ''}', found {value!r}"
    if found and is_zoned and zone is None:  # engines take the session's
        message += "; the column needs a time with a zone"
    raise ValueError(message)


def _to_scale(expression: Any, given: set[Any], type_: Any) -> Any:
    """A test with numbers in the scale of its column."""
    from pyiceberg import expressions
    from pyiceberg.types import DecimalType, IntegerType, LongType

    e: Any = expressions
    if not isinstance(type_, DecimalType | IntegerType | LongType):
        return expression
    numbers = {_number(value, type_) for value in given}
    if not any(isinstance(value, decimal.Decimal) for value in numbers):
        return expression
    scale = type_.scale if isinstance(type_, DecimalType) else 0
    below, above = ({v: to_step(v, scale, to) for v in numbers} for to in (decimal.ROUND_FLOOR, decimal.ROUND_CEILING))
    exact = {value for value in below.values() if value in numbers}
    if isinstance(expression, e.SetPredicate):
        return type(expression)(expression.term, exact)
    (value,) = numbers
    if exact:
        return type(expression)(expression.term, below[value])
    if isinstance(expression, e.LessThan | e.LessThanOrEqual):
        return e.LessThanOrEqual(expression.term, below[value])
    if isinstance(expression, e.GreaterThan | e.GreaterThanOrEqual):
        return e.GreaterThanOrEqual(expression.term, above[value])
    return e.AlwaysFalse() if isinstance(expression, e.EqualTo) else e.AlwaysTrue()


def _number(value: Any, type_: Any) -> Any:
    """A literal, or the number that a text says."""
    if not isinstance(value, str):
        return value
    with contextlib.suppress(decimal.InvalidOperation):
        number = decimal.Decimal(value)
        if number.is_finite():
            return number
    raise ValueError(f"expected a literal of type {type_}, found {value!r}")
