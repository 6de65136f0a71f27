"""Tests of equality on several columns are answered from their joint sketch, and the bounds hold; DuckDB counts."""

from __future__ import annotations

import decimal
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from puffin.load import load_table
from puffin.lookup import Lookup
from puffin.lookup.estimates import Estimator
from puffin.statistics.joint import joint_of
from stats_jobs import Options, analyze

ROWS = 60_000


def correlated(seed: int, rows: int = ROWS) -> pa.Table:
    """Cities belong to countries, and shops to cities; a few rows do not keep to that."""
    rng = np.random.default_rng(seed)
    weights = np.cumsum(1 / np.arange(1, 40_001) ** 0.9)
    shop = rng.permutation(40_000)[np.searchsorted(weights / weights[-1], rng.random(rows))]
    city = np.where(rng.random(rows) < 0.02, rng.integers(0, 2000, rows), shop % 2000)
    country = np.where(rng.random(rows) < 0.02, rng.integers(0, 40, rows), city % 40)
    return pa.table(
        {
            "shop": shop,
            "city": pa.array([None if each % 50 == 0 else "" if each % 51 == 0 else f"city {each}" for each in city]),
            "country": pa.array([f"c{each}" for each in country]),
            "paid": rng.random(rows),
        }
    )


class Counted:
    """The same rows for DuckDB."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("create table rows as select * from rows")

    def count(self, where: str) -> int:
        found = self._connection.execute(f"select count(*) from rows where {where}").fetchone()
        assert found is not None
        return int(found[0])


def equality(column: str, value: Any) -> str:
    if value is None:
        return f"{column} is null"
    return f"{column} = '{value}'" if isinstance(value, str) else f"{column} = {value}"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path, rows = str(tmp_path_factory.mktemp("conjunctions") / "t"), correlated(1)
    write_deltalake(path, rows)
    analyze(path, Options(joint=("country+city", "shop+country", "shop+country+city")))
    return path, Counted(rows)


def q_error(found: float, true: float) -> float:
    return max(max(found, 1) / max(true, 1), max(true, 1) / max(found, 1))


@pytest.mark.parametrize("columns", [("country", "city"), ("city", "country"), ("shop", "country", "city")])
def test_equality_of_all_columns_of_a_set_is_near(table, columns):
    path, rows = table
    chance, lookup, errors, inside = random.Random(2), Lookup(), [], []
    for _ in range(100):
        row = chance.randrange(ROWS)
        where = " and ".join(equality(column, rows.rows[column][row].as_py()) for column in columns)
        found, true = lookup.estimate(path, where), rows.count(where)
        assert found.methods[-1] == (" and ".join(found_text for found_text, _ in found.methods[:-1]), "joint")
        rounded = found.rows.rounded()
        errors.append(q_error(rounded[0], true))
        inside.append(rounded[1] <= true <= rounded[2])
    errors.sort()
    assert errors[len(errors) // 2] <= 1.5
    assert errors[int(len(errors) * 0.9)] <= 3
    assert np.mean(inside) >= 0.92


@pytest.mark.parametrize("columns", [("country", "city"), ("city", "country"), ("shop", "country")])
def test_range_in_one_column_of_a_set_is_near_and_bounds_always_hold(table, columns):
    path, rows = table
    chance, lookup, errors = random.Random(3), Lookup(), []
    one, other = columns
    for _ in range(100):
        row = chance.randrange(ROWS)
        value = rows.rows[other][row].as_py() or "city 77"
        sign = chance.choice(["<", "<=", ">", ">="])
        where = f"{equality(one, rows.rows[one][row].as_py())} and {other} {sign} '{value}'"
        found, true = lookup.estimate(path, where), rows.count(where)
        assert found.methods[-1][1] == "joint"
        rounded = found.rows.rounded()
        assert rounded[1] <= true <= rounded[2], where
        errors.append(q_error(rounded[0], true))
    errors.sort()
    assert errors[len(errors) // 2] <= 1.5
    assert errors[int(len(errors) * 0.9)] <= 3


def test_parts_that_no_set_covers_count_as_independent(table):
    path, rows = table
    lookup = Lookup()
    for where in ("country = 'c3' and shop > 700", "country = 'c3' and city = 'city 3' and paid < 0.5"):
        found, true = lookup.estimate(path, where), rows.count(where)
        assert found.methods[-1][1] == "independence assumed"
        assert found.rows.lower <= true <= found.rows.upper
    covered = lookup.estimate(path, "country = 'c3' and city = 'city 3'").rows.rows
    assert found.rows.rows == pytest.approx(covered / 2, rel=0.1)


def test_conjunctions_are_exact_while_statistics_have_every_tuple(tmp_path):
    chance = random.Random(3)
    whole = [decimal.Decimal(each) for each in (-128, 127, 32768)]
    columns = {
        "i": pa.array([chance.choice([None, -1, 0, 7]) for _ in range(600)], pa.int32()),
        "l": pa.array([chance.choice([None, 1 << 40, 5]) for _ in range(600)], pa.int64()),
        "s": pa.array([chance.choice([None, "", "a", "ü" * 80]) for _ in range(600)], pa.string()),
        "f": pa.array([chance.choice([None, 0.0, -0.0, 1.5]) for _ in range(600)], pa.float64()),
        "n": pa.array([chance.choice([None, *whole]) for _ in range(600)], pa.decimal128(9, 0)),
        "b": pa.array([chance.choice([None, True, False]) for _ in range(600)], pa.bool_()),
        "d": pa.array([chance.choice([None, 0, -1, 19000]) for _ in range(600)], pa.int32()).cast(pa.date32()),
    }
    rows, path = Counted(pa.table(columns)), str(tmp_path / "t")
    write_deltalake(path, rows.rows)
    sets = ("i+s", "l+f", "n+b", "d+i+b", "s+n")
    analyze(path, Options(joint=sets))
    literals = {
        "i": ["-1", "0", "7", "8"],
        "l": [str(1 << 40), "5", "6"],
        "s": ["''", "'a'", f"'{'ü' * 80}'", "'b'"],
        "f": ["0.0", "1.5", "2.5"],
        "n": ["-128", "127", "32768", "-129"],
        "b": ["true", "false"],
        "d": ["'1970-01-01'", "'1969-12-31'", "'2022-01-08'", "'2030-01-01'"],
    }
    lookup = Lookup()
    for _ in range(200):
        parts = []
        chosen = chance.choice(sets).split("+")
        for column in chance.sample(chosen, chance.randrange(2, len(chosen) + 1)):
            some = chance.sample(literals[column], 2)
            parts.append(
                chance.choice(
                    [
                        f"{column} = {some[0]}",
                        f"{column} in ({', '.join(some)})",
                        f"{column} is null",
                        f"({column} = {some[0]} or {column} is null)",
                        f"{column} >= {some[0]}",
                        f"{column} is not null",
                    ]
                )
            )
        where = " and ".join(parts)
        found = lookup.estimate(path, where)
        # Where a cut value belongs is not known.
        is_joint = not any(">= 'ü" in part for part in parts)
        assert found.methods[-1][1] == ("joint" if is_joint else "independence assumed"), where
        true, (_, lower, upper) = rows.count(where), found.rows.rounded()
        assert lower <= true <= upper, where
        assert lower == upper or not is_joint, where


@pytest.mark.parametrize("rows", [3_000, 200_000])
def test_ranges_in_several_columns_of_a_set_are_near(tmp_path, rows):
    """Those of a table with more tuples than the sketch has are told by its sample."""
    rng, chance = np.random.default_rng(5), random.Random(5)
    kind = rng.integers(0, 5, rows)
    made = {
        "kind": kind,
        "views": pa.array(np.where(kind == 1, rng.integers(0, 300, rows), -1), mask=kind > 1),
        "answers": pa.array(np.where(kind == 1, rng.integers(0, 90, rows), 0), mask=kind > 2),
    }
    counted, path = Counted(pa.table(made)), str(tmp_path / "t")
    write_deltalake(path, counted.rows)
    analyze(path, Options(joint=("kind+views+answers",)))
    lookup, errors, inside = Lookup(), [], []
    for _ in range(100):
        tests = [
            f"kind >= {chance.randrange(3)}",
            f"views < {chance.randrange(300)}",
            f"answers >= {chance.randrange(90)}",
        ]
        where = " and ".join(chance.sample(tests, chance.choice([2, 3])))
        found, true = lookup.estimate(path, where), counted.count(where)
        assert found.methods[-1][1] == "joint"
        number, lower, upper = found.rows.rounded()
        errors.append(q_error(number, true))
        inside.append(lower <= true <= upper)
    assert np.mean(inside) >= 0.92
    assert (max(errors) == 1) if rows == 3_000 else (sorted(errors)[90] <= 1.5)


def test_sets_that_share_a_column_are_independent_beside_it(tmp_path):
    """Answers and likes both are null for all but questions, and do not depend on each other otherwise."""
    rng, chance = np.random.default_rng(7), random.Random(7)
    views, answers, likes = (np.where(np.arange(20_000) % 4 == 0, rng.integers(0, 9, 20_000), -1) for _ in range(3))
    made = {name: pa.array(values, mask=values < 0) for name, values in
            (("views", views), ("answers", answers), ("likes", likes))}  # fmt: skip
    rows, path = Counted(pa.table(made)), str(tmp_path / "t")
    write_deltalake(path, rows.rows)
    analyze(path, Options(joint=("views+answers", "views+likes")))
    lookup = Lookup()
    for _ in range(30):
        where = " and ".join(f"{name} >= {chance.randrange(8)}" for name in chance.sample(list(made), 3))
        found, true = lookup.estimate(path, where).rows.rounded(), rows.count(where)
        assert found[1] <= true <= found[2], where
        assert q_error(found[0], true) <= 1.5, where


def test_bounds_of_a_conjunction_hold_after_changes_that_no_run_has_seen(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, correlated(4, 3000))
    analyze(path, Options(joint=("country+city",)))
    write_deltalake(path, correlated(5, 500), mode="append")
    DeltaTable(path).delete("country = 'c7'")
    now = Counted(DeltaTable(path).to_pyarrow_table())
    wheres = [f"country = 'c{city % 40}' and city = 'city {city}'" for city in (7, 8, 47, 48)]
    for where in (*wheres, "country >= 'c3' and city < 'city 7'", "country < 'c7' and city >= 'city 9'"):
        lower, upper = puffin.estimate(path, where).rows.rounded()[1:]
        assert lower <= now.count(where) <= upper


def test_joint_sketch_is_loaded_once_for_all_threads(tmp_path, monkeypatch):
    path, loads = str(tmp_path / "t"), []
    write_deltalake(path, correlated(6, 3000))
    analyze(path, Options(joint=("country+city",)))
    estimator = Estimator(load_table(path).open())
    columns = estimator.opened.state.select_columns(("country", "city"))

    def slow(*args):
        loads.append(args)
        time.sleep(0.2)  # until the others wait
        return joint_of(*args)

    monkeypatch.setattr("puffin.lookup.estimates.joint_of", slow)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: estimator.joint(columns), range(4)))
    assert len(loads) == 1


def test_bounds_hold_if_a_column_is_older_than_the_joint_sketch(tmp_path):
    """Values of the older column that came since are in the joint sketch, of which there is a sample, by hash alone."""
    rng = np.random.default_rng(1)
    path = str(tmp_path / "t")
    before = pa.table({"a": rng.integers(0, 600, 40_000), "b": rng.integers(0, 300, 40_000)})
    since = pa.table({"a": rng.integers(0, 600, 40_000), "b": rng.integers(1000, 1200, 40_000)})
    write_deltalake(path, before)
    analyze(path, Options(joint=("a+b",)))
    write_deltalake(path, since, mode="append")
    analyze(path, Options(columns=("a",)))
    rows = Counted(pa.concat_tables([before, since]))
    for where in ("a >= 0 and b <= 300", "a >= 300 and b <= 299", "a < 100 and b < 150", "a < 300 and b >= 0"):
        found = puffin.estimate(path, where)
        assert found.methods[-1][1] == "joint"
        assert found.rows.lower <= rows.count(where) <= found.rows.upper, where
