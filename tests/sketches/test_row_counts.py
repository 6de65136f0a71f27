"""Row counts are canonical for any order, parts and layout, and equal a new count."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from random import Random

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptDataFileError, CorruptSketchError, UnsupportedTypeError, UsageError
from puffin.sketches.hashing import hash_array
from puffin.sketches.row_counts import RowCounts, RowCountsBuilder, row_counts_limit
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.theta_sketch import ThetaSketch, ThetaSketchBuilder
from tests.counting import count_rows

LG_K = 5
K = 1 << LG_K
LIMIT = row_counts_limit(LG_K)

Column = Callable[[str, int], pa.Array]
Expected = tuple[int, dict[int, int]]


def array(values: Iterable[int]) -> npt.NDArray[np.uint64]:
    return np.array([*values], np.uint64)


def smallest(rows: Counter[int], limit: int = LIMIT) -> Expected:
    """The definition: the smallest distinct hashes with their rows, and theta the next one."""
    hashes = sorted(rows)
    return (hashes[limit] if len(hashes) > limit else MAX_THETA), {h: rows[h] for h in hashes[:limit]}


def contents(counts: RowCounts) -> Expected:
    return counts.theta, dict(zip(counts.hashes.tolist(), counts.rows.tolist(), strict=True))


def make(rows: dict[int, int], theta: int = MAX_THETA) -> RowCounts:
    hashes, numbers = array(sorted(rows)), np.array([rows[h] for h in sorted(rows)], np.int64)
    for values in (hashes, numbers):
        values.setflags(write=False)
    return RowCounts(theta, hashes, numbers)


def count(arrays: pa.Array | pa.ChunkedArray | list[pa.Array], type_string: str) -> RowCounts:
    """The rows of one or more arrays."""
    builder = RowCountsBuilder(LIMIT)
    for each in arrays if isinstance(arrays, list) else [arrays]:
        count_rows(builder, each, type_string)
    return builder.compact()


def count_known(values: pa.Array, rows: list[int], type_string: str, limit: int = LIMIT) -> RowCounts:
    """Count values with known numbers of rows."""
    builder = RowCountsBuilder(limit)
    count_rows(builder, values, type_string, np.array(rows))
    return builder.compact()


def build(values: Iterable[int]) -> RowCounts:
    return count(pa.array([*values], pa.int64()), "long")


def rows_of(values: pa.Array, type_string: str) -> Counter[int]:
    """Rows per hash, each value hashed separately."""
    rows: Counter[int] = Counter()
    for i in range(len(values)):
        one = values.slice(i, 1)
        rows.update(chain.from_iterable(part.tolist() for part in hash_array(one, type_string)))
    return rows


# Many rows of few values, and few of many.
VALUES = st.lists(st.integers(0, 9), max_size=30) | st.builds(
    lambda seed, n, distinct: np.random.default_rng(seed).integers(0, distinct, n).tolist(),
    st.integers(0, 1 << 32),
    st.integers(0, 3 * LIMIT),
    st.sampled_from([K - 1, K, K + 1, LIMIT, LIMIT + 1, 5 * LIMIT]),
)


class TestBuilder:
    def test_counts_every_row(self, any_type: str, column: Column) -> None:
        """Each row of every type is counted under the hash of its value."""
        values = column(any_type, 40).take(pa.array([i * i % 40 for i in range(100)]))
        assert contents(count(values, any_type)) == smallest(rows_of(values, any_type))

    def test_layouts_count_alike(self, any_type: str, column: Column) -> None:
        """Chunks, slices, NULL and unused dictionary entries change nothing."""
        indices = pa.array([None, *(i * i % 40 for i in range(100)), None, 3], pa.int16())
        encoded = pa.DictionaryArray.from_arrays(indices, column(any_type, 60))
        plain = column(any_type, 60).take(indices)
        whole = smallest(rows_of(plain, any_type))
        for layout in (
            plain,
            encoded,
            pa.chunked_array([plain[:0], plain[:7], plain[7:]]),
            pa.chunked_array([encoded[:50], encoded[50:]]),
            pa.concat_arrays([plain[:9], plain])[9:],
            pa.concat_arrays([encoded[:9], encoded])[9:],
            pa.DictionaryArray.from_arrays(indices.cast(pa.uint64()), column(any_type, 60)),
        ):
            assert contents(count(layout, any_type)) == whole

    def test_known_rows_count_alike(self, any_type: str, column: Column) -> None:
        """Values with a number of rows equal those rows, in any order, repeated, absent or NULL."""
        values = pa.concat_arrays([column(any_type, 50), pa.nulls(2, column(any_type, 1).type), column(any_type, 3)])
        rows = [i * 37 % 11 for i in range(55)]
        expected = smallest(rows_of(values.take(pa.array(np.repeat(np.arange(55), rows))), any_type))
        assert contents(count_known(values, rows, any_type)) == expected
        assert contents(count_known(values[::-1], rows[::-1], any_type)) == expected
        encoded = pa.DictionaryArray.from_arrays(pa.array([*range(55)], pa.int8()), values)
        assert contents(count_known(encoded, rows, any_type)) == expected

    def test_long_decimals_keep_their_rows(self) -> None:
        """Mixed decimals of 1 to 16 bytes."""
        values = pa.array([i * 10**e for e in range(0, 37, 3) for i in range(-9, 10)], pa.decimal128(38, 0))
        rows = [n**3 for n in range(1, len(values) + 1)]
        expected: Counter[int] = Counter()
        for i, n in enumerate(rows):
            for h in rows_of(values[i : i + 1], "decimal(38, 0)"):
                expected[h] += n
        assert contents(count_known(values, rows, "decimal(38, 0)", 1000)) == smallest(expected, 1000)

    @pytest.mark.parametrize(
        "arrow_type", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()], ids=str
    )
    def test_empty_strings_are_not_counted(self, arrow_type: pa.DataType) -> None:
        """Nor is NULL, and their neighbours keep their rows."""
        texts, rows = ["a", "", None, "b", "longer than a view holds"], [2, 3, 5, 7, 11]
        indices = np.repeat(np.arange(5), rows)
        values, plain = (pa.array(t).cast(arrow_type) for t in (texts, [texts[i] for i in indices]))
        expected = smallest(rows_of(plain, "string"))
        assert contents(count(plain, "string")) == expected
        assert contents(count(pa.DictionaryArray.from_arrays(indices, values), "string")) == expected
        assert contents(count_known(values, rows, "string")) == expected

    def test_booleans_are_counted(self) -> None:
        """Plain, sliced, encoded, with NULL, and counted before."""
        values = pa.array([True, None, True, False, None, True, True, False])
        expected = smallest(rows_of(values[1:7], "boolean"))
        assert sorted(expected[1].values()) == [1, 3]
        for layout in (values[1:7], values[1:7].dictionary_encode(), pa.chunked_array([values[1:2], values[2:7]])):
            assert contents(count(layout, "boolean")) == expected
        known = pa.array([False, None, True, True, False])
        assert contents(count_known(known, [1, 9, 1, 2, 0], "boolean")) == expected

    def test_extension_array_counts_like_its_storage(self) -> None:
        """In a dictionary and over views too."""
        stored = pa.array([bytes([i]) * 16 for i in (1, 2, 2, 3)], pa.binary(16))
        extended = pa.ExtensionArray.from_storage(pa.uuid(), stored)
        encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), extended)
        assert count(stored, "uuid") == count(extended, "uuid") == count(encoded, "uuid")
        assert sorted(count(stored, "uuid").rows.tolist()) == [1, 1, 2]

        views = pa.array(["1", "", "2", "2"], pa.string_view())
        extended = pa.ExtensionArray.from_storage(pa.json_(pa.string_view()), views)
        expected = count(pa.array(["1"] + ["2"] * 7), "string")
        assert count_known(extended, [1, 2, 3, 4], "string") == expected

    def test_constant_columns_are_counted(self) -> None:
        """A dictionary of one entry with many indices is many rows of one value; NULL is none."""
        constant = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int8), pa.array(["x"]))
        no_entry = pa.DictionaryArray.from_arrays(pa.nulls(5, pa.int8()), pa.array([], pa.string()))
        assert count([constant, pa.nulls(5), no_entry], "string").rows.tolist() == [100_000]

    @settings(max_examples=60)
    @given(st.lists(VALUES, max_size=4), st.randoms(use_true_random=False))
    def test_order_and_parts_do_not_matter(self, parts: list[list[int]], random: Random) -> None:
        """Merged parts equal all rows in any order, byte for byte."""
        shuffled = [*chain.from_iterable(parts)]
        random.shuffle(shuffled)
        merged = build([])
        for part in sorted(parts, key=len):
            merged = merged.plus(build(part), LIMIT)
        assert merged.to_bytes() == build(shuffled).to_bytes()

    def test_merging_keeps_the_lowest_theta(self) -> None:
        """Larger row counts, and later rows, keep out what one part left out."""
        merged = make({5: 1, 900: 2, 1500: 3})
        for part in (make({5: 1, 700: 1}, theta=1000), make({1000: 9, 999: 4}), make({}, theta=990), make({990: 1})):
            merged = merged.plus(part, 10 * LIMIT)
        assert contents(merged) == (990, {5: 2, 700: 1, 900: 2})

    def test_builder_continues_after_compact(self) -> None:
        """The compact value does not change."""
        builder = RowCountsBuilder(LIMIT)
        count_rows(builder, pa.array(range(10)), "long")
        early = builder.compact()
        image = early.to_bytes()
        count_rows(builder, pa.array([*range(20)] * 2), "long")
        assert early.to_bytes() == image
        assert sorted(builder.compact().rows.tolist()) == [2] * 10 + [3] * 10

    @pytest.mark.parametrize(
        "rows", [np.array([1, 1]), np.array([-1]), np.array([1.0]), np.array([1], np.uint64), np.array([[1]])]
    )
    def test_other_numbers_of_rows_are_refused(self, rows: npt.NDArray[np.int64]) -> None:
        """Each value has one integer of 0 or more."""
        with pytest.raises(UsageError, match="rows: expected 1 int64 from 0 on, found"):
            count_rows(RowCountsBuilder(LIMIT), pa.array(["a"]), "string", rows)

    def test_other_types_are_refused(self) -> None:
        """Also in a dictionary that no row uses."""
        unused = pa.DictionaryArray.from_arrays(pa.nulls(3, pa.int8()), pa.array(["a"]))
        with pytest.raises(UnsupportedTypeError):
            count(unused, "variant")
        for values in (unused, pa.array(["a"])):
            with pytest.raises(CorruptDataFileError, match="cannot be read from Arrow string"):
                count(values, "long")


class TestSketch:
    @settings(max_examples=60)
    @given(VALUES, st.sampled_from([LG_K, LG_K + 1]))
    def test_sketch_equals_the_sketch_of_the_rows(self, values: list[int], lg_k: int) -> None:
        """Byte for byte, also of more hashes."""
        builder = ThetaSketchBuilder(lg_k)
        builder.update(pa.array(values, pa.int64()), "long")
        sketch = build(values).sketch(lg_k)
        assert sketch is not None
        assert sketch.to_bytes() == builder.compact().to_bytes()

    def test_sketch_needs_one_hash_more_than_it_holds(self) -> None:
        """If theta cut something off, k hashes are not enough, because one more gives theta."""
        some = dict.fromkeys(range(1, K + 1), 1)
        assert make(some, theta=1000).sketch(LG_K) is None
        assert make({}, theta=1000).sketch(LG_K) is None
        sketch = make({**some, 999: 1}, theta=1000).sketch(LG_K)
        assert sketch == ThetaSketch(999, make(some).hashes)

    def test_sketch_is_exact_while_nothing_is_cut_off(self) -> None:
        """Up to k hashes it is exact; one more makes it estimate."""
        some = dict.fromkeys(range(1, K + 1), 1)
        assert make(some).sketch(LG_K) == ThetaSketch(MAX_THETA, make(some).hashes)
        assert make({**some, 999: 1}).sketch(LG_K) == ThetaSketch(999, make(some).hashes)
        empty = make({}).sketch(LG_K)
        assert empty is not None
        assert empty.empty


class TestCombine:
    @settings(max_examples=100)
    @given(VALUES, VALUES, st.data())
    def test_combination_equals_a_new_count(self, base: list[int], added: list[int], data: st.DataObject) -> None:
        """The remaining hashes equal a count of the remaining rows, and so does the sketch, if there is one."""
        everything = [*base, *added]
        seed, share = data.draw(st.integers(0, 1 << 32)), data.draw(st.sampled_from([0.0, 0.02, 0.5, 0.9, 1.0]))
        is_removed = (np.random.default_rng(seed).random(len(everything)) < share).tolist()
        removed = [value for value, goes in zip(everything, is_removed, strict=True) if goes]
        left = [value for value, goes in zip(everything, is_removed, strict=True) if not goes]
        combined, anew = build(base).combine(build(added), build(removed), LIMIT), build(left)

        assert combined.theta <= anew.theta
        assert contents(combined)[1] == {h: n for h, n in contents(anew)[1].items() if h < combined.theta}
        sketch = combined.sketch(LG_K)
        if sketch is None:
            assert len(combined.hashes) <= K
        else:
            assert sketch.to_bytes() == anew.sketch(LG_K).to_bytes()
        if max(len(set(base)), len(set(added)), len(set(removed)), len(set(everything) - set(removed))) <= LIMIT:
            assert sketch is not None

    def test_combination_adds_and_subtracts_rows(self) -> None:
        """A hash without rows disappears, even one only added to be removed."""
        base, added, removed = make({1: 5, 2: 1, 3: 2}), make({2: 4, 7: 1, 8: 2}), make({1: 4, 3: 2, 7: 1})
        assert base.combine(added, removed, LIMIT) == make({1: 1, 2: 5, 8: 2})
        assert RowCounts.combine(base, make({}), make({}), LIMIT) == base

    def test_lowest_theta_counts(self) -> None:
        """Nothing is known at or above the lowest of three thetas."""
        assert make({1: 1, 20: 1}).combine(make({2: 1}, theta=10), make({20: 7, 30: 1}), LIMIT) == make(
            {1: 1, 2: 1}, theta=10
        )
        assert make({1: 1}, theta=10).combine(make({9: 1, 10: 1}), make({10: 5}), LIMIT) == make({1: 1, 9: 1}, theta=10)

    def test_combination_holds_no_more_than_its_limit(self) -> None:
        """The limit counts the remaining hashes, and theta is the first hash beyond it."""
        base = make(dict.fromkeys(range(1, 9), 1))
        assert base.combine(make({}), make({1: 1}), 3) == make({2: 1, 3: 1, 4: 1}, theta=5)
        assert base.combine(make({}), make({1: 1}), 7) == make(dict.fromkeys(range(2, 9), 1))

    @pytest.mark.parametrize("removed", [{1: 6}, {4: 1}, {1: 1, 2: 1, 3: 9}])
    def test_removing_unknown_rows_is_refused(self, removed: dict[int, int]) -> None:
        """More rows of a hash than there are, or an unknown hash, contradict the counts."""
        with pytest.raises(CorruptSketchError, match=r"the row counts contradict the files: hash [134] loses"):
            make({1: 5, 2: 1, 3: 2}).combine(make({}), make(removed), LIMIT)


class TestValue:
    def test_row_counts_are_immutable(self) -> None:
        """Attributes and arrays, built, combined and after a pickle."""
        counts = build([1, 1, 2])
        for frozen in (counts, counts.combine(counts, counts, LIMIT), pickle.loads(pickle.dumps(counts))):
            assert frozen == counts
            with pytest.raises(AttributeError):
                frozen.theta = 5
            for values in (frozen.hashes, frozen.rows):
                with pytest.raises(ValueError, match="read-only"):
                    values[0] = 5

    def test_row_counts_are_equal_by_value(self) -> None:
        """Theta, hashes and rows count; other types are unequal."""
        assert build([1, 2, 1]) == build([2, 1, 1])
        assert hash(build([1, 2, 1])) == hash(build([2, 1, 1]))
        assert make({1: 1}) != make({1: 2})
        assert make({1: 1}) != make({2: 1})
        assert make({1: 1}) != make({1: 1}, theta=9)
        assert make({1: 1}) != "row counts"

    @pytest.mark.parametrize(
        ("theta", "hashes", "rows"),
        [
            (0, [], []),
            (1 << 63, [], []),
            (5, [5], [1]),
            (9, [0], [1]),
            (9, [3, 3], [1, 1]),
            (9, [4, 3], [1, 1]),
            (9, [3], [0]),
            (9, [3], []),
        ],
    )
    def test_invalid_row_counts_are_refused(self, theta: int, hashes: list[int], rows: list[int]) -> None:
        arrays = array(hashes), np.array(rows, np.int64)
        for values in arrays:
            values.setflags(write=False)
        with pytest.raises(UsageError, match="row counts: expected"):
            RowCounts(theta, *arrays)

    def test_writeable_arrays_are_refused(self) -> None:
        good = make({1: 1})
        for hashes, rows in ((good.hashes.copy(), good.rows), (good.hashes, good.rows.copy())):
            with pytest.raises(UsageError, match="read-only"):
                RowCounts(MAX_THETA, hashes, rows)

    @pytest.mark.parametrize("limit", [0, -1, 1.0, (1 << 28) + 1])
    def test_other_limits_are_refused(self, limit: int) -> None:
        """A limit is a number of hashes that an image can hold."""
        with pytest.raises(UsageError, match="limit: expected an integer from 1 to"):
            RowCountsBuilder(limit)
        with pytest.raises(UsageError, match="limit"):
            make({}).combine(make({}), make({}), limit)

    def test_limit_leaves_headroom(self) -> None:
        """Four times the hashes of the sketch, even of the largest."""
        assert row_counts_limit(12) == 4 * 4096
        assert RowCountsBuilder(row_counts_limit(26)).compact() == make({})
        for lg_k in (4, 27):
            with pytest.raises(UsageError, match="lg_k"):
                row_counts_limit(lg_k)
            with pytest.raises(UsageError, match="lg_k"):
                make({}).sketch(lg_k)
