"""
Row filters as planners evaluate them: predicates on columns under AND and OR; every NOT is in a predicate's operator.

A comparison with null is not true. A predicate has its values in JSON single-value form (appendix D) of the column's
type, and for each partition spec a test of partition tuples, which fails only if none of their rows pass.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

NAME = r"[A-Za-z_][A-Za-z0-9_$]*"
"""A part of a column's name that filters take without quotes, unless it is one of their `WORDS`."""
WORDS = frozenset(("and", "or", "not", "is", "in", "null", "nan", "like", "between", "true", "false"))
_PLAIN_NAME = re.compile(rf"{NAME}(?:\.{NAME})*")
_PLAIN_NUMBER = re.compile(r"-?[0-9]+\.[0-9]+")


class Op(enum.Enum):
    """The operator of a predicate; values are as filters write them."""

    LT = "<"
    LT_EQ = "<="
    GT = ">"
    GT_EQ = ">="
    EQ = "="
    NOT_EQ = "!="
    IN = "in"
    NOT_IN = "not in"
    IS_NULL = "is null"
    NOT_NULL = "is not null"
    IS_NAN = "is nan"
    NOT_NAN = "is not nan"
    STARTS_WITH = "like"
    NOT_STARTS_WITH = "not like"

    __hash__ = object.__hash__  # that of Enum is written in Python


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionTest:
    """
    What a row filter requires of partitions of one spec, given the values of some fields in this order.

    The values are those of `partition_tuples.value_from_json`. A partition fails only if none of its rows pass.
    """

    field_ids: tuple[int, ...]
    holds: Callable[[Sequence[Any]], bool]


class Predicate(NamedTuple):
    """
    A test of one column; a tuple, since estimates make many.

    Attributes:
        name: The column's, as the filter writes it.
        values: One for comparisons and prefixes, several for ``in``, none for tests of null and NaN; ``not in`` without
            values is a test that every value passes.
        partitions: By spec id; without a test for a spec, every partition passes.
    """

    op: Op
    field_id: int
    name: str
    values: tuple[Any, ...]
    partitions: Mapping[int, PartitionTest]

    def __str__(self) -> str:
        """The predicate as a filter."""
        op, values = self.op, self.values
        is_plain = _PLAIN_NAME.fullmatch(self.name) and WORDS.isdisjoint(self.name.lower().split("."))
        name = self.name if is_plain else f'"{self.name}"'
        if not values:
            return f"{name} {Op.NOT_NULL.value if op is Op.NOT_IN else op.value}"
        if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
            values = (str(values[0]).replace("%", "\\%") + "%",)
        literals = ", ".join(map(_literal, values))
        return f"{name} {op.value} {f'({literals})' if op in (Op.IN, Op.NOT_IN) else literals}"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A filter that all rows pass, or none."""

    value: bool


class Combination(NamedTuple):
    """Rows that pass all parts, or at least one."""

    parts: tuple[Expression, ...]
    is_and: bool


Expression: TypeAlias = Predicate | Constant | Combination


def combined(parts: Iterable[Expression], is_and: bool) -> Combination:
    """The combination of parts; a combination of the same kind among them counts as its parts."""
    flat: list[Expression] = []
    for part in parts:
        flat += part.parts if isinstance(part, Combination) and part.is_and == is_and else (part,)
    return Combination(tuple(flat), is_and)


def predicates(expression: Expression) -> Iterator[Predicate]:
    """The predicates of a filter, from left to right."""
    if isinstance(expression, Predicate):
        yield expression
    elif isinstance(expression, Combination):
        for part in expression.parts:
            yield from predicates(part)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not _PLAIN_NUMBER.fullmatch(text := repr(value)):
        return f"'{text}'"  # with an exponent, or infinite
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
