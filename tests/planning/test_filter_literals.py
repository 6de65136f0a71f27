"""Literals that are no value of their column mean what they say: fractions, numbers out of range, as texts too."""

from __future__ import annotations

import datetime
import operator
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest

from puffin.errors import UsageError
from puffin.iceberg.expression_json import FilterJson
from puffin.iceberg.filter_binding import JsonFilterParser
from puffin.iceberg.filters import FilterParser, partition_tests
from puffin.tables.expression import Constant, Expression, Op, Predicate
from puffin.values.partition_tuples import value_from_json
from tests.planning.transformed import transformed

Number = int | Decimal
TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
    "in": lambda value, literals: value in literals,
    "not in": lambda value, literals: value not in literals,
}
OF_OP: dict[Op, Callable[[Any, Sequence[Any]], bool]] = {
    Op.LT: lambda value, literals: value < literals[0],
    Op.LT_EQ: lambda value, literals: value <= literals[0],
    Op.GT: lambda value, literals: value > literals[0],
    Op.GT_EQ: lambda value, literals: value >= literals[0],
    Op.EQ: lambda value, literals: value == literals[0],
    Op.NOT_EQ: lambda value, literals: value != literals[0],
    Op.IN: TESTS["in"],
    Op.NOT_IN: TESTS["not in"],
}
TYPES = ("int", "long", "date")


def schema_of(type_: str) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"id": 1, "name": "c", "required": False, "type": type_}]}


def end_of(type_: str) -> int:
    return 1 << (63 if type_ == "long" else 31)


def drawn(r: random.Random, type_: str) -> tuple[str, str, list[Number]]:
    """A filter as text, its operator and its literals: near zero, near an end of the type, or far beyond it."""
    op, end = r.choice(list(TESTS)), end_of(type_)
    is_text, has_fraction = (type_ != "date" and r.random() < 0.5 for _ in range(2))
    literals: list[Number] = []
    for _ in range(r.randint(1, 4) if op.endswith("in") else 1):
        number = r.choice((-end * 50, -end, 0, end, end * 50)) + r.randint(-3, 3)
        literals.append(number + Decimal(r.choice(("0.0", "0.5", "-0.25"))) if has_fraction else number)
    said = ", ".join(f"'{each}'" if is_text else str(each) for each in literals)
    return f"c {op} ({said})" if op.endswith("in") else f"c {op} {said}", op, literals


def values_near(type_: str, literals: Sequence[Number]) -> list[int]:
    """Values of the type around literals and its ends."""
    end = end_of(type_)
    near = {int(each) + step for each in (*literals, -end, end) for step in range(-2, 3)}
    return [value for value in near if -end <= value < end]


def passes(expression: Expression, type_: str, value: int) -> bool:
    if isinstance(expression, Constant):
        return expression.value
    assert isinstance(expression, Predicate)
    return OF_OP[expression.op](value, [value_from_json(type_, each) for each in expression.values])


@pytest.mark.parametrize("type_", TYPES)
def test_filter_takes_the_values_that_its_literals_say(type_: str) -> None:
    read = FilterParser(schema_of(type_), {})
    for seed in range(400):
        where, op, literals = drawn(random.Random(seed), type_)
        found = read(where)
        for value in values_near(type_, literals):
            expected = TESTS[op](value, literals if op.endswith("in") else literals[0])
            assert passes(found, type_, value) is expected, (where, value)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("transform", ["identity", "truncate[10]", "bucket[4]"])
def test_partition_with_a_value_that_a_literal_says_is_kept(type_: str, transform: str) -> None:
    if type_ == "date" and transform.startswith("truncate"):
        transform = "month"
    schema, spec = schema_of(type_), {0: [{"field-id": 1000, "source-id": 1, "name": "p", "transform": transform}]}
    read = FilterParser(schema, spec)
    for seed in range(150):
        where, op, literals = drawn(random.Random(seed), type_)
        found, test = read(where), partition_tests(where, schema, spec)[0]
        tests = [test] if isinstance(found, Constant) or not found.partitions else [test, found.partitions[0]]
        for value in values_near(type_, literals):
            if transform != "identity" and abs(value) > 1000:
                continue  # transforms of the ends overflow
            expected = TESTS[op](value, literals if op.endswith("in") else literals[0])
            partition = [transformed(transform, type_, value)] if test.field_ids else []
            for each in tests:
                assert each.holds(partition) or not expected, (where, value)


def test_list_in_json_takes_the_values_that_its_literals_say() -> None:
    read = JsonFilterParser([schema_of("int")], {})
    for seed in range(100):
        r = random.Random(seed)
        literals: list[Number] = [
            r.choice((-1 << 40, -1 << 31, 0, 1 << 31, 1 << 40)) + r.randint(-2, 2) for _ in range(3)
        ]
        for op, name in (("in", "in"), ("not in", "not-in")):
            found = read(FilterJson.of({"type": name, "term": "c", "values": literals}))
            for value in values_near("int", literals):
                assert passes(found, "int", value) is TESTS[op](value, literals), (op, literals, value)


@pytest.mark.parametrize("text", ["x", "", "nan", "Infinity", "1e5000"])
@pytest.mark.parametrize("type_", ["int", "long", "decimal(9, 2)"])
def test_text_that_is_no_number_is_refused(type_: str, text: str) -> None:
    for where in (f"c < '{text}'", f"c in ('1', '{text}')"):
        with pytest.raises(UsageError, match="expected a"):
            FilterParser(schema_of(type_), {})(where)


def test_text_is_a_decimal_of_any_scale() -> None:
    found = FilterParser(schema_of("decimal(9, 2)"), {})("c > '2.505'")
    assert isinstance(found, Predicate)
    assert (found.op, found.values) == (Op.GT_EQ, ("2.51",))


def test_times_are_read_in_full_or_refused() -> None:
    read, r = FilterParser(schema_of("time"), {}), random.Random(3)
    for _ in range(100):
        micros = r.randrange(86_400_000_000)
        text = (datetime.datetime.min + datetime.timedelta(microseconds=micros)).time().isoformat("microseconds")
        for where in (f"c < '{text}'", f"c in ('{text}')"):
            found = read(where)
            assert isinstance(found, Predicate)
            assert value_from_json("time", found.values[0]) == micros
        for more in ("1", "Z", "+00:00", "-01:30"):
            for where in (f"c < '{text}{more}'", f"c in ('00:00', '{text}{more}')"):
                with pytest.raises(UsageError, match="expected a time such as"):
                    read(where)
