"""Closer bounds do not depend on the order of files, and a search that ends early finds what a whole one does."""

import functools

from hypothesis import given
from hypothesis import strategies as st

from puffin.tables.closer_bounds import BoundsSearch, CloserBounds
from puffin.values.column_bounds import NO_VALUES, UNKNOWN, Bounds, Missing

SIDE = st.integers(0, 5) | st.just(Missing.UNKNOWN)
BOUNDS = st.builds(Bounds, SIDE, SIDE) | st.just(NO_VALUES)
FILES = st.lists(st.tuples(BOUNDS, st.booleans()), max_size=6)


def searched(known: Bounds, files: list[tuple[Bounds, bool]]) -> CloserBounds:
    search = BoundsSearch({1: known})
    for bounds, is_whole in files:
        if not search.open:
            break
        search.look(1, bounds, is_whole=is_whole)
    return search.found(lambda: not all(is_whole for _, is_whole in files))[1]


@given(st.builds(Bounds, SIDE, SIDE), FILES, st.randoms())
def test_search_finds_what_all_files_say(known, files, source):
    found = searched(known, files)
    said = functools.reduce(Bounds.union, (bounds for bounds, _ in files), NO_VALUES)
    assert found.bounds == known.intersection(said)
    is_known = Missing.UNKNOWN not in (said.lower, said.upper) and known.intersection(said) == said
    if all(is_whole for _, is_whole in files) and is_known:
        assert not found.is_loose
    source.shuffle(files)
    assert searched(known, files) == found


def test_bounds_are_loose_unless_a_whole_file_has_them():
    known = Bounds(1, 9)
    assert searched(known, [(Bounds(1, 9), False)]).is_loose
    assert searched(known, [(Bounds(2, 9), True), (UNKNOWN, True)]).is_loose
    assert searched(known, [(Bounds(3, 4), False), (Bounds(1, 2), True)]).is_loose
    apart = [(Bounds(3, 4), False), (UNKNOWN, True), (Bounds(1, 2), True), (Bounds(5, 9), True)]
    assert searched(known, apart) == CloserBounds(known, is_loose=False)


def test_bounds_are_loose_if_those_of_files_are_cut_shorter():
    known = Bounds("cust-a", "cust-z")
    assert searched(known, [(Bounds("cust", "cusu"), True)]) == CloserBounds(known, is_loose=True)
    assert not searched(known, [(Bounds("cust", "cusu"), True), (known, True)]).is_loose
    assert not searched(NO_VALUES, [(Bounds(1, 2), True)]).is_loose
