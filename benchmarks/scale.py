"""
What a job of many columns and tasks takes of the driver and of each executor, on a small cluster in small heaps.

Tasks read no file: each makes its values from a seed, and the statistics of them are what a reader would have made. All
that comes after is the job's own: tasks' results are merged on executors, the driver fetches one result a column and
writes its blobs. The cluster is Spark's standalone one, with executors in processes of their own.

``make scale SCALE_ARGS='--columns 2000 --tasks 100'`` is a table of many columns, ``--columns 20 --tasks 10000`` one of
many files.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from benchmarks.processes import peak_mib
from benchmarks.run import HOME

if TYPE_CHECKING:
    from puffin.tables.base import Column
    from stats_jobs.execute import Partial
    from stats_jobs.run import Runner

_VALUES = 20_000
"""Distinct values of a column in a task: more than row counts keep, so every state has its full size."""

_PROCESSES = {
    "executor-jvm-mib": b"CoarseGrainedExecutorBackend",
    "driver-jvm-mib": b"org.apache.spark.deploy.SparkSubmit",
    "executor-python-mib": b"pyspark.daemon",
}
"""By what the command line of each kind of process says."""


def main() -> int:
    """Run the simulation that the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=50, help="that each read every column, 91 columns at a time")
    parser.add_argument("--workers", type=int, default=2, help="executors, of one core each")
    parser.add_argument("--driver-memory", default="1g", help="the heap of the driver's JVM (default: Spark's own)")
    parser.add_argument("--executor-memory", default="512m", help="the heap of an executor's JVM")
    args = parser.parse_args()
    print(json.dumps(simulate(args), indent=2))
    return 0


def simulate(args: argparse.Namespace) -> dict[str, Any]:
    """The peaks of memory in MiB, seconds, and what was asked."""
    from stats_jobs.jvm import JvmCluster
    from stats_jobs.merge import Groups, merged_on_executors
    from stats_jobs.plan import MOST_STATE, NUMBERS_STATE

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path.cwd())
    most = MOST_STATE // NUMBERS_STATE
    columns = [range(start, min(start + most, args.columns)) for start in range(0, args.columns, most)]
    made = [(seed, group) for seed in range(args.tasks) for group in columns]
    conf = {
        "spark.driver.memory": args.driver_memory,
        "spark.executor.memory": args.executor_memory,
        "spark.local.dir": str(HOME / "spark"),
    }
    cluster = JvmCluster(master=f"local-cluster[{args.workers},1,1024]", conf=conf)
    cluster.start()
    try:
        began = time.monotonic()
        with _peaks() as peaks, cluster.job(len(made), None):
            partials = cluster.context.parallelize(made, len(made)).map(_made)
            found = merged_on_executors(partials, Groups.of(range(args.columns)))
        if found.rows != args.tasks * _VALUES or len(found.added) != args.columns:
            raise SystemExit(f"expected {args.columns} columns, found {len(found.added)} of {found.rows} rows")
        fetched = round(peak_mib())
        written = _written(found)
        seconds = time.monotonic() - began
    finally:
        cluster.close()
    return {
        "driver-python-mib-as-fetched": fetched,
        "bytes-written": written,
        **{name.replace("_", "-"): value for name, value in vars(args).items()},
        "seconds": round(seconds, 1),
        "driver-python-mib": round(peak_mib()),
        **{name: round(peak) for name, peak in peaks.items()},
    }


def _written(found: Partial) -> int:
    """The bytes of the statistics file and of the private part of these columns, as a full run makes them."""
    from puffin.statistics.assemble import ColumnStatistics, companion_blobs, sketch_blobs
    from puffin.statistics.basis import ColumnPlan
    from puffin.statistics.private_state.writing import LaterBlob, write_blobs
    from puffin.storage import LocalStore
    from puffin.tables.base import Snapshot
    from stats_jobs.compute import compute
    from stats_jobs.options import Options
    from stats_jobs.session import Turn

    runner = SimpleNamespace(read=lambda _: (found, Turn()))
    plans = [ColumnPlan.in_full(_column(field_id), "simulated") for field_id in found.added]
    computed = compute(plans, cast("Runner", runner), tuple, Options().kinds).columns
    columns = [ColumnStatistics(each.plan.column, each.values) for each in computed]
    snapshot = Snapshot(1, None, 1, 0, "append", None)
    private = (blob.make() for blob in companion_blobs(columns, snapshot) if isinstance(blob, LaterBlob))
    size = 0
    for name, blobs in (("sketches", sketch_blobs(columns, snapshot, None)), ("private", private)):
        path = HOME / f"scale-{name}"
        path.unlink(missing_ok=True)
        size += write_blobs(LocalStore(), str(path), blobs, {}).file_size
        path.unlink()
    return size


def _column(field_id: int) -> Column:
    from puffin.tables.base import Column

    return Column(field_id, f"c{field_id}", "long", (field_id,), (None,))


def _made(task: tuple[int, range]) -> Partial:
    """What a task would have read: values that other tasks have too, and others."""
    from puffin.tables.scan_task import DATA, PARQUET, ContentFile, FileScanTask
    from puffin.values.column_chunk import Values
    from stats_jobs.execute import ColumnReading, Partial
    from stats_jobs.options import Options

    seed, columns = task
    file = ContentFile(
        content=DATA, file_path=f"made from {seed}", file_format=PARQUET, spec_id=0, partition={}, record_count=_VALUES,
        file_size_in_bytes=0,
    )  # fmt: skip
    values = np.random.default_rng(seed).integers(0, 1 << 40, _VALUES)
    kinds = Options().kinds
    found = {}
    for field_id in columns:
        reading = ColumnReading(_column(field_id), kinds)
        reading.update_values(Values(pa.array(values + field_id)), FileScanTask(file, (), 0, 0))
        found[field_id] = reading.values()
    return Partial(found, {}, _VALUES if 0 in columns else 0)


@contextmanager
def _peaks() -> Iterator[dict[str, float]]:
    """The most memory that processes of each kind have resident in the block, in MiB; looked at twice a second."""
    found: dict[str, float] = {}
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.5):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    command = (process / "cmdline").read_bytes()
                    name = next((name for name, part in _PROCESSES.items() if part in command), None)
                    lines = (process / "status").read_text().splitlines() if name else []
                    for line in lines:
                        if name is not None and line.startswith("VmHWM:"):
                            found[name] = max(found.get(name, 0), int(line.split()[1]) / 1024)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()


if __name__ == "__main__":
    sys.exit(main())
