"""
What a job of many columns and tasks takes of the driver and of each executor, on a small cluster in small heaps.

Tasks read no file: each makes the statistics of values that it draws, the same bytes as reading them would give, which
one column shows first. All that comes after is the job's own: it works in as many steps as a run over so much does,
tasks' results are merged on executors, the driver fetches one result a column, keeps it in the file of the step, and
writes its blobs at the end. The cluster is Spark's standalone one, with executors in processes of their own.

``make scale SCALE_ARGS='--columns 2000 --tasks 100'`` is a table of many columns, ``--columns 20 --tasks 10000`` one of
many files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from benchmarks.processes import descendants, peak_mib
from benchmarks.run import HOME
from benchmarks.scale_values import ROWS, check, column, partial_of

if TYPE_CHECKING:
    from stats_jobs.jvm import JvmCluster
    from stats_jobs.partial import Partial
    from stats_jobs.run import Runner

_KINDS = {
    "executor-jvm": b"CoarseGrainedExecutorBackend",
    "driver-jvm": b"org.apache.spark.deploy.SparkSubmit",
    "executor-python": b"pyspark.daemon",
}
"""By what the command line of each kind of process says."""

_FILES = HOME / f"scale-{os.getpid()}"

_Task = tuple[int, range]  # its number, and the columns that it reads


def main() -> int:
    """Run the simulation that the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=50, help="that each read every column, 91 columns at a time")
    parser.add_argument("--steps", type=int, help="default: as many as a run has whose tasks read a GiB each")
    parser.add_argument("--workers", type=int, default=2, help="executors, of one core each")
    parser.add_argument("--driver-memory", default="1g", help="the heap of the driver's JVM (default: Spark's own)")
    parser.add_argument("--executor-memory", default="512m", help="the heap of an executor's JVM")
    args = parser.parse_args()
    check()
    print(json.dumps(simulate(args), indent=2))
    return 0


def simulate(args: argparse.Namespace) -> dict[str, Any]:
    """What was asked, the peaks of memory in MiB, seconds, bytes."""
    from stats_jobs.column_memory import MOST_STATE, NUMBERS_STATE
    from stats_jobs.jvm import JvmCluster
    from stats_jobs.jvm_start import JvmSettings

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path.cwd())
    most = MOST_STATE // NUMBERS_STATE
    columns = [range(start, min(start + most, args.columns)) for start in range(0, args.columns, most)]
    steps = args.steps or _steps(args.tasks * len(columns), args.columns, args.workers)
    conf = {
        "spark.driver.memory": args.driver_memory,
        "spark.executor.memory": args.executor_memory,
        "spark.local.dir": str(_FILES),
    }
    cluster = JvmCluster(None, JvmSettings(f"local-cluster[{args.workers},1,1024]", conf))
    cluster.start()
    try:
        began, processor = time.monotonic(), time.process_time()
        with _peaks() as peaks:
            found, seconds, kept = _read(cluster, args, columns, steps, peaks)
            if found.rows != args.tasks * ROWS or len(found.added) != args.columns:
                raise SystemExit(f"expected {args.columns} columns, found {len(found.added)} of {found.rows} rows")
            fetched = round(peak_mib())
            written = _written(found)
    finally:
        cluster.close()
        shutil.rmtree(_FILES, ignore_errors=True)
    return {
        **{name.replace("_", "-"): value for name, value in vars(args).items()},
        "steps": steps,
        "seconds": round(time.monotonic() - began, 1),
        "seconds-of-steps": seconds,
        "bytes-of-step-files": kept,
        "bytes-written": written,
        "driver-python-mib-as-fetched": fetched,
        "driver-python-mib": round(peak_mib()),
        "driver-python-processor-seconds": round(time.process_time() - processor, 1),
        **{name: round(peak) for name, peak in sorted(peaks.items())},
    }


