"""What two tables of 100 TB need on 800 cores, as the documentation has it, is what the job's own planning says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from puffin.storage import Store
from puffin.tables.base import Column
from puffin.tables.scan_task import FileScanTask, ScanContext
from stats_jobs.column_memory import by_columns, passes_over
from stats_jobs.merge import Groups
from stats_jobs.needs import Needs
from stats_jobs.options import Options
from stats_jobs.packed import Packing, pack_part
from stats_jobs.plan import MOST_BATCHES, piece_bytes, plan_batches
from stats_jobs.scan import PackedFiles, Scan
from stats_jobs.shipment import Shipment
from stats_jobs.steps import in_steps
from tests.scan_files import data_file, whole

CORES, BYTES = 800, 100 * 10**12
RESULT = 300_000  # bytes of a column of many values, as `test_needs` has it
PAGE = Path(__file__).parents[2] / "docs" / "large-tables.md"


def task(number: int, size: int) -> FileScanTask:
    path = f"s3://bucket/warehouse/db.db/events/data/day=2026-01-01/{number:05}-7-5f0c1d2e-{number:012x}-00001.parquet"
    return whole(data_file(path, size, partition={"1000": "2026-01-01"}, record_count=10**6))


class Manifest:
    """What executors read of a part of the plan."""

    shared_deletes = ()

    def __init__(self, files: int, size: int) -> None:
        self._tasks = [task(number, size) for number in range(files)]

    def tasks(self, part: bytes, store_for: Callable[[str], Store]) -> Iterator[FileScanTask]:  # noqa: ARG002
        return iter(self._tasks)


def model(files: int, columns: int) -> dict[str, str]:
    """Every fifth column is of strings, and all have many values. A part of the plan has files of 250,000 columns."""
    types = ("long", "long", "string", "long", "long")
    of_table = [Column(i, f"c{i}", types[i % 5], (i,), (None,)) for i in range(1, columns + 1)]
    kinds = dict.fromkeys(of_table, Options().kinds)
    parts = files * columns // 250_000
    packing = Packing(
        Manifest(files // parts, BYTES // files),
        {},
        passes_over(of_table) * piece_bytes(BYTES, CORES),
        MOST_BATCHES // parts,
    )
    part = pack_part(packing, b"")
    assert isinstance(part, PackedFiles)
    whole = Scan(kinds, tuple(dataclasses.replace(part, digest=f"{number}") for number in range(parts)))
    steps = in_steps([whole], BYTES, CORES)
    (step,) = steps[0]
    batches = plan_batches([step], parallelism=CORES)
    shipment = Shipment.of(batches, ScanContext({}, None, {}))
    sizes = [len(document) for _, document in shipment.documents]
    groups = Groups.of((column.field_id for column in of_table), results=shipment.results)
    needs = Needs.of(of_table, 0, packed=files)
    waves = [len([g for g in groups.of_column.values() if first <= g < end]) for first, end in groups.waves()]
    return {
        "groups of columns (each file is opened once for each)": f"{len(by_columns(step))}",
        "steps": f"{len(steps)}",
        "tasks of a step": f"{len(sizes):,}",
        "document of a task, at most": f"{max(sizes) / 1000:.1f} kB",
        "documents of a step": f"{sum(sizes) / 1e6:.1f} MB",
        "results of tasks that a step shuffles": f"{shipment.results * RESULT / 1e9:.0f} GB",
        "tasks that merge these, and their results": " and ".join(f"{n:,}" for n in groups.reducers(len(sizes))),
        "fetched by the driver at once": f"{max(waves) * RESULT / 1e6:.0f} MB",
        "files of steps until the commit": f"{len(steps) * columns * RESULT / 1e9:.1f} GB",
        "Python on the driver": f"{needs.driver_bytes / 1e9:.1f} GB",
        "Python of a task": f"{needs.task_bytes / 1e6:.0f} MB",
    }


@pytest.mark.parametrize(("files", "columns"), [(1_000_000, 100), (10_000, 2_000)])
def test_documented_needs_of_a_table_of_100_tb_are_those_of_the_plan(files, columns):
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if "|" in line]
    head = next(line for line in lines if any(cell.startswith(f"{files:,} files") for cell in line))
    place = head.index(f"{files:,} files, {columns:,} columns")
    said = {line[0]: line[place] for line in lines if len(line) == len(head)}
    found = model(files, columns)
    assert {what: said.get(what) for what in found} == found
