"""Columns without a distribution: what null counts, NDV, min and max and the schema tell, judged row by row."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import puffin
from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.interval import AT_95, Interval
from puffin.estimates.methods import UNKNOWN
from puffin.estimates.value_set import NULLS, VALUES, ValueSet
from puffin.lookup import Lookup
from puffin.tables.expression import Op
from stats_jobs import Options, analyze
from tests.asked_of_duckdb import ask

FIRST_DAY = datetime.date(1999, 12, 1)


def rows_of(chance: random.Random, count: int) -> pa.Table:
    """Columns of several types with numbers between 100 and 300."""

    def drawn() -> int | None:
        return chance.randint(100, 300) if chance.random() < 0.9 else None

    numbers = [[drawn() for _ in range(count)] for _ in range(5)]
    return pa.table(
        {
            "i": pa.array(numbers[0], pa.int32()),
            "t": [None if each is None else FIRST_DAY + datetime.timedelta(each) for each in numbers[1]],
            "p": pa.array([None if each is None else Decimal(each) / 4 for each in numbers[2]], pa.decimal128(9, 2)),
            "d": [float("nan") if each == 200 else each for each in (n and float(n) for n in numbers[3])],
            "s": [None if each is None else f"text of more than 16 letters: {each}" for each in numbers[4]],
        }
    )


def literal(chance: random.Random, column: str) -> str:
    number = chance.choice([chance.randint(0, 400), 99, 100, 300, 301])
    return {
        "i": f"{number}",
        "t": f"'{FIRST_DAY + datetime.timedelta(number)}'",
        "p": f"{Decimal(number) / 4}",
        "d": f"{number}.0",
        "s": f"'{chance.choice(['', 'text of more', 'z', f'text of more than 16 letters: {number}'])}'",
    }[column]


def drawn_filter(chance: random.Random, column: str) -> str:
    one = f"{column} {chance.choice(['<', '<=', '>', '>=', '=', '!='])} {literal(chance, column)}"
    other = f"{column} {chance.choice(['<', '>='])} {literal(chance, column)}"
    return chance.choice(
        [one, f"{one} and {other}", f"{one} or {other}", f"{column} in ({literal(chance, column)})", f"not ({one})"]
    )


def test_min_and_max_tell_the_rows_of_ranges(tmp_path: Path) -> None:
    rows = rows_of(random.Random(5), 3000)
    path, lookup, chance = str(tmp_path / "t"), Lookup(), random.Random(6)
    write_deltalake(path, rows)
    analyze(path, Options(row_counts=False))
    exact, errors = 0, []
    for _ in range(200):
        column = chance.choice(rows.column_names)
        where = drawn_filter(chance, column)
        found = lookup.estimate(path, where, [column])
        assert found.groups is not None
        true = int(ask(f"select count(*) from r where {where}", r=rows)[0])
        groups = int(ask(f"select count(*) from (select distinct {column} from r where {where})", r=rows)[0])
        assert found.rows.lower <= true <= found.rows.upper, where
        assert found.groups.lower <= groups <= found.groups.upper, where
        exact += found.rows.is_exact and dict(found.methods).get(where) == "min and max"
        if column in "itp" and where.count(column) == 1 and "=" not in where:
            errors.append(abs(found.rows.rows - true) / rows.num_rows)
    assert exact > 10
    assert max(errors) < 0.1  # the values are spread evenly


def test_column_that_the_schema_requires_has_no_nulls(tmp_path: Path) -> None:
    fields = [pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())]
    inner = pa.struct(fields)
    schema = pa.schema([*fields, pa.field("a", inner, nullable=False), pa.field("o", inner)])
    each = {"k": 1, "v": 2}
    write_deltalake(tmp_path / "t", pa.Table.from_pylist([{**each, "a": each, "o": each}] * 100, schema))
    analyze(str(tmp_path / "t"), Options(columns=("v",)))
    write_deltalake(tmp_path / "t", pa.Table.from_pylist([{**each, "a": each, "o": None}] * 50, schema), mode="append")
    for column, is_required in (("k", True), ("v", False), ("a.k", True), ("a.v", False), ("o.k", False)):
        for where, true in ((f"{column} is null", 0), (f"{column} is not null", 150)):
            found = puffin.estimate(str(tmp_path / "t"), where)
            assert (found.rows.is_exact, found.rows.rows if is_required else true) == (is_required, true), where


def test_column_that_had_nulls_is_not_taken_for_one_without(tmp_path: Path) -> None:
    """pyiceberg requires such a column if it is told to; older snapshots keep the nulls."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    rows = pa.table({"k": pa.array([1, None], pa.int64())})
    table = catalog.create_table("db.t", rows.schema)
    table.append(rows)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("k", required=True)
    assert puffin.estimate(table.metadata_location, "k is null").rows == (0, 0, 2)


