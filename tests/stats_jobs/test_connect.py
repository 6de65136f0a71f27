"""What runs on the executors of a Spark Connect server, and what is refused before one is asked."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import UnsupportedOperationException

from puffin.cli import main
from puffin.errors import CorruptDataFileError, FileNotFound, MissingDependencyError, SetupError, UsageError
from puffin.load import load_table
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.kinds import THETA
from stats_jobs import SparkStarter, connect_tasks
from stats_jobs.connect import ConnectCluster
from stats_jobs.merge import Groups, loaded
from stats_jobs.partial import Partial, merge_partials
from stats_jobs.scan import Scan
from stats_jobs.shipment import Shipment


def read(table: str, times: int = 1, groups: Groups | None = None) -> list[pa.RecordBatch]:
    """What tasks yield that read the table so many times."""
    opened = load_table(table).open()
    scan = Scan(dict.fromkeys(opened.state.columns, (THETA,)), opened.tasks)
    shipment = Shipment.of([scan] * times, opened.scan_context)
    rows = [(place, *document) for place, document in enumerate(shipment.documents)]
    arrived = [pa.record_batch([pa.array([v]) for v in row], ["place", "scan", "document"]) for row in rows]
    return list(connect_tasks.read(shipment.shared, arrived, groups))


def merged(batches: Any) -> Partial:
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return functools.reduce(merge_partials, (loaded(piece) for _, piece in connect_tasks.joined(rows)))


def test_pieces_travel_in_rows_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Their rows come together again, on the driver and where they are merged."""
    monkeypatch.setattr(connect_tasks, "_ROW_BYTES", 100)
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": range(50), "s": [str(i) for i in range(50)]}))
    pieces = read(table, 2, Groups.of([1, 2], weight=8))
    assert len(pieces) > 10
    assert all(batch.num_rows == 1 and len(batch["piece"][0].as_py()) <= 100 for batch in pieces)
    ordered = pa.Table.from_batches(pieces).sort_by([(name, "ascending") for name in connect_tasks.KEY])
    again = list(connect_tasks.merge(ordered.to_batches(max_chunksize=3)))
    assert [batch["column_group"][0].as_py() for batch in again if batch["part"][0].as_py() == 0] == [0, 1]
    expected = ThetaSketch.from_arrow(pa.array([str(i) for i in range(50)]), "string")
    for found in (merged(pieces), merged(again)):
        assert found.rows == 100
        assert found.added[2][THETA] == expected


def test_unreadable_file_fails_its_task_with_the_error_for_the_driver(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": [1]}))
    (lost,) = tmp_path.glob("t/*.parquet")
    lost.unlink()
    with pytest.raises(connect_tasks.UnreadableFileError) as raised:
        read(table)
    failure = connect_tasks.failure_in(f"Traceback:\n  File x\nUnreadableFileError: {raised.value}\n\tat java")
    assert isinstance(failure, FileNotFound)
    assert lost.name in str(failure)
    assert connect_tasks.failure_in("java.lang.OutOfMemoryError") is None


def test_every_failure_survives_the_way_in_a_message() -> None:
    error = CorruptDataFileError("file ü: expected 'a\nb', found +/=")
    found = connect_tasks.failure_in(f"... {connect_tasks.UnreadableFileError(error)}. More")
    assert (type(found), found.args) == (type(error), error.args)


@pytest.mark.parametrize("remote", ["local[2]", "http://spark:15002", ""])
def test_url_that_is_not_of_spark_connect_is_refused(remote: str) -> None:
    with pytest.raises(UsageError, match="expected sc://HOST:PORT"):
        SparkStarter(remote=remote)


def test_master_and_remote_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="found both"):
        SparkStarter(master="local[2]", remote="sc://spark:15002")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--remote", "spark://spark:7077"], "expected sc://HOST:PORT"),
        (["--remote", "sc://spark:15002", "--master", "local[2]"], "--master"),
        (["--remote", "sc://spark:15002", "--spark-table", "prod.db.t"], "--spark-table"),
    ],
)
@pytest.mark.parametrize("command", ["analyze", "index"])
def test_commands_refuse_options_that_contradict_remote(
    command: str, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([command, "t", *options])
    assert says in capsys.readouterr().err


def test_server_that_takes_no_artifacts_is_refused() -> None:
    session = Mock()
    session.addArtifacts.side_effect = UnsupportedOperationException("handle add artifacts")
    with pytest.raises(SetupError, match="expected a server that takes artifacts, found: handle add artifacts"):
        ConnectCluster(session).start()


def test_missing_client_is_told_with_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with (
        SparkStarter(remote="sc://127.0.0.1:1") as starter,
        pytest.raises(MissingDependencyError, match=r"grpcio is not installed: .*\[connect\]"),
    ):
        starter.start()
