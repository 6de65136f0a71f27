"""
Binds tests of columns of common types without pyiceberg, if no partitions are asked for.

The result is that of pyiceberg's binding: literals in JSON single-value form. What needs a conversion that pyiceberg
defines, or is wrong, is left to it.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from puffin.iceberg.filter_literals import moment_of, to_step
from puffin.iceberg.simple_filter import SimpleTest
from puffin.tables.expression import Op, PartitionTest, Predicate
from puffin.tables.schema import Field
from puffin.values.decimals import decimal_text
from puffin.values.value_type import ValueType, is_hashable

_INT, _LONG = 1 << 31, 1 << 63
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_NO_PARTITIONS: Mapping[int, PartitionTest] = {}
_OF_TEXT, _OF_FLOATS = (Op.STARTS_WITH, Op.NOT_STARTS_WITH), (Op.IS_NAN, Op.NOT_NAN)


class SimpleField(NamedTuple):
    """
    A column of a common type; ``json_form`` makes JSON values of its literals, None if it cannot, and ``order`` what
    these are sorted by.
    """

    field_id: int
    type: str
    json_form: Callable[[Any], Any]
    order: Callable[[Any], Any] | None = None


def simple_fields(fields: Iterable[Field]) -> dict[str, SimpleField]:
    """The columns of common types by name, without those that share a name."""
    every = list(fields)
    names = collections.Counter(field.name for field in every)
    found = {each.name: _simple_field(each) for each in every if isinstance(each.type, str) and names[each.name] == 1}
    return {name: field for name, field in found.items() if field is not None}


def bound_test(test: SimpleTest, field: SimpleField) -> Predicate | None:
    """The test of this column; None if pyiceberg has to bind it, or to say what is wrong."""
    op = test.op
    if (op in _OF_TEXT and field.type != "string") or (op in _OF_FLOATS and field.type != "double"):
        return None
    values = tuple(map(field.json_form, test.values))
    if None in values:
        return None
    if len(values) > 1:
        if len(set(values)) < len(values):
            return None
        values = tuple(sorted(values, key=field.order))
    return Predicate(op, field.field_id, test.name, values, _NO_PARTITIONS)


def _simple_field(field: Field) -> SimpleField | None:
    if (json_form := _JSON_FORMS.get(field.type)) is not None:
        return SimpleField(field.field_id, field.type, json_form)
    if is_hashable(field.type) and (of := ValueType.parse(field.type)).name == "decimal":
        json_form = functools.partial(_decimal, of.precision, of.scale)
        return SimpleField(field.field_id, field.type, json_form, decimal.Decimal)
    return None


def _int(value: Any) -> int | None:
    return value if type(value) is int and -_INT <= value < _INT else None


def _long(value: Any) -> int | None:
    return value if type(value) is int and -_LONG <= value < _LONG else None


def _double(value: Any) -> float | None:
    return float(value) if type(value) is int or type(value) is decimal.Decimal else None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any) -> str | None:
    if not isinstance(value, str) or _DATE.fullmatch(value) is None:
        return None
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return None
    return value


def _moment(type_: str, value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        moment = moment_of(value, type_)
        in_utc = moment if moment.tzinfo is None else moment.astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError):
        return None
    return in_utc.isoformat(timespec="microseconds")


def _decimal(precision: int, scale: int, value: Any) -> str | None:
    """A number of the column's scale and precision; of zeros only the one without a sign."""
    if type(value) is not int and type(value) is not decimal.Decimal:
        return None
    number = decimal.Decimal(value)
    found = to_step(number, scale, decimal.ROUND_FLOOR)
    fits = found == number and len(found.as_tuple().digits) <= precision and not (number.is_signed() and not number)
    return decimal_text(found) if fits else None


_JSON_FORMS: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "long": _long,
    "double": _double,
    "string": _string,
    "boolean": _boolean,
    "date": _date,
    **{type_: functools.partial(_moment, type_) for type_ in ("timestamp", "timestamptz")},
}
