"""The smallest hashes follow the definition, whatever array holds them and whenever theta falls."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from puffin.sketches.smallest import SmallestHashes
from puffin.sketches.theta_image import MAX_THETA

K = 32
HASHES = st.lists(st.integers(0, 40) | st.integers(MAX_THETA - 2, MAX_THETA), max_size=100)


def state(smallest):
    theta, hashes = smallest.state()
    return theta, hashes.tolist()


def defined(hashes, limit=MAX_THETA):
    """The k smallest distinct hashes below a limit, and theta: the next one, or the limit."""
    distinct = sorted({h for h in hashes if 0 < h < limit})
    return (distinct[K] if len(distinct) > K else limit), distinct[:K]


@settings(max_examples=100)
@given(HASHES, st.integers(1, MAX_THETA), HASHES)
def test_lower_theta_applies_to_earlier_and_later_hashes(before, theta, after):
    smallest = SmallestHashes(K)
    smallest.add(np.array(before, np.uint64))
    smallest.lower_theta(theta)
    smallest.add(np.array(after, np.uint64))
    assert state(smallest) == defined([*before, *after], theta)


def test_hashes_in_any_memory_layout_are_accepted():
    """Every third of an array, backwards, and from an odd address."""
    hashes = np.arange(1, 100, dtype=np.uint64)
    unaligned = np.frombuffer(b"\0" + hashes.tobytes(), np.uint64, offset=1)
    assert not unaligned.flags.aligned
    for layout in (hashes[::3], hashes[::-1], unaligned):
        smallest = SmallestHashes(K)
        smallest.add(layout)
        assert state(smallest) == defined(layout.tolist())


def test_many_batches_equal_one():
    """So many that theta falls again and again."""
    hashes = np.random.default_rng(0).integers(0, MAX_THETA, 200_000, np.uint64)
    at_once, bit_by_bit = SmallestHashes(K), SmallestHashes(K)
    at_once.add(hashes)
    for piece in np.array_split(hashes, 300):
        bit_by_bit.add(piece)
    assert state(at_once) == state(bit_by_bit) == defined(hashes.tolist())


def test_waiting_hashes_do_not_keep_their_batch_alive():
    smallest = SmallestHashes(K)
    smallest.lower_theta(100)
    smallest.add(np.arange(1, 10_000, dtype=np.uint64))
    (waiting,) = smallest._pending
    assert memoryview(waiting if waiting.base is None else waiting.base).nbytes == 99 * 8


@pytest.mark.parametrize("theta", [1, 2])
def test_lowest_thetas_leave_nothing_or_the_first_hash(theta):
    smallest = SmallestHashes(K)
    smallest.lower_theta(theta)
    smallest.add(np.array([0, 1, 2, MAX_THETA], np.uint64))
    assert state(smallest) == (theta, [1][: theta - 1])