@pytest.mark.parametrize("distinct", [6145, 6146])
def test_range_of_a_column_whose_values_are_all_but_known(tmp_path: Path, distinct: int) -> None:
    """All values are heavy or in the sample, though the distribution cannot tell that."""
    for seed in range(3):
        chance = np.random.default_rng(seed)
        texts = [f"v{each}" for each in chance.permutation(10**6)[:distinct]]
        rows = pa.table({"s": np.repeat(texts, chance.integers(2, 20, distinct))})
        write_deltalake(tmp_path / f"{seed}", rows)
        analyze(str(tmp_path / f"{seed}"))
        _, lower, upper = puffin.estimate(str(tmp_path / f"{seed}"), "s < 'v5'").rows.rounded()
        assert lower <= pc.sum(pc.less(rows["s"], "v5")).as_py() <= upper


@pytest.mark.parametrize("row_counts", [True, False])
def test_groups_are_at_most_the_values_between_min_and_max(tmp_path: Path, row_counts: bool) -> None:
    chance = np.random.default_rng(1)
    every = {f"c{at}": chance.permutation(40_000) % 20_000 + at for at in range(8)}
    days = {f"d{at}": pa.array(every[f"c{at}"], pa.int32()).cast(pa.date32()) for at in range(4)}
    write_deltalake(tmp_path / "t", pa.table({**every, **days}))
    report = analyze(str(tmp_path / "t"), Options(row_counts=row_counts))
    lookup = Lookup()
    found = lookup.ndv(str(tmp_path / "t")).columns
    assert [column.distinct for column in report.columns] == [column.distinct for column in found]
    assert 20_000 in [column.distinct.upper for column in report.columns]
    groups = [lookup.estimate(str(tmp_path / "t"), group_by=[column]).groups for column in (*every, *days)]
    assert max(each.upper for each in groups) == 20_000
    assert all(each.lower < each.rows <= each.upper for each in groups)


def test_bounds_too_far_apart_for_a_double_tell_no_share() -> None:
    far = {"type": "double", "nulls": 0, "nans": 0, "ndv": None, "lower": -1.7e308, "upper": 1.7e308}
    column = ColumnRows(ColumnFacts(rows=300, now=Interval.exactly(300), added=0, removed=0, **far))
    assert column.find(ValueSet.of(Op.LT, [1.5]), AT_95) == ((100, 0, 300), UNKNOWN)
    assert column.find(ValueSet.of(Op.LT, [1.75e308]), AT_95)[0] == (300, 300, 300)


@pytest.mark.parametrize(("added", "most_nulls"), [(0, 910), (5, 1005)])
def test_nulls_that_nobody_counted_are_most_likely_none(added: int, most_nulls: int) -> None:
    facts = ColumnFacts(
        type="long",
        rows=1000,
        now=Interval.exactly(1000 + added),
        added=added,
        removed=0,
        nulls=None,
        nans=0,
        ndv=Interval(100, 90, 110),
    )
    column = ColumnRows(facts)
    assert column.find(NULLS, AT_95)[0] == (0, 0, most_nulls)
    assert column.find(VALUES, AT_95)[0].rows == pytest.approx(1000 + added)
    assert column.find(ValueSet.of(Op.EQ, [5]), AT_95)[0].rows == pytest.approx((1000 + added) / 100)
