"""Literals that are no value of their column mean what they say: fractions, numbers out of range, as texts too."""

from __future__ import annotations

import datetime
import itertools
import operator
import random
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg import expressions
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from puffin.errors import UsageError
from puffin.iceberg.expression_json import FilterJson
from puffin.iceberg.filter_binding import JsonFilterParser
from puffin.iceberg.filters import FilterParser
from puffin.tables.expression import Constant, Expression, Op, Predicate
from puffin.values.partition_tuples import value_from_json
from tests.asked_of_duckdb import ask
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
COMPARISONS: dict[str, Any] = {
    "<": expressions.LessThan,
    "<=": expressions.LessThanOrEqual,
    ">": expressions.GreaterThan,
    ">=": expressions.GreaterThanOrEqual,
    "=": expressions.EqualTo,
    "!=": expressions.NotEqualTo,
    "in": expressions.In,
    "not in": expressions.NotIn,
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


def passes(expression: Expression, type_: str, value: Any) -> bool:
    if isinstance(expression, Constant):
        return expression.value
    assert isinstance(expression, Predicate)
    if expression.field_id < 0:  # of no column, so it leaves nothing out
        return True
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
        found = read(where)
        test = found.partitions.get(0) if isinstance(found, Predicate) else None
        for value in values_near(type_, literals):
            if transform != "identity" and abs(value) > 1000:
                continue  # transforms of the ends overflow
            expected = TESTS[op](value, literals if op.endswith("in") else literals[0])
            if isinstance(found, Constant):
                assert found.value or not expected, (where, value)
            elif test is not None and test.field_ids:
                assert test.holds([transformed(transform, type_, value)]) or not expected, (where, value)


def test_list_in_json_takes_the_values_that_its_literals_say() -> None:
    """One beyond the type also means the value at its end, as pyiceberg has it."""
    read, ends = JsonFilterParser([schema_of("int")], {}), (-1 << 31, (1 << 31) - 1)
    for seed in range(100):
        r = random.Random(seed)
        literals: list[Number] = [
            r.choice((-1 << 40, -1 << 31, 0, 1 << 31, 1 << 40)) + r.randint(-2, 2) for _ in range(3)
        ]
        for op, name in (("in", "in"), ("not in", "not-in")):
            found = read(FilterJson.of({"type": name, "term": "c", "values": literals}))
            for value in values_near("int", literals):
                expected = TESTS[op](value, literals)
                if value in ends and value not in literals:
                    assert passes(found, "int", value) or not expected, (op, literals, value)
                else:
                    assert passes(found, "int", value) is expected, (op, literals, value)


SENT: dict[str, tuple[list[Any], list[Any]]] = {
    "boolean": ([True, False], ["true", "FALSE"]),
    "int": ([-(1 << 31), -2, -1, 0, 1, 2, (1 << 31) - 1], [Decimal("-1.9"), Decimal("0.5"), "1.5", 1 << 31, 10**25]),
    "long": ([-(1 << 63), -2, -1, 1, 2, (1 << 63) - 1], [Decimal("-1.9"), Decimal("1.5"), "-1.9", 1 << 63, -(10**25)]),
    "decimal(5, 0)": (["-2", "-1", "0", "1", "2"], [-1.9, -0.5, 0.5, 1.5, 2.0]),
    "decimal(38, 20)": (["0.10000000000000000000", "0.10000000000000000555"], [0.1]),
    "double": ([-1.5, 0.0, 1e300], ["inf", "-inf"]),
    "date": (
        [f"2024-01-0{day}" for day in range(1, 6)],
        ["20240103", datetime.datetime(2024, 1, 3), datetime.datetime(2024, 1, 3, 12, 0, 0, 1), 1 << 31, -(10**25)],
    ),
    "time": ([f"12:0{minute}:00" for minute in range(3)], ["120100", "T12:01", "12:01:00+05:30"]),
    "timestamp": ([f"2024-01-03T{hour}:00:00" for hour in (11, 12, 17)], ["2024-01-03T12:00:00+0000"]),
    "timestamptz": ([f"2024-01-03T{hour}:00:00+00:00" for hour in (11, 12, 17)], ["2024-01-03T17:00:00+05:00"]),
    "binary": ([uuid.UUID(int=n).hex for n in range(3)], [uuid.UUID(int=1)]),
    "fixed[16]": ([uuid.UUID(int=n).hex for n in range(3)], [uuid.UUID(int=1)]),
}
"""By type, values of a column, and literals that pyiceberg sends as they are and makes fit by itself."""


@pytest.mark.parametrize("type_", SENT)
def test_literal_that_pyiceberg_makes_fit_loses_none_of_its_rows(type_: str) -> None:
    schema, (values, literals) = schema_of(type_), SENT[type_]
    of_client, read = Schema.model_validate(schema), JsonFilterParser([schema], {})
    for literal, (op, test) in itertools.product(literals, COMPARISONS.items()):
        asked = test("c", [literal, literals[0]] if "in" in op else literal)
        sent = PlanTableScanRequest(filter=asked).model_dump(mode="json", by_alias=True)["filter"]
        found, passes_there = read(FilterJson.of(sent)), expression_evaluator(of_client, asked, case_sensitive=True)
        for value in values:
            physical = value_from_json(type_, value)
            assert passes(found, type_, physical) or not passes_there(Record(physical)), (op, literal, value)


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


def drawn_timestamp(r: random.Random) -> tuple[str, str]:
    """A text in a form of some engine, and its zone."""
    day = f"{r.choice((1, 1582, 1970, 2024, 9999)):04}-{r.randint(1, 12):02}-{r.randint(1, 31):02}"
    if r.random() < 0.2:
        return day, ""
    clock = f"{r.randint(0, 24):02}:{r.randint(0, 59):02}"
    if r.random() < 0.8:
        clock += f":{r.randint(0, 60):02}" + r.choice(("", f".{r.randrange(10 ** r.randint(1, 6))}"))
    zone = r.choice(("", "", "Z", " UTC", "UTC", "+00:00", "-09:30", "+14:00", "+1", "Europe/Oslo"))
    return day + r.choice(("T", " ", "  ", "_")) + clock + zone, zone


@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
def test_timestamps_mean_what_duckdb_makes_of_them(type_: str) -> None:
    read, r, taken = FilterParser(schema_of(type_), {}), random.Random(11), 0
    for _ in range(600):
        text, zone = drawn_timestamp(r)
        try:
            found = [read(where) for where in (f"c < '{text}'", f"not (c >= '{text}')", f"c in ('{text}')")]
        except UsageError:
            continue
        taken += 1
        assert bool(zone) == (type_ == "timestamptz")
        (expected,) = ask(f"select epoch_us('{text}'::{type_})")
        for each in found:
            assert isinstance(each, Predicate)
            assert [value_from_json(type_, value) for value in each.values] == [expected], text
    assert taken > 100


@pytest.mark.parametrize("text", ["2024-01-31", "2024-01-31 10:00", "2024-01-31T10:00:00", "2024-01-31 10:00:00.5"])
def test_timestamp_without_a_zone_is_refused_where_engines_take_that_of_the_session(text: str) -> None:
    with pytest.raises(UsageError, match=r"00:00', found '2024.*; the column needs a time with a zone$"):
        FilterParser(schema_of("timestamptz"), {})(f"c > '{text}'")


def test_list_of_timestamps_has_each_once() -> None:
    found = FilterParser(schema_of("timestamp"), {})("c in ('2024-01-31', '2024-01-31 00:00', '2024-01-31T00:00:00.0')")
    assert isinstance(found, Predicate)
    assert (found.op, found.values) == (Op.EQ, ("2024-01-31T00:00:00.000000",))


@pytest.mark.parametrize(("type_", "text"), [("date", "2024-01-31 10:00"), ("boolean", "maybe"), ("double", "x")])
def test_error_about_a_text_of_another_type_names_the_type(type_: str, text: str) -> None:
    with pytest.raises(UsageError, match=f": expected a literal of type {type_}, found '{text}'$"):
        FilterParser(schema_of(type_), {})(f"c = '{text}'")
