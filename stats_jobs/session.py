"""
Starts Spark when a job first needs it, for one table or for many.

Tables in several threads share it. The first that needs it starts it, and the others wait.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from puffin.errors import UsageError
from stats_jobs.cluster import Cluster
from stats_jobs.jvm import JvmCluster
from stats_jobs.jvm_start import JvmSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOTHING, _OPEN, _STARTED = range(3)

SLOTS = 2
"""How many tables compute on Spark at once: while one finishes, the next uses the idle cores."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The seconds a table spent on starting Spark (0 if another table did) and on waiting for other tables."""

    session_seconds: float = 0.0
    waited_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Spent:
    """The seconds that a run took: on starting Spark, and on all else but waiting for other tables."""

    elapsed_seconds: float = 0.0
    session_seconds: float = 0.0

    def since(self, earlier: Spent) -> Spent:
        return Spent(self.elapsed_seconds - earlier.elapsed_seconds, self.session_seconds - earlier.session_seconds)


class SparkStarter:
    """
    Starts a session when it is first needed, and stops it at the end of the block.

    Several tables can share it, each in its own thread.

    Args:
        session: A session to use instead, of Spark Connect too; it is left running.
        master: A Spark master; by default all cores of this machine, or what spark-submit sets.
        remote: The URL of a Spark Connect server, to use instead of a master.
        conf: Spark configuration, which overrides everything set here.
        verbose: Let Spark print.

    Attributes:
        cluster: What runs jobs once `start` was called, and has a session once `open` was.

    Raises UsageError if both a master and a remote are given, or the URL is not one of Spark Connect.
    """

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        remote: str | None = None,
        conf: Mapping[str, str] | None = None,
        verbose: bool = False,
    ) -> None:
        if master is not None and remote is not None:
            raise UsageError(f"expected a Spark master or the URL of a Spark Connect server, found both: {master}")
        self.cluster: Cluster
        if remote is not None or _is_connect(session):
            from stats_jobs.connect import ConnectCluster

            self.cluster = ConnectCluster(session, remote=remote, conf=conf)
        else:
            self.cluster = JvmCluster(session, JvmSettings(master, dict(conf or {}), verbose))
        self._starting = threading.Lock()
        self._reached = _NOTHING
        self._failure: Exception | None = None
        self._slots = threading.Semaphore(SLOTS)

    def __enter__(self) -> SparkStarter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._reached = _NOTHING
        self.cluster.close()

    def open(self) -> float:
        """Start Spark without its Python workers, unless it runs already; returns and raises as `start`."""
        return self._reach(_OPEN, self.cluster.open)

    def start(self) -> float:
        """
        Start Spark and its Python workers unless they run already; wait if another thread is starting them.

        Returns:
            The seconds it took; 0 if this call did not start them.

        Raises:
            MissingDependencyError: pyspark is not installed, or what its client for Spark Connect needs.
            SetupError: Java is missing, Spark rejects its configuration, or a Spark Connect server does not answer.
            StorageError: The executors cannot run our code, or `cancel` was called.
        """
        return self._reach(_STARTED, self.cluster.start)

    def _reach(self, state: int, go: Callable[[], None]) -> float:
        with self._starting:
            if self._failure is not None:
                raise self._failure  # the other tables do not try again
            if self._reached >= state:
                return 0.0
            self.cluster.check_not_cancelled()
            started = time.monotonic()
            try:
                go()
            except Exception as exc:
                self._failure = exc
                raise
            self._reached = state
            return time.monotonic() - started

    @property
    def has_failed(self) -> bool:
        """Whether Spark did not start, or has ended since, so that another starter is needed."""
        return self._failure is not None or (self._reached > _NOTHING and self.cluster.has_ended)

    @contextlib.contextmanager
    def slot(self) -> Iterator[Turn]:
        """Compute in the block: Spark runs, and at most `SLOTS` tables compute at once. Raises as `start`."""
        asked = time.monotonic()
        with self._slots:
            session_seconds = self.start()
            yield Turn(session_seconds, time.monotonic() - asked - session_seconds)

    def cancel(self) -> None:
        """As `Cluster.cancel`."""
        self.cluster.cancel()

    def thread_setup(self, threads: int) -> Callable[[], None]:
        """As `Cluster.thread_setup`."""
        return self.cluster.thread_setup(threads)


class Turns:
    """The turns of one run with Spark, and what the run has spent so far."""

    def __init__(self, spark: SparkStarter, session_seconds: float) -> None:
        self._spark = spark
        self._session_seconds = session_seconds
        self._started = time.monotonic()  # moved on by the seconds of starting Spark and of waiting

    @contextlib.contextmanager
    def slot(self) -> Iterator[Cluster]:
        """As `SparkStarter.slot`, with what runs jobs in the block."""
        with self._spark.slot() as turn:
            self._session_seconds += turn.session_seconds
            self._started += turn.session_seconds + turn.waited_seconds
            yield self._spark.cluster

    def spent(self) -> Spent:
        return Spent(time.monotonic() - self._started, self._session_seconds)


def _is_connect(session: SparkSession | None) -> bool:
    """Whether a session is one of Spark Connect."""
    return session is not None and not hasattr(session, "_jsparkSession")


@runtime_checkable
class BringsSpark(Protocol):
    """A table of a Spark catalog, with the session that is configured for it."""

    spark: SparkStarter

    def start(self) -> float:
        """Open the session; return the seconds that the table has spent on that since the last call."""


@contextlib.contextmanager
def turns_for(table: object, spark: SparkSession | SparkStarter | None) -> Iterator[Turns]:
    """Turns for a run on a table with the given starter or session, by default with the one that the table brings."""
    seconds = 0.0
    if isinstance(table, BringsSpark):
        seconds = table.start()
        spark = table.spark if spark is None else spark
    if isinstance(spark, SparkStarter):
        yield Turns(spark, seconds)
    else:
        with SparkStarter(spark) as starter:
            yield Turns(starter, seconds)
