"""Executors plan large snapshots: the tasks, the statistics and the errors are those of a plan on the driver."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import random
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from puffin.errors import FileNotFound
from puffin.iceberg.scan import named_deletes, parts, plan
from puffin.statistics.kinds import THETA
from puffin.tables import parted_plan
from puffin.tables.scan_documents import unpack_batch
from puffin.tables.scan_task import FileScanTask
from stats_jobs import Options, SparkStarter, analyze, cluster, steps
from stats_jobs import packed as packing
from stats_jobs.column_memory import MOST_STATE, NUMBERS_STATE
from stats_jobs.needs import Needs
from stats_jobs.packed import SnapshotFiles
from stats_jobs.plan import plan_batches, split_task
from stats_jobs.scan import PackedFiles, Scan
from stats_jobs.shipment import Shipment
from tests.bound import bound
from tests.hand_made_table import HandMadeTable
from tests.stats_jobs.test_steps import Killed, end_after
from tests.table_directory import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = [(1, "k", "long"), (2, "p", "string")]
IDS = {"k": 1, "p": 2}


@pytest.fixture(autouse=True)
def every_snapshot_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("LEAST_BYTES", "LEAST_FILES", "_WORTH_A_LOOK"):
        monkeypatch.setattr(parts, limit, 1)
    monkeypatch.setattr(parts, "_PART_BYTES", 1)


def random_table(root: Path, draw: random.Random, deletes: int = 12) -> HandMadeTable:
    """A table of three specs and several manifests of each, with deletes of every kind at random ages."""
    table = HandMadeTable(root, FIELDS, version=3, spec=[(2, "identity")])
    (spec,) = table.document["partition-specs"]
    table.document["partition-specs"] += [
        {"spec-id": 1, "fields": []},
        {"spec-id": 2, "fields": [spec["fields"][0] | {"transform": "void"}]},
    ]
    for _ in range(3):
        table.evolve(FIELDS)

    def place() -> dict[str, Any]:
        spec_id = draw.randrange(3)
        partition = ((draw.choice(["x", "y"]),), (), (None,))[spec_id]
        return {"spec_id": spec_id, "partition": partition, "sequence_number": draw.randrange(1, 6)}

    entries, paths = [], []
    for number in range(draw.randrange(6, 15)):
        of_file = {**place(), "schema_id": draw.randrange(4)}
        keys = [draw.randrange(100) for _ in range(draw.randrange(1, 40))]
        value = (of_file["partition"] or ("z",))[0]
        path = table.write(f"{number}.parquet", pa.table({"k": keys, "p": pa.array([value] * len(keys))}), IDS)
        entries.append(table.data(path, **of_file))
        paths.append((path, of_file))
    for number in range(deletes):
        path, of_file = draw.choice(paths)
        kind, name = draw.choice(["equality", "equality", "one file", "many files", "vector"]), f"d{number}"
        if kind == "equality":
            gone = table.write(f"{name}.parquet", pa.table({"k": [draw.randrange(100)]}), {"k": 1})
            bounds = {1: draw.randrange(100).to_bytes(8, "little")} if draw.random() < 0.5 else None
            entry = table.data(gone) | {"content": 2, "equality_ids": [1], "lower_bounds": bounds} | place()
        elif kind == "vector" and not any(each.get("referenced_data_file") == str(path) for each in entries):
            entry = table.vector(f"{name}.puffin", path, [0], **of_file)
        else:
            rows = [(path, 0)] + [(each, 1) for each, _ in paths[:2] if kind == "many files"]
            entry = table.position_deletes(f"{name}.parquet", sorted(rows), of_one_file=kind != "many files", **of_file)
        entries.append(entry)
    table.snapshot(*entries)
    table.document["snapshots"][-1]["summary"] |= {
        "total-data-files": str(len(paths)),
        "total-files-size": str(sum(entry["file_size_in_bytes"] for entry in entries)),
    }
    return table


def stored(table: HandMadeTable) -> str:
    """Write the table's own document; returns what the jobs load."""
    publish(table.root, table.document)
    return str(table.root)


class Elsewhere:
    """What executors do, in this process; what comes and goes is pickled."""

    parallelism = 2

    def map(self, function: Any, shared: Any, documents: Any) -> list[Any]:
        return [pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(shared)), d))) for d in documents]


def packed(opened: Any, **options: Any) -> tuple[Any, ...]:
    turns: Any = SimpleNamespace(slot=lambda: contextlib.nullcontext(Elsewhere()))
    return SnapshotFiles(opened, turns, **{"driver_bytes": 0, "columns": opened.state.columns[:2]} | options).all()


