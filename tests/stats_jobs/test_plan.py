"""Files become batches of about equal work, and every row group is in exactly one of them."""

import dataclasses
import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.statistics.kinds.joint import JointKind
from puffin.tables.base import Column
from stats_jobs import column_memory, plan
from stats_jobs.plan import MOST_BATCHES, balance, plan_batches
from stats_jobs.scan import Scan, total_bytes
from tests.scan_files import data_file, whole

MIB = 1024 * 1024
GIB = 1024 * MIB


def task(size, name="f", offsets=()):
    return whole(data_file(name, size, split_offsets=tuple(offsets)))


A, B = (Column(i, name, "long", (i,), (None,)) for i, name in ((1, "a"), (2, "b")))


def batches_of(tasks, parallelism=2):
    return planned([Scan({A: ()}, tuple(tasks))], parallelism)


def planned(scans, parallelism=2):
    return plan_batches(scans, parallelism=parallelism)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 10**9), max_size=40), st.integers(1, 12))
def test_batches_are_balanced_and_complete(sizes, count):
    tasks = [task(size, str(i)) for i, size in enumerate(sizes)]
    groups = balance(tasks, min(count, len(tasks)))
    assert sorted(t.data_file.file_path for group in groups for t in group) == sorted(map(str, range(len(sizes))))
    assert all(groups)
    weights = [sum(t.length for t in group) for group in groups]
    if weights:
        assert max(weights) - min(weights) <= max(sizes) + len(sizes)


FILES = st.lists(
    st.integers(0, 600 * MIB).flatmap(
        lambda size: st.tuples(st.just(size), st.lists(st.integers(4, max(size, 4)), max_size=8).map(sorted))
    ),
    max_size=12,
)


@settings(max_examples=100)
@given(FILES, st.integers(1, 8))
def test_every_row_group_is_in_exactly_one_batch(files, parallelism):
    batches = batches_of([task(size, str(i), offsets) for i, (size, offsets) in enumerate(files)], parallelism)
    assert all(batch.tasks for batch in batches)
    pieces = [piece for batch in batches for piece in batch.tasks]
    for i, (size, offsets) in enumerate(files):
        of_file = [piece for piece in pieces if piece.data_file.file_path == str(i)]
        assert sum(piece.length for piece in of_file) == size
        for offset in {o for o in offsets if o < size}:
            assert sum(piece.start <= offset < piece.start + piece.length for piece in of_file) == 1


def test_no_files_make_no_batches():
    assert batches_of([]) == []


def test_few_files_make_no_more_batches_than_pieces():
    assert len(batches_of([task(10), task(20)], parallelism=100)) == 2


def test_large_file_is_split_for_every_core():
    offsets = range(4, 512 * MIB, 16 * MIB)
    batches = batches_of([task(512 * MIB, offsets=offsets)], parallelism=4)
    assert len(batches) == 4
    assert {piece.start for batch in batches for piece in batch.tasks} - {0} <= set(offsets)


def test_larger_work_makes_a_few_batches_for_each_core():
    """Others make up for a slow one; small work is one batch, because each task has a cost."""
    sizes = {1: 4, 511: 4, 1024: 8, 2_000: 12}
    for mib, expected in sizes.items():
        files = [task(mib * MIB // 4, f"{i}", range(4, mib * MIB // 4, 8 * MIB)) for i in range(16)]
        assert len(batches_of(files, parallelism=4)) == expected, mib


def test_small_files_are_not_split():
    batches = batches_of([task(plan.SMALLEST_SPLIT, offsets=range(4, plan.SMALLEST_SPLIT, 1000))], parallelism=64)
    assert [len(batch.tasks) for batch in batches] == [1]


def test_batch_size_is_limited_so_that_losing_one_is_cheap():
    tasks = [task(256 * MIB, str(i)) for i in range(64)]
    batches = batches_of(tasks, parallelism=1)
    assert max(sum(piece.length for piece in batch.tasks) for batch in batches) <= 1.5 * plan.LARGEST_BATCH


def test_absurd_file_size_plans_a_bounded_number_of_batches():
    """A manifest can claim any size; the driver must not schedule billions of tasks for it."""
    assert len(batches_of([task(2**62)])) <= MOST_BATCHES + 1


def test_scans_share_the_cores_by_size_and_are_never_mixed():
    """A small scan takes one batch from a large one, not half of them."""
    files = [task(32 * MIB, str(i)) for i in range(8)]
    scans = [
        Scan({A: ()}, tuple(files)),
        Scan({A: (), B: ()}, (task(1, "x"),)),
        Scan({B: ()}, (task(1, "y"),), removed=True),
    ]
    batches = planned(scans, parallelism=4)
    assert [len([b for b in batches if b.columns == columns]) for columns in ((A,), (A, B), (B,))] == [4, 1, 1]
    assert [b.tasks[0].data_file.file_path for b in batches if b.removed] == ["y"]


def test_scan_without_columns_or_files_is_not_planned():
    assert planned([Scan({}, (task(1),)), Scan({A: ()}, ())]) == []


def test_deleted_rows_are_weighed_by_their_number():
    """A task for a hundredth of a file's rows weighs a hundredth."""
    deletes = dataclasses.replace(task(1).data_file, content="POSITION_DELETES", record_count=10)
    rows = dataclasses.replace(task(1000).data_file, record_count=1000)
    every = whole(rows)
    some, none = (dataclasses.replace(every, deleted_by=named) for named in ((deletes,), ()))
    assert [total_bytes([each]) for each in (every, some, none)] == [1000, 10, 0]


def test_scan_of_many_columns_is_divided_and_joint_columns_stay_together():
    """Every column is read from every file once, in batches of few columns."""
    types = random.choices(("long", "string"), k=300)
    columns = [Column(i, f"c{i}", type_, (i,), (None,)) for i, type_ in enumerate(types)]
    joint = JointKind(12, ((columns[0], columns[-1]),))
    scan = Scan(
        {column: (joint,) if column == columns[0] else () for column in columns}, (task(GIB, "a"), task(5, "b"))
    )
    batches = planned([scan])
    assert all(sum(map(column_memory.state_bytes, batch.columns)) <= column_memory.MOST_STATE for batch in batches)
    nearly_full = column_memory.MOST_STATE - column_memory.state_bytes(columns[types.index("string")])
    assert len({batch.columns for batch in batches}) <= 2 + sum(map(column_memory.state_bytes, columns)) // nearly_full
    assert all((columns[0] in batch.columns) == (columns[-1] in batch.columns) for batch in batches)
    read = Counter((c.field_id, t.data_file.file_path) for batch in batches for c in batch.columns for t in batch.tasks)
    assert set(read) == {(c.field_id, name) for c in columns for name in "ab"}
    of_a = [t for batch in batches if columns[1] in batch.columns for t in batch.tasks if t.data_file.file_path == "a"]
    assert sum(piece.length for piece in of_a) == GIB
