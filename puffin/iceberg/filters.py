"""
Row filters by pyiceberg: its grammar, its binding to a schema, its projection onto partition specs.

What it makes of a filter is passed on as our own expression, so that nothing else depends on it.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import itertools
import operator
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puffin.errors import UsageError
from puffin.iceberg.expression_json import DEEPEST
from puffin.iceberg.filter_errors import error_about
from puffin.iceberg.filter_literals import is_beyond_floats, to_column, values_of, with_doubles, without_beyond
from puffin.iceberg.simple_binding import bound_test, simple_fields
from puffin.iceberg.simple_filter import Simple, SimpleTest, SimpleTests, read_filter
from puffin.tables.expression import Constant, Expression, Op, PartitionTest, Predicate, combined
from puffin.tables.schema import fields_of
from puffin.values.json_values import to_json
from puffin.values.transforms import calendar_value

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_QUOTED = re.compile(
    r"""  "[^"]*"  |  (?<![A-Za-z0-9_$])(?P<like>like)\s*'(?:[^'\\]|''|\\.)*'  |  '(?:[^'\\]|''|\\.)*'  """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\.", re.DOTALL)


def partition_tests(
    where: str, schema: Mapping[str, Any], specs: Mapping[int, Iterable[Mapping[str, Any]]]
) -> dict[int, PartitionTest]:
    """
    Project a row filter onto each partition spec; no partition with a matching row fails.

    Raises ColumnNotFound if the schema lacks a column, UsageError if the filter cannot be parsed or its types do not
    match, MissingDependencyError if pyiceberg is not installed.
    """
    try:
        from pyiceberg.expressions.visitors import bind

        bound_to, parsed = _optional_schema(schema), _without_not(parse(where))
        for test in _tests(parsed):
            bind(bound_to, to_column(test, bound_to), case_sensitive=True)
        expression = to_column(without_beyond(parsed, bound_to), bound_to)
        return {spec_id: _Projection(bound_to, spec).test_of(expression) for spec_id, spec in specs.items()}
    except Exception as exc:  # of pyparsing, or any error about a literal's type
        raise error_about(where, exc, schema) from exc


