"""
Spark in a JVM that this process starts, or that the caller's session has: RDDs over py4j.

Each job runs in a job group, so that it can be counted and cancelled alone: Spark ties a group to a JVM thread, and
PySpark ties each of those to a Python thread.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffin.errors import PuffinError, StorageError, UsageError
from stats_jobs.cluster import Cluster, Progress, ResultT, SharedT, last_error, prepare_worker, zipped_packages
from stats_jobs.execute import read_document
from stats_jobs.jvm_errors import spark_errors
from stats_jobs.jvm_start import JvmSettings, started_context
from stats_jobs.merge import Groups, merged_on_executors
from stats_jobs.partial import Partial
from stats_jobs.shipment import Document, Shared, Shipment

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession

_GAVE_UP = "Application has been killed. Reason: "
_WATCHED_EVERY = 0.5  # seconds
_STOPPED = "the Spark session was stopped"
_GROUP, _RUNNING = "spark.jobGroup.id", "RUNNING"


class JvmCluster(Cluster):
    """Spark over py4j: the caller's session, which is left running, or a JVM that `open` starts with ``settings``."""

    def __init__(self, session: SparkSession | None, settings: JvmSettings) -> None:
        super().__init__()
        self._session = session
        self._settings = settings
        self._context: SparkContext | None = None
        self._log: Path | None = None  # what Spark prints while it starts, unless the session is the caller's
        self._cleanup = contextlib.ExitStack()
        self._making_session = threading.Lock()

    def open(self) -> None:
        if self._context is not None:
            return
        if self._session is None:
            self._context, self._log = started_context(self._cleanup, self._settings)
        else:
            self._context = self._session.sparkContext

    def start(self) -> None:
        with ThreadPoolExecutor(1) as pool:
            packing = pool.submit(zipped_packages)  # beside Spark's start, since it may compile
            self.open()
        archive = packing.result()
        with self.job(0, None):
            if not any(added.endswith(f"/{archive.name}") for added in self.context.listFiles):
                self.context.addPyFile(str(archive))
            else:
                # Another Python process at this JVM may have added it, which only that one's workers know.
                includes: Any = self.context._python_includes
                if archive.name not in includes:
                    includes.append(archive.name)
            cores = self.context.defaultParallelism
            self.context.parallelize(range(cores), cores).foreach(_prepare_worker)

    def close(self) -> None:
        self._context = None
        self._cleanup.close()

    @property
    def context(self) -> SparkContext:
        if self._context is None:
            raise UsageError("Spark session: expected it to be started, found it is not")
        if _is_stopped(self._context):
            raise StorageError(_STOPPED)
        return self._context

    @property
    def parallelism(self) -> int:
        return self.context.defaultParallelism

    @property
    def has_ended(self) -> bool:
        try:
            return bool(self.context._jsc.sc().isStopped())
        except spark_errors(StorageError):
            return True

    @property
    def java_session(self) -> SparkSession:
        """The caller's session, or one for the context that `open` started."""
        if self._session is not None:
            return self._session
        from pyspark.sql import SparkSession

        with self._making_session:  # two threads would make two of them in Java
            return SparkSession(self.context)

    def read(self, shipment: Shipment, groups: Groups, progress: Progress | None) -> Partial:
        context, tasks = self.context, len(shipment.documents)
        failure = context.accumulator(None, _First())  # type: ignore[arg-type]  # which it need not inherit
        try:
            with (
                self.job(tasks, progress, lambda: failure.value is not None),
                _broadcast(context, shipment.shared) as shared,
            ):
                documents = context.parallelize(shipment.documents, tasks)
                return merged_on_executors(documents.map(functools.partial(_read, failure, shared)), groups)
        except StorageError:
            if failure.value is None:
                raise
            return Partial(failure=failure.value)

    def map(
        self, function: Callable[[SharedT, bytes], ResultT], shared: SharedT, documents: Sequence[bytes]
    ) -> list[ResultT]:
        context, tasks = self.context, self._tasks_for(len(documents))
        with self.job(tasks, None), _broadcast(context, shared) as sent:
            return context.parallelize(documents, tasks).map(functools.partial(_call, function, sent)).collect()

    @contextlib.contextmanager
    def job(
        self, tasks: int, progress: Progress | None, has_failed: Callable[[], bool] | None = None
    ) -> Iterator[None]:
        """
        Run a job in the block, calling ``progress(done, tasks)``; StorageError if it fails or is cancelled.

        Once ``has_failed``, the job is cancelled, but for one in the caller's job group, where it may not be alone.
        """
        self.check_not_cancelled()
        context = self.context
        try:
            with (
                self._grouped(context) as (group, own),
                _watched(context, group, tasks, progress, has_failed if own else None),
            ):
                yield
        except spark_errors(AttributeError) as exc:
            if _is_stopped(context):  # by the caller, and PySpark has forgotten what it calls Java by
                raise StorageError(_STOPPED) from exc
            if isinstance(exc, AttributeError):
                raise
            raise StorageError(f"the Spark job failed: {self._why_stopped() or last_error(str(exc))}") from exc

    def thread_setup(self, threads: int) -> Callable[[], None]:
        """
        What each of ``threads`` threads calls first, so that its jobs run with the settings of this one.

        A caller's session may have a scheduler pool and a job group that are set for the calling thread only.
        """
        if self._session is None:
            return lambda: None
        from pyspark import inheritable_thread_target

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it concerns tags of a session's queries, which our jobs do not use
            # One for each thread: threads that share one would change each other's properties.
            setups: list[Callable[[], None]] = [inheritable_thread_target(lambda: None) for _ in range(threads)]
        return lambda: setups.pop()()

    def _interrupt(self, name: str) -> None:
        with contextlib.suppress(*spark_errors(StorageError)):
            self.context.cancelJobGroup(name)

    @contextlib.contextmanager
    def _grouped(self, context: SparkContext) -> Iterator[tuple[str, bool]]:
        """The job group of this thread: the caller's, who may cancel by it, or our own for this block."""
        group = context.getLocalProperty(_GROUP)
        with self._under(group) as name:
            if group is None:
                context.setLocalProperty(_GROUP, name)
            try:
                yield name, group is None
            finally:
                if group is None:
                    with contextlib.suppress(*spark_errors(AttributeError)):  # the error of the block says more
                        context.setLocalProperty(_GROUP, None)  # type: ignore[arg-type]  # None removes it

    def _why_stopped(self) -> str | None:
        """Why Spark gave up by itself, which its log says once; calls after that fail with whatever they miss."""
        printed = "" if self._log is None else self._log.read_text(errors="replace")
        reasons = [line.partition(_GAVE_UP)[2] for line in printed.splitlines() if _GAVE_UP in line]
        return f"{reasons[0]} ({self._settings.master})" if reasons else None


