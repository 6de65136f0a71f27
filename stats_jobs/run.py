"""
Reads batches on Spark's executors, or in threads of this process if there is little to read.

Starting Spark takes five to fifteen seconds, and each of its tasks in Python about a tenth of a second; a hundred
megabytes are read in less. The result is the same either way.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

from puffin.kernels import load_kernels
from puffin.statistics.aside import PutAside, put_aside
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.cluster import Cluster, Progress
from stats_jobs.column_memory import state_columns, weight
from stats_jobs.execute import KERNELS_PAY_BYTES
from stats_jobs.machine import cores
from stats_jobs.merge import Groups
from stats_jobs.partial import Partial, merge_partials
from stats_jobs.pieces import plan_here
from stats_jobs.plan import plan_batches
from stats_jobs.readers import Readers
from stats_jobs.scan import Scan, column_bytes, total_bytes
from stats_jobs.session import Turns
from stats_jobs.shipment import Shipment
from stats_jobs.steps import KeptSteps, in_steps


class _Plan(Protocol):
    def __call__(self, scans: Sequence[Scan], *, parallelism: int) -> list[Scan]:
        """Split scans into batches, of which ``parallelism`` run at once."""


class _Place(NamedTuple):
    """Where batches are read: how many at once, and how they are planned and read."""

    parallelism: int
    plan: _Plan
    read: Callable[[Sequence[Scan], Progress | None], Partial]


@dataclasses.dataclass(frozen=True, slots=True)
class Runner:
    """
    Reads scans of one table; at most ``driver_bytes`` of them in this process.

    Large scans are read in steps if somebody wants the result of each: ``kept``, which stores it for another run, or
    ``after_step``, which is called with it. That happens in another thread, step by step, and before `read` returns.
    """

    opened: TableSnapshot
    turns: Turns
    driver_bytes: int
    progress: Progress | None
    kept: KeptSteps | None = None
    after_step: Callable[[Partial], None] | None = None

    def read(self, scans: Sequence[Scan]) -> Partial:
        """
        Read all of the scans; return the values of their rows.

        Raises CorruptError, UnsupportedError or NotFoundError if a file cannot be read, StorageError if the storage or
        Spark failed, and SetupError if Spark is needed and cannot be started.
        """
        found = Partial()
        if self.kept is not None:
            scans, found = self.kept.take(scans, self._bytes(scans))
        if self._bytes(scans) <= self.driver_bytes and not any(scan.packed for scan in scans):
            threads = cores()
            here = _Place(threads, plan_here, functools.partial(self._read_here, threads))
            partial = self._in_steps(scans, here)
        else:
            with self.turns.slot() as cluster:
                read = functools.partial(self._read_on_executors, cluster)
                partial = self._in_steps(scans, _Place(cluster.parallelism, plan_batches, read))
        return merge_partials(found, partial, put_aside(state_columns(scans)))

    def _bytes(self, scans: Sequence[Scan]) -> int:
        return sum(column_bytes(total_bytes(scan.tasks), scan.kinds, self.opened.state) for scan in scans)

    def _in_steps(self, scans: Sequence[Scan], place: _Place) -> Partial:
        are_kept = self.kept is not None or self.after_step is not None
        steps = in_steps(scans, self._bytes(scans), place.parallelism) if are_kept else [list(scans)]
        planned = [place.plan(step, parallelism=place.parallelism) for step in steps]
        progress = _Progress(self.progress, sum(map(len, planned)))
        taken: Future[Partial] | None = None
        # Writing and merging thousands of columns takes many seconds, in which cores would wait for the next step.
        with ThreadPoolExecutor(1, thread_name_prefix="puffin-steps") as behind:
            for step, batches in zip(steps, planned, strict=True):
                partial = place.read(batches, progress.of_step(len(batches)))
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

    def _read_here(self, threads: int, batches: Sequence[Scan], progress: Progress | None) -> Partial:
        is_much = sum(total_bytes(batch.tasks) for batch in batches) >= KERNELS_PAY_BYTES
        if is_much:
            load_kernels()
        put = put_aside(state_columns(batches))
        readers = Readers(batches, self.opened, put, progress, threads)
        return readers.read(at_once=is_much)

    def _read_on_executors(self, cluster: Cluster, batches: Sequence[Scan], progress: Progress | None) -> Partial:
        shipment = Shipment.of(batches, self.opened.scan_context)
        groups = Groups.of((c.field_id for b in batches for c in b.columns), weight(batches), shipment.results)
        return cluster.read(shipment, groups, progress)


class _Progress:
    """Counts the batches of all steps."""

    def __init__(self, progress: Progress | None, batches: int) -> None:
        self._progress = progress
        self._batches = batches
        self._before = 0

    def of_step(self, batches: int) -> Progress | None:
        """What the next step calls; ``batches`` is how many it has."""
        progress, before = self._progress, self._before
        self._before += batches
        return None if progress is None else lambda done, of: progress(before + done * batches // of, self._batches)
