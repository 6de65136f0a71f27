"""
Binds filters in expression JSON to the schemas that their names may mean, and types their literals by the columns.

A client may pin a snapshot and yet use the names of the current schema, so a name is looked up in both schemas. One
that means different columns in any two schemas of the table, or a column of unlike types, prunes nothing: a client may
have loaded the table before it got its newest schema. Partitions are tested by pyiceberg's projections, and a transform
of a column by the partition field that has the same one.
"""

from __future__ import annotations

import dataclasses
import decimal
import functools
import math
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from puffin.cached import cached_property
from puffin.errors import ColumnNotFound, CorruptMetadataError, UnsupportedTableError, UsageError
from puffin.iceberg.expression_json import FilterJson, Term, Unbound, UnboundPredicate, parse_expression
from puffin.iceberg.filter_literals import BEYOND, to_step, units_of_text
from puffin.iceberg.filters import Binder, unbound
from puffin.iceberg.sdk import said_by_library
from puffin.tables.expression import Combination, Constant, Expression, Op, PartitionTest, Predicate
from puffin.tables.schema import Field, fields_of, may_become, reused_names
from puffin.values.json_values import to_scalar
from puffin.values.partition_tuples import value_from_json, value_to_json
from puffin.values.transforms import result_type
from puffin.values.value_type import TEMPORAL, ValueType, is_hashable

_Specs = Mapping[int, Sequence[Mapping[str, Any]]]
_ReusedNames = Mapping[bool, Mapping[str, Collection[int]]]

_NO_COLUMN = -1
_MOST_DIGITS = 1000
_MICROSECOND = 1000  # nanoseconds
_MICROSECONDS_OF_A_DAY = 24 * 60 * 60 * 1_000_000
_NULL_TESTS = (Op.IS_NULL, Op.NOT_NULL)


