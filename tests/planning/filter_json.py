"""
Filters in the expression JSON of the REST protocol: as pyiceberg sends them, as Java does, and as the spec prefers.

Java's literals have no type: times are numbers. The spec's newer form types them, and names columns by id as well.
"""

from __future__ import annotations

import datetime
import math
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tests.planning.random_filters import EPOCH, Both, Filter, Not, Test

NAMES = {
    "=": "eq",
    "!=": "not-eq",
    "<": "lt",
    "<=": "lt-eq",
    ">": "gt",
    ">=": "gt-eq",
    "in": "in",
    "not in": "not-in",
    "is null": "is-null",
    "is not null": "not-null",
    "is nan": "is-nan",
    "is not nan": "not-nan",
    "like": "starts-with",
    "not like": "not-starts-with",
}
SWAPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
MICROSECOND = 1000


def by_pyiceberg(filter_: Filter) -> Any:
    """The request's filter as pyiceberg makes it of its own expression with Python's values."""
    from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest

    request = PlanTableScanRequest(filter=_in_pyiceberg(filter_))
    return request.model_dump(mode="json", by_alias=True, exclude_none=True)["filter"]


def by_pyiceberg_of_text(filter_: Filter) -> Any:
    """The same of the filter's text, which pyiceberg parses; its literals are texts and decimals."""
    from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
    from pyiceberg.expressions.parser import parse

    request = PlanTableScanRequest(filter=parse(str(filter_)))
    return request.model_dump(mode="json", by_alias=True, exclude_none=True)["filter"]


def by_java(filter_: Filter, source: random.Random, *, any_case: bool = False) -> Any:
    """As Iceberg's Java library writes it for Spark, with names in any case if need be."""

    def term(test: Test) -> Any:
        name = "".join(source.choice((c.upper(), c)) for c in test.leaf.name) if any_case else test.leaf.name
        if test.transform is not None:
            return {"type": "transform", "transform": test.transform, "term": name}
        return source.choice((name, name, {"type": "reference", "term": name}))

    def leaf(test: Test) -> Any:
        found: dict[str, Any] = {"type": NAMES[test.op], "term": term(test)}
        values = [_java_value(test.type, value) for value in test.values]
        if test.op.endswith("in"):
            found["values"] = values
        elif values:
            found["value"] = source.choice((values[0], {"type": "literal", "value": values[0]}))
        return found

    return _tree(filter_, leaf)


def by_spec(filter_: Filter, source: random.Random) -> Any:
    """As the spec prefers: left, right and child, references by name or id, typed literals, functions."""

    def term(test: Test) -> Any:
        reference: dict[str, Any] = {"type": "reference", "name": test.leaf.name}
        if source.random() < 0.5:
            reference = {"type": "reference", "id": test.leaf.field_id}
        if test.transform is None:
            return reference
        name, _, width = test.transform.rstrip("]").partition("[")
        if not width or source.random() < 0.5:
            return {"type": "apply", "function": test.transform, "arguments": [reference]}
        number = {"type": "literal", "value": int(width), "data-type": "int"}
        return {"type": "apply", "function": {"name": name}, "arguments": [number, reference]}

    def leaf(test: Test) -> Any:
        values = [_spec_value(test.type, value) for value in test.values]
        if test.op.endswith("in"):
            listed = source.choice((values, {"type": "literals", "values": values, "data-type": test.type}))
            return {"type": NAMES[test.op], "child": term(test), "values": listed}
        if not values:
            return {"type": NAMES[test.op], "child": term(test)}
        literal = {"type": "literal", "value": values[0], "data-type": test.type}
        if test.op in SWAPPED and source.random() < 0.3:
            return {"type": NAMES[SWAPPED[test.op]], "left": literal, "right": term(test)}
        return {"type": NAMES[test.op], "left": term(test), "right": literal}

    return _tree(filter_, leaf)


def with_not_null(filter_: Filter) -> Filter:
    """The same with a test of null beside every comparison, as Spark has it."""
    if isinstance(filter_, Not):
        return Not(with_not_null(filter_.part))
    if isinstance(filter_, Both):
        return Both(with_not_null(filter_.left), with_not_null(filter_.right), filter_.is_and)
    if filter_.op.startswith("is ") or filter_.transform is not None:
        return filter_
    return Both(Test(filter_.leaf, "is not null"), filter_, is_and=True)


def _tree(filter_: Filter, leaf: Callable[[Test], Any]) -> Any:
    if isinstance(filter_, Not):
        return {"type": "not", "child": _tree(filter_.part, leaf)}
    if isinstance(filter_, Both):
        left, right = _tree(filter_.left, leaf), _tree(filter_.right, leaf)
        return {"type": "and" if filter_.is_and else "or", "left": left, "right": right}
    return leaf(filter_)


def _in_pyiceberg(filter_: Filter) -> Any:
    from pyiceberg import expressions as e

    if isinstance(filter_, Not):
        return e.Not(_in_pyiceberg(filter_.part))
    if isinstance(filter_, Both):
        sides = _in_pyiceberg(filter_.left), _in_pyiceberg(filter_.right)
        return e.And(*sides) if filter_.is_and else e.Or(*sides)
    made: dict[str, Any] = {
        "=": e.EqualTo,
        "!=": e.NotEqualTo,
        "<": e.LessThan,
        "<=": e.LessThanOrEqual,
        ">": e.GreaterThan,
        ">=": e.GreaterThanOrEqual,
        "in": e.In,
        "not in": e.NotIn,
        "is null": e.IsNull,
        "is not null": e.NotNull,
        "is nan": e.IsNaN,
        "is not nan": e.NotNaN,
        "like": e.StartsWith,
        "not like": e.NotStartsWith,
    }
    values = [_python_value(filter_.type, value) for value in filter_.values]
    if filter_.op.endswith("in"):
        return made[filter_.op](filter_.leaf.name, values)
    return made[filter_.op](filter_.leaf.name, *values)


def _python_value(type_: str, value: Any) -> Any:
    if type_ == "date":
        return (EPOCH + datetime.timedelta(days=value)).date()
    if type_ in ("time", "timestamp", "timestamptz"):
        moment = EPOCH + datetime.timedelta(microseconds=value)
        return moment.time() if type_ == "time" else moment
    return uuid.UUID(bytes=value) if type_ == "uuid" else value


def _java_value(type_: str, value: Any) -> Any:
    if type_.endswith("_ns"):
        return value // MICROSECOND
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if type_ == "uuid" else value.hex().upper()
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, Decimal) else value


def _spec_value(type_: str, value: Any) -> Any:
    if type_ == "date" or type_.startswith("time"):
        if type_.endswith("_ns"):
            moment = EPOCH + datetime.timedelta(microseconds=value // MICROSECOND)
            return f"{moment.isoformat(timespec='microseconds')}{value % MICROSECOND:03}"
        text = _python_value(type_, value).isoformat()
        return f"{text}+00:00" if type_ == "timestamptz" else text
    return _java_value(type_, value)
