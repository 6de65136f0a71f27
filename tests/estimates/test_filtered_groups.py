"""Bounds of groups hold under any filter, also on the grouped columns themselves; brute force counts."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.filters import TableRows
from puffin.estimates.groups import groups_of
from puffin.estimates.interval import Interval
from puffin.estimates.value_set import VALUES
from puffin.lookup import Lookup
from puffin.tables.expression import Constant
from stats_jobs import Options, analyze
from tests.asked_of_duckdb import ask

ROWS = 400
CITIES, FLAGS = ("Bonn", "Lima", "Oslo", None), (True, False, None)
COLUMNS = ("city", "flag", "number")

Row = dict[str, Any]


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "joint"])
def table(request, tmp_path_factory) -> Iterator[tuple[str, list[Row]]]:
    chance = random.Random(5)
    rows = [
        {"city": city, "flag": FLAGS[chance.randrange(3) if city != "Bonn" else 0], "number": chance.randrange(30)}
        for city in (chance.choice(CITIES) for _ in range(ROWS))
    ]
    path = str(tmp_path_factory.mktemp("groups") / "t")
    write_deltalake(path, pa.Table.from_pylist(rows))
    sets = ["+".join(each) for count in (2, 3) for each in itertools.combinations(COLUMNS, count)]
    analyze(path, Options(joint=tuple(sets) if request.param else ()))
    return path, rows


def drawn(chance: random.Random) -> tuple[str, Any]:
    """A test of one column as text, and as a function of a row."""
    column = chance.choice(COLUMNS)
    if column == "number":
        limit = chance.randrange(30)
        return f"number < {limit}", lambda row: row["number"] < limit
    value = chance.choice([each for each in (CITIES if column == "city" else FLAGS) if each is not None])
    said = f"'{value}'" if column == "city" else str(value).lower()
    return chance.choice(
        [
            (f"{column} = {said}", lambda row: row[column] == value),
            (f"{column} != {said}", lambda row: row[column] not in (value, None)),
            (f"{column} is null", lambda row: row[column] is None),
        ]
    )


def test_bounds_of_groups_hold_under_random_filters(table):
    path, rows = table
    chance, lookup, widths = random.Random(7), Lookup(), []
    for _ in range(300):
        tests = [drawn(chance) for _ in range(chance.randint(1, 3))]
        word, passes = chance.choice([("and", all), ("or", any)])
        where = f" {word} ".join(said for said, _ in tests)
        columns = chance.sample(COLUMNS, chance.randint(1, 3))
        true = len({tuple(row[c] for c in columns) for row in rows if passes(test(row) for _, test in tests)})
        groups = lookup.estimate(path, where, columns).groups
        assert groups is not None
        _, lower, upper = groups.rounded()
        assert lower <= true <= upper, (where, columns)
        widths.append(upper - lower)
    assert sorted(widths)[150] <= 25


@pytest.mark.parametrize(
    ("where", "columns", "most"),
    [
        ("city = 'Oslo' and number < 9", ["city"], 1),
        ("city = 'Oslo' and flag = true", ["city", "flag"], 1),
        ("city != 'Oslo' and number < 29", ["city", "flag"], 6),
        ("city != 'Oslo' and flag = true", ["city", "flag"], 2),
        ("city = 'Oslo'", ["city", "number"], 30),
    ],
)
def test_a_filter_on_a_grouped_column_leaves_only_its_values(table, where, columns, most):
    groups = Lookup().estimate(table[0], where, columns).groups
    assert groups is not None
    assert groups.rounded()[2] <= most


@pytest.mark.parametrize("joint", [(), ("a+b",)], ids=["alone", "joint"])
@pytest.mark.parametrize("where", [None, "n < 5", "a = 1", "a < 30 and n < 50"])
def test_groups_of_skewed_columns_are_near(tmp_path, joint, where):
    random = np.random.default_rng(3)
    made = {name: random.zipf(1.5, 20_000) % 5000 for name in "ab"} | {"n": random.integers(0, 100, 20_000)}
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table(made))
    analyze(path, Options(joint=joint))
    rows = pa.table(made)
    true = ask(f"select count(*) from (select distinct a, b from rows where {where or 'true'})", rows=rows)[0]
    found = Lookup().estimate(path, where, ["a", "b"])
    assert found.groups is not None
    assert true / 1.5 <= found.groups.rows <= min(1.5 * true, found.rows.rows)


@pytest.mark.parametrize("distinct", [3_000, 60_000])
def test_groups_of_columns_are_no_more_than_the_rows_of_each_value_make(tmp_path, distinct):
    rng = np.random.default_rng(distinct)
    frequent = rng.zipf(1.3, 40_000) % distinct
    few = [None if each == 9 else each for each in rng.integers(0, 10, 40_000).tolist()]
    rows = pa.table({"a": frequent, "b": few})
    write_deltalake(tmp_path / "t", rows)
    analyze(str(tmp_path / "t"), Options())
    extra = pa.table({"a": [1_000_000 + each // 9 for each in range(900)], "b": [each % 9 for each in range(900)]})
    for now in (rows, pa.concat_tables([rows, extra])):
        for where in ("true", "b < 5", "a < 50"):
            found = Lookup().estimate(str(tmp_path / "t"), None if where == "true" else where, ["a", "b"])
            true = ask(f"select count(*) from (select distinct a, b from r where {where})", r=now)[0]
            assert found.groups.lower <= true <= found.groups.upper, where
            if now is rows and where == "true":
                assert found.groups.upper < 2 * true
        write_deltalake(tmp_path / "t", extra, mode="append")


def test_groups_are_no_fewer_than_those_of_one_column_where_nulls_were_not_counted():
    told = {"type": "long", "rows": 6000, "now": Interval.exactly(6000), "added": 0, "removed": 0, "nans": 0}
    many = ColumnRows(ColumnFacts(**told, nulls=None, ndv=Interval(5900, 5700, 6000)))
    few = ColumnRows(ColumnFacts(**told, nulls=None, ndv=Interval.exactly(2)))
    table = TableRows(Interval.exactly(6000), [many, few].__getitem__, (), lambda _: None, None)
    assert groups_of(table, [0, 1], Constant(True)).number.rows >= 5900


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_zeros_of_either_sign_are_one_group(tmp_path, type_):
    """Also where only hashes tell, of tuples too; of these it is not known how many differ in the sign alone."""
    chance, exact = random.Random(8), 0
    for number, no_values in enumerate([False, True] * 6):
        values = [0.0, -0.0, float("nan"), None, *range(1, chance.choice([3, 12_000]))][chance.randrange(2) :]
        keys = [*values, *chance.choices(values, k=60)]
        others = [chance.choice([-0.0, 0.0, 1.5]) for _ in keys]
        path = str(tmp_path / str(number))
        write_deltalake(path, pa.table({"k": pa.array(keys, type_), "x": pa.array(others, type_)}))
        analyze(path, Options(joint=("k+x",), no_values=no_values))
        found = Lookup().estimate(path, group_by=["k"]).groups
        assert found.rounded() == (len(set(keys)),) * 3
        true, found = len(set(zip(keys, others, strict=True))), Lookup().estimate(path, group_by=["k", "x"]).groups
        assert found.lower <= true <= found.upper
        exact += found.is_exact
    assert not exact


@pytest.mark.parametrize(
    ("type_", "lower", "upper", "fewest"),
    [
        ("double", None, None, 2),
        ("float", -1.0, 0.0, 2),
        ("double", 0.5, None, 3),
        ("long", 0, 5, 3),
        ("string", b"a", b"z", 3),
    ],
)
def test_sketch_alone_does_not_tell_whether_both_zeros_are_there(type_, lower, upper, fewest):
    facts = ColumnFacts(
        type=type_, rows=9, now=Interval.exactly(9), added=0, removed=0, nulls=0, nans=0, ndv=Interval.exactly(3),
        lower=lower, upper=upper,
    )  # fmt: skip
    assert ColumnRows(facts).groups(VALUES) == (3, fewest, 3)


@pytest.mark.parametrize("options", [Options(row_counts=False), Options(no_values=True), Options()])
def test_empty_string_is_a_group_that_sketches_do_not_count(tmp_path, options):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"s": ["", "", "a", "b", None]}))
    analyze(path, options)
    for where, true in ((None, 4), ("s is not null", 3), ("s in ('', 'a')", 2), ("s < 'b'", 2), ("s != 'a'", 2)):
        groups = Lookup().estimate(path, where, ["s"]).groups
        assert groups.lower <= true <= groups.upper, where


def test_no_groups_are_no_negative_zero(tmp_path):
    """Of a column without statistics no row is expected to be null."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": range(100), "x": ["a", None] * 50}))
    analyze(path, Options(columns=("k",)))
    found = Lookup().estimate(path, "x is null", ["k"])
    assert (found.rows.rows, found.groups.rows) == (0, 0)
    assert math.copysign(1, found.groups.rows) == 1
