"""
Start Spark in a JVM, and stop it.

Spark's output while it starts would bury the one error line that a failing job shows its user. It goes to a file, and
the error quotes a line of that if Spark does not start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffin.errors import MissingDependencyError, SetupError
from stats_jobs.jvm_errors import spark_errors

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOCAL_MASTERS = ("local", "local-cluster")
_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_CHATTER = ("Using ", "Setting ", "To adjust")
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set for a program that spark-submit runs


@dataclasses.dataclass(frozen=True, slots=True)
class JvmSettings:
    """
    How Spark starts.

    Attributes:
        master: A Spark master; by default all cores of this machine, or what spark-submit sets.
        conf: Spark configuration, which overrides everything set here.
        verbose: Let Spark print.
    """

    master: str | None = None
    conf: Mapping[str, str] = dataclasses.field(default_factory=dict)
    verbose: bool = False

    def for_spark(self, submitted: bool) -> Any:
        """The configuration of a context; ``submitted`` if spark-submit runs this program."""
        from pyspark import SparkConf

        settings = dict(_QUIET)
        master = self.master or self.conf.get("spark.master")
        if master is None and not submitted:
            master = "local[*]"
        if master is not None:
            settings["spark.master"] = master
            if master.startswith(_LOCAL_MASTERS):
                settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings.setdefault("spark.app.name", "puffin analyze")
        return SparkConf(loadDefaults=submitted).setAll(list((settings | dict(self.conf)).items()))


def started_context(cleanup: contextlib.ExitStack, settings: JvmSettings) -> tuple[SparkContext, Path]:
    """
    Start Spark in a JVM; return the context, and the file with what Spark prints, which ``cleanup`` removes.

    Raises SetupError if Spark does not start, MissingDependencyError without PySpark.
    """
    try:
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway
    except ImportError as exc:
        raise MissingDependencyError("pyspark", "spark") from exc
    submitted = _SUBMITTED in os.environ
    if not submitted:
        _check_java()
    log = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="puffin-spark-")), "spark.log")
    try:
        with log.open("wb") as stderr:
            options = {} if settings.verbose else {"stderr": stderr, "stdout": stderr}
            conf = settings.for_spark(submitted)
            with _killed_unless_done(), _own_interrupts():
                gateway = launch_gateway(conf, popen_kwargs=options)  # type: ignore[no-untyped-call]
                context = SparkContext(conf=conf, gateway=gateway)
    except spark_errors(OSError, ValueError) as exc:
        raise SetupError(f"Spark did not start: {_start_failure(exc, log)}") from exc
    cleanup.callback(_stop, context)
    return context, log


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """
    Restore the handler of interrupts that PySpark replaces in the block.

    PySpark's own calls Java, perhaps in the middle of another call, which then fails with any error.
    """
    handler = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def _killed_unless_done() -> Iterator[None]:
    """
    Kill the JVM that PySpark launches in the block if the block fails or is interrupted.

    PySpark hands out the process once it is up. A JVM that cannot report back, or is told to end while it starts
    Spark, may never exit.
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
    try:
        context.stop()
    except spark_errors(OSError):  # the JVM is gone, which PySpark notes before it forgets the context in a second call
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