def _steps(tasks: int, columns: int, workers: int) -> int:
    from stats_jobs.plan import LARGEST_BATCH
    from stats_jobs.steps import BYTES_PER_COLUMN, BYTES_PER_CORE, MOST_STEPS

    least = max(workers * BYTES_PER_CORE, columns * BYTES_PER_COLUMN)
    return max(1, min(MOST_STEPS, tasks * LARGEST_BATCH // least))


def _read(
    cluster: JvmCluster, args: argparse.Namespace, columns: Sequence[range], steps: int, peaks: Mapping[str, float]
) -> tuple[Partial, list[float], list[int]]:
    """What the steps find, one after the other, as for `stats_jobs.run.Runner`; their seconds, and bytes of files."""
    from puffin.statistics.aside import put_aside
    from stats_jobs.merge import Groups, merged_on_executors
    from stats_jobs.partial import Partial, merge_partials

    seconds: list[float] = []
    kept: list[int] = []

    def take(found: Partial, partial: Partial) -> Partial:
        if steps > 1:
            kept.append(_kept(partial))
        return merge_partials(found, partial, put_aside(args.columns))

    with ThreadPoolExecutor(1) as behind:
        taken = behind.submit(Partial)
        for step in range(steps):
            began = time.monotonic()
            made = [(number, group) for group in columns for number in range(step, args.tasks, steps)]
            groups = Groups.of(range(args.columns), results=sum(len(group) for _, group in made))
            with cluster.job(len(made), None):
                partials = cluster.context.parallelize(made, len(made)).map(_made)
                partial = merged_on_executors(partials, groups)
            taken = behind.submit(take, taken.result(), partial)
            seconds.append(round(time.monotonic() - began, 1))
            so_far = {"driver-python-mib": peak_mib(), **peaks}
            told = ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(so_far.items()))
            print(f"step {step + 1} of {steps}: {seconds[-1]} s; so far {told}", file=sys.stderr, flush=True)
    return taken.result(), seconds, kept


def _made(task: _Task) -> Partial:
    """What a task would have read."""
    number, columns = task
    return partial_of(number, columns)


def _kept(partial: Partial) -> int:
    """The bytes of the file of a step that has found this."""
    from puffin.statistics.private_state.writing import write_blobs
    from puffin.storage import LocalStore
    from stats_jobs.step_file import StepHead, to_blobs

    with _file("step") as path:
        return write_blobs(LocalStore(), str(path), to_blobs(StepHead({}), partial, 1), {}).file_size


def _written(found: Partial) -> int:
    """The bytes of the statistics file and of the private part of these columns, as a full run makes them."""
    from puffin.statistics.assemble import ColumnStatistics, companion_blobs, sketch_blobs
    from puffin.statistics.basis import ColumnPlan
    from puffin.statistics.private_state.writing import write_blobs
    from puffin.storage import LocalStore
    from puffin.tables.base import Snapshot
    from stats_jobs.compute import compute
    from stats_jobs.options import Options
    from stats_jobs.plan_scans import Plans

    runner = SimpleNamespace(read=lambda _: found)
    plans = [ColumnPlan.in_full(column(field_id), "simulated") for field_id in found.added]
    computed = compute(Plans(plans), cast("Runner", runner), tuple, Options().kinds).columns
    columns = [ColumnStatistics(each.plan.column, each.values) for each in computed]
    snapshot = Snapshot(1, None, 1, 0, "append", None)
    private = (blob.make() for blob in companion_blobs(columns, snapshot).new)
    size = 0
    for name, blobs in (("sketches", sketch_blobs(columns, snapshot, None)), ("private", private)):
        with _file(name) as path:
            size += write_blobs(LocalStore(), str(path), blobs, {}).file_size
    return size


@contextmanager
def _file(name: str) -> Iterator[Path]:
    """The path of a file that is gone after the block."""
    path = _FILES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _peaks() -> Iterator[dict[str, float]]:
    """
    What is looked at in the block twice a second: by kinds of processes, the most memory that one has resident, in MiB,
    and the processor time of all; and the most bytes of files that Spark has, in MB.
    """
    found: dict[str, float] = {}
    seconds: dict[int, tuple[str, float]] = {}
    done = threading.Event()

    def look() -> None:
        for each in descendants():
            command = b""
            with suppress(OSError):
                command = Path(f"/proc/{each.process}/cmdline").read_bytes()
            name = next((name for name, part in _KINDS.items() if part in command), None)
            if name is not None:
                found[f"{name}-mib"] = max(found.get(f"{name}-mib", 0), each.peak_mib)
                seconds[each.process] = name, each.seconds
        found["spark-files-mb"] = max(found.get("spark-files-mb", 0), _size(_FILES) / 1e6)

    def watch() -> None:
        while not done.wait(0.5):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()
        for kind in _KINDS:
            found[f"{kind}-processor-seconds"] = sum(each for name, each in seconds.values() if name == kind)


def _size(directory: Path) -> int:
    """The bytes of all files in it."""
    size = 0
    for path in directory.rglob("*"):
        with suppress(OSError):
            size += path.stat().st_size
    return size


if __name__ == "__main__":
    sys.exit(main())
