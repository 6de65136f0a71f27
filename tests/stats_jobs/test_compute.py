"""What is read adds up to sketches, or the column is computed in full: nothing uncertain is used."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

from puffin.errors import CorruptDataFileError, FileNotFound, StorageError
from puffin.sketches.partition_sketches import PartitionSketchesBuilder
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.aside import Later
from puffin.statistics.bases import Base
from puffin.statistics.basis import CARRIED, READ_ADDED, READ_ALL, READ_CHANGED, ColumnPlan
from puffin.statistics.kinds import PARTITION_SKETCHES, ROW_COUNTS, SUMMARY, THETA
from puffin.statistics.kinds.row_counts import RowCountsKind
from puffin.statistics.kinds.theta import ThetaKind
from puffin.tables.base import Column
from puffin.tables.changes import Changes
from puffin.values.column_bounds import NO_VALUES, Bounds
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary
from stats_jobs.compute import compute
from stats_jobs.partial import Partial, merge_partials
from stats_jobs.partitions import PartitionPlan
from stats_jobs.plan_scans import Plans
from tests.counting import count_rows
from tests.scan_files import data_file, whole

LG_K = 5
COUNTS = (RowCountsKind(LG_K), ThetaKind(LG_K), SUMMARY)
SKETCHES = (ThetaKind(LG_K), SUMMARY)
A, B = (Column(i, name, "long", (i,), (None,)) for i, name in ((1, "a"), (2, "b")))


def counts(values):
    builder = RowCountsKind(LG_K).start()
    count_rows(builder, pa.array(values, pa.int64()), "long")
    return builder.compact()


def sketch(values):
    return ThetaSketch.from_arrow(pa.array(values, pa.int64()), "long", LG_K)


def summed_up(values):
    bounds = Bounds.of(min(values), max(values)) if values else NO_VALUES
    return RowSummary(rows=len(values), total_bytes=8 * len(values), bounds=bounds)


def task(name):
    return whole(data_file(name, 10))


def by_partition(*values):
    """The scan of one partition."""
    part = ThetaSketch.from_arrow(pa.array(values, pa.int64()), "long", 9)
    builder = PartitionSketchesBuilder(9)
    builder.add((0, "{}"), part.theta, part.hashes)
    return builder.compact()


def kinds_of(scan):
    """The kinds of the scan's columns, which are the same for all."""
    (kinds,) = set(scan.kinds.values())
    return kinds


class Files:
    """Reads scans from values in memory; a file is its values, or the error that reading it raises."""

    def __init__(self, **files) -> None:
        self.files = files
        self.runs = []
        self.kinds = []

    def read(self, scans):
        self.runs.append([([c.name for c in s.columns], [t.data_file.file_path for t in s.tasks], s.removed)
                          for s in scans])  # fmt: skip
        of_scans = [([t.data_file.file_path for t in s.tasks], kinds_of(s)) for s in scans]
        self.kinds.append([(paths, SUMMARY in kinds, PARTITION_SKETCHES in kinds) for paths, kinds in of_scans])
        partial = Partial(bytes_read=7)
        for scan in scans:
            values = []
            for each in scan.tasks:
                content = self.files[each.data_file.file_path]
                if isinstance(content, Exception):
                    raise content
                values += content
            amount = {ROW_COUNTS: counts(values), THETA: sketch(values), SUMMARY: summed_up(values),
                      PARTITION_SKETCHES: by_partition(*values)}  # fmt: skip
            taken = {kind: amount[kind] for kind in kinds_of(scan) if kind.is_taken(kinds_of(scan))}
            found = dict.fromkeys([column.field_id for column in scan.columns], taken)
            read = Partial(*(({}, found) if scan.removed else (found, {})), len(values))
            partial = merge_partials(partial, read)
        return partial


def plan(column, basis, base=None, added=(), removed=()):
    if basis == READ_ALL:
        return ColumnPlan.in_full(column, "asked for")
    changes = Changes(tuple(map(task, added)), tuple(map(task, removed)))
    return ColumnPlan(column, basis, base, 10, changes)


def counted(values, summary=None):
    return Base({THETA: sketch(values), ROW_COUNTS: counts(values), **with_summary(summary)})


def with_summary(summary):
    return {} if summary is None else {SUMMARY: RowSummary.of(summary, "long")}


def summary_of(column):
    return column.values[SUMMARY].to_column("long") if SUMMARY in column.values else None


def partitions_of(done):
    return {
        c.plan.column.field_id: c.values[PARTITION_SKETCHES] for c in done.columns if PARTITION_SKETCHES in c.values
    }


