"""
Finds or starts the Spark session of a job and ships our packages to its workers.

Spark's output while it starts would bury the one error line that a failing job shows its user. It goes to a file, and
the error quotes a line of that if Spark does not start.

Tables in several threads share the session. The first that needs it starts it, and the others wait. Each job runs in a
job group, so that it can be counted and cancelled alone: Spark ties a group to a JVM thread, and PySpark ties each of
those to a Python thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sys
import tempfile
import threading
import time
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from puffin.errors import MissingDependencyError, SetupError, StorageError, UsageError
from puffin.version import version

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]

SLOTS = 2
"""How many tables compute on Spark at once: while one finishes, the next uses the idle cores."""

_PACKAGES = ("puffin", "stats_jobs")
_LOCAL_MASTERS = ("local", "local-cluster")
_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_CHATTER = ("Using ", "Setting ", "To adjust")
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set for a program that spark-submit runs
_CAUSE = "Caused by: "
_WATCHED_EVERY = 0.5  # seconds
_GROUP, _RUNNING = "spark.jobGroup.id", "RUNNING"


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """The seconds a table spent on starting Spark (0 if another table did) and on waiting for other tables."""

    session_seconds: float = 0.0
    waited_seconds: float = 0.0


class SparkStarter:
    """
    Starts a session when it is first needed, and stops it at the end of the block.

    Several tables can share it, each in its own thread.

    Args:
        session: A session to use instead; it is left running.
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
        self._session = session
        self._master = master
        self._conf = dict(conf or {})
        self._verbose = verbose
        self._context: SparkContext | None = None
        self._cleanup = contextlib.ExitStack()
        self._starting = threading.Lock()
        self._failure: Exception | None = None
        self._slots = threading.Semaphore(SLOTS)
        self._groups: list[str] = []
        self._cancelled = False

    def __enter__(self) -> SparkStarter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._context = None
        self._cleanup.close()

    def start(self) -> float:
        """
        Start Spark and its Python workers unless they run already; wait if another thread is starting them.

        Returns:
            The seconds it took; 0 if this call did not start them.

        Raises:
            MissingDependencyError: pyspark is not installed.
            SetupError: Java is missing, or Spark rejects its configuration.
            StorageError: The executors cannot run our code, or `cancel` was called.
        """
        with self._starting:
            if self._failure is not None:
                raise self._failure  # the other tables do not try again
            if self._context is not None:
                return 0.0
            self._check_not_cancelled()
            started = time.monotonic()
            try:
                self._context = self._session.sparkContext if self._session is not None else self._start()
                self._prepare_workers(self._context)
            except Exception as exc:
                self._failure = exc
                raise
            return time.monotonic() - started

    @property
    def has_failed(self) -> bool:
        """Whether Spark did not start, or has ended since, so that another starter is needed."""
        if self._failure is not None or self._context is None:
            return self._failure is not None
        try:
            return self._context._jsc is None or bool(self._context._jsc.sc().isStopped())
        except spark_errors():
            return True

    @contextlib.contextmanager
    def slot(self) -> Iterator[Turn]:
        """Compute in the block: Spark runs, and at most `SLOTS` tables compute at once. Raises as `start`."""
        asked = time.monotonic()
        with self._slots:
            session_seconds = self.start()
            yield Turn(session_seconds, time.monotonic() - asked - session_seconds)

    @property
    def context(self) -> SparkContext:
        if self._context is None:
            raise UsageError("Spark session: expected it to be started, found it is not")
        return self._context

    @property
    def session(self) -> SparkSession:
        """The caller's session, or one for the context that `start` started."""
        if self._session is not None:
            return self._session
        from pyspark.sql import SparkSession

        with self._starting:  # two threads would make two of them in Java
            return SparkSession(self.context)

    @contextlib.contextmanager
    def job(
        self, tasks: int, progress: Progress | None, is_in_vain: Callable[[], bool] | None = None
    ) -> Iterator[None]:
        """
        Run a job in the block, calling ``progress(done, tasks)``; StorageError if it fails or is cancelled.

        A job that ``is_in_vain`` is cancelled, but for one in the caller's job group, where it may not be alone.
        """
        self._check_not_cancelled()
        context = self.context
        try:
            with (
                self._grouped(context) as (group, own),
                _watched(context, group, tasks, progress, is_in_vain if own else None),
            ):
                yield
        except spark_errors() as exc:
            raise StorageError(f"the Spark job failed: {_last_error(str(exc))}") from exc

    def cancel(self) -> None:
        """
        Cancel the jobs of all threads and start no others: their blocks raise StorageError.

        A job that is being submitted at this moment is missed, so callers that wait for the threads call this again.
        """
        self._cancelled = True
        for group in tuple(self._groups):
            with contextlib.suppress(*spark_errors()):
                self.context.cancelJobGroup(group)

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

    def _check_not_cancelled(self) -> None:
        if self._cancelled:
            raise StorageError("the Spark job was cancelled")

    @contextlib.contextmanager
    def _grouped(self, context: SparkContext) -> Iterator[tuple[str, bool]]:
        """The job group of this thread: the caller's, who may cancel by it, or our own for this block."""
        group = context.getLocalProperty(_GROUP)
        own = group is None
        if group is None:
            group = f"puffin-{uuid.uuid4().hex}"
            context.setLocalProperty(_GROUP, group)
        self._groups.append(group)
        try:
            yield group, own
        finally:
            self._groups.remove(group)
            if own:
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
        log = log_directory / "spark.log"
        try:
            with log.open("wb") as stderr:
                options = {} if self._verbose else {"stderr": stderr, "stdout": stderr}
                conf = self._settings(submitted)
                gateway = launch_gateway(conf, popen_kwargs=options)  # type: ignore[no-untyped-call]
                context = SparkContext(conf=conf, gateway=gateway)
        except spark_errors(OSError, ValueError) as exc:
            raise SetupError(f"Spark did not start: {_start_failure(exc, log)}") from exc
        self._cleanup.callback(_stop, context)
        return context

    def _prepare_workers(self, context: SparkContext) -> None:
        with self.job(0, None):
            context.addPyFile(str(self._zipped_packages()))
            # A worker's first task pays for importing Arrow and numpy, and for compiling the kernels.
            context.parallelize(range(context.defaultParallelism), context.defaultParallelism).foreach(_import_all)

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

    def _zipped_packages(self) -> Path:
        directory = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="puffin-packages-"))
        archive = Path(directory, f"puffin-sidecar-{version()}.zip")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            root = Path(__file__).parent.parent
            for package in _PACKAGES:
                for source in sorted((root / package).rglob("*.py")):
                    target.write(source, source.relative_to(root))
        return archive


