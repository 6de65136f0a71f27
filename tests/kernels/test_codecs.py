"""The compiled Snappy gives the bytes of the library, and touches nothing beyond its output, whatever it is given."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.files.varints import varint
from puffin.kernels import load_kernels

if not load_kernels():
    pytest.skip("the kernels need numba", allow_module_level=True)

from puffin.kernels.codecs import SLACK, unpack_pages
from puffin.kernels.pages import DATA_PAGE

DATA_PAGE_V2 = 3
GUARD = 64


def words_at(data: Any) -> Any:
    return np.ndarray((max(0, len(data) - 7),), np.uint64, data, strides=(1,))


def unpacked(*pages: tuple[bytes, int], is_snappy: bool = True, levels: bytes = b"") -> list[bytes] | None:
    """The pages, each stored bytes and a size, behind levels; None if the kernel finds one broken."""
    data, table = b"", []
    for stored, size in pages:
        data += levels
        kind = DATA_PAGE_V2 if levels else DATA_PAGE
        table.append((kind, 0, 7, 1, 3, len(levels), len(data), len(stored), size, 1))
        data += stored
    total = sum(size + len(levels) for _, size in pages)
    out = np.full(total + SLACK + GUARD, 0xA5, np.uint8)
    spans = np.empty((len(pages), 5), np.int64)
    room = words_at(out)[: total + SLACK - 7]
    held = np.frombuffer(data, np.uint8)
    found = unpack_pages(held, words_at(held), np.array(table, np.int64), is_snappy, room, spans)
    assert (out[total + SLACK :] == 0xA5).all()
    if found < 0:
        return None
    assert found == total
    assert spans[:, 2:].tolist() == [[7, 1, len(levels) if levels else -1]] * len(pages)
    return [bytes(out[begin:end]) for begin, end, *_ in spans]


def by_library(stored: bytes, size: int) -> bytes | None:
    """What pyarrow makes of raw Snappy that says its right size."""
    if not stored.startswith(varint(size)):
        return None
    try:
        return pa.decompress(stored, size, "snappy", asbytes=True)
    except (pa.ArrowException, OSError):
        return None


RUNS = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.tuples(st.binary(min_size=1, max_size=9), st.integers(1, 300)).map(lambda each: each[0] * each[1]),
    ),
    max_size=12,
).map(b"".join)


@settings(max_examples=200)
@given(st.lists(RUNS, min_size=1, max_size=4), st.binary(max_size=5), st.booleans())
def test_pages_are_those_that_were_written(contents, levels, is_snappy):
    pages = [(pa.compress(each, "snappy", asbytes=True) if is_snappy else each, len(each)) for each in contents]
    assert unpacked(*pages, is_snappy=is_snappy, levels=levels) == [levels + each for each in contents]


def test_large_page_has_literals_and_copies_of_every_length():
    source = random.Random(5)
    parts = [source.randbytes(source.choice((1, 3, 59, 60, 61, 255, 256, 257, 70_000))) for _ in range(300)]
    content = b"".join(part + before[: source.randrange(200)] * 2 for before, part in itertools.pairwise(parts))
    assert unpacked((pa.compress(content, "snappy", asbytes=True), len(content))) == [content]


def literal(source: random.Random, content: bytes) -> bytes:
    """An element with these bytes, whose length stands in its tag or, short or not, behind it."""
    least = 0 if len(content) <= 60 else (len(content) - 1).bit_length() + 7 >> 3
    more = source.randrange(least, 5)
    if more == 0:
        return bytes([(len(content) - 1) << 2]) + content
    return bytes([(59 + more) << 2]) + (len(content) - 1).to_bytes(more, "little") + content


def copy(source: random.Random, offset: int, length: int) -> bytes:
    """An element that repeats bytes, in one of the forms that can tell it."""
    if offset < 1 << 11 and 4 <= length <= 11 and source.random() < 0.5:
        return bytes([offset >> 8 << 5 | (length - 4) << 2 | 1, offset & 255])
    size = 2 if offset < 1 << 16 and source.random() < 0.5 else 4
    return bytes([(length - 1) << 2 | size // 2 + 1]) + offset.to_bytes(size, "little")


def test_pages_have_elements_of_every_form():
    source = random.Random(11)
    for _ in range(2_000):
        elements, content = [], bytearray()
        for _ in range(source.randrange(1, 80)):
            if content and source.random() < 0.6:
                length = source.randint(1, 64)
                offset = source.randint(1, min(len(content), source.choice((8, 20, 1 << 17))))
                elements.append(copy(source, offset, length))
                for _ in range(length):
                    content.append(content[-offset])
            else:
                new = source.randbytes(source.randint(1, source.choice((4, 60, 400))))
                elements.append(literal(source, new))
                content += new
        stored = varint(len(content)) + b"".join(elements)
        assert by_library(stored, len(content)) == content
        assert unpacked((stored, len(content))) == [content]


def test_every_prefix_of_a_page_is_broken():
    content = b"".join(b"%d, " % (number % 37) for number in range(200))
    stored = pa.compress(content, "snappy", asbytes=True)
    for size in range(len(stored)):
        assert unpacked((stored[:size], len(content))) is None


@pytest.mark.parametrize("size", [1, 799, 801])
def test_page_of_another_size_is_broken(size):
    stored = pa.compress(bytes(range(200)) * 4, "snappy", asbytes=True)
    assert unpacked((stored, size)) is None


def test_hostile_pages_are_what_the_library_makes_of_them():
    source = random.Random(7)
    sound = 0
    for _ in range(20_000):
        runs = source.choice((6, 60))  # few fill less than the loop over whole words wants around an element
        content = b"".join(source.randbytes(1 + source.randrange(6)) * source.randrange(1, 20) for _ in range(runs))
        stored = bytearray(pa.compress(content, "snappy", asbytes=True))
        for _ in range(source.randrange(3)):
            stored[source.randrange(len(stored))] = source.randrange(256)
        found = unpacked((bytes(stored), len(content)))
        expected = by_library(bytes(stored), len(content))
        assert found == (None if expected is None else [expected])
        sound += found is not None
    assert 5_000 < sound < 19_000
