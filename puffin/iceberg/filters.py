"""
Row filters by pyiceberg: as it reads them, binds them to a schema, and projects them onto partition specs.

What it makes of a filter is passed on as our own expression, so that nothing else depends on it.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from puffin.cached import cached_property
from puffin.errors import UsageError
from puffin.iceberg.filter_errors import error_about
from puffin.iceberg.filter_grammar import parse_by_grammar
from puffin.iceberg.filter_literals import is_beyond_floats, to_column, values_of, with_doubles
from puffin.iceberg.filter_projection import OPERATORS, Projection, operator_of
from puffin.iceberg.simple_binding import bound_test, simple_fields
from puffin.iceberg.simple_filter import Simple, SimpleTest, SimpleTests, read_filter
from puffin.tables.expression import Constant, Expression, Op, Predicate, combined
from puffin.tables.schema import fields_of
from puffin.values.partition_tuples import value_to_json

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField


class FilterParser:
    """
    Parses row filters and binds them to a schema.

    Raises ColumnNotFound if the schema lacks a column, UsageError if the filter cannot be parsed or its types do not
    match, MissingDependencyError if it needs pyiceberg, which is not installed.

    Without partition specs, the tests of a simple filter are bound without pyiceberg as far as `bound_test` can. So
    such a filter needs no pyiceberg.
    """

    def __init__(self, schema: Mapping[str, Any], specs: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
        self._schema, self._specs = schema, specs
        self._fields = {} if any(specs.values()) else simple_fields(fields_of(schema))

    def __call__(self, where: str) -> Expression:
        if not isinstance(where, str):
            raise UsageError(f"filter: expected text such as \"a = 5 and b like 'x%'\", found {type(where).__name__}")
        try:
            simple = read_filter(where) if self._fields else None
            return self._binder.bind(_without_not(parse(where))) if simple is None else self._bound(simple)
        except Exception as exc:  # any error about a literal's type
            raise error_about(where, exc, self._schema) from exc

    @cached_property
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
        self._projections = {spec_id: Projection(self._schema, spec) for spec_id, spec in specs.items() if spec}

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
            operator_of(bound),
            field.field_id,
            expression.term.name,
            tuple(_json_literal(str(field.field_type), value) for value in sorted(values_of(bound))),
            {} if is_beyond else {spec: each.test_of(bound) for spec, each in self._projections.items()},
        )


def unbound(op: Op, name: str, literals: Sequence[Any]) -> Any:
    """pyiceberg's test of a column; ``literals`` are of the column's type, times as integers."""
    from pyiceberg import expressions

    test: Any = getattr(expressions, _PREDICATES[op])
    if op in (Op.IN, Op.NOT_IN):
        return test(name, literals)
    return test(name, *literals)


def parse(where: str) -> Any:
    """A row filter as pyiceberg has it; UsageError if the grammar refuses it, or if it is nested too deep."""
    simple = read_filter(where)
    return parse_by_grammar(where) if simple is None else _of_simple(simple)


def _of_simple(simple: Simple) -> Any:
    from pyiceberg.expressions import And, Or

    if isinstance(simple, SimpleTest):
        return unbound(simple.op, simple.name, simple.values)
    return (And if simple.is_and else Or)(*map(_of_simple, simple.parts))


def _without_not(expression: Any) -> Any:
    from pyiceberg.expressions.visitors import rewrite_not

    return rewrite_not(expression)


def _optional_schema(schema: Mapping[str, Any]) -> Schema:
    """The schema with every field nullable, and without defaults and types that pyiceberg does not know."""
    from pyiceberg.schema import Schema

    columns = frozenset(field["name"] for field in schema["fields"])
    return Schema(*_optional(schema, columns))


def _optional(struct: Mapping[str, Any], columns: Set[str], prefix: str = "") -> Iterator[NestedField]:
    """
    The fields of a struct as nullable: required fields of an optional struct may be null too.

    A field whose dotted name is that of a column is left out: the name means the column, and pyiceberg fails on both.
    """
    from pyiceberg.types import NestedField, StructType

    for field in struct["fields"]:
        type_, name = field["type"], f"{prefix}{field['name']}"
        inside = [f"{name}.{each}" for each in _PARTS if isinstance(type_, Mapping) and each in type_]
        if (prefix and name in columns) or not columns.isdisjoint(inside):
            continue
        if isinstance(type_, Mapping) and type_.get("type") == "struct":
            type_ = StructType(*_optional(type_, columns, f"{name}."))
        with contextlib.suppress(Exception):
            yield NestedField(field["id"], field["name"], type_, required=False)


def _json_literal(type_: str, value: Any) -> Any:
    return str(value) if isinstance(value, uuid.UUID) else value_to_json(type_, value)


_PARTS = "element", "key", "value"  # of lists and maps
_PREDICATES = {op: name for name, op in OPERATORS.items()}
