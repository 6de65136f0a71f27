"""The vectorised hash equals MurmurHash3 computed one value at a time."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.sketches.hashing import hash_array
from puffin.values.serialized import slice_rows

MASK = (1 << 64) - 1


def rotl(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & MASK


def fmix(word: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        word = ((word ^ (word >> 33)) * factor) & MASK
    return word ^ (word >> 33)


def murmur(value: bytes) -> int:
    """First 64 bits of MurmurHash3 x64 128 with seed 9001, shifted right by one."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = 9001
    whole = len(value) // 16 * 16
    for start in range(0, whole, 16):
        k1, k2 = (int.from_bytes(value[at : at + 8], "little") for at in (start, start + 8))
        h1 ^= rotl(k1 * c1 & MASK, 31) * c2 & MASK
        h1 = (rotl(h1, 27) + h2) * 5 + 0x52DCE729 & MASK
        h2 ^= rotl(k2 * c2 & MASK, 33) * c1 & MASK
        h2 = (rotl(h2, 31) + h1) * 5 + 0x38495AB5 & MASK
    k1, k2 = int.from_bytes(value[whole : whole + 8], "little"), int.from_bytes(value[whole + 8 :], "little")
    h1 ^= rotl(k1 * c1 & MASK, 31) * c2 & MASK
    h2 ^= rotl(k2 * c2 & MASK, 33) * c1 & MASK
    h1 ^= len(value)
    h2 ^= len(value)
    h1 = (h1 + h2) & MASK
    h2 = (h2 + h1) & MASK
    h1, h2 = fmix(h1), fmix(h2)
    return ((h1 + h2) & MASK) >> 1


def hashes_of(array: pa.Array, type_string: str) -> list[int]:
    return list(itertools.chain.from_iterable(part.tolist() for part in hash_array(array, type_string)))


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=90) | st.binary(min_size=200, max_size=300), max_size=80))
def test_strings_of_mixed_lengths_hash_in_order(values: list[bytes]) -> None:
    assert hashes_of(pa.array(values, pa.binary()), "binary") == [murmur(value) for value in values if value]


@settings(max_examples=40)
@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1))
def test_longs_hash_like_their_bytes(values: list[int]) -> None:
    assert hashes_of(pa.array(values, pa.int64()), "long") == [
        murmur(value.to_bytes(8, "little", signed=True)) for value in values
    ]


@pytest.mark.parametrize("length", range(1, 40))
def test_many_strings_of_one_length_hash_like_single_ones(length: int) -> None:
    values = [bytes([i]) * length for i in range(100)]
    assert hashes_of(pa.array(values, pa.binary(length)), f"fixed[{length}]") == [murmur(value) for value in values]


def test_few_long_strings_among_short_ones_hash_right() -> None:
    values = [b"short%d" % i for i in range(200)]
    for at, length in ((0, 5000), (77, 600_001), (150, 1023), (199, 5000)):
        values[at] = bytes(i * 7 % 251 for i in range(length))
    assert hashes_of(pa.array(values, pa.binary()), "binary") == [murmur(value) for value in values]


def test_last_bytes_of_the_buffer_are_not_overrun() -> None:
    """A string at the end of its buffer is loaded without the bytes around it."""
    data = pa.py_buffer(b"behind-abc"[:10])
    offsets = pa.py_buffer(np.array([7, 10], np.int32))
    array = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    assert hashes_of(array, "binary") == [murmur(b"abc")]


def test_empty_values_have_no_hash() -> None:
    """Empty strings and NULL are skipped, between others and alone."""
    assert hashes_of(pa.array(["", "a", None, "", "b"]), "string") == [murmur(b"a"), murmur(b"b")]
    assert hashes_of(pa.array(["", None]), "string") == []
    assert hashes_of(pa.array([b""], pa.binary(0)), "fixed[0]") == []


def test_columns_longer_than_a_slice_lose_nothing() -> None:
    rows = slice_rows()
    n = 2 * rows + 3
    hashes = hashes_of(pa.array([str(i) for i in range(n)]), "string")
    assert len(hashes) == n
    for at in (0, rows - 1, rows, 2 * rows, n - 1):
        assert hashes[at] == murmur(str(at).encode())


def test_one_huge_value_costs_only_its_own_size() -> None:
    """It does not widen the space of each short value."""
    values = [b"x" * 10] * 5000
    values[2500] = b"y" * (1 << 20)
    array = pa.array(values, pa.binary())
    tracemalloc.start()
    try:
        assert len(hashes_of(array, "binary")) == len(values)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
