"""Distributions bound the rows of every value, whatever the order of rows, and are read strictly."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from puffin.errors import CorruptSketchError
from puffin.format import ZSTD
from puffin.format.compression import compress
from puffin.sketches.counted_hashes import hash_counted, hash_rows
from puffin.sketches.distribution import HEAVY, MOST_VALUE_BYTES, SAMPLE, Distribution, folded
from puffin.sketches.distribution_builder import DistributionBuilder
from puffin.sketches.distribution_image import BUCKETS, FEWER_BUCKETS
from puffin.sketches.hash_arrays import bucket_of, in_buckets
from puffin.sketches.hashing import hash_array
from puffin.sketches.picked_values import PickedValues
from puffin.sketches.row_counts import RowCounts, RowCountsBuilder
from puffin.sketches.table_value_tally import TableValueTally
from puffin.values.serialized import Words
from puffin.values.value_bytes import to_comparables

LIMIT = 4 * 4096


def counted(values: np.ndarray, parts: int = 1) -> tuple[Distribution, RowCounts]:
    """The distribution of longs as the job makes it, and the row counts beside it."""
    counts, found = RowCountsBuilder(LIMIT), None
    for part in np.array_split(values, parts):
        builder = DistributionBuilder(SAMPLE)
        for each in hash_rows(pa.array(part, pa.int64()), "long"):
            builder.update_hashed(*each)
            counts.update_hashes(each.hashes, each.rows)
        found = builder.compact() if found is None else found.plus(builder.compact()).cut(times=2)
    assert found is not None
    return found.pruned_by(counts.compact()).cut(), counts.compact()


def longs(found: Distribution) -> list[int]:
    assert found.values is not None
    return [int.from_bytes(value.as_py(), "little", signed=True) for value in found.values]


def zipf(rng: np.random.Generator, alpha: float, values: int, rows: int) -> np.ndarray:
    weights = np.cumsum(1 / np.arange(1, values + 1) ** alpha)
    return rng.permutation(values)[np.searchsorted(weights / weights[-1], rng.random(rows))]


COLUMNS = {
    "unique": lambda rng: rng.permutation(150_000),
    "skewed": lambda rng: zipf(rng, 1.0, 60_000, 300_000),
    "sorted": lambda rng: np.sort(zipf(rng, 0.8, 60_000, 300_000)),
    "one value comes late": lambda rng: np.append(rng.permutation(100_000), np.full(5_000, -7)),
    "few": lambda rng: rng.integers(0, 500, 50_000),
}


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("column", COLUMNS)
def test_rows_of_every_value_are_within_bounds(column, parts):
    values = COLUMNS[column](np.random.default_rng(3))
    true = Counter(values.tolist())
    found, counts = counted(values, parts)
    known = dict(zip(longs(found), zip(found.low.tolist(), found.high.tolist(), strict=True), strict=True))
    assert all(low <= true[value] <= high for value, (low, high) in known.items())
    assert max((rows for value, rows in true.items() if value not in known), default=0) <= found.missed
    exact = found.with_exact(counts)
    assert all(low <= true[v] <= high for v, low, high in zip(longs(exact), exact.low, exact.high, strict=True))
    assert_buckets_leave_room(found, exact, counts, true)
    sampled = dict(zip(longs(exact), exact.low.tolist(), strict=True))
    below = [value for value, hash_ in zip(longs(found), found.hashes, strict=True) if hash_ < found.theta]
    assert [sampled[value] for value in below] == [true[value] for value in below]
    assert np.count_nonzero(found.is_heavy) <= HEAVY
    assert len(below) <= SAMPLE


def assert_buckets_leave_room(found: Distribution, exact: Distribution, counts: RowCounts, true: Counter) -> None:
    """The buckets have the rows of all values, and leave enough for each value that is not known."""
    if found.buckets is None:
        assert sum(counts.rows.tolist()) == sum(true.values())
        return
    array = pa.array(list(true), pa.int64())
    hashes = np.concatenate([each.hashes for each in hash_rows(array, "long")])
    rows = np.array(list(true.values()), np.uint64)
    assert (found.buckets == in_buckets(hashes, rows, BUCKETS)).all()
    left = exact.left_over(counts)
    assert left is not None
    unknown = ~np.isin(hashes, np.append(found.hashes, counts.hashes))
    assert (rows <= left[bucket_of(hashes, len(left))])[unknown].all()


def test_bounds_hold_however_rows_are_split_and_counted():
    """Pieces of columns of all kinds, in slices of any length, with many rows for some values."""
    source = np.random.default_rng()
    for _ in range(4):
        seed = int(source.integers(1 << 32))
        rng = np.random.default_rng(seed)
        pieces = [COLUMNS[name](rng)[: rng.integers(1, 90_000)] for name in rng.choice([*COLUMNS], 2)]
        values, true, builder = np.concatenate(pieces), Counter[int](), DistributionBuilder(SAMPLE)
        for part in np.split(values, np.sort(rng.integers(0, len(values), rng.integers(1, 12)))):
            rows = np.ones(len(part), np.int64)
            hashed = hash_rows(pa.array(part), "long")
            if rng.random() < 0.3:
                part = np.unique(part)
                rows = rng.integers(0, 3, len(part)) ** rng.integers(0, 12)
                hashed = hash_counted(pa.array(part), rows, "long")
            for each in hashed:
                builder.update_hashed(*each)
            for value, count in zip(part.tolist(), rows.tolist(), strict=True):
                true[value] += count
        found, true = builder.compact(), +true
        known = dict(zip(longs(found), zip(found.low.tolist(), found.high.tolist(), strict=True), strict=True))
        assert all(low <= true[value] <= high for value, (low, high) in known.items()), seed
        assert max((rows for value, rows in true.items() if value not in known), default=0) <= found.missed, seed
        hashes = np.concatenate([each.hashes for each in hash_rows(pa.array(list(true), pa.int64()), "long")])
        assert found.hashes[found.in_sample].tolist() == np.sort(hashes)[:SAMPLE].tolist(), seed
        of_each = np.array(list(true.values()), np.uint64)
        assert found.rows == int(of_each.sum()), seed
        assert found.buckets is None or (found.buckets == in_buckets(hashes, of_each, len(found.buckets))).all(), seed


@pytest.mark.parametrize("column", ["skewed", "one value comes late"])
def test_values_with_the_most_rows_are_heavy(column):
    values = COLUMNS[column](np.random.default_rng(4))
    found, _ = counted(values)
    heavy = {value for value, is_heavy in zip(longs(found), found.is_heavy, strict=True) if is_heavy}
    assert {value for value, _ in Counter(values.tolist()).most_common(100 if column == "skewed" else 1)} <= heavy


@pytest.mark.parametrize("parts", [1, 3])
def test_whether_a_value_is_heavy_does_not_depend_on_its_hash(parts):
    """Otherwise the sample of the others would have too few of those with many rows."""
    rng, of_sample, expected = np.random.default_rng(5), 0, 0.0
    for start in range(0, 4_000_000, 1_000_000):
        found, _ = counted(zipf(rng, 0.9, 60_000, 150_000) + start, parts)
        heavy = found.hashes[found.is_heavy]
        of_sample += int((heavy < found.theta).sum())
        expected += len(heavy) * found.theta / 2**63
    assert abs(of_sample - expected) < 4 * expected**0.5


def test_numbers_of_rows_beyond_32_bits_are_within_bounds():
    rng, builder = np.random.default_rng(8), DistributionBuilder(SAMPLE)
    true: Counter[int] = Counter()
    for _ in range(3):
        values, rows = rng.permutation(90_000)[:60_000], rng.integers(1, 1 << 34, 60_000)
        true.update(dict(zip(values.tolist(), rows.tolist(), strict=True)))
        for each in hash_counted(pa.array(values), rows, "long"):
            builder.update_hashed(*each)
    found = builder.compact()
    low, high = (dict(zip(longs(found), each.tolist(), strict=True)) for each in (found.low, found.high))
    assert found.rows == sum(true.values())
    assert all(low[value] <= true[value] <= high[value] for value in low)
    assert max(rows for value, rows in true.items() if value not in low) <= found.missed


def test_table_is_seldom_full_of_values_with_equal_rows(monkeypatch):
    rises: list[int] = []
    make_room = TableValueTally._make_room
    monkeypatch.setattr(TableValueTally, "_make_room", lambda self, *rows: (rises.append(1), make_room(self, *rows)))
    tally, rng = TableValueTally(SAMPLE, PickedValues(keeps_values=False)), np.random.default_rng(9)
    hashes = rng.integers(1, 1 << 63, 100_000, np.uint64)
    for _ in range(32):
        part = hashes[rng.integers(0, len(hashes), 1 << 16)]
        tally.add(part, None, Words(part, None, 8))
    assert 2 < len(rises) < 16  # 36 if the floor rose by as little as the rows of values in the table allow


def test_added_and_removed_rows_keep_the_bounds():
    rng = np.random.default_rng(6)
    values = zipf(rng, 0.9, 60_000, 200_000)
    gone = rng.random(len(values)) < 0.3
    (base, _), (removed, _) = counted(values), counted(values[gone])
    left, counts = counted(values[~gone])
    true = Counter(values[~gone].tolist())
    found = base.minus(removed).pruned_by(counts).cut()
    assert found.rows == left.rows
    assert all(low <= true[v] <= high for v, low, high in zip(longs(found), found.low, found.high, strict=True))
    assert all(true[value] > 0 for value in longs(found))
    assert found.theta == base.theta
    assert found.buckets is not None
    assert (found.buckets == left.buckets).all()


@pytest.fixture
def busy_in_the_sample() -> tuple[np.ndarray, Distribution, int]:
    """Rows, as a task counts them, and the hash of a value that is in the sample only and has more rows than missed."""
    hashes = np.concatenate(list(hash_array(pa.array(range(16_000)), "long")))
    by_hash, rows = np.argsort(hashes), np.full(16_000, 2)
    rows[by_hash[-2 * HEAVY :]], busy = 4, by_hash[5000]
    rows[busy] = 3
    values = np.repeat(np.arange(16_000), rows)
    builder = DistributionBuilder(SAMPLE)
    for each in hash_rows(pa.array(values, pa.int64()), "long"):
        builder.update_hashed(*each)
    found = builder.compact()
    assert (found.missed, found.is_heavy.sum(), len(found.hashes)) == (2, 2 * HEAVY, 2 * HEAVY + SAMPLE)
    return values, found, int(hashes[busy])


def test_rows_of_a_value_that_is_in_the_sample_only_are_removed(busy_in_the_sample):
    values, removed, _ = busy_in_the_sample
    found = counted(np.append(values, np.arange(16_000)))[0].minus(removed)
    assert (found.low <= 1).all()
    assert (found.high >= 1).all()
    assert Distribution.from_bytes(found.to_bytes()) == found


def test_no_value_has_more_rows_than_are_left():
    hashes = np.concatenate(list(hash_array(pa.array(range(10_000)), "long")))
    last = int(hashes.argmax())  # not in the sample, and of equal rows none is heavy
    values = np.repeat(np.arange(10_000), 2)
    base, removed = (counted(each)[0] for each in (np.append(values, [last, last]), values))
    counts = counted(np.array([last, last]))[1]
    found = base.minus(removed).pruned_by(counts).cut()
    assert (found.rows, longs(found), found.high.tolist()) == (2, [last], [2])
    assert Distribution.from_bytes(found.to_bytes()) == found


def test_rows_of_a_value_that_leaves_the_sample_are_missed(busy_in_the_sample):
    values, part, busy = busy_in_the_sample
    counts = RowCountsBuilder(1000)  # fewer than the sample has
    for each in hash_rows(pa.array(values, pa.int64()), "long"):
        counts.update_hashes(each.hashes, each.rows)
    found = part.plus(part).pruned_by(counts.compact())
    assert busy not in found.hashes
    assert found.missed == 6


def test_rows_of_many_are_in_fewer_buckets_which_add_up_and_subtract():
    few, _ = counted(np.arange(20_000))
    builder = DistributionBuilder(SAMPLE)
    for each in hash_counted(pa.array(range(20_000)), np.full(20_000, 1000, np.int64), "long"):
        builder.update_hashed(*each)
    many = builder.compact()
    assert few.buckets is not None
    assert many.buckets is not None
    assert len(few.buckets) == BUCKETS
    assert (many.buckets == 1000 * folded(few.buckets, FEWER_BUCKETS)).all()
    assert Distribution.from_bytes(many.to_bytes()) == many
    assert (many.plus(few).minus(few).buckets == many.buckets).all()
    assert few.minus(many).buckets is None


def test_few_values_are_exact_and_equal_whatever_the_order():
    values = np.random.default_rng(7).integers(0, 3000, 40_000)
    one, counts = counted(values)
    other, _ = counted(values[::-1], parts=4)
    assert one.with_exact(counts) == other.with_exact(counts)
    rows = dict(zip(longs(one), one.with_exact(counts).low.tolist(), strict=True))
    assert rows == Counter(values.tolist())


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("string", pa.array(["", "a", "a", None, "z" * 200, "z" * 100 + "y"])),
        ("decimal(38, 2)", pa.array(["1.50", "-1.50", "99999999999999999999999999999999.99", "1.50"])),
        ("boolean", pa.array([True, False, True])),
        ("double", pa.array([0.0, -0.0, float("nan"), 1.5])),
    ],
)
def test_values_of_each_kind_of_bytes_are_kept(type_, array):
    if type_.startswith("decimal"):
        array = array.cast(pa.decimal128(38, 2))
    builder = DistributionBuilder(SAMPLE)
    for each in hash_counted(array, np.ones(len(array), np.int64), type_):
        builder.update_hashed(*each)
    found = builder.compact()
    hashes = sorted({int(h) for part in hash_array(array, type_) for h in part})
    assert found.hashes.tolist() == hashes
    assert found.values is not None
    assert [len(value.as_py()) == 64 for value in found.values] == found.is_cut.tolist()


def test_long_strings_are_cut_until_all_fit():
    strings = pa.array([f"{i:060d}" for i in range(SAMPLE)])
    builder = DistributionBuilder(SAMPLE)
    for each in hash_rows(strings, "string"):
        builder.update_hashed(*each)
    found = builder.compact().cut()
    assert found.values is not None
    assert sum(len(value.as_py()) for value in found.values) <= MOST_VALUE_BYTES
    assert found.is_cut.all()


def test_decimals_stay_whole_however_many_there_are():
    digits = np.random.default_rng(1).integers(10**18, size=(SAMPLE, 2))
    decimals = pa.array([f"{a}{b:018}" for a, b in digits.tolist()]).cast(pa.decimal128(38, 0))
    builder = DistributionBuilder(SAMPLE)
    for each in hash_rows(decimals, "decimal(38, 0)"):
        builder.update_hashed(*each)
    found = builder.compact().cut()
    assert found.values is not None
    assert not found.is_cut.any()
    expected = sorted(int(value) for value in decimals.to_pylist())
    assert sorted(to_comparables(found.values, "decimal(38, 0)").tolist()) == expected


def test_image_is_read_back_and_cut_anywhere_is_refused():
    found, _ = counted(np.arange(40) % 13)
    image = found.to_bytes()
    assert Distribution.from_bytes(image) == found == pickle.loads(pickle.dumps(found))
    for size in range(len(image)):
        with pytest.raises(CorruptSketchError, match="distribution"):
            Distribution.from_bytes(image[:size])
    with pytest.raises(CorruptSketchError, match="size"):
        Distribution.from_bytes(image + b"\0")


@pytest.mark.parametrize(
    ("offset", "value", "field"),
    [(0, 2, "version"), (1, 4, "flags"), (2, 0, "seed hash"), (15, 255, "theta"), (23, 255, "rows"), (31, 1, "missed")],
)
def test_a_wrong_field_is_named(offset, value, field):
    image = bytearray(counted(np.arange(40) % 13)[0].to_bytes())
    image[offset] = value
    with pytest.raises(CorruptSketchError, match=f"distribution, {field} at offset"):
        Distribution.from_bytes(bytes(image))


def test_without_values_hashes_and_rows_stay():
    found, _ = counted(np.arange(40) % 13)
    bare = Distribution.from_bytes(found.without_values().to_bytes())
    assert bare.values is None
    assert (bare.hashes == found.hashes).all()
    assert (bare.low == found.low).all()


def test_buckets_that_do_not_add_up_are_refused():
    image = bytearray(counted(np.arange(20_000))[0].to_bytes())
    for at, field in ((-1, "rows of all buckets"), (-BUCKETS - 1, "exponent"), (-BUCKETS - 2, "width")):
        broken = image.copy()
        broken[at] += 2
        with pytest.raises(CorruptSketchError, match=f"distribution, {field} at offset"):
            Distribution.from_bytes(broken)


@pytest.mark.parametrize("rows", [10**7, 10**11])
def test_state_of_a_column_takes_at_most_400_kb(rows):
    """Random hashes, texts and numbers of rows, as no table has them: nothing of it can be compressed well."""
    rng = np.random.default_rng(rows)
    theta = 1 << 55
    sample, heavy = rng.choice(theta - 1, SAMPLE, replace=False) + 1, rng.integers(theta, 1 << 63, HEAVY)
    hashes = np.sort(np.append(sample, heavy)).astype(np.uint64)
    is_heavy = hashes >= np.uint64(theta)
    low = (rng.pareto(1, len(hashes)) * rows * np.where(is_heavy, 1e-4, 1e-7) + 1).astype(np.uint64)
    buckets = BUCKETS if rows < 1 << 24 else FEWER_BUCKETS
    found = Distribution(
        rows=rows,
        missed=rows // 10**5,
        theta=theta,
        hashes=hashes,
        low=low,
        high=low + np.where(is_heavy, rng.integers(0, rows // 10**5, len(hashes)), 0).astype(np.uint64),
        is_heavy=is_heavy,
        values=pa.array([rng.bytes(10) for _ in hashes], pa.large_binary()),
        is_cut=np.zeros(len(hashes), np.bool_),
        buckets=(rng.poisson(rows / buckets, buckets) + rng.pareto(1, buckets)).astype(np.uint64),
    ).within_bytes()
    counted_hashes = np.sort(rng.choice(theta - 1, LIMIT, replace=False) + 1).astype(np.uint64)
    counts = (rng.pareto(1, LIMIT) * rows * 1e-7 + 1).astype(np.int64)
    for each in (counted_hashes, counts):
        each.flags.writeable = False
    images = found.to_bytes(), RowCounts(theta, counted_hashes, counts).to_bytes()
    assert sum(len(compress(ZSTD, image)) for image in images) <= 400_000