def run(plans, files, kinds=COUNTS, all_files=("all",), partitions=None):
    return compute(Plans(plans, partitions or {}), files, lambda: tuple(map(task, all_files)), kinds)


def test_added_rows_are_added_and_removed_rows_subtracted():
    files = Files(new=[7, 8], old=[1, 2])
    done = run([plan(A, READ_CHANGED, counted([1, 2, 2, 3]), ["new"], ["old"])], files)
    (column,) = done.columns
    assert (column.values[THETA], column.values[ROW_COUNTS]) == (sketch([2, 3, 7, 8]), counts([2, 3, 7, 8]))
    assert (column.plan.basis, column.plan.reason) == (READ_CHANGED, None)
    assert (done.files_read, done.rows_read, done.bytes_read) == (2, 4, 7)


def test_summary_is_the_base_plus_added_minus_removed_rows():
    """Removed rows leave the bounds unchanged."""
    base = ColumnSummary(4, 1, None, 1, 3, 24)
    files = Files(new=[7, 8], old=[1, 2], all=[5, 5])
    plans = [
        plan(A, READ_CHANGED, counted([1, 2, 3], base), ["new"], ["old"]),
        plan(A, READ_ADDED, Base({THETA: sketch([1, 2, 3]), **with_summary(base)}), ["new"]),
        plan(A, CARRIED, counted([1, 2, 3], base)),
        plan(A, READ_ALL),
    ]
    found = [summary_of(run([each], files).columns[0]) for each in plans]
    assert found == [
        ColumnSummary(4, 1, None, 1, 8, 24),
        ColumnSummary(6, 1, None, 1, 8, 40),
        base,
        ColumnSummary(2, 0, None, 5, 5, 16),
    ]


def test_base_without_a_summary_gives_none():
    files = Files(new=[7, 8])
    plans = [plan(A, READ_ADDED, counted([1]), ["new"]), plan(B, CARRIED, counted([1]))]
    assert [summary_of(column) for column in run(plans, files).columns] == [None, None]


def test_column_computed_again_in_full_has_a_full_summary():
    files = Files(new=[7], old=[9], all=[5, 6])
    done = run([plan(A, READ_CHANGED, counted([1], ColumnSummary(1, 0, None, 1, 1, 8)), ["new"], ["old"])], files)
    assert done.columns[0].plan.basis == READ_ALL
    assert summary_of(done.columns[0]) == ColumnSummary(2, 0, None, 5, 6, 16)


def test_table_without_files_has_no_rows():
    done = run([plan(A, READ_ALL)], Files(), all_files=())
    assert summary_of(done.columns[0]) == ColumnSummary(0, 0, None, None, None, 0)


def test_columns_that_need_the_same_files_are_read_together():
    files = Files(new=[1], all=[5])
    run([plan(A, READ_ADDED, counted([2]), ["new"]), plan(B, READ_ADDED, counted([3]), ["new"])], files)
    run([plan(A, READ_ALL), plan(B, READ_ADDED, counted([3]), ["new"])], files)
    assert files.runs == [[(["a", "b"], ["new"], False)], [(["a"], ["all"], False), (["b"], ["new"], False)]]


def test_carried_columns_are_not_read():
    files = Files()
    done = run([plan(A, CARRIED, counted([1]))], files)
    assert (done.columns[0].values[THETA], done.files_read, files.runs) == (sketch([1]), 0, [[]])


@pytest.mark.parametrize("kinds", [COUNTS, SKETCHES], ids=["row counts", "sketches"])
def test_extended_sketch_of_another_engine_has_no_row_counts(kinds):
    base = Base({THETA: sketch(range(500))})
    done = run([plan(A, READ_ADDED, base, ["new"])], Files(new=list(range(400, 900))), kinds)
    assert (done.columns[0].values[THETA], ROW_COUNTS in done.columns[0].values) == (sketch(range(900)), False)


def test_row_counts_that_contradict_the_files_are_not_used():
    """Someone else wrote them under our name, or files were overwritten."""
    files = Files(old=[9], all=[1, 2])
    done = run([plan(A, READ_CHANGED, counted([1, 2]), [], ["old"]), plan(B, CARRIED, counted([5]))], files)
    assert [c.plan.basis for c in done.columns] == [READ_ALL, CARRIED]
    assert done.columns[0].values[THETA] == sketch([1, 2])
    assert "contradict" in done.columns[0].plan.reason
    assert files.runs[1] == [(["a"], ["all"], False)]
    assert done.files_read == 2


def test_exhausted_headroom_is_noticed():
    files = Files(old=list(range(2400)), all=list(range(2400, 3000)))
    done = run([plan(A, READ_CHANGED, counted(range(3000)), [], ["old"])], files)
    assert (done.columns[0].plan.basis, "headroom" in done.columns[0].plan.reason) == (READ_ALL, True)
    assert done.columns[0].values[THETA] == sketch(range(2400, 3000))


