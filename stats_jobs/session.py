"""
The Spark session of a job: found, or started quietly, and made to know our packages.

Spark is a scheduler here. What it prints while it starts would bury the one line that a failing job owes its
user, so the JVM's own output goes to a file, of which the last line is quoted if it does not come up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import puffin
from puffin.errors import MissingDependencyError, SetupError, StorageError, UsageError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]

_PACKAGES = ("puffin", "stats_jobs")
_LOCAL_MASTERS = ("local", "local-cluster")
_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_CHATTER = ("Using ", "Setting ", "To adjust")
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set for a program that spark-submit runs


class SparkStarter:
    """
    A session that is started when it is first needed and stopped at the end of the block; several tables share it.

    Args:
        session: A session of the caller's to use instead; it is left running.
        master: A Spark master; by default every core of this machine, or what spark-submit says.
        conf: Spark configuration, which wins over everything set here.
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

    def __enter__(self) -> SparkStarter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._context = None
        self._cleanup.close()

    def start(self) -> float:
        """
        Start Spark and its Python workers, unless they are there already.

        Returns:
            The seconds it took.

        Raises:
            MissingDependencyError: pyspark is not installed.
            SetupError: There is no Java, or Spark does not accept its configuration.
            StorageError: The executors cannot run our code.
        """
        started = time.monotonic()
        if self._context is None:
            context = self._session.sparkContext if self._session is not None else self._start()
            self._context = context
            with self.job(0, None):
                context.addPyFile(str(self._zipped_packages()))
                # A worker's first task pays for importing Arrow and numpy.
                context.parallelize(range(context.defaultParallelism), context.defaultParallelism).foreach(_import_all)
        return time.monotonic() - started

    @property
    def context(self) -> SparkContext:
        """The context of the session that `start` started."""
        if self._context is None:
            raise UsageError("Spark session: expected it to be started, found it is not")
        return self._context

    @contextlib.contextmanager
    def job(self, tasks: int, progress: Progress | None) -> Iterator[None]:
        """
        Run a Spark job in the block; ``progress(done, tasks)`` is called about twice a second.

        Raises:
            StorageError: The job failed, or Spark did.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            with contextlib.nullcontext() if progress is None else _reporting(self.context, tasks, progress):
                yield
        except (Py4JError, PySparkException, ConnectionError) as exc:
            raise StorageError(f"the Spark job failed: {_said_last(str(exc))}") from exc

    def _start(self) -> SparkContext:
        try:
            from pyspark import SparkContext
            from pyspark.errors import PySparkException
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
        except (PySparkException, _java_error(), OSError, ValueError) as exc:
            raise SetupError(f"Spark did not start: {_reason(exc, log)}") from exc
        self._cleanup.callback(_stop, context)
        return context

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
        archive = Path(directory, f"puffin-sidecar-{puffin.__version__}.zip")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            root = Path(puffin.__file__).parent.parent
            for package in _PACKAGES:
                for source in sorted((root / package).rglob("*.py")):
                    target.write(source, source.relative_to(root))
        return archive


@contextlib.contextmanager
def _reporting(context: SparkContext, tasks: int, progress: Progress) -> Iterator[None]:
    done = threading.Event()
    tracker = context.statusTracker()

    def watch() -> None:
        while not done.wait(0.5):
            stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
            progress(min(tasks, sum(stage.numCompletedTasks for stage in stages if stage)), tasks)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(tasks, tasks)


def _import_all(_: int) -> None:
    import stats_jobs.execute  # noqa: F401


def _stop(context: SparkContext) -> None:
    gateway = context._gateway
    context.stop()
    # The next session of this process gets a JVM of its own, whose output can be caught again.
    if gateway is not None and _SUBMITTED not in os.environ:
        gateway.shutdown()
        type(context)._gateway = None
        type(context)._jvm = None


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and shutil.which("java") is None:
        raise SetupError("Spark needs Java 17 or newer: install it (Debian: openjdk-17-jre-headless) or set JAVA_HOME")


def _java_error() -> type[Exception]:
    from py4j.protocol import Py4JError

    error: type[Exception] = Py4JError
    return error


def _reason(exc: Exception, log: Path) -> str:
    # The JVM's first word that is no chatter says more than the wrapper's "gateway exited".
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "WARN" not in line and not line.startswith(_CHATTER)]
    return (telling or [line.strip() for line in str(exc).splitlines() if line.strip()] or [type(exc).__name__])[0]


def _said_last(report: str) -> str:
    # Spark quotes the Python worker's traceback inside a Java one; the worker's own last line says what happened.
    lines = [line.strip() for line in report.splitlines() if line.strip()]
    raised = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception", "NotFound"))]
    python = [line for line in raised if not line.startswith(("java.", "org.apache.", "py4j.", "Caused by", "at "))]
    return (python or raised or lines or ["no reason was given"])[-1]
