"""Joins with filters are as DuckDB counts them, and the prepared sums are those of a plain loop."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.errors import UnsupportedTypeError
from puffin.estimates.counted import Counted
from puffin.estimates.interval import Interval
from puffin.estimates.joins import SideRows, join_rows, join_within
from puffin.estimates.known_values import KnownValues
from puffin.estimates.matches import Matches, OrderedMatches, matches_of
from puffin.estimates.value_set import VALUES, Span, ValueSet
from puffin.estimates.zeros import as_one
from puffin.lookup import Lookup
from puffin.lookup.kept_joins import JoinPairs
from puffin.sketches.theta_image import MAX_THETA
from stats_jobs import Options, analyze
from tests.asked_of_duckdb import ask


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    def made(rows: pa.Table, **options: Any) -> str:
        path = str(tmp_path_factory.mktemp("joins") / "t")
        write_deltalake(path, rows)
        analyze(path, Options(**options))
        return path

    return made


def small(seed: int) -> pa.Table:
    chance = random.Random(seed)
    numbers = [None, 0.5, -1.5, 0.0, -0.0, 2.0, 1e300, float("nan")]
    texts = [None, "", "a", "ab", "abc", "zz", "b" * 70]
    return pa.table(
        {
            "i": pa.array([chance.choice([None, *range(30)]) for _ in range(500)], pa.int64()),
            "s": pa.array([chance.choice(texts) for _ in range(500)], pa.string()),
            "f": pa.array([chance.choice(numbers) for _ in range(500)], pa.float64()),
            "g": pa.array([chance.randrange(9) for _ in range(500)], pa.int32()),
        }
    )


def counted(left: pa.Table, right: pa.Table, on: list[tuple[str, str]], wheres: tuple[str, str]) -> tuple[int, ...]:
    """The rows of the inner join, and of both semi-joins."""
    sides = []
    for which, (name, where) in enumerate(zip(("l", "r"), wheres, strict=True)):
        names = [pair[which] for pair in on]
        keys = ", ".join(f"{column} k{i}" for i, column in enumerate(names))
        sides.append(f"(select {keys}, count(*) n from {name} where {where} group by {', '.join(names)})")
    matched = " and ".join(f"x.k{i} = y.k{i}" for i in range(len(on)))
    return ask(
        "select coalesce(sum(x.n * y.n), 0)::bigint, coalesce(sum(x.n), 0)::bigint, coalesce(sum(y.n), 0)::bigint "
        f"from {sides[0]} x join {sides[1]} y on {matched}".replace("f is nan", "isnan(f)"),
        l=left,
        r=right,
    )


def filter_of(key: str, chance: random.Random) -> str:
    literals = {"i": [0, 3, 11, 29, 40], "s": ["''", "'a'", "'ab'", "'zz'"], "f": [0.5, 2.0, 0.1, 0.0, -0.0]}[key]
    one, other = chance.choice(literals), chance.choice(literals)
    return chance.choice(
        [
            f"{key} = {one}",
            f"{key} != {one}",
            f"{key} >= {one}",
            f"{key} < {one} or {key} > {other}",
            f"{key} in ({one}, {other})",
            f"{key} is not null",
            f"{key} is null",
            *(["f is nan", f"f is nan or f < {one}"] if key == "f" else []),
        ]
    )


def test_filters_of_the_joined_columns_leave_exact_rows(make):
    rows = small(1), small(2)
    paths, lookup, chance = [make(each) for each in rows], Lookup(), random.Random(3)
    for key in ("i", "s", "f"):
        for _ in range(25):
            wheres = filter_of(key, chance), chance.choice([filter_of(key, chance), "true"])
            asked = [None if where == "true" else where for where in wheres]
            found = lookup.estimate_join(paths[0], key, paths[1], key, *asked).rows
            expected = counted(*rows, [(key, key)], wheres)
            assert [each.rounded() for each in (found.rows, found.left_semi, found.right_semi)] == [
                (true, true, true) for true in expected
            ], wheres


def test_bounds_hold_with_filters_of_other_columns(make):
    rows = small(4), small(5)
    paths, lookup, chance = [make(each) for each in rows], Lookup(), random.Random(6)
    above = 0
    for _ in range(60):
        wheres = f"g < {chance.randrange(10)}", chance.choice(["true", f"g >= {chance.randrange(9)}"])
        if chance.random() < 0.5:
            wheres = f"({wheres[0]}) and ({filter_of('i', chance)})", wheres[1]
        asked = [None if where == "true" else where for where in wheres]
        answer = lookup.estimate_join(paths[0], "i", paths[1], "i", *asked)
        found, (joined, *semi) = answer.rows, counted(*rows, [("i", "i")], wheres)
        assert found.rows.lower - 1e-6 <= joined <= found.rows.upper + 1e-6, wheres
        above += found.rows.lower > 0
        for side, partnered, table, where in zip(
            (answer.left.rows, answer.right.rows), semi, rows, wheres, strict=True
        ):
            every = ask(f"select count(*) from t where {where}", t=table)[0]
            true = every, partnered, every - partnered, joined + every - partnered
            assert all(each.lower <= number <= each.upper for each, number in zip(side, true, strict=True)), wheres
            assert side.semi.rows + side.anti.rows == side.rows.rows
        assert answer.left.methods[0] == (wheres[0].split(") and")[0].strip("("), "all values")
    assert above > 10


def test_pairs_of_a_composite_join_stand_in_any_order(make):
    rng = np.random.default_rng(6)
    rows = [
        pa.table({"x": rng.integers(0, 30, 20_000), "y": rng.integers(0, 40, 20_000), "z": rng.integers(0, 9, 20_000)})
        for _ in range(2)
    ]
    paths = [make(each, joint=("x+y", "x+y+z")) for each in rows]
    lookup = Lookup()
    for columns in ("x+y", "y+x", "z+x+y", "y+z+x"):
        expected = counted(*rows, [(each, each) for each in columns.split("+")], ("true", "true"))
        found = lookup.estimate_join(paths[0], columns, paths[1], columns)
        assert found.rows.method == "all values"
        assert found.rows.rows.rounded() == (expected[0],) * 3
        assert found.left.ndv == Lookup().estimate(paths[0], group_by=columns.split("+")).groups.rounded()[0]
    crossed = lookup.estimate_join(paths[0], "x+y", paths[1], "y+x")  # the joint sketches hash these tuples otherwise
    assert crossed.rows.method == "independence assumed"
    assert crossed.rows.rows.lower <= counted(*rows, [("x", "y"), ("y", "x")], ("true", "true"))[0]


def test_tuples_with_nulls_join_nothing(make):
    """However many rows they have."""
    rng = np.random.default_rng(7)

    def rows(most: int) -> pa.Table:
        columns = {name: pa.array(rng.integers(0, most, 30_000), mask=rng.random(30_000) < 0.2) for name in "xyz"}
        return pa.table({**columns, "y": columns["y"].cast(pa.string())})

    for most, columns, error in ((20, "x+y", 1), (12, "x+y+z", 1), (300, "x+y", 1.2)):
        sides = [rows(most) for _ in range(2)]
        paths = [make(each, joint=(columns,)) for each in sides]
        found = Lookup().estimate_join(paths[0], columns, paths[1], columns).rows
        expected = counted(*sides, [(each, each) for each in columns.split("+")], ("true", "true"))
        for interval, true in zip(found[:3], expected, strict=True):
            assert interval.lower <= true <= interval.upper
            assert max(interval.rows / true, true / interval.rows) <= error


@pytest.mark.parametrize("nulls", [(0.01, 0.02), (0.3, 0.0), (0.0, 0.1)])
def test_nulls_that_a_column_had_earlier_do_not_bound_those_of_tuples_counted_later(make, nulls):
    rng = np.random.default_rng(8)

    def rows(count: int, share: float) -> pa.Table:
        y = pa.array(rng.integers(0, 30, count), mask=rng.random(count) < share)
        return pa.table({"x": rng.integers(0, 2_000, count), "y": y})

    path = make(rows(20_000, nulls[0]), joint=("x+y",))
    for columns in (("x",), ("y",), ("x",)):  # a run for x counts the tuples, too
        write_deltalake(path, rows(5_000, nulls[1]), mode="append")
        analyze(path, Options(columns=columns))
        now = DeltaTable(path).to_pyarrow_table()
        found = Lookup().estimate_join(path, "x+y", path, "x+y").rows
        expected = counted(now, now, [("x", "x"), ("y", "y")], ("true", "true"))
        for interval, true in zip(found[:3], expected, strict=True):
            assert interval.lower <= true <= interval.upper
            assert max(interval.rows / true, true / interval.rows) < 1.5


def test_row_with_a_null_has_no_partner_without_a_joint_sketch_either(make):
    rows = pa.table({"x": list(range(900)), "y": [None] * 300 + [1] * 600})
    path = make(rows)
    found = Lookup().estimate_join(path, "x+y", path, "x+y").rows
    assert found.method == "independence assumed"
    assert found.left_semi.upper == found.right_semi.upper == 600
    assert found.left_semi.rows <= 600


def test_composite_join_of_columns_that_are_hashed_differently_is_refused(make):
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    other = pa.table({"a": pa.array([1, 2], pa.int32()), "b": [3, 4]})
    with pytest.raises(UnsupportedTypeError, match=r"a was hashed as long and .* a as int"):
        Lookup().estimate_join(make(rows, joint=("a+b",)), "a+b", make(other, joint=("a+b",)), "a+b")


# --- the sums, beside a plain loop -----------------------------------------------------------------------------------


class Side:
    """Random values with the rows of each: heavy ones anywhere, the others below theta only."""

    def __init__(self, rng: np.random.Generator, theta: int) -> None:
        hashes = np.unique(rng.integers(1, 400, 150).astype(np.uint64)) * np.uint64(MAX_THETA // 400)
        is_heavy = rng.random(len(hashes)) < 0.3
        kept = is_heavy | (hashes < np.uint64(theta))
        hashes, is_heavy = hashes[kept], is_heavy[kept]
        low = np.where(is_heavy, rng.integers(8, 90, len(hashes)), rng.integers(1, 7, len(hashes))).astype(np.float64)
        high = low + np.where(is_heavy & (hashes >= np.uint64(theta)), rng.integers(0, 4, len(hashes)), 0)
        self.counted = Counted(theta, hashes, low, high, is_heavy, 0.5, 7.0, None, None)
        keys, is_cut = (hashes % np.uint64(397)).astype(np.int64), np.zeros(len(hashes), np.bool_)
        self.values = KnownValues(keys, hashes, low, high, is_heavy, is_cut)


def restricted(side: Side, spans: list[Span]) -> dict[int, tuple[float, float, bool]]:
    """The rows of the values in these spans, by hash."""
    of = side.counted
    rows = dict(
        zip(of.hashes.tolist(), zip(of.low.tolist(), of.high.tolist(), of.is_heavy.tolist(), strict=True), strict=True)
    )
    return {
        key: each
        for key, each in rows.items()
        if any(a <= (0, key % 397, 0) and (0, key % 397, 1) <= b for a, b in spans)
    }


def products(left: Side, right: Side, spans: list[Span]) -> tuple[float, float, float, float]:
    """Exact products, fewest and most; those of light values; and the rows heavy on the left, unknown on the right."""
    theta = min(left.counted.theta, right.counted.theta)
    ones, others = restricted(left, spans), restricted(right, spans)
    low = high = light = unknown = 0.0
    for key in ones.keys() | others.keys():
        one = ones.get(key, (0.0, 0.0 if key < left.counted.theta else 7.0, False))
        other = others.get(key, (0.0, 0.0 if key < right.counted.theta else 7.0, False))
        known = [each[2] or key < side.counted.theta for each, side in ((one, left), (other, right))]
        if all(known) and (one[2] or other[2]):
            low, high = low + one[0] * other[0], high + one[1] * other[1]
        elif key < theta:
            light += one[0] * other[0]
        elif one[2]:
            unknown += (one[0] + one[1]) / 2
    return low, high, light, unknown


@pytest.mark.parametrize("seed", range(12))
def test_sums_are_those_of_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    left, right = (Side(rng, int(MAX_THETA * share)) for share in rng.uniform(0.2, 0.9, 2))
    ordered = OrderedMatches.of((left.counted, left.values), (right.counted, right.values))
    for _ in range(20):
        cuts = sorted(
            (0, int(value), int(after))
            for value, after in zip(rng.integers(0, 400, 4), rng.integers(0, 2, 4), strict=True)
        )
        spans = [(cuts[0], cuts[1]), (cuts[2], cuts[3])]
        found = ordered.within(ValueSet(tuple(spans)))
        common = found.common
        assert (common.least_rows, common.most_rows, common.products, found.left.unknown_rows) == (
            pytest.approx(products(left, right, spans))
        )
    everything = matches_of(left.counted, right.counted)
    assert_alike(ordered.within(VALUES), everything)
    mirrored = matches_of(right.counted, left.counted)
    assert (mirrored.left, mirrored.right) == (pytest.approx(everything.right), pytest.approx(everything.left))
    assert join_rows(mirrored).left_semi == pytest.approx(join_rows(everything).right_semi)


def assert_alike(one: Matches, other: Matches) -> None:
    assert one.common.exact_rows == pytest.approx(other.common.exact_rows)
    assert one.left == pytest.approx(other.left)
    assert one.right == pytest.approx(other.right)
    assert (one.common.light_rows, one.common.light_left) == (other.common.light_rows, other.common.light_left)


def sampled(hashes: np.ndarray, rows: np.ndarray, theta: int, heavy: float = 10) -> tuple[Counted, KnownValues]:
    """A sample of the values below theta; heavy ones have at least so many rows."""
    is_heavy = rows >= heavy
    kept = is_heavy | (hashes < np.uint64(theta))
    missed = 0.0 if theta == MAX_THETA else float(rows[~kept].max(initial=0))
    hashes, rows, is_heavy = hashes[kept], rows[kept].astype(np.float64), is_heavy[kept]
    counted = Counted(theta, hashes, rows, rows, is_heavy, 0.5, missed, None, None)
    return counted, KnownValues(hashes.astype(np.int64), hashes, rows, rows, is_heavy, np.zeros(len(rows), np.bool_))


@pytest.mark.parametrize("most", [1, 3])
def test_few_values_of_which_a_sample_has_none_may_join(most):
    """All values of the small side are known, and none of them is heavy."""
    inside = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        hashes = np.unique(rng.integers(1, MAX_THETA, 500, np.uint64))
        rows, shared = rng.integers(1, 10, len(hashes)), rng.choice(len(hashes), rng.integers(1, 4), replace=False)
        large = sampled(hashes, rows, int(MAX_THETA * rng.uniform(0.1, 0.6)))
        small = sampled(np.sort(hashes[shared]), rng.integers(1, most + 1, len(shared)), MAX_THETA)
        every = rows[np.sort(shared)]
        true = float((every * small[0].low).sum()), float(every.sum()), float(small[0].low.sum())
        for sides in ((large, small), (small, large)):
            expected = true if sides[0] is large else (true[0], true[2], true[1])
            plain = join_rows(matches_of(sides[0][0], sides[1][0]))
            for found in (plain, join_within(OrderedMatches.of(*sides), VALUES)):
                assert all(each.upper >= 1 for each in found[:3])
                inside += [each.lower <= number <= each.upper for each, number in zip(found, expected, strict=False)]
    assert np.mean(inside) >= 0.93


@pytest.mark.parametrize("share", [0.2, 0.7, 1])
def test_both_zeros_are_one_value_of_a_join(share):
    for seed in range(200):
        rng = np.random.default_rng(seed)
        hashes = np.unique(rng.integers(1, MAX_THETA, 40, np.uint64))
        rows, at = (
            rng.integers(0, rng.choice([3, 12, 40]), len(hashes)),
            np.sort(rng.choice(len(hashes), 2, replace=False)),
        )
        there, (zero, other) = rows > 0, at
        side, _ = sampled(hashes[there], rows[there], int(MAX_THETA * share))
        side = dataclasses.replace(side, rest=float(rows[rows < 10].sum()))
        found = as_one(side, hashes[at])
        assert hashes[zero] not in found.hashes
        assert (np.diff(found.hashes) > 0).all()
        true, heavy = rows[at].sum(), found.is_heavy
        place = np.flatnonzero(found.hashes == hashes[other])
        if len(place):
            assert found.low[place[0]] <= true <= found.high[place[0]]
        elif hashes[other] < side.theta:
            assert true == 0
        likely = float((found.low + (found.high - found.low) / 2)[heavy].sum())
        assert found.rest + likely == pytest.approx(rows.sum())
        for each in set(hashes[there].tolist()) - set(hashes[at].tolist()):
            assert (each in found.hashes) == (each in side.hashes)


def test_zeros_of_either_sign_overlap(make):
    paths = [make(pa.table({"k": [zero] * 3 + [2.0]})) for zero in (0.0, -0.0)]
    found = Lookup().estimate_join(paths[0], "k", paths[1], "k")
    assert (found.overlap.ndv, found.left.containment, found.jaccard) == (2, 1, 1)
    assert [each.rounded() for each in found.rows[:3]] == [(10,) * 3, (4,) * 3, (4,) * 3]


def test_few_heavy_values_may_join_although_those_of_the_sample_do_not():
    """Of the small side one value has no partner, so that its rows there are known if the sample may have it."""
    inside = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        hashes = np.unique(rng.integers(1, MAX_THETA, 500, np.uint64))
        rows = rng.integers(1, rng.integers(2, 10), len(hashes))
        shared, absent = rng.choice(len(hashes), 5, replace=False), rng.integers(5)
        large = sampled(np.delete(hashes, shared[absent]), np.delete(rows, shared[absent]), MAX_THETA // 5)
        order = np.sort(shared)
        small = sampled(hashes[order], rng.integers(20, 200, 5), MAX_THETA)
        every = np.where(order == shared[absent], 0, rows[order])
        found = join_rows(matches_of(small[0], large[0]))
        true = float((every * small[0].low).sum()), float(small[0].low[every > 0].sum()), float(every.sum())
        assert all(each.upper > 0 for each in found[:3])
        inside += [each.lower - 1e-6 <= number <= each.upper + 1e-6 for each, number in zip(found, true, strict=False)]
    assert np.mean(inside) >= 0.95


def test_values_that_no_sample_has_are_not_taken_for_absent(make):
    rng = np.random.default_rng(9)
    rows = [pa.table({"k": rng.integers(0, 30_000, 90_000)}) for _ in range(2)]
    paths, lookup = [make(each) for each in rows], Lookup()
    inside = []
    for _ in range(60):
        values = sorted(set(rng.integers(0, 30_000, 3).tolist()))
        for where in (f"k in ({', '.join(map(str, values))})", f"k >= {values[0]} and k < {values[0] + 3}"):
            found = lookup.estimate_join(paths[0], "k", paths[1], "k", where).rows
            true = counted(*rows, [("k", "k")], (where, "true"))[0]
            assert found.rows.lower < found.rows.upper or found.rows.lower == true
            inside.append(found.rows.lower <= true <= found.rows.upper)
    assert np.mean(inside) >= 0.93


def test_join_of_which_both_samples_have_no_value_is_not_called_empty(make):
    left, right = ({"k": pa.array(range(300_000 + first, 330_000 + first))} for first in (0, 29_997))
    paths, lookup = [make(pa.table(each)) for each in (left, right)], Lookup()
    found = lookup.estimate_join(paths[0], "k", paths[1], "k").rows  # 3 rows
    assert [each.rows for each in found[:3]] == [0, 0, 0]
    assert [each.lower for each in found[:3]] == [0, 0, 0]
    assert all(3 <= each.upper < 20 for each in found[:3])


def test_joined_strings_that_begin_alike_count_once_in_spans_on_both_sides_of_them(make):
    texts = [f"{'a' * 70}{value:05d}" for value in range(20_000)]
    path, lookup = make(pa.table({"k": texts})), Lookup()
    found = lookup.estimate_join(path, "k", path, "k", f"k < '{texts[9]}' or k > '{texts[10]}'").rows
    assert found.left_semi.lower <= 19_998 <= found.left_semi.upper <= 20_000 + 1e-6
    assert found.rows.upper < 25_000


def test_joined_strings_are_in_a_span_if_the_side_that_keeps_more_of_them_says_so(make):
    texts = [f"{'a' * 30}{value:05d}" for value in range(20_000)]
    many, few, lookup = make(pa.table({"k": texts})), make(pa.table({"k": texts[:40]})), Lookup()
    where = f"k < '{texts[20]}' or k > '{texts[30]}'"
    one, other = (
        lookup.estimate_join(left, "k", right, "k", where).rows.rows for left, right in ((many, few), (few, many))
    )
    assert tuple(one)[:2] == pytest.approx(tuple(other)[:2])
    assert 0 < one.lower <= 29 <= min(one.upper, other.upper)


def test_single_joined_string_that_is_kept_cut_is_known_by_its_hash_after_a_change(make):
    texts = [f"{'a' * 70}{value:05d}" for value in range(2_000)]
    paths = [make(pa.table({"k": texts})), make(pa.table({"k": texts * 3}))]
    write_deltalake(paths[0], pa.table({"k": ["b"]}), mode="append")
    for where, true in ((f"k = '{texts[7]}'", 3), (f"k in ('{texts[8]}', '{texts[9]}', '{'a' * 70}')", 6)):
        found = Lookup().estimate_join(paths[0], "k", paths[1], "k", where).rows.rows
        assert true == found.rounded()[0]
        assert found.upper <= true + 3


def test_rows_that_came_since_may_have_partners(make):
    paths = [make(pa.table({"k": numbers})) for numbers in ([1, 2, 3], [7, 8])]
    write_deltalake(paths[1], pa.table({"k": [1, 1]}), mode="append")
    for where in (None, "k = 1"):
        found = Lookup().estimate_join(paths[0], "k", paths[1], "k", where)
        assert found.rows.rows.upper >= 2
        assert found.left.rows.semi.upper >= 1
        assert found.right.rows.semi.upper >= 2


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_joins_hold_after_rows_came_and_went(make, seed):
    chance = random.Random(seed)
    paths = [make(small(2 * seed + i), row_counts=True, joint=("i+g",)) for i in range(2)]
    for path in paths:
        for _ in range(chance.randrange(3)):
            if chance.random() < 0.5:
                write_deltalake(path, small(chance.randrange(1000)).slice(0, chance.randrange(40)), mode="append")
            else:
                DeltaTable(path).delete(filter_of("i", chance))
    lookup, rows = Lookup(), [DeltaTable(path).to_pyarrow_table() for path in paths]
    for on in ([("i", "i")], [("s", "s")], [("f", "f")], [("i", "i"), ("g", "g")]) * 8:
        key = on[0][0]
        wheres = tuple(chance.choice(["true", filter_of(key, chance), "g < 4", f"{filter_of(key, chance)} and g > 2"])
                       for _ in range(2))  # fmt: skip
        columns = ["+".join(pair[which] for pair in on) for which in range(2)]
        found = lookup.estimate_join(
            paths[0], columns[0], paths[1], columns[1], *(None if each == "true" else each for each in wheres)
        )
        true = counted(*rows, on, wheres)
        for each, number in zip(found.rows[:3], true, strict=True):
            lower, upper = each.rounded()[1:]
            assert lower <= number <= upper, (on, wheres, found.rows, true)


def test_few_rows_that_came_widen_the_bounds_of_a_join_by_their_partners(make):
    one, other = make(pa.table({"k": range(3000)})), make(pa.table({"k": [*range(3000)] * 2}))
    write_deltalake(one, pa.table({"k": range(10)}), mode="append")
    found = Lookup().estimate_join(one, "k", other, "k").rows
    assert found.rows.rounded()[1:] == (6000, 6020)
    assert (found.left_semi.rounded()[1:], found.right_semi.rounded()[1:]) == ((3000, 3010), (6000, 6000))


def test_single_values_that_no_sample_has_are_still_known_after_a_row_came(make):
    """There are more values than statistics keep."""
    rng = np.random.default_rng(4)
    rows = rng.integers(1, 8, (2, 20_000))
    left, right = (make(pa.table({"k": np.repeat(np.arange(20_000), each)})) for each in rows)
    asked = rng.integers(0, 20_000, 20).tolist()
    write_deltalake(right, pa.table({"k": [19_999]}), mode="append")
    lookup = Lookup()
    found = [lookup.estimate_join(left, "k", right, "k", f"k = {value}").rows.rows for value in asked]
    assert [each.rows for each in found] == pytest.approx([rows[0][value] * rows[1][value] for value in asked], 1e-3)
    assert all(each.upper - each.rows < 8 for each in found)  # the new row has a partner in at most 7


def test_pairs_that_are_not_asked_for_forget_their_values_and_answer_the_same(make):
    rows = small(7), small(8)
    paths, lookup = [make(each) for each in rows], Lookup()
    lookup._joins = JoinPairs(most=2, with_values=1)
    for number in range(2):
        for key in ("i", "s", "f", "i"):
            where = {"i": f"i > {number}", "s": f"s > 'a{number}'", "f": f"f < {number}"}[key]
            found = lookup.estimate_join(paths[0], key, paths[1], key, where, f"{key} is not null and g >= 0").rows
            expected = counted(*rows, [(key, key)], (where, "g >= 0"))[0]
            assert found.rows.lower <= expected <= found.rows.upper
            assert len(lookup._joins._pairs) <= 2


def test_pair_of_a_changed_table_takes_the_place_of_the_earlier_one(make):
    """Statistics of snapshots that nobody asks for do not stay in memory."""
    path, lookup = make(pa.table({"k": [1, 2]})), Lookup(ttl_seconds=0)
    for times in range(1, 4):
        assert lookup.estimate_join(path, "k", path, "k").join_rows == 2 * times * times
        assert len(lookup._joins._pairs) == 1
        write_deltalake(path, pa.table({"k": [1, 2]}), mode="append")
        analyze(path)


def test_filtered_rows_join_no_more_than_the_most_rows_of_a_value(make):
    """With keys each row joins one, so that the outer join has the rows of its side; also after rows came."""
    rng = np.random.default_rng(17)
    left = pa.table({"k": rng.integers(0, 9_000, 40_000), "g": rng.integers(0, 9, 40_000)})
    right = pa.table({"k": rng.permutation(60_000)[:20_000]})
    paths, lookup = (make(left), make(right)), Lookup(ttl_seconds=0)
    for most in (1, 2):
        for chosen in (1, 5):
            where = f"g < {chosen}"
            found = lookup.estimate_join(paths[0], "k", paths[1], "k", where)
            joined, semi, _ = counted(left, right, [("k", "k")], (where, "true"))
            kept = int(np.sum(left["g"].to_numpy() < chosen))
            outer = kept - semi + joined
            assert found.rows is not None
            assert found.left.rows is not None
            assert found.rows.rows.lower <= joined <= found.rows.rows.upper <= most * kept
            assert found.left.rows.outer.lower <= outer <= found.left.rows.outer.upper <= most * kept
        write_deltalake(paths[1], right.slice(0, 1), mode="append")  # nobody counts it
        right = pa.concat_tables([right, right.slice(0, 1)])


@pytest.mark.parametrize("distinct", [9_000, 60_000])
def test_columns_share_no_more_values_than_rows_with_a_partner(make, distinct):
    """Where all values were counted, those that both have are exact; the empty string is none of them."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        sides = [[str(each) for each in rng.permutation(distinct * 2)[:distinct]] + ["", ""] for _ in range(2)]
        paths = [make(pa.table({"k": [*side, None]})) for side in sides]
        found = Lookup().estimate_join(paths[0], "k", paths[1], "k")
        both = len(set(sides[0]) & set(sides[1])) - 1
        assert found.overlap is not None
        assert found.rows is not None
        assert found.overlap.upper <= min(found.rows.left_semi.upper, found.rows.right_semi.upper)
        if distinct < 10_000:
            assert (found.overlap.ndv, found.overlap.exact, found.left.ndv) == (both, True, distinct)
            assert found.left.containment == both / distinct
            assert found.jaccard == both / (2 * distinct - both)


def test_rows_with_and_without_a_partner_are_all_rows_whatever_samples_say():
    rows, semi, anti, outer = SideRows.of(Interval(90, 85, 100), Interval(98, 92, 100), Interval.exactly(200))
    assert semi.rows + anti.rows == rows.rows
    assert all(each.lower <= each.rows <= each.upper for each in (semi, anti, outer))
