"""
Binds tests of columns of common types without pyiceberg, if no partitions are asked for.

The result is that of pyiceberg's binding: literals in JSON single-value form. What needs a conversion that pyiceberg
defines, or is wrong, is left to it.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from puffin.iceberg.simple_filter import SimpleTest
from puffin.tables.expression import Op, PartitionTest, Predicate
from puffin.tables.schema import Field

_INT, _LONG = 1 << 31, 1 << 63
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_NO_PARTITIONS: Mapping[int, PartitionTest] = {}
_OF_TEXT, _OF_FLOATS = (Op.STARTS_WITH, Op.NOT_STARTS_WITH), (Op.IS_NAN, Op.NOT_NAN)


class SimpleField(NamedTuple):
    """A column of a common type; ``json_form`` makes JSON values of its literals, None if it cannot."""

    field_id: int
    type: str
    json_form: Callable[[Any], Any]


def simple_fields(fields: Iterable[Field]) -> dict[str, SimpleField]:
    """The columns of common types by name, without those that share a name."""
    every = list(fields)
    names = collections.Counter(field.name for field in every)
    return {
        each.name: SimpleField(each.field_id, each.type, _JSON_FORMS[each.type])
        for each in every
        if isinstance(each.type, str) and each.type in _JSON_FORMS and names[each.name] == 1
    }


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
        values = tuple(sorted(values))
    return Predicate(op, field.field_id, test.name, values, _NO_PARTITIONS)


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


_JSON_FORMS: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "long": _long,
    "double": _double,
    "string": _string,
    "boolean": _boolean,
    "date": _date,
}
