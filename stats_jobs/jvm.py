"""
Spark in a JVM that this process starts, or that the caller's session has: RDDs over py4j.

Spark's output while it starts would bury the one error line that a failing job shows its user. It goes to a file, and
the error quotes a line of that if Spark does not start.

Each job runs in a job group, so that it can be counted and cancelled alone: Spark ties a group to a JVM thread, and
PySpark ties each of those to a Python thread.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffin.errors import MissingDependencyError, PuffinError, SetupError, StorageError, UsageError
from stats_jobs.cluster import Cluster, Progress, ResultT, SharedT, last_error, prepare_worker, zipped_packages
from stats_jobs.execute import read_document
from stats_jobs.merge import Groups, merged_on_executors
from stats_jobs.partial import Partial
from stats_jobs.shipment import Document, Shared, Shipment

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession

_LOCAL_MASTERS = ("local", "local-cluster")
_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_GAVE_UP = "Application has been killed. Reason: "
_CHATTER = ("Using ", "Setting ", "To adjust")
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set for a program that spark-submit runs
_WATCHED_EVERY = 0.5  # seconds
_GROUP, _RUNNING = "spark.jobGroup.id", "RUNNING"


class JvmCluster(Cluster):
    """
    Spark over py4j.

    Args:
        session: The caller's session, which is left running; by default `start` starts a JVM.
        master: A Spark master; by default all cores of this machine, or what spark-submit sets.
        conf: Spark configuration, which overrides everything set here.
        verbose: Let Spark print.
    """

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__()
        self._session = session
        self._master = master
        self._conf = dict(conf or {})
        self._verbose = verbose
        self._context: SparkContext | None = None
        self._log: Path | None = None  # what Spark prints, unless it is the caller's or `verbose`
        self._cleanup = contextlib.ExitStack()
        self._making_session = threading.Lock()

    def start(self) -> None:
        directory = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="puffin-packages-"))
        with ThreadPoolExecutor(1) as pool:
            archive = pool.submit(zipped_packages, directory)  # beside Spark's start, since it may compile
            self._context = self._session.sparkContext if self._session is not None else self._start()
        with self.job(0, None):
            self._context.addPyFile(str(archive.result()))
            cores = self._context.defaultParallelism
            self._context.parallelize(range(cores), cores).foreach(_prepare_worker)

    def close(self) -> None:
        self._context = None
        self._cleanup.close()

    @property
    def context(self) -> SparkContext:
        if self._context is None:
            raise UsageError("Spark session: expected it to be started, found it is not")
        return self._context

    @property
    def parallelism(self) -> int:
        return self.context.defaultParallelism

    @property
    def has_ended(self) -> bool:
        try:
            return self.context._jsc is None or bool(self.context._jsc.sc().isStopped())
        except spark_errors():
            return True

    @property
    def java_session(self) -> SparkSession:
        """The caller's session, or one for the context that `start` started."""
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
        self, tasks: int, progress: Progress | None, is_in_vain: Callable[[], bool] | None = None
    ) -> Iterator[None]:
        """
        Run a job in the block, calling ``progress(done, tasks)``; StorageError if it fails or is cancelled.

        A job that ``is_in_vain`` is cancelled, but for one in the caller's job group, where it may not be alone.
        """
        self.check_not_cancelled()
        context = self.context
        try:
            with (
                self._grouped(context) as (group, own),
                _watched(context, group, tasks, progress, is_in_vain if own else None),
            ):
                yield
        except spark_errors() as exc:
            raise StorageError(f"the Spark job failed: {self._why_stopped() or last_error(str(exc))}") from exc

    def thread_setup(self, threads: int) -> Callable[[], None]:
        """
        What each of so many threads calls first, so that its jobs run with the settings of this thread.

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
        with contextlib.suppress(*spark_errors()):
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
                    with contextlib.suppress(*spark_errors()):  # the error of the block says more
                        context.setLocalProperty(_GROUP, None)  # type: ignore[arg-type]  # None removes it

    def _start(self) -> SparkContext:
        try:
            from pyspark import SparkContext
            from pyspark.java_gateway import launch_gateway
        except ImportError as exc:
            raise MissingDependencyError("pyspark", "spark") from exc
        submitted = _SUBMITTED in os.environ
        if not submitted:
            _check_java()
        log_directory = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="puffin-spark-")))
        self._log = log = log_directory / "spark.log"
        try:
            with log.open("wb") as stderr:
                options = {} if self._verbose else {"stderr": stderr, "stdout": stderr}
                conf = self._settings(submitted)
                with _killed_unless_done():
                    gateway = launch_gateway(conf, popen_kwargs=options)  # type: ignore[no-untyped-call]
                    context = _interruptible(SparkContext, conf=conf, gateway=gateway)
        except spark_errors(OSError, ValueError) as exc:
            raise SetupError(f"Spark did not start: {_start_failure(exc, log)}") from exc
        self._cleanup.callback(_stop, context)
        return context

    def _why_stopped(self) -> str | None:
        """Why Spark gave up by itself, which its log says once; calls after that fail with whatever they miss."""
        printed = "" if self._log is None else self._log.read_text(errors="replace")
        reasons = [line.partition(_GAVE_UP)[2] for line in printed.splitlines() if _GAVE_UP in line]
        return f"{reasons[0]} ({self._master})" if reasons else None

    def _settings(self, submitted: bool) -> Any:
        from pyspark import SparkConf

        settings = dict(_QUIET)
        master = self._master or self._conf.get("spark.master")
        if master is None and not submitted:
            master = "local[*]"
        if master is not None:
            settings["spark.master"] = master
            if master.startswith(_LOCAL_MASTERS):
                settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings.setdefault("spark.app.name", "puffin analyze")
        return SparkConf(loadDefaults=submitted).setAll(list((settings | self._conf).items()))


def spark_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What py4j and PySpark raise, and ``others``, for an except clause."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException, ConnectionError, *others


def thrown(exc: Exception) -> Any | None:
    """The Java exception behind an error of py4j or PySpark; None if Java did not answer."""
    return getattr(exc, "java_exception", None) or getattr(exc, "_origin", None)


@contextlib.contextmanager
def _watched(
    context: SparkContext, group: str, tasks: int, progress: Progress | None, is_in_vain: Callable[[], bool] | None
) -> Iterator[None]:
    if progress is None and is_in_vain is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        with contextlib.suppress(*spark_errors()):  # the job itself raises
            while not done.wait(_WATCHED_EVERY):
                if is_in_vain is not None and is_in_vain():
                    context.cancelJobGroup(group)
                if progress is not None:
                    tracker = context.statusTracker()
                    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
                    running = (job for job in jobs if job and job.status == _RUNNING)
                    stages = (tracker.getStageInfo(stage) for job in running for stage in job.stageIds)
                    progress(min(tasks, sum(stage.numCompletedTasks for stage in stages if stage)), tasks)

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


def _interruptible(start: Callable[..., ResultT], **given: Any) -> ResultT:
    """
    What a function returns that sets PySpark's handler of interrupts, without it.

    That one calls Java, perhaps in the middle of another call, which then fails with any error.
    """
    handler = signal.getsignal(signal.SIGINT)
    started = start(**given)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGINT, handler)
    return started


@contextlib.contextmanager
def _killed_unless_done() -> Iterator[None]:
    """
    Kill the JVM that PySpark launches in the block if the block fails or is interrupted.

    PySpark tells of the process once it is up. A JVM that finds nobody to tell that, or is told to end while it starts
    Spark, may stay forever.
    """
    from pyspark import java_gateway

    module: Any = java_gateway
    launch, launched = module.Popen, []

    def keep(*args: Any, **kwargs: Any) -> Any:
        launched.append(launch(*args, **kwargs))
        return launched[-1]

    module.Popen = keep
    try:
        yield
    except BaseException:
        for process in launched:
            process.kill()
            process.wait()
        raise
    finally:
        module.Popen = launch


def _stop(context: SparkContext) -> None:
    gateway = context._gateway
    context.stop()
    # The next session of this process gets a new JVM, whose output can be redirected again.
    if gateway is not None and _SUBMITTED not in os.environ:
        gateway.shutdown()
        type(context)._gateway = None
        type(context)._jvm = None


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and shutil.which("java") is None:
        raise SetupError("Spark needs Java 17 or newer: install it (Debian: openjdk-17-jre-headless) or set JAVA_HOME")


def _start_failure(exc: Exception, log: Path) -> str:
    # The JVM's first meaningful line says more than the wrapper's "gateway exited".
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "WARN" not in line and not line.startswith(_CHATTER)]
    return (telling or [line.strip() for line in str(exc).splitlines() if line.strip()] or [type(exc).__name__])[0]
