"""
What a job needs of Spark, however it is reached: a process with a JVM of its own, or a Spark Connect server.

A cluster reads documents and merges what they have, and can be cancelled from another thread. What both kinds of it
share is here: our packages as an archive, what a worker does first, and the line of an error report that says most.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from puffin.errors import StorageError
from puffin.kernels import MODULES, load_kernels
from puffin.version import version
from stats_jobs.merge import Groups
from stats_jobs.partial import Partial
from stats_jobs.shipment import Shipment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]

SharedT = TypeVar("SharedT")
ResultT = TypeVar("ResultT")

_ROUNDS = 4  # of tasks for each core, where they take several documents
_PACKAGES = ("puffin", "stats_jobs")
CAUSE = "Caused by: "

_packing = threading.Lock()


class Cluster(abc.ABC):
    """
    Spark as jobs use it, from several threads.

    Several tables share one. `open` or `start` comes first; each is called once, and `start` opens what is not open.
    """

    def __init__(self) -> None:
        self._running: list[str] = []
        self._is_cancelled = False

    @abc.abstractmethod
    def open(self) -> None:
        """Start Spark, or connect to it, without its Python workers, which catalogs do not need; raises as `start`."""

    @abc.abstractmethod
    def start(self) -> None:
        """
        Start Spark, or connect to it, and its Python workers.

        Raises:
            MissingDependencyError: A library is not installed.
            SetupError: Spark does not start, does not answer or rejects its configuration.
            StorageError: The executors cannot run our code, or `cancel` was called.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Stop what `open` and `start` started."""

    @property
    @abc.abstractmethod
    def parallelism(self) -> int:
        """How many tasks run at once."""

    @property
    @abc.abstractmethod
    def has_ended(self) -> bool:
        """Whether Spark has ended since it started."""

    @property
    @abc.abstractmethod
    def java_session(self) -> SparkSession:
        """A session whose Java objects can be called; UsageError if there is none."""

    @abc.abstractmethod
    def read(self, shipment: Shipment, groups: Groups, progress: Progress | None) -> Partial:
        """
        Read documents on executors, merge what they have there, and call ``progress(done, documents)`` meanwhile.

        What they share is sent once.

        If one fails, the result has its failure, and the others are not waited for. Raises StorageError if Spark fails
        or `cancel` was called.
        """

    @abc.abstractmethod
    def map(
        self, function: Callable[[SharedT, bytes], ResultT], shared: SharedT, documents: Sequence[bytes]
    ) -> list[ResultT]:
        """
        What a function of one of our modules returns for each document, in order; executors run it.

        A task takes several documents, since beginning one in Python costs as much as some thousand files of a plan.
        Errors that a retry would not cure have to be returned. Raises StorageError if Spark fails or `cancel` was
        called.
        """

    @abc.abstractmethod
    def thread_setup(self, threads: int) -> Callable[[], None]:
        """What each of ``threads`` threads calls first, so that its jobs run with the settings of this one."""

    def cancel(self) -> None:
        """
        Cancel the jobs of all threads and start no others: their blocks raise StorageError.

        A job that is being submitted at this moment is missed, so callers that wait for the threads call this again.
        """
        self._is_cancelled = True
        for name in tuple(self._running):
            self._interrupt(name)

    def check_not_cancelled(self) -> None:
        """Raise StorageError if `cancel` was called."""
        if self._is_cancelled:
            raise StorageError("the Spark job was cancelled")

    @abc.abstractmethod
    def _interrupt(self, name: str) -> None:
        """Cancel the jobs that run under a name; one that is gone is no error."""

    def _tasks_for(self, documents: int) -> int:
        """How many tasks take these documents: some for each core, to even out slow ones."""
        return min(documents, _ROUNDS * self.parallelism)

    @contextlib.contextmanager
    def _under(self, name: str | None) -> Iterator[str]:
        """The name by which the jobs of the block can be cancelled: this one, or a new one."""
        name = name or f"puffin-{uuid.uuid4().hex}"
        self._running.append(name)
        try:
            yield name
        finally:
            self._running.remove(name)


def zipped_packages() -> Path:
    """
    Our packages as an archive, with compiled kernels; the same file as long as this process lives.

    A session fetches it again for each executor that joins, also after our job, and refuses another file of that name.
    """
    with _packing:
        directory = _directory_of_packages()
        known = next(directory.glob("*.zip"), None)
        return known or _zipped(directory)  # which somebody may have cleaned up


@functools.cache
def _directory_of_packages() -> Path:
    import atexit
    import shutil
    import tempfile

    directory = Path(tempfile.mkdtemp(prefix="puffin-packages-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _zipped(directory: Path) -> Path:
    """The archive, with the same name and bytes for the same files: Spark Connect refuses others under a known name."""
    import hashlib
    import zipfile

    from puffin.kernels.packed import add_compiled

    directory.mkdir(mode=0o700, exist_ok=True)
    archive = directory / f"puffin-sidecar-{version()}"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
        root = Path(__file__).parent.parent
        for package in _PACKAGES:
            for source in sorted((root / package).rglob("*.py")):
                target.write(source, source.relative_to(root))
        add_compiled(target, MODULES)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return archive.rename(f"{archive}-{digest[:16]}.zip")


def prepare_worker() -> None:
    """A worker's first task pays for importing Arrow, numpy and the readers of files, and for loading kernels."""
    import puffin.files.task_reader  # noqa: F401

    load_kernels()


def last_error(report: str) -> str:
    """
    The line of an error report that says most.

    Spark quotes the Python worker's traceback inside a Java one; the last line of the worker's has the error. Of errors
    in Java alone, the last cause says most; without causes it is the first line.
    """
    lines = [line.strip().removeprefix(": ") for line in report.splitlines() if line.strip()]
    causes = [line.removeprefix(CAUSE) for line in lines if line.startswith(CAUSE)]
    raised = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception", "NotFound"))]
    java = [line for line in raised if line.startswith(("java.", "org.apache.", "py4j."))]
    python = [line for line in raised if line not in java and not line.startswith((CAUSE, "at "))]
    return (python[-1:] or causes[-1:] or java[:1] or lines[-1:] or ["no reason was given"])[0]