class FilterParser:
    """
    Parses row filters and binds them to a schema; raises as `partition_tests`.

    Without partition specs, the tests of a simple filter are bound without pyiceberg as far as `bound_test` can. So
    such a filter needs no pyiceberg.
    """

    def __init__(self, schema: Mapping[str, Any], specs: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
        self._schema, self._specs = schema, specs
        self._fields = {} if any(specs.values()) else simple_fields(fields_of(schema))

    def __call__(self, where: str) -> Expression:
        try:
            simple = read_filter(where) if self._fields else None
            return self._binder.bind(_without_not(parse(where))) if simple is None else self._bound(simple)
        except Exception as exc:  # of pyparsing, or any error about a literal's type
            raise error_about(where, exc, self._schema) from exc

    @functools.cached_property
    def _binder(self) -> Binder:
        return Binder(self._schema, self._specs)

    def _bound(self, simple: Simple) -> Expression:
        if isinstance(simple, SimpleTests):
            return combined(map(self._bound, simple.parts), simple.is_and)
        field = self._fields.get(simple.name)
        found = None if field is None else bound_test(simple, field)
        return self._binder.bind(_of_simple(simple)) if found is None else found


class Binder:
    """Binds pyiceberg's expressions without NOT to a schema; an expression that does not fit it is any error."""

    def __init__(self, schema: Mapping[str, Any], specs: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
        self._schema = _optional_schema(schema)
        self._projections = {spec_id: _Projection(self._schema, spec) for spec_id, spec in specs.items() if spec}

    def bind(self, expression: Any) -> Expression:
        """The expression on field ids, with a test of the partitions of each spec for each predicate."""
        from pyiceberg.expressions import And, Or
        from pyiceberg.expressions.visitors import bind

        if isinstance(expression, And | Or):
            sides = (self.bind(side) for side in (expression.left, expression.right))
            return combined(sides, isinstance(expression, And))
        # Test by test: pyiceberg drops what stands beside a test that is always true, even if its types do not match.
        is_beyond = is_beyond_floats(expression, self._schema)
        given, expression = expression, to_column(expression, self._schema)
        schema = with_doubles(self._schema) if is_beyond else self._schema
        bound: Any = bind(schema, expression, case_sensitive=True)
        name = type(bound).__name__
        if name in ("AlwaysTrue", "AlwaysFalse"):
            if name == "AlwaysTrue" and hasattr(given, "term"):  # every value passes, but in SQL's reading no null
                field = self._schema.find_field(given.term.name)
                return Predicate(Op.NOT_IN, field.field_id, given.term.name, (), {})
            return Constant(name == "AlwaysTrue")
        field = bound.term.ref().field
        return Predicate(
            _OPERATORS[name.removeprefix("Bound")],
            field.field_id,
            expression.term.name,
            tuple(_json_literal(str(field.field_type), value) for value in sorted(values_of(bound))),
            {} if is_beyond else {spec: each.test_of(expression) for spec, each in self._projections.items()},
        )


def unbound(op: Op, name: str, literals: Sequence[Any]) -> Any:
    """pyiceberg's test of a column; ``literals`` are of the column's type, times as integers."""
    from pyiceberg import expressions

    test: Any = getattr(expressions, _PREDICATES[op])
    if op in (Op.IN, Op.NOT_IN):
        return test(name, literals)
    return test(name, *literals)


def parse(where: str) -> Any:
    """A row filter as pyiceberg has it; raises what pyparsing raises, UsageError if it is nested too deep."""
    simple = read_filter(where)
    if simple is not None:
        return _of_simple(simple)
    # The grammar takes time with the square of the depth.
    steps = ((char == "(") - (char == ")") for char in _QUOTED.sub("", where))
    if max(itertools.accumulate(steps), default=0) > DEEPEST:
        raise UsageError(f"expected parentheses nested at most {DEEPEST} deep")
    return _grammar().parse_string(_QUOTED.sub(_with_plain_underscores, where), parse_all=True)[0]


def _with_plain_underscores(quoted: re.Match[str]) -> str:
    """A text for the grammar, whose patterns have no other character for an underscore."""
    return quoted[0] if quoted["like"] is None else _ESCAPED.sub(_plain_underscore, quoted[0])


def _plain_underscore(escaped: re.Match[str]) -> str:
    return "_" if escaped[0] == r"\_" else escaped[0]


def _tests(expression: Any) -> Iterator[Any]:
    """The tests of single columns in pyiceberg's expression without NOT."""
    from pyiceberg.expressions import And, Or

    if isinstance(expression, And | Or):
        yield from _tests(expression.left)
        yield from _tests(expression.right)
    else:
        yield expression


def _of_simple(simple: Simple) -> Any:
    from pyiceberg.expressions import And, Or

    if isinstance(simple, SimpleTest):
        return unbound(simple.op, simple.name, simple.values)
    return (And if simple.is_and else Or)(*map(_of_simple, simple.parts))


def _without_not(expression: Any) -> Any:
    from pyiceberg.expressions.visitors import rewrite_not

    return rewrite_not(expression)


@functools.cache
def _grammar() -> Any:
    from pyiceberg.expressions.parser import boolean_expression

    # pyparsing would turn tabs into spaces, in the values too, and rows with a tab would be missed.
    return boolean_expression.copy().parse_with_tabs()


class _Projection:
    """Projects row filters onto the partitions of a spec."""

    def __init__(self, schema: Schema, spec: Iterable[Mapping[str, Any]]) -> None:
        from pyiceberg.expressions.visitors import inclusive_projection
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.types import NestedField

        of_one_column = (field for field in spec if len(field.get("source-ids", ())) <= 1)
        known = PartitionSpec(*(PartitionField(**f) for f in of_one_column if f["source-id"] in schema.field_ids))
        self._schema, self._spec = schema, known
        self._project: Callable[[Any], Any] = lambda expression: inclusive_projection(schema, known)(expression)
        self._fields = [
            NestedField(f.field_id, f.name, f.transform.result_type(schema.find_type(f.source_id)), required=False)
            for f in known.fields
        ]

    def test_of(self, expression: Any) -> PartitionTest:
        from pyiceberg.expressions.visitors import bind, expression_evaluator, extract_field_ids
        from pyiceberg.schema import Schema
        from pyiceberg.typedef import Record

        try:
            projected = self._project(expression)
        except OverflowError:  # over the last or before the first date of Python
            return self._test_of_dates(expression)
        wanted = extract_field_ids(bind(Schema(*self._fields), projected, case_sensitive=True))
        looked_at = [field for field in self._fields if field.field_id in wanted]
        # A predicate that pyiceberg finds to be true or false needs its field in the schema even so.
        others = [field for field in self._fields if field.field_id not in wanted]
        evaluate = expression_evaluator(Schema(*looked_at, *others), projected, case_sensitive=True)
        return PartitionTest(
            tuple(field.field_id for field in looked_at),
            lambda values: evaluate(Record(*values, *(None for _ in others))),
        )

    def _test_of_dates(self, expression: Any) -> PartitionTest:
        """What `test_of` returns, of a test of one column, for dates of any year."""
        from pyiceberg.expressions import And, Or
        from pyiceberg.expressions.visitors import bind

        if isinstance(expression, And | Or):
            return PartitionTest((), lambda _: True)
        bound: Any = bind(self._schema, expression, case_sensitive=True)
        column = bound.term.ref().field
        step, compare = _INCLUSIVE[_OPERATORS[type(bound).__name__.removeprefix("Bound")]]
        dates = [value + step for value in values_of(bound)]
        ends: dict[int, list[int]] = {}
        for field in self._spec.fields_by_source_id(column.field_id):
            found = [_partition_of_date(str(field.transform), str(column.field_type), date) for date in dates]
            known = [each for each in found if each is not None]
            if len(known) == len(dates):
                ends[field.field_id] = known
        return PartitionTest(
            tuple(ends),
            lambda values: all(
                value is not None and any(compare(value, each) for each in found)
                for value, found in zip(values, ends.values(), strict=True)
            ),
        )


_INCLUSIVE: dict[Op, tuple[int, Callable[[int, int], bool]]] = {
    Op.EQ: (0, operator.eq),
    Op.IN: (0, operator.eq),
    Op.LT: (-1, operator.le),
    Op.LT_EQ: (0, operator.le),
    Op.GT: (1, operator.ge),
    Op.GT_EQ: (0, operator.ge),
}
"""The last date that passes, from the one of the filter, and how partitions compare with that of this date."""


def _partition_of_date(transform: str, type_: str, date: int) -> int | None:
    """The value of a partition field for a date; None if it is not known."""
    try:
        return date if transform == "identity" else calendar_value(transform, type_, date)
    except OverflowError:
        return None


def _optional_schema(schema: Mapping[str, Any]) -> Schema:
    """The schema with every field nullable, and without types that pyiceberg does not know."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    fields = []
    for field in schema["fields"]:
        with contextlib.suppress(Exception):
            fields.append(NestedField.model_validate(_optional(field)))
    return Schema(*fields)


def _optional(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field of a schema, and all fields in it, as nullable: required fields of an optional struct may be null too."""
    type_ = field["type"]
    if isinstance(type_, Mapping) and type_.get("type") == "struct":
        type_ = {**type_, "fields": [_optional(inner) for inner in type_["fields"]]}
    return {**field, "required": False, "type": type_}


def _json_literal(type_: str, value: Any) -> Any:
    if isinstance(value, uuid.UUID | decimal.Decimal):
        return str(value)
    return to_json(type_, value)


_OPERATORS = {
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
_PREDICATES = {op: name for name, op in _OPERATORS.items()}
