"""What Spark's tasks return is merged on executors to the same values as one after the other here."""

from __future__ import annotations

import functools
import itertools
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptDataFileError, FileNotFound, StorageError
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics import aside
from puffin.statistics.kinds import THETA
from stats_jobs import Options, analyze, merge, plan
from stats_jobs.merge import Groups, merged_on_executors
from stats_jobs.partial import Partial, merge_partials
from stats_jobs.session import SparkStarter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def partial(number: int, columns: Sequence[int], removed: Sequence[int] = ()) -> Partial:
    def values(field_id: int) -> dict:
        return {THETA: ThetaSketch.from_arrow(pa.array([number, field_id]), "long")}

    return Partial(
        {field_id: values(field_id) for field_id in columns},
        {field_id: values(-field_id) for field_id in removed},
        rows=number,
        bytes_read=10 * number,
        mapped=frozenset(columns[:1]),
        lifted=frozenset({(number, "file")}),
    )


COLUMNS = st.lists(st.integers(1, 60), unique=True)


@settings(max_examples=60)
@given(st.lists(st.tuples(COLUMNS, COLUMNS), min_size=1, max_size=5), st.sampled_from([1, 2, 8, 99]))
def test_pieces_of_partials_have_all_that_the_partials_have(of_tasks: list, weight: int) -> None:
    partials = [partial(number, *columns) for number, columns in enumerate(of_tasks)]
    groups = Groups.of({field_id for columns in of_tasks for ids in columns for field_id in ids}, weight)
    pieces = [piece for each in partials for _, piece in groups.cut(each)]
    assert functools.reduce(merge_partials, pieces) == functools.reduce(merge_partials, partials)
    assert all(len({*piece.added, *piece.removed}) <= max(1, 8 // weight) for piece in pieces)


@pytest.mark.parametrize("segment", [3, 100])
def test_executors_merge_what_the_driver_would(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, segment: int
) -> None:
    """Five tasks, in one segment and in several, with columns in three groups."""
    monkeypatch.setattr(merge, "_FEW", 0)
    monkeypatch.setattr(merge, "_FETCHED", 1)  # a wave for each group
    partials = [partial(number, range(1, 21), range(number)) for number in range(5)]
    tasks = spark.sparkContext.parallelize(partials, len(partials))
    monkeypatch.setattr(merge, "_LEAST_PIECES", 2)  # for several reducers
    groups = Groups(Groups.of(range(21)).of_column, pieces=15, segment=segment)
    jvm: Any = spark.sparkContext._jvm
    shuffles = jvm.org.apache.spark.SparkEnv.get().mapOutputTracker().shuffleStatuses()
    before = shuffles.size()
    assert merged_on_executors(tasks, groups) == functools.reduce(merge_partials, partials)
    assert shuffles.size() <= before, "what was shuffled stays on disk"


@pytest.mark.parametrize(("columns", "tasks"), [(100, 6000), (20, 10_000), (2000, 66), (9, 100)])
def test_reducers_have_about_equally_many_pieces_to_merge(columns: int, tasks: int) -> None:
    groups = Groups.of(range(columns), results=columns * tasks)
    for reducers, segments in zip(groups.reducers(tasks), (-(-tasks // groups.segment), 1), strict=True):
        keys = itertools.product(range(groups.count), range(segments), [0])
        found = Counter(merge.reducer_of(groups.count, reducers, key) for key in keys)
        assert len(found) == reducers
        assert max(found.values()) == -(-groups.count * segments // reducers)


def test_few_pieces_have_few_reducers() -> None:
    """66 tasks that read a few columns each: two segments of 250 groups, most of which have no piece."""
    groups = Groups.of(range(2000), results=3 * 2000)
    assert groups.reducers(66) == [750 // 16 + 1, 500 // 16 + 1]


def test_failure_of_one_task_is_the_failure_of_all(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_FEW", 0)
    broken = Partial(failure=CorruptDataFileError("file x: expected a footer, found none"))
    tasks = spark.sparkContext.parallelize([partial(1, [1, 30]), broken, partial(2, [1, 30])], 3)
    assert merged_on_executors(tasks, Groups.of([1, 30])).failure.args == broken.failure.args


def test_missing_file_ends_the_job_before_all_files_are_read(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of 30 tasks tells of it, and the others are not waited for."""
    monkeypatch.setattr(plan, "LARGEST_BATCH", 1)
    table, files = str(tmp_path / "t"), 30
    for part in range(files):
        write_deltalake(table, pa.table({"k": range(part, part + 10), "s": ["x" * (files - part)] * 10}), mode="append")
    first = max(tmp_path.glob("t/*.parquet"), key=lambda path: path.stat().st_size)
    first.unlink()
    done: list[int] = []
    with pytest.raises(FileNotFound, match=first.name):
        analyze(table, Options(driver_bytes=0), spark, lambda count, _: done.append(count))
    assert max(done, default=0) < files


def test_statistics_are_the_same_whoever_merges(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for part in range(3):
        rows = pa.table({f"c{i}": pa.array(range(part * 1000, part * 1000 + 2000)) for i in range(20)})
        write_deltalake(tmp_path / "written", rows, mode="append")
    files = []
    for name, options, few, many in (
        ("here", Options(), 0, 64),
        ("here, put aside", Options(), 0, 0),
        ("flat", Options(driver_bytes=0), 512, 64),
        ("tree, put aside", Options(driver_bytes=0), 0, 0),
    ):
        monkeypatch.setattr(merge, "_FEW", few)
        monkeypatch.setattr(aside, "MANY", many)
        analyze(str(shutil.copytree(tmp_path / "written", tmp_path / name)), options, spark)
        (path,) = (tmp_path / name / "_delta_log" / "_puffin_sidecar").glob("*.stats")
        files.append(path.read_bytes())
    assert len({*files}) == 1


def test_error_of_java_is_told_by_its_cause(spark: SparkSession) -> None:
    said = "the Spark job failed: java.io.IOException: Input path does not exist"
    with SparkStarter(spark) as starter:
        starter.start()
        with pytest.raises(StorageError, match=said), starter.cluster.job(0, None):
            spark.sparkContext.textFile("/nowhere").collect()