def test_sketch_equals_a_full_run_while_headroom_lasts():
    files = Files(old=list(range(1000)))
    done = run([plan(A, READ_CHANGED, counted(range(3000)), [], ["old"])], files)
    assert (done.columns[0].plan.basis, done.columns[0].values[THETA]) == (READ_CHANGED, sketch(range(1000, 3000)))


@pytest.mark.parametrize("error", [FileNotFound("old: gone"), CorruptDataFileError("old: broken")])
def test_removed_file_may_be_unreadable(error):
    files = Files(old=error, new=[1], all=[1, 2])
    done = run([plan(A, READ_CHANGED, counted([1, 2]), ["new"], ["old"]), plan(B, READ_ALL)], files)
    assert [(c.plan.basis, c.plan.reason) for c in done.columns] == [(READ_ALL, str(error)), (READ_ALL, "asked for")]
    assert [c.values[THETA] for c in done.columns] == [sketch([1, 2])] * 2


def test_live_file_must_be_readable():
    with pytest.raises(FileNotFound, match="all: gone"):
        run([plan(A, READ_ALL)], Files(all=FileNotFound("all: gone")))
    with pytest.raises(CorruptDataFileError, match="all: broken"):
        run([plan(A, READ_ADDED, counted([1]), ["all"])], Files(all=CorruptDataFileError("all: broken")))


def test_storage_failure_does_not_trigger_a_full_read():
    files = Files(new=StorageError("new: no answer"))
    with pytest.raises(StorageError, match="no answer"):
        run([plan(A, READ_ADDED, counted([1]), ["new"])], files)
    assert len(files.runs) == 1


# --- by partition -------------------------------------------------------------------------------------------------


def parts(*names, base=None, base_id=None):
    return PartitionPlan(9, tuple(map(task, names)), None if base is None else Later(lambda: base), base_id)


def test_file_is_read_once_for_column_and_partition():
    """Other files are read for only one of them, and subtracted rows for no partition."""
    files = Files(new=[7], both=[8], old=[1], left=[2])
    base = by_partition(5)
    done = run([plan(A, READ_CHANGED, counted([1, 2]), ["new", "both"], ["old"])], files,
               partitions={1: parts("both", "left", base=base, base_id=10)})  # fmt: skip
    assert files.kinds == [
        [(["new"], True, False), (["both"], True, True), (["left"], False, True), (["old"], True, False)]
    ]
    assert done.columns[0].values[THETA] == sketch([2, 7, 8])
    assert partitions_of(done) == {1: by_partition(2, 5, 8)}
    assert done.files_read == 4


def test_partition_reads_all_rows_of_a_partially_read_file():
    few = dataclasses.replace(task("same"), deleted_by=())
    files = Files(same=[3])
    column_plan = ColumnPlan(A, READ_CHANGED, counted([1]), 10, Changes((few,), ()))
    run([column_plan], files, partitions={1: parts("same")})
    assert files.kinds == [[(["same"], True, False), (["same"], False, True)]]


def test_columns_without_partition_sketches_are_read_without_partitions():
    files = Files(all=[1])
    done = run([plan(A, READ_ALL), plan(B, READ_ALL)], files, partitions={2: parts("all")})
    assert files.kinds == [[(["all"], True, False), (["all"], True, True)]]
    assert partitions_of(done) == {2: by_partition(1)}


def test_carried_partitions_are_not_read():
    files = Files()
    done = run([plan(A, CARRIED, counted([1]))], files, partitions={1: parts(base=by_partition(1), base_id=10)})
    assert (partitions_of(done), files.kinds) == ({1: by_partition(1)}, [[]])


def test_recomputed_column_keeps_its_partitions():
    files = Files(old=[9], live=[4], all=[1, 2])
    done = run([plan(A, READ_CHANGED, counted([1, 2]), [], ["old"])], files, partitions={1: parts("live")})
    assert (done.columns[0].plan.basis, partitions_of(done)) == (READ_ALL, {1: by_partition(4)})
    assert files.kinds[1] == [(["all"], True, False)]


def test_unreadable_file_recomputes_partitions_too():
    files = Files(old=FileNotFound("old: gone"), all=[1, 2])
    done = run([plan(A, READ_CHANGED, counted([1, 2]), [], ["old"])], files,
               partitions={1: parts(base=by_partition(5), base_id=10)})  # fmt: skip
    assert partitions_of(done) == {1: by_partition(1, 2)}
    assert files.kinds[1] == [(["all"], True, True)]
