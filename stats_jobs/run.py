"""
Reads batches on Spark's executors, or in threads of this process if there is little to read.

Starting Spark takes five to fifteen seconds, and each of its tasks in Python about a tenth of a second; a hundred
megabytes are read in less. The result is the same either way.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeAlias, cast

from puffin.kernels import load_kernels
from puffin.statistics.aside import PutAside, put_aside
from puffin.tables.scan_task import FileScanTask, ScanBatch
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.cluster import Progress
from stats_jobs.execute import KERNELS_PAY, Partial, each_column, merge_partials, read_batch
from stats_jobs.merge import Groups
from stats_jobs.plan import PackedFiles, Scan, plan_batches, state_columns, total_bytes, weight
from stats_jobs.session import SparkStarter, Turn
from stats_jobs.shipment import Shipment
from stats_jobs.steps import KeptSteps, in_steps

_Read: TypeAlias = Callable[[Sequence[Scan], "Progress | None"], Partial]

_ALONE = 0.05  # seconds that one thread reads alone: for small work, several would fight over the interpreter lock


@dataclasses.dataclass(frozen=True, slots=True)
class Runner:
    """
    Reads scans of one table; at most ``driver_bytes`` of them in this process.

    Large ones are read in steps, if what each has found is kept: by ``kept``, or by ``after_step``, which is called
    with it. Both are called in another thread, one step after the other, and before `read` returns.
    """

    opened: TableSnapshot
    spark: SparkStarter
    driver_bytes: int
    progress: Progress | None
    kept: KeptSteps | None = None
    after_step: Callable[[Partial], None] | None = None

    def read(self, scans: Sequence[Scan]) -> tuple[Partial, Turn]:
        """
        Read all of the scans; return what the rows have, and what the table spent before it could read them.

        Raises CorruptError, UnsupportedError or NotFoundError if a file cannot be read, StorageError if the storage or
        Spark failed, and SetupError if Spark is needed and cannot be started.
        """
        found = Partial()
        if self.kept is not None:
            scans, found = self.kept.take(scans, self._bytes(scans))
        is_packed = any(isinstance(work, PackedFiles) for scan in scans for work in scan.tasks[:1])
        if self._bytes(scans) <= self.driver_bytes and not is_packed:
            partial, turn = self._in_steps(scans, len(os.sched_getaffinity(0)), self._read_here), Turn()
        else:
            with self.spark.slot() as turn:
                partial = self._in_steps(scans, self.spark.cluster.parallelism, self._read_on_executors)
        return merge_partials(found, partial, put_aside(state_columns(scans))), turn

    def _bytes(self, scans: Sequence[Scan]) -> int:
        columns = max(1, len(self.opened.state.columns))
        return sum(total_bytes(scan.tasks) * len(scan.columns) // columns for scan in scans)

    def _in_steps(self, scans: Sequence[Scan], parallelism: int, read: _Read) -> Partial:
        are_kept = self.kept is not None or self.after_step is not None
        steps = in_steps(scans, self._bytes(scans), parallelism) if are_kept else [list(scans)]
        planned = [plan_batches(step, parallelism=parallelism) for step in steps]
        progress = _Progress(self.progress, sum(map(len, planned)))
        taken: Future[Partial] | None = None
        # Writing and merging thousands of columns takes many seconds, in which cores would wait for the next step.
        with ThreadPoolExecutor(1, thread_name_prefix="puffin-steps") as behind:
            for step, batches in zip(steps, planned, strict=True):
                partial = read(batches, progress.of_step(len(batches)))
                if partial.failure is not None:
                    raise partial.failure
                if len(steps) == 1:
                    return partial
                found = Partial() if taken is None else taken.result()
                # What was put aside for one step is gone when it is merged with the next.
                taken = behind.submit(self._take, step, found, partial, put_aside(state_columns(scans)))
        return Partial() if taken is None else taken.result()

    def _take(self, step: Sequence[Scan], found: Partial, partial: Partial, put: PutAside) -> Partial:
        """Keep what a step has found; merge it with what those before it have."""
        if self.after_step is not None:
            self.after_step(partial)
        if self.kept is not None:
            self.kept.put(step, partial)
        return merge_partials(found, partial, put)

    def _read_here(self, batches: Sequence[Scan], progress: Progress | None) -> Partial:
        if sum(total_bytes(batch.tasks) for batch in batches) >= KERNELS_PAY:
            load_kernels()
        put = put_aside(state_columns(batches))
        return _Readers(batches, self.opened, put, progress).read(len(os.sched_getaffinity(0)))

    def _read_on_executors(self, batches: Sequence[Scan], progress: Progress | None) -> Partial:
        shipment = Shipment.of(batches, self.opened.scan_context)
        groups = Groups.of((c.field_id for b in batches for c in b.columns), weight(batches), shipment.results)
        return self.spark.cluster.read(shipment, groups, progress)


class _Progress:
    """Counts the batches of all steps."""

    def __init__(self, progress: Progress | None, batches: int) -> None:
        self._progress = progress
        self._batches = batches
        self._before = 0

    def of_step(self, batches: int) -> Progress | None:
        """What the next step of so many batches calls."""
        progress, before = self._progress, self._before
        self._before += batches
        return None if progress is None else lambda done, of: progress(before + done * batches // of, self._batches)


class _Readers:
    """Threads of this process that read batches from one queue."""

    def __init__(
        self, batches: Sequence[Scan], opened: TableSnapshot, put: PutAside, progress: Progress | None
    ) -> None:
        self._put = put
        self._left = deque(batches)
        self._count = len(batches)
        self._done = 0
        self._context = opened.scan_context
        self._store_for = opened.store_for
        self._progress = progress

    def read(self, threads: int) -> Partial:
        with ThreadPoolExecutor(threads, thread_name_prefix="puffin-reader") as pool:
            try:
                readers = [pool.submit(self._read_some)]
                if not wait(readers, timeout=_ALONE).done:
                    readers += [pool.submit(self._read_some) for _ in range(threads - 1)]
                merge = functools.partial(merge_partials, put=self._put)
                return functools.reduce(merge, [reader.result() for reader in readers])
            finally:
                self._left.clear()  # after an error or an interrupt, start no more

    def _read_some(self) -> Partial:
        merged = Partial()
        while self._left:
            try:
                batch = self._left.popleft()
            except IndexError:  # another thread took the last one
                break
            tasks = cast("tuple[FileScanTask, ...]", batch.tasks)  # executors read those that they have packed
            scan = ScanBatch(batch.columns, tasks, self._context)
            read = read_batch(scan, list(batch.kinds.values()), self._store_for, batch.removed)
            merged = merge_partials(merged, each_column(read, self._put), self._put)
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._count)
        return merged
