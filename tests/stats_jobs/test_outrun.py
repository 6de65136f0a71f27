"""A run does not take away what another run committed while it was reading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.errors import ConflictError
from puffin.load import load_table
from puffin.statistics.blob_properties import SketchProperties
from puffin.statistics.private_state.writing import StatisticsFiles
from puffin.tables.base import SnapshotSelector, StatisticsEntry
from puffin.tables.commit import Committed
from stats_jobs import Options, analyze, publish
from stats_jobs.outrun import ATTEMPTS


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    rows = pa.table({"a": [f"name{i}" for i in range(50)], "b": [i % 5 for i in range(50)]})
    write_deltalake(path, rows, partition_by=["b"])
    return path


@pytest.fixture
def before_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has these called before the next commits, one before each."""

    def queue(*calls: Callable[[], object]) -> None:
        waiting, commit = list(calls), publish.commit_statistics

        def commit_after(*args: Any, **kwargs: Any) -> Committed:
            if waiting:
                with monkeypatch.context() as others:
                    others.setattr(publish, "commit_statistics", commit)
                    waiting.pop(0)()
            return commit(*args, **kwargs)

        monkeypatch.setattr(publish, "commit_statistics", commit_after)

    return queue


def said(table: str, field_id: int = 1) -> SketchProperties:
    """What the sketch of a column says in the current version's entry."""
    state = load_table(table).open().state
    return SketchProperties(state.statistics[max(state.statistics)].sketches[field_id].properties)


def quick(table: str, **options) -> Callable[[], object]:  # type: ignore[no-untyped-def]
    return lambda: analyze(table, Options(**options))


@pytest.mark.parametrize("columns", [None, ("a",)])
def test_values_that_another_run_left_out_meanwhile_stay_out(table, before_commit, columns):
    before_commit(quick(table, no_values=True))
    analyze(table, Options(columns=columns))
    assert said(table).summary.max is None
    assert not said(table).provenance.keeps_values


def test_time_to_start_spark_counts_if_the_run_begins_again(spark, table, before_commit):
    before_commit(quick(table, no_values=True))
    report = analyze(table, Options(driver_bytes=0), spark)
    assert report.current  # what it read before was for nothing
    assert report.session_seconds > 0


def test_values_that_were_left_out_of_an_earlier_version_stay_out(table, before_commit):
    write_deltalake(table, pa.table({"a": ["zoe"], "b": [1]}), mode="append")
    before_commit(quick(table, selector=SnapshotSelector(snapshot_id=0), no_values=True))
    analyze(table)
    assert not said(table).provenance.keeps_values


def test_full_run_brings_values_back_that_another_run_left_out_meanwhile(table, before_commit):
    before_commit(quick(table, no_values=True))
    analyze(table, Options(mode="full"))
    assert said(table).provenance.keeps_values


@pytest.mark.parametrize("mode", ["auto", "full"])
def test_joint_sketch_that_another_run_added_meanwhile_stays(table, before_commit, mode):
    before_commit(quick(table, joint=("a+b",)))
    analyze(table, Options(mode=mode))
    assert said(table).joint == ((1, 2),)


def test_joint_sketches_of_two_runs_stay(table, before_commit):
    write_deltalake(table, pa.table({"a": ["x"], "b": [1], "c": [2]}), mode="append", schema_mode="merge")
    before_commit(quick(table, joint=("a+b",)))
    analyze(table, Options(joint=("a+c",)))
    assert said(table).joint == ((1, 2), (1, 3))


def test_run_without_joint_sketches_drops_one_that_another_run_added_meanwhile(table, before_commit):
    before_commit(quick(table, joint=("a+b",)))
    analyze(table, Options(no_joint=True))
    assert said(table).joint == ()


def test_sketches_by_partition_that_another_run_added_meanwhile_stay(table, before_commit):
    before_commit(quick(table, partitions=True))
    analyze(table)
    assert said(table).partitions == 5


def test_private_state_that_is_deleted_while_a_run_writes_is_computed_anew(table, monkeypatch):
    """Otherwise the run would refer to parts that are gone, and say that all went well."""
    write_deltalake(table, pa.table({"a": ["zoe"], "b": [1]}), mode="append")
    analyze(table)
    DeltaTable(table).optimize.compact()
    write, before = StatisticsFiles.write, list(Path(table).glob("_puffin_sidecar/**/*.*"))

    def deleting(*args: Any) -> StatisticsEntry:
        for path in before:
            path.unlink(missing_ok=True)
        return write(*args)

    monkeypatch.setattr(StatisticsFiles, "write", deleting)
    assert {column.basis for column in analyze(table).columns} == {"full"}
    assert analyze(table).current
    assert len(list(Path(table).glob("_puffin_sidecar/*.stats"))) == 1


def test_run_that_is_outrun_again_and_again_fails_and_leaves_no_file(table, before_commit):
    names = [f"c{i}" for i in range(ATTEMPTS)]
    rows = pa.table({"a": ["x"], "b": [1], **{name: [2] for name in names}})
    write_deltalake(table, rows, mode="append", schema_mode="merge")
    before_commit(*(quick(table, joint=(f"a+{name}",)) for name in names))
    with pytest.raises(ConflictError, match="column a: another run has added a joint sketch meanwhile; run again"):
        analyze(table, Options(lg_k=13))
    assert len(said(table).joint) == ATTEMPTS
    entries = load_table(table).open().state.stored.entries[1]  # type: ignore[attr-defined]
    assert len(entries) == ATTEMPTS
    assert len(list(Path(table, "_delta_log", "_puffin_sidecar").glob("*.stats"))) == ATTEMPTS