class JsonFilterParser:
    """
    Parses filters in expression JSON for a table.

    Args:
        schemas: Those that names may mean, the current one first.
        specs: The fields of each partition spec, without those whose values are unknown.
        reused: By whether case matters, the names that have meant several columns; those of the schemas if None.
        others: The other schemas of the table, newest first, for filters that may have been written with any of them.
    """

    def __init__(
        self,
        schemas: Sequence[Mapping[str, Any]],
        specs: _Specs,
        reused: _ReusedNames | None = None,
        others: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._schemas = [_Schema(schema, specs) for schema in schemas]
        self._others = others
        self._specs = specs
        self._reused = reused or {exact: reused_names(schemas, case_sensitive=exact) for exact in (True, False)}

    def __call__(self, filter_: FilterJson) -> Expression:
        """
        The filter on field ids.

        Raises ColumnNotFound if no schema has a column, UsageError if the filter has another form than the protocol's
        or a literal does not fit its column.
        """
        return self._bound(parse_expression(filter_), filter_)

    def _bound(self, tree: Unbound, filter_: FilterJson) -> Expression:
        if isinstance(tree, bool):
            return Constant(tree)
        if not isinstance(tree, UnboundPredicate):
            return Combination(tuple(self._bound(part, filter_) for part in tree.parts), tree.is_and)
        case_sensitive = filter_.case_sensitive
        found = _found(tree.term, self._schemas, case_sensitive=case_sensitive)
        if not found and filter_.any_schema:
            others = (_Schema(each, self._specs) for each in self._others)
            in_each = (_found(tree.term, [other], case_sensitive=case_sensitive) for other in others)
            found = next(filter(None, in_each), found)
        if not found:
            raise ColumnNotFound(f"filter: column {tree.term.column!r}: the table has no such column")
        (schema, field), *_ = found
        name = str(tree.term.column) if case_sensitive else str(tree.term.column).lower()
        if name in self._reused[case_sensitive]:
            return _unprunable(tree)
        # Bounds and index are compared by the type of now, also for a name that only the snapshot has.
        for now in self._schemas[0].find(Term(field.field_id), case_sensitive=True):
            schema, field = self._schemas[0], now
        if not all(may_become(other, field) for _, other in found):
            return _unprunable(tree)
        if tree.term.transform:
            return self._transformed(tree, field)
        return _any_reading(tree, schema, field, [other for _, other in found if other.type != field.type])

    def _transformed(self, tree: UnboundPredicate, field: Field) -> Expression:
        """A test of the partition fields with the same transform; other specs say nothing about it."""
        transform = str(tree.term.transform)
        try:
            type_ = result_type(transform, str(field.type))
        except UnsupportedTableError as exc:
            raise UsageError(f"filter: {tree.term}: {exc}") from exc
        _check_prefixes(tree.op, type_, str(tree.term))
        values = tuple(_json_form(type_, each, str(tree.term)) for each in tree.literals)
        holds = functools.partial(_holds, tree.op, [value_from_json(type_, value) for value in values])
        tests = {
            spec_id: PartitionTest((each["field-id"],), holds)
            for spec_id, spec in self._specs.items()
            for each in spec
            if each["source-id"] == field.field_id and each["transform"] == transform
        }
        return Predicate(tree.op, _NO_COLUMN, str(tree.term), values, tests)


class _Schema:
    def __init__(self, document: Mapping[str, Any], specs: _Specs) -> None:
        fields = list(fields_of(document))
        self._by_name = {field.name: field for field in reversed(fields)}
        self._by_id = {field.field_id: field for field in fields}
        self._folded: dict[str, list[Field]] = {}
        for field in fields:
            self._folded.setdefault(field.name.lower(), []).append(field)
        self._document, self._specs = document, specs

    @cached_property
    def _binder(self) -> Binder:
        return Binder(self._document, self._specs)

    def find(self, term: Term, *, case_sensitive: bool) -> Sequence[Field]:
        """The columns that a client may mean: some take the first of those that differ in case alone, some the last."""
        if not isinstance(term.column, int) and not case_sensitive:
            return self._folded.get(term.column.lower(), ())
        known: Mapping[Any, Field] = self._by_id if isinstance(term.column, int) else self._by_name
        return (known[term.column],) if term.column in known else ()

    def bound(self, tree: UnboundPredicate, field: Field) -> Expression:
        what = f"column {field.name}"
        if not isinstance(field.type, str) or not is_hashable(field.type) or field.type.endswith("_ns"):
            return _bound_without_partitions(tree, field, what)
        _check_prefixes(tree.op, field.type, what)
        op, literals = _widened(tree.op, [_literals(field.type, each, what) for each in tree.literals])
        if any(isinstance(each, float) and math.isinf(each) for each in literals):
            return _unprunable(tree)  # pyiceberg takes one for a number that no float reaches
        binder = self._binder
        try:
            return binder.bind(unbound(op, field.name, literals))
        except Exception as exc:  # pyiceberg has many for a test that does not fit a type
            raise UsageError(f"filter: {what} of type {field.type}: {said_by_library(exc)}") from exc


def _found(term: Term, schemas: Iterable[_Schema], *, case_sensitive: bool) -> list[tuple[_Schema, Field]]:
    return [(schema, field) for schema in schemas for field in schema.find(term, case_sensitive=case_sensitive)]


def _any_reading(tree: UnboundPredicate, schema: _Schema, field: Field, before: Sequence[Field]) -> Expression:
    """
    A test of a column whose type was another one before: the client may have written its literals for either type.

    A literal that fits only one of them means that one.
    """
    parts: dict[str, Expression] = {}
    errors = []
    for read_as in (field, *before):
        try:
            literals = tuple(_promoted(read_as, field, each) for each in tree.literals)
            if repr(literals) not in parts:
                parts[repr(literals)] = schema.bound(dataclasses.replace(tree, literals=literals), field)
        except UsageError as exc:
            errors.append(exc)
    if not parts:
        raise errors[0]
    found = tuple(parts.values())
    return found[0] if len(found) == 1 else Combination(found, is_and=False)


def _promoted(before: Field, field: Field, literal: Any) -> Any:
    """A literal for a type that a column had before, as one for the type that it has now."""
    what = f"column {field.name}"
    if (before.type, field.type) == ("float", "double"):
        with np.errstate(over="ignore"):
            return float(np.float32(_physical("float", literal, what)))
    if before.type == "date" and str(field.type).startswith("timestamp"):
        return _physical("date", literal, what) * _MICROSECONDS_OF_A_DAY
    return literal  # the same number as an int or a long, or as decimals of one scale


def _check_prefixes(op: Op, type_: str, what: str) -> None:
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH) and type_ not in ("string", "binary"):
        raise UsageError(f"filter: {what} of type {type_} has no prefixes")


