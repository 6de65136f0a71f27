"""Predicates as text: what a plan or an estimate says of a filter can be asked again."""

from __future__ import annotations

import pytest

from puffin.iceberg.filters import FilterParser
from puffin.tables.expression import predicates

TYPES = {
    "a": "int",
    "l": "long",
    "d": "double",
    "f": "float",
    "m": "decimal(9, 2)",
    "s": "string",
    "b": "boolean",
    "t": "timestamp",
    "z": "timestamptz",
    "day": "date",
    "at": "time",
    "u": "uuid",
    **dict.fromkeys(("odd name", "2x", "Not", "o.in"), "int"),
}
FIELDS = [
    {"id": number, "name": name, "type": type_, "required": False} for number, (name, type_) in enumerate(TYPES.items())
]
PARSER = FilterParser({"type": "struct", "schema-id": 0, "fields": FIELDS}, {})


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("a = 5", "a = 5"),
        ("not a in (2, 1)", "a not in (1, 2)"),
        ('"odd name" <> -1', '"odd name" != -1'),
        ('"2x" = 1', '"2x" = 1'),
        ('"Not" = 1', '"Not" = 1'),
        ('"o.in" = 1', '"o.in" = 1'),
        ("a is null", "a is null"),
        ("d is not nan", "d is not nan"),
        ("d < '1e-5'", "d < '1e-05'"),
        ("d in (1.5, 0.0001)", "d in (0.0001, 1.5)"),
        ("m = 10.00", "m = '10.00'"),
        ("b = false", "b = false"),
        ("s in ('', 'it''s', '\"')", "s in ('', '\"', 'it''s')"),
        (r"s = 'back\slash'", r"s = 'back\slash'"),
        ("s like 'a_b%'", "s like 'a_b%'"),
        (r"not s like '50\%%'", r"s not like '50\%%'"),
        ("t < '2024-01-01'", "t < '2024-01-01T00:00:00.000000'"),
        ("z >= '2024-01-01T00:00:00+02:00'", "z >= '2023-12-31T22:00:00.000000+00:00'"),
        ("day = '2024-01-01'", "day = '2024-01-01'"),
        ("at > '10:00:00'", "at > '10:00:00.000000'"),
        ("u = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", "u = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
    ],
)
def test_text_of_a_predicate_is_a_filter_that_means_the_same(where: str, said: str) -> None:
    (found,) = predicates(PARSER(where))
    (again,) = predicates(PARSER(str(found)))
    assert str(found) == said
    assert again == found


def test_text_of_a_test_that_every_value_passes_asks_for_a_value() -> None:
    (found,) = predicates(PARSER("a < 99999999999"))
    assert str(found) == "a is not null"