@runtime_checkable
class BringsSpark(Protocol):
    """A table of a Spark catalog, with the session that is configured for it."""

    spark: SparkStarter

    def start(self) -> float:
        """Start the session; return the seconds that the table has spent on that since the last call."""


@contextlib.contextmanager
def starter_for(table: object, spark: SparkSession | SparkStarter | None) -> Iterator[tuple[SparkStarter, float]]:
    """
    The starter for a job on a table: the given one or that of a session, by default the one that the table brings.

    Yields it with the seconds that the table spent on starting its own session.
    """
    seconds = 0.0
    if isinstance(table, BringsSpark):
        seconds = table.start()
        spark = table.spark if spark is None else spark
    if isinstance(spark, SparkStarter):
        yield spark, seconds
    else:
        with SparkStarter(spark) as starter:
            yield starter, seconds


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


def _import_all(_: int) -> None:
    import puffin.files.task_reader  # noqa: F401
    import stats_jobs.execute  # noqa: F401
    from puffin.kernels import load_kernels

    load_kernels()


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


def _last_error(report: str) -> str:
    # Spark quotes the Python worker's traceback inside a Java one; the last line of the worker's has the error. Of
    # errors in Java alone, the last cause says most; without causes it is the first line.
    lines = [line.strip().removeprefix(": ") for line in report.splitlines() if line.strip()]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    raised = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception", "NotFound"))]
    java = [line for line in raised if line.startswith(("java.", "org.apache.", "py4j."))]
    python = [line for line in raised if line not in java and not line.startswith((_CAUSE, "at "))]
    return (python[-1:] or causes[-1:] or java[:1] or lines[-1:] or ["no reason was given"])[0]