def _bound_without_partitions(tree: UnboundPredicate, field: Field, what: str) -> Expression:
    """A test of a type that pyiceberg does not know; engines that do not know it either have no partitions by it."""
    if tree.op in _NULL_TESTS:
        return Predicate(tree.op, field.field_id, field.name, (), {})
    if not isinstance(field.type, str) or not field.type.endswith("_ns"):
        raise UsageError(f"filter: {what}: expected a column of a primitive type, or a test of null")
    _check_prefixes(tree.op, field.type, what)
    values = tuple(_json_form(field.type, each, what) for each in tree.literals)
    return Predicate(tree.op, field.field_id, field.name, values, {})


def _unprunable(tree: UnboundPredicate) -> Expression:
    return Predicate(tree.op, _NO_COLUMN, str(tree.term), (), {})


def _widened(op: Op, literals: Sequence[Collection[Any]]) -> tuple[Op, list[Any]]:
    """An operator and literals that pass every row that passes for some reading of each literal."""
    every = [reading for each in literals for reading in each]
    if len(every) == len(literals):
        return op, every
    if op in (Op.LT, Op.LT_EQ):
        return Op.LT_EQ, [max(every)]
    if op in (Op.GT, Op.GT_EQ):
        return Op.GT_EQ, [min(every)]
    if op in (Op.EQ, Op.IN):
        return Op.IN, every
    return Op.NOT_IN, [reading for each in literals if len(each) == 1 for reading in each]


def _literals(type_: str, value: Any, what: str) -> Collection[Any]:
    """The readings of a literal as pyiceberg takes them for a column of a type."""
    readings = _readings(type_, value, what)
    if type_ == "uuid":
        return [uuid.UUID(bytes=each) for each in readings]
    with np.errstate(over="ignore"):  # the literal is then infinite, as it is for the column
        # The shortest number that means it, as partition values are read.
        return [float(str(np.float32(each))) for each in readings] if type_ == "float" else readings


def _json_form(type_: str, value: Any, what: str) -> Any:
    try:
        found = value_to_json(type_, _physical(type_, value, what))
        value_from_json(type_, found)
        return found
    except CorruptMetadataError as exc:
        raise UsageError(f"filter: {what}: expected a literal of type {type_}, found one beyond its range") from exc


def _physical(type_: str, value: Any, what: str) -> Any:
    """The value of a literal that has one reading."""
    readings = _readings(type_, value, what)
    if len(readings) > 1:
        raise UsageError(f"filter: {what}: expected a literal of type {type_}, found a {type(value).__name__} near one")
    (reading,) = readings
    return reading


def _readings(type_: str, value: Any, what: str) -> Collection[Any]:
    """
    The values that a bare JSON literal may mean: of a time its units since the epoch, of a decimal a ``Decimal``.

    There are several if the column cannot hold the literal: clients round it, or take the nearest value.
    """
    name = re.split(r"[\[(]", type_, maxsplit=1)[0]
    expected = f"filter: {what}: expected a literal of type {type_}, found"
    if type(value) not in _KINDS[name]:
        raise UsageError(f"{expected} a {type(value).__name__}")
    try:
        return {*_READERS.get(name, _as_it_is)(type_, value)}
    except (ValueError, ArithmeticError, CorruptMetadataError) as exc:
        raise UsageError(f"{expected} a {type(value).__name__} that is none") from exc


def _as_it_is(_: str, value: Any) -> Iterable[Any]:
    return (value,)


def _boolean(_: str, value: Any) -> Iterable[bool]:
    if isinstance(value, bool):
        return (value,)
    if value.lower() not in ("true", "false"):
        raise ValueError("neither true nor false")
    return (value.lower() == "true",)


def _integers(type_: str, value: Any) -> Iterable[int]:
    number = _decimal(value) if isinstance(value, str) else value
    near, beyond = (math.floor(number), math.ceil(number)), BEYOND[type_]
    return (*near, *(min(max(each, -beyond), beyond - 1) for each in near))


def _number(_: str, value: Any) -> Iterable[float]:
    if value is None:  # which infinity it is, nobody can tell
        return (-math.inf, math.inf)
    # pyiceberg sends the numbers of a filter's text as texts.
    number = float(value if isinstance(value, str) else _decimal(value))
    if math.isnan(number):
        raise ValueError("not a number")
    return (number,)