def _is_stopped(context: SparkContext) -> bool:
    return context._jsc is None


@contextlib.contextmanager
def _watched(
    context: SparkContext, group: str, tasks: int, progress: Progress | None, has_failed: Callable[[], bool] | None
) -> Iterator[None]:
    if progress is None and has_failed is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        with contextlib.suppress(*spark_errors()):  # the job itself raises
            while not done.wait(_WATCHED_EVERY):
                if has_failed is not None and has_failed():
                    context.cancelJobGroup(group)
                if progress is not None:
                    tracker = context.statusTracker()
                    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
                    running = (job for job in jobs if job and job.status == _RUNNING)
                    stages = (tracker.getStageInfo(stage) for job in running for stage in job.stageIds)
                    completed = sum(stage.numCompletedTasks for stage in stages if stage)
                    with contextlib.suppress(PuffinError):  # the call after the job raises it in the job's own thread
                        progress(min(tasks, completed), tasks)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    if progress is not None:
        progress(tasks, tasks)


@contextlib.contextmanager
def _broadcast(context: SparkContext, shared: SharedT) -> Iterator[Broadcast[SharedT]]:
    sent = context.broadcast(shared)
    try:
        yield sent
    finally:
        with contextlib.suppress(*spark_errors(OSError)):  # the error of the block says more
            sent.destroy()


def _read(failure: Any, shared: Broadcast[Shared], document: Document) -> Partial:
    """Read a document; tell the driver of a failure as soon as the task ends, not when all have."""
    partial = read_document(shared.value, document)
    if partial.failure is not None:
        failure.add(partial.failure)
    return partial


def _call(function: Callable[[SharedT, bytes], ResultT], shared: Broadcast[SharedT], document: bytes) -> ResultT:
    return function(shared.value, document)


class _First:
    """How Spark adds up the failures of tasks: the first that it hears of stays."""

    def zero(self, _: PuffinError | None) -> PuffinError | None:
        return None

    def addInPlace(self, one: PuffinError | None, other: PuffinError | None) -> PuffinError | None:  # noqa: N802
        return one or other


def _prepare_worker(_: int) -> None:
    prepare_worker()