@pytest.mark.parametrize("seed", range(6))
def test_documents_have_the_tasks_that_the_driver_would_plan(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(parts, "_FEW_DELETES", draw.choice([0, 1000]))
    monkeypatch.setattr(named_deletes, "_CHUNK", draw.choice([1, 2, 8]))
    hashes = draw.choice([1, 3, 1 << 32])  # as if paths had the same one
    monkeypatch.setattr(named_deletes, "_hash", lambda path: zlib.crc32(path.encode()) % hashes)
    monkeypatch.setattr(parted_plan, "MOST_AT_ONCE", draw.choice([1, 5, 1000]))
    table = random_table(tmp_path, draw, deletes=draw.randrange(30))
    opened = bound(table.state())
    expected = [piece for task in bound(table.state()).tasks for piece in split_task(task, 8 << 20)]
    found = packed(opened)
    assert all(isinstance(files, PackedFiles) for files in found)
    assert not opened.is_planned
    # A scan of other files beside them, which have delete files of their own.
    kinds, others = dict.fromkeys(opened.state.columns, (THETA,)), tuple(expected[:5])
    batches = plan_batches([Scan(kinds, found), Scan({**kinds}, others)], parallelism=2)
    shipment = Shipment.of(batches, opened.scan_context)
    read: dict[int, list[FileScanTask]] = {0: [], 1: []}
    for scan, document in shipment.documents:
        read[scan] += unpack_batch(shipment.shared.parts, scan, document).tasks
    order = {task.data_file.file_path: place for place, task in enumerate(expected)}
    for scan, tasks in ((0, expected), (1, others)):
        assert sorted(read[scan], key=lambda task: order[task.data_file.file_path]) == list(tasks)
    assert (sum(f.files for f in found), sum(f.bytes for f in found)) == (len(expected), sum(t.bytes for t in expected))


def test_large_files_are_split_and_digests_do_not_depend_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HandMadeTable(tmp_path, FIELDS)
    sizes, offsets = (300 << 20, 40 << 20, 1 << 62), [4, 8 << 20, 30 << 20, 200 << 20]
    files = [
        table.data(tmp_path / f"{n}.parquet", file_size_in_bytes=size, split_offsets=offsets if n < 2 else None)
        for n, size in enumerate(sizes)
    ]
    table.snapshot(*files)
    table.document["snapshots"][-1]["summary"] |= {"total-data-files": "3", "total-files-size": "400000000"}
    with monkeypatch.context() as patch:
        patch.setattr(packing, "MOST_BATCHES", 50)
        (some,) = packed(bound(table.state()))
        assert len(some.documents) < 60  # whatever sizes metadata claims
        patch.setattr(packing, "MOST_BATCHES", 20)
        (other,) = packed(bound(table.state()))
    assert (some.digest, some.files, some.bytes) == (other.digest, 3, sum(sizes))
    table.snapshot(*files[:2])
    table.document["snapshots"][-1]["summary"] |= {"total-data-files": "2", "total-files-size": "400000000"}
    (some,) = packed(bound(table.state()))
    many = table.state().columns[:1] * (3 * MOST_STATE // NUMBERS_STATE)
    (few,) = packed(bound(table.state()), columns=many)  # in three passes
    assert len(some.documents) > len(few.documents)


def test_snapshot_is_planned_here_if_it_is_small_or_known_or_has_many_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = random_table(tmp_path, random.Random(1))
    known = bound(table.state())
    assert packed(known, driver_bytes=1 << 40) == known.tasks == packed(known)
    for limit, most in (("MOST_DELETES", 3), ("MOST_NAMED", 11), ("_WORTH_A_LOOK", 1000), ("LEAST_BYTES", 1 << 40)):
        with monkeypatch.context() as patch:
            patch.setattr(parts, "LEAST_FILES", 1 << 40 if limit == "LEAST_BYTES" else 1)
            patch.setattr(parts, limit, most)
            assert not any(isinstance(work, PackedFiles) for work in packed(bound(table.state())))
    del table.document["snapshots"][-1]["summary"]["total-files-size"]
    assert not any(isinstance(work, PackedFiles) for work in packed(bound(table.state())))


def test_killed_run_is_read_on_and_the_file_is_that_of_a_plan_on_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stored(random_table(tmp_path / "t", random.Random()))
    options = Options(commit=False)
    expected = analyze(table, options)

    monkeypatch.setattr(plan, "plan_snapshot", lambda *_: pytest.fail("planned on the driver"))
    monkeypatch.setattr(parts, "_FEW_DELETES", 0)
    monkeypatch.setattr(cluster, "_ROUNDS", 1)
    monkeypatch.setattr(steps, "MOST_STEPS", 2)
    monkeypatch.setattr(steps, "BYTES_PER_CORE", 1)
    monkeypatch.setattr(steps, "BYTES_PER_COLUMN", 1)
    with SparkStarter(spark) as starter:
        end_after(1, monkeypatch)
        with contextlib.suppress(Killed):
            analyze(table, dataclasses.replace(options, driver_bytes=0), starter)
        report = analyze(table, dataclasses.replace(options, driver_bytes=0), starter)
        dry = analyze(table, dataclasses.replace(options, driver_bytes=0, dry_run=True), starter)
    read = [column.column for column in dry.columns]
    assert dry.needs == Needs.of(read, 0, packed=dry.files_read)
    assert 0 < report.files_read < expected.files_read
    one, other = (Path(each.entry.statistics_path).read_bytes() for each in (expected, report))
    assert one == other
    assert [column.distinct for column in report.columns] == [column.distinct for column in expected.columns]


@pytest.mark.parametrize("few", [0, 1000])
def test_missing_manifest_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """First one of data files, then one of delete files."""
    monkeypatch.setattr(parts, "_FEW_DELETES", few)
    table = random_table(tmp_path, random.Random(3))
    for of_deletes in (False, True):
        lost = min(tmp_path.glob(f"manifest-*-{of_deletes}*.avro"))
        lost.unlink()
        with pytest.raises(FileNotFound, match=lost.name):
            packed(bound(table.state()))