def _dates(type_: str, value: Any) -> Iterable[int]:
    if not isinstance(value, str):
        return _integers(type_, value)
    if "T" not in value:
        return _units(type_, value)
    (moment,) = _units("timestamp", value)
    return moment // _MICROSECONDS_OF_A_DAY, -(-moment // _MICROSECONDS_OF_A_DAY)


def _units(type_: str, value: Any) -> Iterable[int]:
    if isinstance(value, str):
        try:
            return (to_scalar(type_, value).value,)
        except CorruptMetadataError:
            return (units_of_text(type_, value),)
    # Clients write microseconds for every timestamp.
    units = value * _MICROSECOND if type_.endswith("_ns") else value
    if not -BEYOND["long"] <= units < BEYOND["long"]:
        raise ValueError("beyond 64 bits")
    return (units,)


def _decimals(type_: str, value: Any) -> Iterable[decimal.Decimal]:
    number = _decimal(value)
    if not isinstance(value, float):
        return (number,)
    # Of 0.1, Java rounds the digits, and pyiceberg the binary fraction, which has more of them.
    scale, exact = ValueType.parse(type_).scale, decimal.Decimal(value)
    roundings = (decimal.ROUND_FLOOR, decimal.ROUND_CEILING)
    return (*(to_step(number, scale, each) for each in roundings), to_step(exact, scale, decimal.ROUND_HALF_UP))


def _decimal(value: Any) -> decimal.Decimal:
    number = decimal.Decimal(str(value))
    if not number.is_finite() or not -_MOST_DIGITS < number.adjusted() < _MOST_DIGITS:
        raise ValueError("not a number of this size")
    return number


def _bytes(type_: str, value: str) -> Iterable[bytes]:
    is_uuid = type_ != "uuid" and "-" in value  # pyiceberg takes one for its bytes
    return (to_scalar(type_, uuid.UUID(value).hex if is_uuid else value).as_py(),)


def _holds(op: Op, literals: Sequence[Any], values: Sequence[Any]) -> bool:
    """Whether a partition value passes; null differs from every value, and no comparison with it is true."""
    (value,) = values
    if value is None:
        return op in (Op.IS_NULL, Op.NOT_EQ, Op.NOT_IN, Op.NOT_NAN, Op.NOT_STARTS_WITH)
    return _TESTS[op](value, literals)


_TESTS: dict[Op, Callable[[Any, Sequence[Any]], bool]] = {
    Op.LT: lambda value, literals: bool(value < literals[0]),
    Op.LT_EQ: lambda value, literals: bool(value <= literals[0]),
    Op.GT: lambda value, literals: bool(value > literals[0]),
    Op.GT_EQ: lambda value, literals: bool(value >= literals[0]),
    Op.EQ: lambda value, literals: value in literals,
    Op.IN: lambda value, literals: value in literals,
    Op.NOT_EQ: lambda value, literals: value not in literals,
    Op.NOT_IN: lambda value, literals: value not in literals,
    Op.IS_NULL: lambda _value, _literals: False,
    Op.NOT_NULL: lambda _value, _literals: True,
    Op.IS_NAN: lambda _value, _literals: False,  # no transform but identity has numbers with NaN
    Op.NOT_NAN: lambda _value, _literals: True,
    Op.STARTS_WITH: lambda value, literals: value[: len(literals[0])] == literals[0],
    Op.NOT_STARTS_WITH: lambda value, literals: value[: len(literals[0])] != literals[0],
}
_KINDS: dict[str, tuple[type[Any], ...]] = {
    "boolean": (bool, str),
    **dict.fromkeys(("int", "long"), (int, str)),
    **dict.fromkeys(("float", "double"), (int, float, str, type(None))),
    **dict.fromkeys(TEMPORAL, (int, str)),
    "decimal": (str, int, float),
    **dict.fromkeys(("string", "uuid", "fixed", "binary"), (str,)),
}
_READERS: dict[str, Callable[[str, Any], Iterable[Any]]] = {
    "boolean": _boolean,
    **dict.fromkeys(("int", "long"), _integers),
    **dict.fromkeys(("float", "double"), _number),
    **dict.fromkeys(TEMPORAL, _units),
    "date": _dates,
    "decimal": _decimals,
    **dict.fromkeys(("uuid", "fixed", "binary"), _bytes),
}
