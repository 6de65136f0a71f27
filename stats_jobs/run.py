"""
Where batches are read: on Spark's executors, or by threads of this process while there is little to read.

Starting Spark costs five to fifteen seconds and every one of its tasks in Python about a tenth of one; a hundred
megabytes are read in less. What a batch amounts to is the same wherever it is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from puffin.kernels import load_kernels
from puffin.tables.scan_task import encode_batch
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.execute import KERNELS_PAY, Partial, merge_partials, read_batch, read_document
from stats_jobs.plan import Scan, plan_batches, total_bytes
from stats_jobs.session import Progress, SparkStarter

_ALONE = 0.05  # seconds that one thread reads alone: several get in each other's way where most of the work is Python's
_FLAT_MERGE = 32  # up to this many partials the driver merges them itself; more are merged on the executors first


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """
    What the rows amount to, and what that took besides reading them.

    Attributes:
        session_seconds: Starting Spark; 0 if it was not started for this.
        waited_seconds: Waiting for other tables that computed on Spark.
    """

    partial: Partial
    session_seconds: float = 0.0
    waited_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Runner:
    """
    Reads scans of one table.

    Attributes:
        driver_bytes: Work of at most so many bytes is done here.
    """

    opened: TableSnapshot
    spark: SparkStarter
    driver_bytes: int
    progress: Progress | None

    def read(self, scans: Sequence[Scan]) -> Run:
        """
        Read all of the scans.

        Raises:
            CorruptError, UnsupportedError, NotFoundError: A file cannot be read, and another try would not help.
            StorageError: The storage or Spark failed.
            SetupError: Spark is needed and cannot be started.
        """
        share = [total_bytes(s.tasks) * len(s.columns) // max(1, len(self.opened.state.columns)) for s in scans]
        if sum(share) <= self.driver_bytes:
            run = Run(self._read_here(scans))
        else:
            with self.spark.slot() as turn:
                partial = self._read_on_executors(scans)
            run = Run(partial, turn.session_seconds, turn.waited_seconds)
        if run.partial.failure is not None:
            raise run.partial.failure
        return run

    def _read_here(self, scans: Sequence[Scan]) -> Partial:
        cores = len(os.sched_getaffinity(0))
        batches = plan_batches(scans, parallelism=cores)
        if sum(total_bytes(batch.tasks) for batch in batches) >= KERNELS_PAY:
            load_kernels()
        return _Readers(batches, self.opened, self.progress).read(cores)

    def _read_on_executors(self, scans: Sequence[Scan]) -> Partial:
        spark = self.spark.context
        batches = plan_batches(scans, parallelism=spark.defaultParallelism)
        context = self.opened.scan_context
        documents = [(encode_batch(b.to_batch(context)), b.kinds, b.removed) for b in batches]
        partials = spark.parallelize(documents, len(documents)).map(lambda document: read_document(*document))
        with self.spark.job(len(documents), self.progress):
            depth = 1 if len(documents) <= _FLAT_MERGE else 2
            merged: Partial = partials.treeReduce(merge_partials, depth)
        return merged


class _Readers:
    """Threads of this process that read batches, each the next one that is left."""

    def __init__(self, batches: Sequence[Scan], opened: TableSnapshot, progress: Progress | None) -> None:
        self._left = deque(batches)
        self._count = len(batches)
        self._done = 0
        self._context = opened.scan_context
        self._store_for = opened.store_for
        self._progress = progress

    def read(self, threads: int) -> Partial:
        """What all batches amount to."""
        with ThreadPoolExecutor(threads, thread_name_prefix="puffin-reader") as pool:
            try:
                readers = [pool.submit(self._read_some)]
                if not wait(readers, timeout=_ALONE).done:
                    readers += [pool.submit(self._read_some) for _ in range(threads - 1)]
                return functools.reduce(merge_partials, [reader.result() for reader in readers])
            finally:
                self._left.clear()  # whatever ends this, an interrupt too, nothing more is begun

    def _read_some(self) -> Partial:
        merged = Partial()
        while (batch := self._next()) is not None:
            read = read_batch(batch.to_batch(self._context), batch.kinds, self._store_for, batch.removed)
            merged = merge_partials(merged, read)
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._count)
        return merged

    def _next(self) -> Scan | None:
        with contextlib.suppress(IndexError):  # emptied by another thread meanwhile
            return self._left.popleft()
        return None
