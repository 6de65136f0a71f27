"""Estimates are near the true counts, and their bounds hold as often as they say; DuckDB counts."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from puffin.errors import ColumnNotFound, StorageError, UnsupportedTableError, UsageError
from puffin.estimates.interval import Interval
from puffin.lookup import Lookup
from puffin.storage import LocalStore
from stats_jobs import Options, analyze
from tests.asked_of_duckdb import ask

ROWS = 150_000


def zipf(rng: np.random.Generator, alpha: float, values: int = 60_000) -> np.ndarray:
    weights = np.cumsum(1 / np.arange(1, values + 1) ** alpha)
    return rng.permutation(values)[np.searchsorted(weights / weights[-1], rng.random(ROWS))]


def skewed(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    texts = zipf(rng, 0.9, 20_000)
    return pa.table(
        {
            "a": zipf(rng, 0.6),
            "b": zipf(rng, 1.0),
            "s": pa.array([f"k{value:05d}" if value % 9 else None for value in texts]),
            "d": rng.normal(0, 100, ROWS),
            "g": rng.integers(0, 40, ROWS),
        }
    )


@dataclasses.dataclass
class Table:
    """A Delta table with statistics, and the same rows for DuckDB."""

    path: Path
    rows: pa.Table
    lookup: Lookup

    def count(self, where: str) -> int:
        return int(ask(f"select count(*) from rows where {where}", rows=self.rows)[0])

    def groups(self, columns: str, where: str = "true") -> int:
        return int(ask(f"select count(*) from (select distinct {columns} from rows where {where})", rows=self.rows)[0])

    def estimate(self, where: str | None = None, group_by: list[str] | None = None) -> dict[str, Any]:
        return self.lookup.estimate(str(self.path), where, group_by).to_json()


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Table]:
    def made(rows: pa.Table, **options: Any) -> Table:
        path = tmp_path_factory.mktemp("estimates") / "t"
        write_deltalake(path, rows)
        analyze(str(path), Options(**options))
        return Table(path, rows, Lookup())

    return made


@pytest.fixture(scope="module")
def table(make: Callable[..., Table]) -> Table:
    return make(skewed(1), joint=("g+s",))


def in_duckdb(where: str) -> str:
    """The filter as DuckDB writes it; a number in quotes is a double."""
    where = re.sub(r"'(-?1e\d+)'", r"\1::double", where)
    return re.sub(r"(\w) is (not )?nan", r"\2isnan(\1)", where)


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)


def filters(table: Table, chance: random.Random) -> Iterator[tuple[str, str]]:
    """A kind and a filter on one column; literals are drawn by row."""

    def drawn(column: str) -> str:
        while (value := table.rows[column][chance.randrange(ROWS)].as_py()) is None:
            pass
        return literal(value)

    for column in ("a", "b", "s", "d"):
        yield "=", f"{column} = {drawn(column)}"
        yield "!=", f"{column} != {drawn(column)}"
        yield "range", f"{column} {chance.choice(['<', '<=', '>', '>='])} {drawn(column)}"
        low, high = sorted((drawn(column), drawn(column)), key=lambda each: float(each) if column != "s" else each)
        yield "range", f"{column} >= {low} and {column} <= {high}"
        yield "in", f"{column} in ({', '.join(drawn(column) for _ in range(4))})"
        yield "null", f"{column} is {chance.choice(['', 'not '])}null"
    yield "prefix", f"s like '{drawn('s')[1 : chance.randrange(3, 6)]}%'"


def q_error(found: float, true: float) -> float:
    return max(max(found, 1) / max(true, 1), max(true, 1) / max(found, 1))


def test_filters_on_one_column_are_near_and_bounds_hold(table):
    chance, errors, inside = random.Random(2), [], []
    for _ in range(8):
        for _, where in filters(table, chance):
            found, true = table.estimate(where), table.count(where)
            errors.append(q_error(found["rows"], true))
            if found["lower"] == found["upper"]:
                assert found["lower"] == true, where
            else:
                inside.append(found["lower"] <= true <= found["upper"])
    errors.sort()
    assert errors[len(errors) // 2] <= 1.1
    assert errors[int(len(errors) * 0.99)] <= 6
    assert np.mean(inside) >= 0.9


def test_every_estimate_is_exact_while_statistics_have_every_value(make):
    rng = random.Random(3)
    texts = [None, "", "a", "ab", "abc", "b" * 80, "b" * 80 + "c"]
    numbers = [None, 0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, -2.0]
    rows = pa.table(
        {
            "s": pa.array([rng.choice(texts) for _ in range(400)], pa.string()),
            "f": pa.array([rng.choice(numbers) for _ in range(400)], pa.float64()),
            "g": pa.array([rng.choice(numbers) for _ in range(400)], pa.float32()),
            "i": pa.array([rng.choice([None, *range(9)]) for _ in range(400)], pa.int32()),
            "x": pa.array([rng.choice([None, 1, 2]) for _ in range(400)], pa.decimal128(9, 2)),
        }
    )
    table = make(rows)
    for where in (
        *("s = ''", "s > 'a'", "s <= 'ab'", "s like 'ab%'", "s not like 'b%'", f"s = '{'b' * 80}'", "s != ''"),
        *("f = 0", "f < 0.5", "f > 1", "f != 1.5", "f is null", "f is not null", "i in (1, 3, 77)", "i not in (1, 3)"),
        *("i > 2 and i < 7 and i != 4", "i < 2 or i > 5 or i is null", "s = 'nothing'"),
        *("i != 0.5", "i not in (0.5, 1.5)", "not (i = 0.5)", "i != 0.5 and i != 3", "i != 0.5 or i is null"),
        *("i < 3000000000", "i != 3000000000", "i >= -3000000000", "i > 3000000000", "i is not nan", "i is nan"),
        *("x != 1.001", "x not in (1.001)", "x != 100000000000", "x < 100000000000", "x = 100000000000"),
        *(
            f"{column} {test}"
            for column in "fg"
            for test in (
                *("is nan", "is not nan", "< 'Infinity'", "<= 'Infinity'", "= 'Infinity'", "> 'Infinity'"),
                *("< '-1e39'", ">= '-1e39'", "> '1e39'", "<= '1e39'", "!= '1e39'", "> '-Infinity'"),
            )
        ),
        *("not (g is nan)", "not (g is not nan)", "not (g < 1)", "not (g is nan or g > 1)", "g is nan or g is null"),
    ):
        found, true = table.estimate(where), table.count(in_duckdb(where))
        assert found["lower"] == found["rows"] == found["upper"] == true, where
    for columns in ("s", "i"):
        assert table.estimate(group_by=[columns])["groups"] == table.groups(columns)


def test_strings_that_begin_alike_count_once_in_ranges_on_both_sides_of_them(make):
    """What is kept of them may be on either side of a prefix that it begins like."""
    table = make(pa.table({"s": [f"{'a' * 70}{value:05d}" for value in range(20_000)], "i": list(range(20_000))}))
    for where in ("not (s like 'aaa%')", "not (s like 'aaa%' or i != 3)", f"s < '{'a' * 70}1' or s > '{'a' * 70}2'"):
        found, true = table.estimate(where, ["s"]), table.count(in_duckdb(where))
        assert found["lower"] <= true <= found["upper"] <= 20_000
        assert found["groups-lower"] <= true <= found["groups-upper"] <= 21_000


def test_filters_on_several_columns_have_bounds_that_always_hold(table):
    chance = random.Random(4)
    for _ in range(6):
        parts = [where for _, where in filters(table, chance)]
        chance.shuffle(parts)
        for one, other in zip(parts[::2], parts[1::2], strict=False):
            if one[0] == other[0]:
                continue  # on one column, where bounds are those of a sample
            for word in ("and", "or"):
                where = f"({one}) {word} ({other})"
                found, true = table.estimate(where), table.count(where)
                assert found["lower"] <= true <= found["upper"], where
                assert found["methods"][-1]["method"] == "independence assumed"


def test_groups_are_near_with_and_without_a_joint_sketch(table):
    for columns in ("a", "b", "s", "g", "g, s"):
        found, true = table.estimate(group_by=columns.split(", ")), table.groups(columns)
        assert q_error(found["groups"], true) <= 1.05, columns
        assert found["groups-lower"] * 0.98 <= true <= found["groups-upper"] * 1.02, columns
    for columns, where in (("a, b", "true"), ("s", "g = 3"), ("b", "b < 3000"), ("g", "b = 17")):
        found, true = (
            table.estimate(None if where == "true" else where, columns.split(", ")),
            table.groups(columns, where),
        )
        assert found["groups-lower"] <= true <= found["groups-upper"], (columns, where)


def test_joins_of_skewed_keys_are_near(make, table):
    other = make(skewed(5))
    errors = []
    for left in ("a", "b"):
        for right in ("a", "b"):
            for where in (None, "a < 9000", "g < 9"):
                found = table.lookup.estimate_join(str(table.path), left, str(other.path), right, where).to_json()
                rows = ask(
                    f"select sum(x.n * y.n)::bigint, sum(x.n)::bigint from (select {left} k, count(*) n from one "
                    f"where {where or 'true'} group by 1) x "
                    f"join (select {right} k, count(*) n from two group by 1) y using (k)",
                    one=table.rows,
                    two=other.rows,
                )
                errors.append(q_error(found["join-rows"], rows[0]))
                assert q_error(found["left-semi-rows"], rows[1]) <= 1.6
                assert found["left-outer-rows"] == found["join-rows"] + found["left-anti-rows"]
    errors.sort()
    assert errors[len(errors) // 2] <= 1.3
    assert errors[-1] <= 4


def test_composite_join_uses_the_joint_sketch(make):
    rng = np.random.default_rng(6)
    rows = pa.table({"x": rng.integers(0, 30, 20_000), "y": rng.integers(0, 40, 20_000)})
    table = make(rows, joint=("x+y",))
    found = table.lookup.estimate_join(str(table.path), "x+y", str(table.path), "x+y").to_json()
    true = ask("select sum(n * n)::bigint from (select count(*) n from rows group by x, y)", rows=rows)
    assert found["join-lower"] == found["join-rows"] == found["join-upper"] == true[0]


def test_bounds_hold_after_changes_that_no_run_has_seen(make):
    rng = np.random.default_rng(7)
    rows = pa.table({"k": rng.integers(0, 50, 3000)})
    table = make(rows)
    write_deltalake(table.path, pa.table({"k": np.full(500, 7)}), mode="append")
    DeltaTable(table.path).delete("k = 9")
    now = DeltaTable(table.path).to_pyarrow_table()
    for value in (7, 9, 20):
        found = puffin.estimate(str(table.path), f"k = {value}")
        true = ask(f"select count(*) from now where k = {value}", now=now)
        lower, upper = found.rows.rounded()[1:]
        assert lower <= true[0] <= upper


def test_incremental_statistics_estimate_as_full_ones_do(make):
    chance = random.Random(8)
    rows = pa.table({"k": [chance.randrange(300) for _ in range(3000)]})
    table = make(rows)
    for _ in range(4):
        DeltaTable(table.path).delete(f"k % 7 = {chance.randrange(7)} and k > {chance.randrange(200)}")
        write_deltalake(table.path, pa.table({"k": [chance.randrange(400) for _ in range(300)]}), mode="append")
        analyze(str(table.path))
    estimates = [puffin.estimate(str(table.path), f"k < {limit}") for limit in (50, 150, 390)]
    analyze(str(table.path), Options(mode="full"))
    assert estimates == [puffin.estimate(str(table.path), f"k < {limit}") for limit in (50, 150, 390)]
    assert all(each.rows.is_exact for each in estimates)


def test_tables_without_statistics_and_without_rows_get_an_answer(tmp_path):
    write_deltalake(tmp_path / "bare", pa.table({"k": [1, 2, None]}))
    found = puffin.estimate(str(tmp_path / "bare"), "k > 1", ["k"])
    assert (found.rows.lower, found.rows.upper) == (0, 3)
    assert found.methods == (("k > 1", "no statistics"),)
    for where in ("k is null", "k is not null"):
        nulls = puffin.estimate(str(tmp_path / "bare"), where)
        rows = Interval(0, 0, 3) if where == "k is null" else Interval(3, 0, 3)  # most columns have no nulls
        assert (nulls.rows, nulls.methods) == (rows, ((where, "no statistics"),))
    write_deltalake(tmp_path / "empty", pa.schema([("k", pa.int64())]).empty_table())
    analyze(str(tmp_path / "empty"))
    assert puffin.estimate(str(tmp_path / "empty"), "k > 1").rows == Interval.exactly(0)


def test_rows_that_no_log_counts_are_not_taken_for_none(delta_table):
    """Statistics count them, and a log that has all counts, less those that deletion vectors delete."""
    table = delta_table()
    added = table.add({"a": [1, 2, 3], "b": [1, 1, 1]})
    table.commit(table.protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"]),
                 table.metadata(), added)  # fmt: skip
    table.commit(*table.delete_rows(added, [0]))
    assert puffin.estimate(str(table.path)).row_count == 2
    table.commit(table.add({"a": [1, 1], "b": [2, 2]}, stats="{}"))
    with pytest.raises(UnsupportedTableError, match="record count of every file"):
        puffin.estimate(str(table.path), "a = 1")
    analyze(str(table.path))
    assert puffin.estimate(str(table.path), "a = 1").rows == Interval.exactly(2)
    table.commit(table.add({"a": [1], "b": [2]}, stats="{}"))
    with pytest.raises(UnsupportedTableError, match="puffin analyze"):
        puffin.estimate(str(table.path), "a = 1")
    with pytest.raises(UnsupportedTableError, match="puffin analyze"):
        Lookup().estimate_join(str(table.path), "a", str(table.path), "a", "b = 1")


def test_filter_of_a_join_counts_where_only_files_tell_the_rows(make):
    """The log no longer tells what changed since the statistics."""
    table = make(pa.table({"k": [1, 2, 3] * 10}))
    write_deltalake(table.path, pa.table({"k": [3]}), mode="append")
    loaded = DeltaTable(table.path)
    loaded.create_checkpoint()
    (table.path / "_delta_log" / "00000000000000000000.json").unlink()
    (table.path / "_delta_log" / "00000000000000000001.json").unlink()
    path = str(table.path)
    found = Lookup().estimate_join(path, "k", path, "k", "k = 3").rows
    assert found.rows.lower <= 11 * 11 <= found.rows.upper
    assert found.rows.rows < 200  # the whole join has 321 rows
    whole = Lookup().estimate_join(path, "k", path, "k").rows.rows
    assert whole.lower <= 321 <= whole.upper


def test_estimates_made_while_storage_fails_are_not_kept(make, monkeypatch):
    table = make(pa.table({"a": [1, 1, 2, 3], "b": [1, 1, 2, 2]}), joint=("a+b",))
    path, open_source = str(table.path), LocalStore.open_source

    def failing(store, uri):
        if f"{path}/_puffin_sidecar" in uri:
            raise StorageError(f"{uri}: down")
        return open_source(store, uri)

    def found(lookup: Lookup) -> list[Any]:
        rows, groups = lookup.estimate(path, "a = 1").rows, lookup.estimate(path, group_by=["a", "b"]).groups_method
        joined = lookup.estimate_join(path, "a", path, "a").rows.rows
        return [rows, groups, joined, lookup.distribution(path, "a").reason]

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "open_source", failing)
        *_, reason = meanwhile = found(table.lookup)
    assert found(table.lookup) == meanwhile  # so soon, nothing waits for storage again
    table.lookup._view(path).estimator_until = 0
    assert re.fullmatch(f"its distribution cannot be read: {re.escape(path)}/.*: down", reason)
    assert all(one != other for one, other in zip(meanwhile, found(Lookup()), strict=True))
    assert found(table.lookup) == found(Lookup())


def test_only_hashes_answer_without_values(make):
    table = make(pa.table({"k": [1, 1, 2, 3] * 100}), no_values=True)
    for where in ("k = 1", "k != 3", "k in (1, 2, 7)", "k = 7"):
        found = table.estimate(where)
        assert found["lower"] == found["rows"] == found["upper"] == table.count(where), where
    found = table.estimate("k < 2")
    assert (found["lower"], found["upper"]) == (0, 400)


def test_both_zeros_count_where_sketches_alone_answer(make):
    table = make(pa.table({"d": [0.0, -0.0, 1.0]}), row_counts=False)
    for where, true in (("d = 0.0", 2), ("d in (0.0, 1.0)", 3)):
        assert table.estimate(where)["upper"] == true, where


def test_zero_that_is_known_says_nothing_of_the_other(make):
    """Most rows of a zero have one sign, and a few the other, which neither is heavy nor in the sample."""
    others = np.repeat(np.arange(1, 40_001) / 7, 3)
    table = make(pa.table({"d": np.concatenate([others, [0.0] * 1000, [-0.0] * 3])}))
    wheres = ("d = 0", "d between 0 and 0", "d in (0, 0.5)", "d != 0", "d not in (0, 0.5)")
    for where in wheres:
        found = table.estimate(where)
        assert found["lower"] <= table.count(where) <= found["upper"], where


def test_text_as_long_as_others_are_cut_to_is_a_group_of_its_own(make):
    for end in "dfh":
        table = make(pa.table({"s": ["a" * 64, "a" * 64 + end, None]}))
        for where in ("s like 'a%'", "s >= 'a'", "s is not null"):
            found = table.estimate(where, ["s"])
            assert (found["groups-lower"], found["groups-upper"]) == (2, 2), (end, where)


def test_nan_is_counted_without_values(make):
    table = make(pa.table({"d": [1.5, float("nan"), None, 2.5, float("nan")] * 20}), no_values=True)
    for where, rows, groups in (("d is nan", 40, 1), ("d is not nan", 40, 2), ("d is nan or d is null", 60, 2)):
        found = table.estimate(where, ["d"])
        assert (found["lower"], found["rows"], found["upper"]) == (rows, rows, rows), where
        assert found["groups-lower"] <= groups <= found["groups-upper"], where
    assert table.estimate("d is nan", ["d"])["groups"] == 1


def test_wrong_filters_and_columns_are_one_error(table):
    with pytest.raises(ColumnNotFound, match="absent"):
        table.estimate(group_by=["absent"])
    with pytest.raises(UsageError, match="at least one column"):
        table.estimate(group_by=[])
    with pytest.raises(UsageError):
        table.estimate("a <")
    with pytest.raises(UsageError, match="as many columns on both sides"):
        table.lookup.estimate_join(str(table.path), "a+b", str(table.path), "a")


def test_join_refuses_a_column_that_stands_twice_on_a_side(table):
    """Without the second one, ``a+a+b`` with ``a+b+b`` would be the join of other pairs."""
    with pytest.raises(UsageError, match=r"expected each column once on a side of a join, found a\+a\+b$"):
        table.lookup.estimate_join(str(table.path), "a+a+b", str(table.path), "a+b+b")
