"""Executors plan large versions of Delta tables: the tasks and the statistics are those of a plan on the driver."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from puffin.delta.log.replay import LogSegment
from puffin.delta.scan import parts
from puffin.load import load_table
from puffin.tables.scan_documents import unpack_batch
from puffin.tables.scan_task import FileScanTask
from stats_jobs import Options, SparkStarter, analyze
from stats_jobs.packed import SnapshotFiles
from stats_jobs.plan import plan_batches
from stats_jobs.scan import PackedFiles, Scan
from stats_jobs.shipment import Shipment
from tests.delta.test_delta_checkpoints import write_rows
from tests.stats_jobs.test_packed import Elsewhere

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def every_version_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("LEAST_FILES", "_WORTH_A_LOOK"):
        monkeypatch.setattr(parts, limit, 1)
    monkeypatch.setattr(parts, "_PART_ROWS", 2)


@pytest.fixture
def table(delta_table: Any) -> Any:
    """A partitioned table with deletion vectors, whose checkpoint has other files than its newest version."""
    draw = random.Random()
    table = delta_table(types={"k": "long", "p": "string"}, partitioned_by=["p"])
    described = table.protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
    table.commit(described, table.metadata())
    live: list[dict[str, Any]] = []

    def change() -> None:
        values = [[draw.randrange(99) for _ in range(9)] for _ in range(draw.randrange(1, 3))]
        added = [table.add({"k": each}, partitionValues={"p": draw.choice(["x", None])}) for each in values]
        table.commit(*added)
        live.extend(added)
        one = live.pop(draw.randrange(len(live)))
        if draw.random() < 0.5 and "deletionVector" not in one["add"]:
            actions = table.delete_rows(one, draw.sample(range(9), 3))
            live.append(next(each for each in actions if "add" in each))
            table.commit(*actions)
        else:
            table.commit(table.remove(one))

    for _ in range(8):
        change()
    write_rows(table.log / f"{table.version:020d}.checkpoint.parquet", [described, table.metadata(), *live])
    for _ in range(3):
        change()
    return table


def packed(path: Path) -> Any:
    opened = load_table(str(path)).open()
    turns: Any = SimpleNamespace(slot=lambda: contextlib.nullcontext(Elsewhere()))
    return opened, SnapshotFiles(opened, turns, driver_bytes=0, columns=opened.state.columns).all()


def test_documents_have_the_tasks_that_the_driver_would_plan(table: Any) -> None:
    opened, found = packed(table.path)
    assert all(isinstance(files, PackedFiles) for files in found)
    assert not opened.is_planned
    batches = plan_batches([Scan(dict.fromkeys(opened.state.columns, ()), found)], parallelism=2)
    shipment = Shipment.of(batches, opened.scan_context)
    batches_read = [unpack_batch(shipment.shared.parts, at, document) for at, document in shipment.documents]
    read = [task for batch in batches_read for task in batch.tasks]

    def path(task: FileScanTask) -> str:
        return task.data_file.file_path

    assert sorted(read, key=path) == sorted(opened.tasks, key=path)
    assert sum(files.files for files in found) == len(opened.tasks)


@pytest.mark.parametrize("why", ["many changes", "a path twice", "few files", "unreadable"])
def test_version_is_planned_here(table: Any, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    if why == "many changes":
        monkeypatch.setattr(parts, "MOST_CHANGED", 1)
    elif why == "few files":
        monkeypatch.setattr(parts, "LEAST_FILES", 1000)
    elif why == "a path twice":
        one = table.add({"k": [1]}, partitionValues={"p": "x"})
        version = table.commit(one)
        described = table.protocol(1, 2), table.metadata()
        write_rows(table.log / f"{version:020d}.checkpoint.parquet", [*described, one, one])
    else:
        (checkpoint,) = table.log.glob("*.checkpoint.parquet")
        checkpoint.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    opened, found = packed(table.path)
    assert found == opened.tasks
    assert found


def test_file_of_a_run_is_that_of_a_plan_on_the_driver(
    spark: SparkSession, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(commit=False)
    expected = analyze(str(table.path), options)
    monkeypatch.setattr(LogSegment, "fold_files", lambda *_, **__: pytest.fail("planned on the driver"))
    with SparkStarter(spark) as starter:
        found = analyze(str(table.path), Options(commit=False, driver_bytes=0), starter)
    assert found.files_read == expected.files_read
    one, other = (Path(each.entry.statistics_path).read_bytes() for each in (expected, found))
    assert one == other
