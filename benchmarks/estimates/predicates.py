"""Predicates of the questions, as puffin's filters and as SQL."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import random
from collections.abc import Sequence
from typing import Any

EQ, NE, RANGE, PREFIX, IN, NULL = "eq", "ne", "range", "prefix", "in", "null"
SINGLE_KINDS = EQ, NE, RANGE, PREFIX, IN, NULL
COMPARED = "<", "<=", ">", ">="


@dataclasses.dataclass(frozen=True, slots=True)
class Predicate:
    """
    A test of one column.

    Attributes:
        operator: ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``between``, ``in``, ``prefix``, ``is null`` or ``is not
            null``.
        values: The literals; one, none for the tests of null, two for ``between``, and any number for ``in``.
    """

    column: str
    operator: str
    values: tuple[Any, ...] = ()

    @property
    def tests(self) -> int:
        """How many predicates a filter has for it."""
        return 2 if self.operator == "between" else 1

    def to_filter(self) -> str:
        """The predicate in the grammar of ``--where``."""
        return self._text(self.column, _plain_literal)

    def to_sql(self, table: str) -> str:
        """The predicate in SQL that DuckDB, Spark and Trino take, on a table's alias."""
        return self._text(f"{table}.{self.column}", _sql_literal)

    def _text(self, column: str, literal: Any) -> str:
        shown = [literal(value) for value in self.values]
        if self.operator == "between":
            return f"{column} >= {shown[0]} and {column} <= {shown[1]}"
        if self.operator == "in":
            return f"{column} in ({', '.join(shown)})"
        if self.operator == "prefix":
            return f"{column} like {literal(self.values[0] + '%')}"
        return " ".join([column, self.operator, *shown])


def drawn(column: str, kind: str, value: Any, values: Sequence[Any], source: random.Random) -> Predicate:
    """An equality, inequality, list or range on a value, with others of these drawn as often as they are there."""
    if kind == IN:
        more = {value, *(source.choice(values) for _ in range(source.randint(1, 7)))}
        return Predicate(column, "in", tuple(sorted(more)))
    if kind == RANGE:
        if source.random() < 0.5:
            return Predicate(column, source.choice(COMPARED), (value,))
        return Predicate(column, "between", tuple(sorted((value, source.choice(values)))))
    return Predicate(column, {EQ: "=", NE: "!="}[kind], (value,))


def filter_of(predicates: tuple[Predicate, ...]) -> str | None:
    """A conjunction in the grammar of ``--where``; None where there is nothing to test."""
    return " and ".join(predicate.to_filter() for predicate in predicates) or None


def condition_of(predicates: tuple[Predicate, ...], table: str) -> str:
    """A conjunction in SQL; ``true`` where there is nothing to test."""
    return " and ".join(predicate.to_sql(table) for predicate in predicates) or "true"


def _plain_literal(value: Any) -> str:
    if isinstance(value, (int, float, decimal.Decimal)):
        return str(value)
    text = value.isoformat() if isinstance(value, (datetime.date, datetime.datetime)) else str(value)
    return "'" + text.replace("'", "''") + "'"


def _sql_literal(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}{' UTC' if value.tzinfo else ''}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return _plain_literal(value)
