"""
The bounds of sampled answers hold as often as they say, over many random columns.

Questions on one column share its sample, so each column is asked few. The columns are made as the job makes them; the
benchmark (`python -m benchmarks.estimates.coverage`) does the same at length, with tables.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from puffin.estimates.column_rows import ColumnRows
from puffin.estimates.facts import ColumnFacts
from puffin.estimates.interval import AT_95, Interval
from puffin.estimates.joins import join_rows, join_within
from puffin.estimates.matches import OrderedMatches, matches_of
from puffin.estimates.methods import AVERAGE, COUNTED
from puffin.estimates.methods import SAMPLE as BY_SAMPLE
from puffin.estimates.value_set import VALUES, ValueSet
from puffin.sketches.counted_hashes import hash_counted
from puffin.sketches.distribution import SAMPLE
from puffin.sketches.distribution_builder import DistributionBuilder
from puffin.sketches.row_counts import RowCountsBuilder, row_counts_limit
from puffin.tables.expression import Op

COLUMNS, JOINS = 80, 40
DISTINCT = 12_000, 40_000
LONG = "the beginning that many of these values have in common, so that it is cut/"

Numbers = np.ndarray[Any, Any]


class Column:
    """Random values in ascending order with the rows of each, and what statistics say of them."""

    def __init__(self, rng: np.random.Generator, values: list[Any], rows: Numbers) -> None:
        self.values = [value for value, count in zip(values, rows, strict=True) if count]
        self.rows = rows[rows > 0]
        self.by_value = dict(zip(self.values, self.rows.tolist(), strict=True))
        self._before = np.append(0, np.cumsum(self.rows))
        type_ = "string" if isinstance(values[0], str) else "long"
        order = rng.permutation(len(self.values))
        array = pa.array(self.values, pa.string() if type_ == "string" else pa.int64()).take(pa.array(order))
        spread, counts = DistributionBuilder(SAMPLE), RowCountsBuilder(row_counts_limit(12))
        for each in hash_counted(array, self.rows[order], type_):
            spread.update_hashed(*each)
            counts.update_hashes(each.hashes, each.rows)
        self.counts = counts.compact()
        total = int(self.rows.sum())
        self.estimated = ColumnRows(
            ColumnFacts(
                type=type_,
                rows=total,
                now=Interval.exactly(total),
                added=0,
                removed=0,
                nulls=0,
                nans=0,
                ndv=None,
                distribution=spread.compact().pruned_by(self.counts).cut().with_exact(self.counts),
                counts=self.counts,
            )
        )

    def drawn(self, rng: np.random.Generator) -> int:
        """The place of the value of a row drawn at random."""
        return int(np.searchsorted(self._before, rng.integers(self._before[-1]), side="right")) - 1

    def span(self, rng: np.random.Generator) -> tuple[int, int]:
        """Some places, from a few to most of them."""
        count = int(math.exp(rng.uniform(math.log(5), math.log(len(self.values)))))
        start = int(rng.integers(len(self.values) - count + 1))
        return start, start + count

    def rows_between(self, start: int, stop: int) -> int:
        return int(self._before[stop] - self._before[start])

    def key(self, place: int) -> Any:
        value = self.values[place]
        return value.encode() if isinstance(value, str) else value

    def between(self, start: int, stop: int) -> ValueSet:
        """The values from one place to another."""
        at_least = ValueSet.of(Op.GT_EQ, [self.key(start)])
        return at_least.intersection(ValueSet.of(Op.LT_EQ, [self.key(stop - 1)]))


def law(rng: np.random.Generator, distinct: int) -> Numbers:
    laws = (
        lambda: np.ones(distinct),
        lambda: np.arange(1, distinct + 1) ** -rng.uniform(0.4, 1.3),
        lambda: np.exp(rng.normal(0, rng.uniform(0.3, 2), distinct)),
        lambda: np.where(rng.random(distinct) < 0.01, 50.0, 1.0),
        lambda: np.repeat(rng.pareto(1.2, -(-distinct // 64)) + 0.1, 64)[:distinct],
    )
    found = laws[rng.integers(len(laws))]()
    return rng.permutation(found) if rng.random() < 0.5 else found


def rows_of(rng: np.random.Generator, distinct: int) -> Numbers:
    weights = law(rng, distinct)
    return rng.poisson(weights / weights.sum() * rng.integers(2, 12) * distinct)


def domain(rng: np.random.Generator, texts: bool) -> list[Any]:
    numbers = np.unique(np.exp(rng.normal(20, 2, int(rng.integers(*DISTINCT)))).astype(np.int64)).tolist()
    if not texts:
        return numbers
    beginning = LONG if rng.random() < 0.3 else ""
    return sorted(f"{beginning}{number}" for number in numbers)


def asked(column: Column, rng: np.random.Generator) -> Iterator[tuple[str, Interval, float]]:
    """The kind of a question, its estimate and the true number."""
    places = [column.drawn(rng) for _ in range(20)]  # most values are known exactly
    place, points, every = places[0], set(places), int(column.rows.sum())
    span = column.span(rng)
    for kind, wanted, true in (
        *(("=", ValueSet.of(Op.EQ, [column.key(p)]), int(column.rows[p])) for p in places),
        *(("!=", ValueSet.of(Op.NOT_EQ, [column.key(p)]), every - int(column.rows[p])) for p in places),
        ("in", ValueSet.of(Op.IN, [column.key(each) for each in points]), sum(int(column.rows[p]) for p in points)),
        ("range", column.between(*span), column.rows_between(*span)),
        ("range", ValueSet.of(Op.LT, [column.key(place)]), column.rows_between(0, place)),
    ):
        yield kind, column.estimated.find(wanted, AT_95)[0], true
    (of_list,) = rng.spawn(1)
    points = {column.drawn(of_list) for _ in range(300)}
    wanted = ValueSet.of(Op.IN, [column.key(each) for each in points])
    yield "long list", column.estimated.find(wanted, AT_95)[0], sum(int(column.rows[p]) for p in points)
    yield "groups", column.estimated.groups(VALUES), len(column.values)
    yield "groups of a range", column.estimated.groups(column.between(*span)), span[1] - span[0]
    if isinstance(column.values[0], str):
        prefix = column.values[place][:-2]
        true = sum(count for value, count in column.by_value.items() if value.startswith(prefix))
        yield "prefix", column.estimated.find(ValueSet.of(Op.STARTS_WITH, [prefix.encode()]), AT_95)[0], true


@pytest.fixture(scope="module")
def held() -> dict[str, list[bool]]:
    """Whether the bounds of each sampled answer hold, by kind; an exact one is wrong or does not count."""
    rng = np.random.default_rng(11)
    found: dict[str, list[bool]] = {}
    for number in range(COLUMNS):
        values = domain(rng, texts=number % 2 == 0)
        column = Column(rng, values, rows_of(rng, len(values)))
        for kind, estimate, true in asked(column, rng):
            _, lower, upper = estimate.rounded()
            if lower == upper:
                assert true == lower, kind
            else:
                found.setdefault(kind, []).append(lower <= true <= upper)
    return found


def assert_holds(held: list[bool]) -> None:
    """At least 95 times in 100, but for three standard errors, of answers that are independent of each other."""
    assert len(held) >= 30
    assert np.mean(held) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / len(held))


@pytest.mark.parametrize("kind", ["=", "!=", "in", "long list", "range", "groups", "groups of a range", "prefix"])
def test_bounds_of_filters_and_groups_hold(held, kind):
    assert_holds(held[kind])


@pytest.mark.parametrize("heavy", [0, 400])
def test_bound_of_a_value_holds_where_many_values_share_a_bucket(heavy):
    rng = np.random.default_rng(3)
    rows = np.exp(rng.normal(1, 1, 300_000)) if not heavy else np.where(rng.random(300_000) < 0.02, heavy, 9)
    column = Column(rng, list(range(300_000)), rng.poisson(rows))
    places = [column.drawn(rng) for _ in range(3000)]
    found = [(column.estimated.find(ValueSet.of(Op.EQ, [column.key(p)]), AT_95)[0], column.rows[p]) for p in places]
    assert_holds([true <= estimate.upper for estimate, true in found if not estimate.is_exact])


@pytest.mark.parametrize("is_key", [False, True])
def test_bounds_of_short_ranges_hold(is_key: bool) -> None:
    rng, held, groups_held = np.random.default_rng(16), [], []
    for _ in range(10):
        count = int(rng.integers(*DISTINCT)) * 2
        column = Column(rng, list(range(count)), np.ones(count, np.int64) if is_key else rng.poisson(3, count))
        for _ in range(150):
            start = int(rng.integers(len(column.values) - 4))
            places = start, start + int(rng.integers(2, 5))
            wanted, true = column.between(*places), column.rows_between(*places)
            found, _ = column.estimated.find(wanted, AT_95)
            groups = column.estimated.groups(wanted)
            held.append(found.lower <= true <= found.upper)
            groups_held.append(groups.lower <= places[1] - places[0] <= groups.upper)
            integers = column.values[places[1] - 1] - column.values[start] + 1
            assert groups.upper <= integers
            if is_key:  # an integer is one value at most
                assert found.rows <= integers
    assert_holds(held)
    assert_holds(groups_held)


def test_bounds_of_joins_hold():
    rng = np.random.default_rng(12)
    whole, parts, off = [], [], []
    for number in range(JOINS):
        values = domain(rng, texts=number % 4 == 0)
        rows = rows_of(rng, len(values))
        if number % 2:  # keys, some of which the left side lacks
            rows, others = rows * (rng.random(len(values)) < rng.uniform(0.05, 1)), np.full(len(values), number % 4)
        else:
            others = rows_of(rng, len(values))
        left, right = Column(rng, values, rows), Column(rng, values, others)
        found = join_rows(matches_of(*(each.estimated.counted(each.counts) for each in (left, right)))).rows
        true = sum(rows * right.by_value.get(value, 0) for value, rows in left.by_value.items())
        whole.append(found.lower <= true <= found.upper)
        if number % 2:
            off.append(abs(found.rows / true - 1))
        start, stop = left.span(rng)
        sides = [(each.estimated.counted(None), each.estimated.known_values) for each in (left, right)]
        found = join_within(OrderedMatches.of(*sides), left.between(start, stop)).rows
        true = sum(left.by_value[value] * right.by_value.get(value, 0) for value in left.values[start:stop])
        parts.append(found.lower - 1e-6 <= true <= found.upper + 1e-6)
    assert_holds(whole)
    assert_holds(parts)
    assert np.median(off) < 0.0003  # the rows that have partners are known


@pytest.mark.parametrize("texts", [False, True], ids=["numbers", "texts"])
def test_hashes_alone_answer_for_single_values_what_values_do(texts: bool) -> None:
    rng = np.random.default_rng(14)
    values = [f"{number}" if texts else number for number in range(60_000)]
    column = Column(rng, values, rows_of(rng, len(values)))
    facts = column.estimated.facts
    by_hash = ColumnRows(dataclasses.replace(facts, distribution=facts.distribution.without_values()))
    methods = set()
    for _ in range(300):
        literals = [column.key(place) for place in rng.integers(len(column.values), size=rng.integers(1, 4))]
        literals += [b"not there" if texts else -1] * int(rng.integers(2))
        for op in (Op.IN, Op.NOT_IN):
            wanted = ValueSet.of(op, list(dict.fromkeys(literals)))
            found, expected = (each.find(wanted, AT_95) for each in (by_hash, column.estimated))
            assert found[0] == pytest.approx(expected[0])
            methods.add(found[1])
            assert not (found[0].is_exact and found[1] == BY_SAMPLE), literals
    assert {AVERAGE, COUNTED} < methods


def test_hashes_alone_tell_the_likely_rows_of_a_value_that_was_not_counted_in_full() -> None:
    """Of the rows between the fewest and the most, a heavy value has the share that is likely."""
    column = Column(np.random.default_rng(15), [1, 2], np.array([100, 9_900]))
    found = column.estimated.facts.distribution
    found = dataclasses.replace(found, high=found.low + np.uint64(1_000), likely=0.1)
    for distribution in (found, found.without_values()):
        rows = ColumnRows(dataclasses.replace(column.estimated.facts, distribution=distribution, counts=None))
        assert rows.find(ValueSet.of(Op.EQ, [1]), AT_95)[0] == (200, 100, 1_100)


def test_bounds_of_a_value_in_a_filter_of_several_columns_always_hold():
    rng = np.random.default_rng(13)
    values = domain(rng, texts=False)
    column = Column(rng, values, rows_of(rng, len(values)))
    for place in range(0, len(column.values), 7):
        found, _ = column.estimated.find(ValueSet.of(Op.EQ, [column.key(place)]), 4.5)
        assert found.lower <= column.rows[place] <= found.upper
