"""Random filters as Spark's SQL writes them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from tests.planning.random_filters import EPOCH, Both, Filter, Leaf, Not, RandomFilters, Reading, Test, leaf_tests

FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def in_sql(filter_: Filter) -> str:
    """With ``{c}`` for the catalog, which has the functions of transforms."""
    if isinstance(filter_, Not):
        return f"NOT ({in_sql(filter_.part)})"
    if isinstance(filter_, Both):
        return f"({in_sql(filter_.left)}) {'AND' if filter_.is_and else 'OR'} ({in_sql(filter_.right)})"
    return _test_in_sql(filter_)


class RandomPredicates:
    """
    Filters over the columns of a table, most often over those of its partitions, with values of its rows.

    Args:
        table: As Iceberg's Java library has it.
        rows: Of Spark's, all that the table has.
    """

    def __init__(self, source: random.Random, table: Any, rows: Sequence[Any]) -> None:
        leaves = [leaf for field in table.schema().columns() for leaf in _leaves(field)]
        fields = [field for spec in table.specs().values() for field in spec.fields()]
        transforms = {
            field.sourceId(): str(field.transform()) for field in fields if not field.transform().isIdentity()
        }
        self._partitioned = {field.sourceId() for field in fields}
        often = [leaf for leaf in leaves if leaf.field_id in self._partitioned]
        self._rows = [(row, {leaf.field_id: _plain(_value(row, leaf.name)) for leaf in leaves}) for row in rows]

        def value(leaf: Leaf) -> Any:
            return source.choice(self._rows)[1][leaf.field_id]

        def value_of_type(type_: str) -> Any:
            return value(source.choice([leaf for leaf in leaves if leaf.type == type_]))

        def transform(leaf: Leaf) -> str:
            return transforms.get(leaf.field_id, "void")

        self._filters = RandomFilters(source, [*leaves, *often * 3], value, value_of_type, transform)

    def draw(self, depth: int) -> Filter:
        """
        Return a filter.

        Iceberg's own planning fails over a prefix of a partition's column beside other tests: its `ResidualEvaluator`
        asks a partition without a value whether it starts so.
        """
        while True:
            filter_ = self._filters.draw(depth)
            tests = list(leaf_tests(filter_))
            prefixes = [test for test in tests if test.op.endswith("like")]
            if len(tests) == 1 or all(test.leaf.field_id not in self._partitioned for test in prefixes):
                return filter_

    def matching(self, filter_: Filter) -> Iterator[Any]:
        """The rows that pass, as Spark reads the filter."""
        return (row for row, values in self._rows if filter_.holds(values, Reading.SQL) is True)


def _leaves(field: Any, prefix: str = "") -> list[Leaf]:
    name = f"{prefix}{field.name()}"
    if field.type().isPrimitiveType():
        return [Leaf(field.fieldId(), name, str(field.type()))]
    return [leaf for inner in field.type().fields() for leaf in _leaves(inner, f"{name}.")]


def _value(row: Any, name: str) -> Any:
    for part in name.split("."):
        row = None if row is None else row[part]
    return row


def _plain(value: Any) -> Any:
    """A value of Spark's in the form of our filters."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    return bytes(value) if isinstance(value, bytearray) else value


def _test_in_sql(test: Test) -> str:
    term = test.leaf.name
    if test.transform is not None:
        name, _, width = test.transform.rstrip("]").partition("[")
        term = f"{{c}}.system.{FUNCTIONS.get(name, name)}({f'{width}, ' if width else ''}{term})"
    if test.op.endswith("nan"):
        return f"{'NOT ' if 'not' in test.op else ''}isnan({term})"
    if test.op.endswith("like"):
        return f"{term} {test.op.upper()} '{test.values[0]}%'"
    values = [_literal(test.type, value) for value in test.values]
    listed = f"({', '.join(values)})" if test.op.endswith("in") else "".join(values)
    return f"{term} {test.op.upper()} {listed}"


def _literal(type_: str, value: Any) -> str:
    if type_ == "date":
        return f"DATE'{(EPOCH + datetime.timedelta(days=value)).date().isoformat()}'"
    if type_.startswith("timestamp"):
        moment = (EPOCH + datetime.timedelta(microseconds=value)).isoformat(" ")
        return f"TIMESTAMP'{moment}'" if type_ == "timestamptz" else f"TIMESTAMP_NTZ'{moment}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"{type_}('{value}')"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
