"""
Projects row filters onto partition specs, by pyiceberg: what a filter requires of partition tuples.

Each test of a column becomes a test of each partition field of that column. A partition passes if any reading of the
filter may take one of its rows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from puffin.iceberg.filter_literals import values_of
from puffin.tables.expression import Op, PartitionTest
from puffin.values.column_bounds import comparable
from puffin.values.transforms import calendar_value, may_be_late, overflowing

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

OPERATORS = {
    "LessThan": Op.LT,
    "LessThanOrEqual": Op.LT_EQ,
    "GreaterThan": Op.GT,
    "GreaterThanOrEqual": Op.GT_EQ,
    "EqualTo": Op.EQ,
    "NotEqualTo": Op.NOT_EQ,
    "In": Op.IN,
    "NotIn": Op.NOT_IN,
    "IsNull": Op.IS_NULL,
    "NotNull": Op.NOT_NULL,
    "IsNaN": Op.IS_NAN,
    "NotNaN": Op.NOT_NAN,
    "StartsWith": Op.STARTS_WITH,
    "NotStartsWith": Op.NOT_STARTS_WITH,
}
"""By the names of pyiceberg's unbound tests."""

_ABOVE, _RANGES = (Op.GT, Op.GT_EQ), (Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ)
_OF_INTEGERS: dict[Op, Callable[[int, range], bool]] = {
    Op.EQ: lambda literal, rows: literal in rows,
    Op.IN: lambda literal, rows: literal in rows,
    Op.LT: lambda literal, rows: rows[0] < literal,
    Op.LT_EQ: lambda literal, rows: rows[0] <= literal,
    Op.GT: lambda literal, rows: rows[-1] > literal,
    Op.GT_EQ: lambda literal, rows: rows[-1] >= literal,
}
"""Whether one of these rows passes."""

_INCLUSIVE: dict[Op, tuple[int, Callable[[Any, Any], bool]]] = {
    Op.EQ: (0, operator.eq),
    Op.IN: (0, operator.eq),
    Op.LT: (-1, operator.le),
    Op.LT_EQ: (0, operator.le),
    Op.GT: (1, operator.ge),
    Op.GT_EQ: (0, operator.ge),
}
"""Days from the filter's date to the last date that passes, and how a partition compares with that date's."""


def operator_of(bound: Any) -> Op:
    """The operator of pyiceberg's bound test of a column."""
    return OPERATORS[type(bound).__name__.removeprefix("Bound")]


class Projection:
    """Projects row filters onto the partitions of a spec."""

    def __init__(self, schema: Schema, spec: Iterable[Mapping[str, Any]]) -> None:
        from pyiceberg.partitioning import PartitionField, PartitionSpec

        of_one_column = (field for field in spec if len(field.get("source-ids", ())) <= 1)
        known = (PartitionField(**field) for field in of_one_column if field["source-id"] in schema.field_ids)
        self._spec = PartitionSpec(*known)

    def test_of(self, bound: Any) -> PartitionTest:
        """What pyiceberg's bound test of a column requires of partitions."""
        fields = self._spec.fields_by_source_id(bound.term.ref().field.field_id)
        tests = {field.field_id: test for field in fields if (test := _test_of_field(field, bound)) is not None}
        return PartitionTest(
            tuple(tests),
            lambda values: all(test(value) for test, value in zip(tests.values(), values, strict=True)),
        )


def _test_of_field(field: Any, bound: Any) -> Callable[[Any], bool] | None:
    """What a bound test of a column requires of a partition field of it; None if that is nothing."""
    test = _test_of_values(field, bound)
    if test is None or not may_be_late(str(field.transform), str(bound.term.ref().field.field_type)):
        return test
    return lambda value: test(value) or (value is not None and value <= 0 and test(value - 1))


def _test_of_values(field: Any, bound: Any) -> Callable[[Any], bool] | None:
    """What `_test_of_field` returns, for values that the specification's transforms give."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.expressions.visitors import bind, expression_evaluator
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import NestedField

    source, op, literals = bound.term.ref().field.field_type, operator_of(bound), values_of(bound)
    try:
        projected = field.transform.project(field.name, bound)
    except OverflowError:  # over the last or before the first date of Python
        return _test_of_dates(str(field.transform), str(source), op, literals)
    if projected is None:
        return None
    result = field.transform.result_type(source)
    schema = Schema(NestedField(field.field_id, field.name, result, required=False))
    if isinstance(bind(schema, projected, case_sensitive=True), AlwaysTrue):
        return None
    evaluate = expression_evaluator(schema, projected, case_sensitive=True)
    if str(result) in ("float", "double", "uuid"):
        return lambda value: _is_ambiguous(str(result), op, literals, value) or evaluate(Record(value))
    if str(field.transform).startswith("truncate") and str(result) in ("int", "long") and literals:
        width = field.transform.width
        return lambda value: _takes_overflowing(op, literals, value, width) or evaluate(Record(value))
    return lambda value: evaluate(Record(value))


def _test_of_dates(transform: str, type_: str, op: Op, dates: Sequence[int]) -> Callable[[Any], bool] | None:
    """What `_test_of_values` returns, for dates of any year."""
    step, compare = _INCLUSIVE[op]
    found = [_partition_of_date(transform, type_, date + step) for date in dates]
    if None in found:
        return None
    return lambda value: value is not None and any(compare(value, each) for each in found)


def _partition_of_date(transform: str, type_: str, date: int) -> int | None:
    """The value of a partition field for a date; None if it is not known."""
    try:
        return date if transform == "identity" else calendar_value(transform, type_, date)
    except OverflowError:
        return None


def _takes_overflowing(op: Op, literals: Sequence[Any], value: int | None, width: int) -> bool:
    """Whether a test takes an integer that may have overflowed to a truncated value."""
    takes = _OF_INTEGERS[op]
    return value is not None and any(takes(each, rows) for rows in overflowing(value, width) for each in literals)


def _is_ambiguous(type_: str, op: Op, literals: Sequence[Any], value: Any) -> bool:
    """Whether readings of a test may disagree on a partition value."""
    if type_ == "uuid":  # some compare bytes, others two signed numbers
        return value is not None and op in _RANGES
    if value is None:
        return False
    if math.isnan(value):
        return op in _ABOVE  # in SQL, NaN is the largest number
    if value == 0:  # Iceberg tells -0.0 from 0.0
        return any(each == 0 and math.copysign(1, each) != math.copysign(1, value) for each in literals)
    # An engine may round a literal to the column's type, or compare the values as doubles.
    return type_ == "float" and any(
        comparable(type_, each) == np.float32(value) and not each == value == float(np.float32(value))
        for each in literals
    )
