"""Both kinds of tally follow the definition for any input, in little memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.sketches.row_tally import RowTally, SortedTally, TableTally
from puffin.sketches.theta_image import MAX_THETA

pytestmark = pytest.mark.parametrize("way", [SortedTally, TableTally])

LIMIT = 128

# Few distinct hashes, where every coincidence is tried, those that all fall on one slot, more than a table holds, or
# many after some that let theta seem lower than it is.
HASHES = (
    st.lists(st.integers(0, 9) | st.integers(MAX_THETA - 2, MAX_THETA) | st.just(1 << 40), max_size=8)
    | st.lists(st.integers(0, 200).map(lambda i: i << 17 | 5), max_size=300)
    | st.builds(
        lambda seed, n, highest: np.random.default_rng(seed).integers(0, highest, n, np.uint64).tolist(),
        st.integers(0, 1 << 32),
        st.sampled_from([100, 2 * LIMIT, 40_000]),
        st.sampled_from([LIMIT, LIMIT + 1, 2 * LIMIT, MAX_THETA]),
    )
    | st.integers(20, 200).map(lambda few: [*range(few), *range(MAX_THETA - 400, MAX_THETA + 1)])
)


@settings(max_examples=40)
@given(batches=st.lists(st.tuples(HASHES, st.integers(1, 1 << 40) | st.none()), max_size=4))
def test_tally_keeps_the_smallest_hashes(way: type[RowTally], batches: list[tuple[list[int], int | None]]) -> None:
    """After any batches, with rows or one each."""
    tally, expected = way(LIMIT), Counter[int]()
    for batch, each in batches:
        tally.add(np.array(batch, np.uint64), None if each is None else np.full(len(batch), each, np.int64))
        for h in batch:
            expected[h] += each or 1
    below = sorted(h for h in expected if 0 < h < MAX_THETA)
    found, hashes, rows = tally.state()
    assert found == (below[LIMIT] if len(below) > LIMIT else MAX_THETA)
    assert hashes.tolist() == below[:LIMIT]
    assert rows.tolist() == [expected[h] for h in below[:LIMIT]]


@pytest.mark.parametrize("limit", [1, 100, 30_000, 100_000])
def test_tally_counts_dropped_hashes_from_their_first_row(way: type[RowTally], limit: int) -> None:
    """Hundreds of thousands of hashes come in any order, many again after they were dropped."""
    distinct = np.random.default_rng(limit).integers(1, MAX_THETA, 250_000, np.uint64)
    tally = way(limit)
    for part in (np.sort(distinct)[::-1], distinct, np.sort(distinct)):
        for start in range(0, len(part), 10_000):
            tally.add(part[start : start + 10_000])
    ascending = np.unique(distinct)
    theta, hashes, rows = tally.state()
    assert theta == (ascending[limit] if len(ascending) > limit else MAX_THETA)
    assert np.array_equal(hashes, ascending[:limit])
    assert (rows == 3).all()


def test_memory_does_not_grow_with_the_hashes(way: type[RowTally]) -> None:
    """Four million distinct hashes need the memory of a few tens of thousands."""
    tally = way(LIMIT)
    descending = np.arange(1 << 22, 0, -1, dtype=np.uint64)  # the worst order: every hash is below theta
    tracemalloc.start()
    try:
        for start in range(0, len(descending), 1 << 14):
            tally.add(descending[start : start + (1 << 14)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert tally.state()[1].tolist() == list(range(1, LIMIT + 1))
    assert peak < 8 << 20
